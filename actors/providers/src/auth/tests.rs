use std::sync::Mutex as StdMutex;

use futures::future::join_all;
use pretty_assertions::assert_eq;
use protocol::SystemClock;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::credential::{Access, Secret};

/// A vendor that answers by the path and the body it is sent.
struct Vendor {
    url: String,
    asked: Arc<StdMutex<Vec<(String, String)>>>,
}

impl Vendor {
    async fn start(answer: impl FnMut(&str, &str) -> (u16, Value) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(StdMutex::new(Vec::new()));
        let (told, answer) = (asked.clone(), Arc::new(StdMutex::new(answer)));
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (told, answer) = (told.clone(), answer.clone());
                tokio::spawn(async move {
                    let Some((path, body)) = request(&mut socket).await else { return };
                    told.lock().expect("unbroken").push((path.clone(), body.clone()));
                    let (status, said) = (answer.lock().expect("unbroken"))(&path, &body);
                    let said = said.to_string();
                    let head =
                        format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", said.len());
                    let _ = socket.write_all((head + &said).as_bytes()).await;
                });
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().expect("unbroken").clone()
    }
}

async fn request(socket: &mut TcpStream) -> Option<(String, String)> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some((head.split(' ').nth(1)?.to_owned(), body.to_owned()));
            }
        }
        if socket.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

struct World {
    dir: TempDir,
    logins: Logins,
}

impl World {
    fn new(vendor: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let vendors =
            Vendors { openai: vendor.into(), github: vendor.into(), callback_port: 0, margin: Duration::ZERO };
        let (own, others) = (dir.path().join("troupe/auth.json"), dir.path().join("opencode/auth.json"));
        let client = || sse::http::client("test").expect("a client");
        let logins = Logins::with(own, others, Arc::new(SystemClock), client, vendors);
        Self { dir, logins }
    }

    fn of_opencode(&self, entries: Value) {
        let path = self.dir.path().join("opencode/auth.json");
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(path, entries.to_string()).expect("written");
    }

    fn kept(&self) -> Value {
        let text = std::fs::read(self.dir.path().join("troupe/auth.json")).expect("a file");
        serde_json::from_slice(&text).expect("JSON")
    }

    fn oauth(&self, provider: &str, expires: u64) -> Login {
        let entry = json!({ "type": "oauth", "refresh": "r1", "access": "a1", "expires": expires, "accountId": "acc" });
        self.of_opencode(json!({ provider: entry }));
        serde_json::from_value(entry).expect("a login")
    }
}

const NOBODY: &str = "http://127.0.0.1:1";
const NEVER: u64 = u64::MAX / 2;

fn claims(claims: Value) -> String {
    use base64::Engine;
    format!("h.{}.s", base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()))
}

#[tokio::test]
async fn opencodes_file_is_read_where_ours_has_nothing_and_ours_is_written() {
    let world = World::new(NOBODY);
    world.of_opencode(json!({
        "anthropic": { "type": "api", "key": "sk-theirs" },
        "openai": { "type": "api", "key": "sk-openai", "metadata": { "resourceName": "r" } },
        "https://company.example": { "type": "wellknown", "key": "TOKEN", "token": "t" },
        "tomorrow": { "type": "of_tomorrow" },
    }));
    world.logins.set("anthropic", Login::key("sk-ours")).await.expect("kept");
    let all = world.logins.all().expect("logins");
    assert_eq!(all["anthropic"], (Login::key("sk-ours"), Source::Own));
    assert_eq!((all["openai"].1, all.len()), (Source::OpenCode, 3));
    assert_eq!(world.kept(), json!({ "anthropic": { "type": "api", "key": "sk-ours" } }));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let metadata = std::fs::metadata(world.dir.path().join("troupe/auth.json")).expect("a file");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_login_that_is_forgotten_says_where_another_is() {
    let world = World::new(NOBODY);
    world.of_opencode(json!({ "a": { "type": "api", "key": "k" } }));
    world.logins.set("a", Login::key("x")).await.expect("kept");
    world.logins.set("b", Login::key("x")).await.expect("kept");
    assert!(matches!(world.logins.remove("a").await, Ok(Forgotten::KeptByOpenCode(_))));
    assert_eq!(world.logins.remove("b").await, Ok(Forgotten::Gone));
    assert_eq!(world.logins.remove("b").await, Ok(Forgotten::Nothing));
    assert_eq!(world.kept(), json!({}));
}

#[tokio::test]
async fn what_others_keep_in_the_file_stays_and_a_damaged_one_is_named_without_its_keys() {
    let world = World::new(NOBODY);
    world.logins.set("a", Login::key("x")).await.expect("kept");
    let path = world.dir.path().join("troupe/auth.json");
    std::fs::write(&path, r#"{"odd":{"type":"of_tomorrow","x":1}}"#).expect("written");
    world.logins.set("a", Login::key("x")).await.expect("kept");
    assert_eq!(world.kept()["odd"], json!({ "type": "of_tomorrow", "x": 1 }));
    std::fs::write(&path, r#"{"a": "sk-secret" "#).expect("written");
    let error = world.logins.set("b", Login::key("x")).await.expect_err("an error").to_string();
    assert!(error.contains("auth.json:1:") && !error.contains("sk-secret"), "{error}");
    assert_eq!(world.logins.all().expect_err("an error").to_string(), error);
    assert!(world.logins.set("", Login::key("x")).await.is_err());
}

#[tokio::test]
async fn a_device_login_at_github_waits_until_the_code_is_typed() {
    let mut answers = vec![
        (200, json!({ "access_token": "gho_1" })),
        (200, json!({ "error": "slow_down", "interval": 0 })),
        (200, json!({ "error": "authorization_pending" })),
    ];
    let vendor = Vendor::start(move |path, _| match path {
        "/login/device/code" => {
            let code = json!({ "device_code": "dc", "user_code": "ABCD-1234", "interval": 0, "expires_in": 900,
                               "verification_uri": "https://github.com/login/device" });
            (200, code)
        }
        _ => answers.pop().expect("an answer"),
    })
    .await;
    let world = World::new(&vendor.url);
    let begun = world.logins.begin("github-copilot", 0, &HashMap::new()).await.expect("begun");
    assert_eq!(
        (begun.url.as_str(), begun.instructions.as_str()),
        ("https://github.com/login/device", "Enter code: ABCD-1234")
    );
    world.logins.finish("github-copilot", None).await.expect("logged in");
    let kept = json!({ "type": "oauth", "refresh": "gho_1", "access": "gho_1", "expires": 0 });
    assert_eq!(world.kept()["github-copilot"], kept);
    assert!(vendor.asked()[1].1.contains("\"device_code\":\"dc\""));

    let access = world.logins.credential("github-copilot").expect("a credential").access().await.expect("access");
    assert_eq!(access, Access::bearer("gho_1"));
    assert!(matches!(world.logins.finish("github-copilot", None).await, Err(AuthError::NotBegun { .. })));
}

#[tokio::test]
async fn a_companys_own_github_is_a_domain_and_has_its_own_address() {
    let world = World::new(NOBODY);
    let inputs = |url: &str| {
        HashMap::from([
            (github::DEPLOYMENT.into(), github::ENTERPRISE.into()),
            (github::ENTERPRISE_URL.into(), url.into()),
        ])
    };
    for bad in ["", "localhost", "http://", "a b"] {
        let error = world.logins.begin("github-copilot", 0, &inputs(bad)).await.expect_err("an error");
        assert!(matches!(error, AuthError::BadInput(_)), "{bad}: {error}");
    }
    let entry =
        json!({ "type": "oauth", "refresh": "g", "access": "g", "expires": 0, "enterpriseUrl": "company.ghe.com" });
    world.of_opencode(json!({ "github-copilot": entry }));
    let access = world.logins.credential("github-copilot").expect("a credential").access().await.expect("access");
    assert_eq!(access.base_url.as_deref(), Some("https://copilot-api.company.ghe.com"));
}

#[tokio::test]
async fn a_code_that_is_refused_or_runs_out_ends_the_login() {
    let vendor = Vendor::start(|path, _| match path {
        "/login/device/code" => {
            (200, json!({ "device_code": "dc", "user_code": "X", "verification_uri": "u", "interval": 0 }))
        }
        _ => (200, json!({ "error": "access_denied", "error_description": "you said no" })),
    })
    .await;
    let world = World::new(&vendor.url);
    world.logins.begin("github-copilot", 0, &HashMap::new()).await.expect("begun");
    let error = world.logins.finish("github-copilot", None).await.expect_err("an error");
    assert_eq!(error, AuthError::Refused("access_denied: you said no".into()));
    assert!(matches!(world.logins.begin("anthropic", 0, &HashMap::new()).await, Err(AuthError::NoMethod { .. })));
    assert!(matches!(world.logins.begin("openai", 7, &HashMap::new()).await, Err(AuthError::NoMethod { .. })));
}

/// Sends a browser back; returns what it sees.
async fn come_back(redirect: &str, query: &str) -> String {
    let url = url::Url::parse(redirect).expect("a url");
    let mut socket = TcpStream::connect(("127.0.0.1", url.port().expect("a port"))).await.expect("a connection");
    let head = format!("GET {}?{query} HTTP/1.1\r\nhost: localhost\r\n\r\n", url.path());
    socket.write_all(head.as_bytes()).await.expect("sent");
    let mut page = String::new();
    socket.read_to_string(&mut page).await.expect("a page");
    page
}

fn parameter(url: &str, name: &str) -> String {
    let url = url::Url::parse(url).expect("a url");
    url.query_pairs().find(|(key, _)| key == name).expect("a parameter").1.into_owned()
}

#[tokio::test]
async fn a_browser_login_at_openai_proves_that_who_ends_it_began_it() {
    use base64::Engine;
    use sha2::Digest;
    let id_token = claims(json!({ "https://api.openai.com/auth": { "chatgpt_account_id": "acc-9" } }));
    let vendor = Vendor::start(move |_, _| {
        (200, json!({ "access_token": "a1", "refresh_token": "r1", "expires_in": 3600, "id_token": id_token }))
    })
    .await;
    let world = World::new(&vendor.url);
    let begun = world.logins.begin("openai", 0, &HashMap::new()).await.expect("begun");
    let (state, redirect) = (parameter(&begun.url, "state"), parameter(&begun.url, "redirect_uri"));
    assert!(redirect.starts_with("http://localhost:") && redirect.ends_with("/auth/callback"));
    // A page of somebody else's doesn't end it.
    assert!(come_back(&redirect, "code=stolen&state=other").await.starts_with("HTTP/1.1 404"));
    assert!(come_back(&redirect, &format!("code=c0de&state={state}")).await.starts_with("HTTP/1.1 200"));
    world.logins.finish("openai", None).await.expect("logged in");

    let (path, form) = vendor.asked().pop().expect("a request");
    let sent: HashMap<String, String> = url::form_urlencoded::parse(form.as_bytes()).into_owned().collect();
    assert_eq!(
        (path.as_str(), sent["code"].as_str(), sent["redirect_uri"].as_str()),
        ("/oauth/token", "c0de", redirect.as_str())
    );
    let challenge = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(&sent["code_verifier"]));
    assert_eq!(parameter(&begun.url, "code_challenge"), challenge);

    let access = world.logins.credential("openai").expect("a credential").access().await.expect("access");
    assert_eq!(access.secret, Secret::Bearer("a1".into()));
    assert_eq!(access.headers["chatgpt-account-id"], "acc-9");
    assert_eq!(access.base_url.as_deref(), Some("https://chatgpt.com/backend-api/codex"));
}

#[tokio::test]
async fn a_browser_that_cannot_come_back_brings_its_address_and_a_no_ends_it() {
    let vendor = Vendor::start(|_, _| (200, json!({ "access_token": "a", "refresh_token": "r" }))).await;
    let world = World::new(&vendor.url);
    let begun = world.logins.begin("openai", 0, &HashMap::new()).await.expect("begun");
    let state = parameter(&begun.url, "state");
    let address = format!("http://localhost:1455/auth/callback?code=c&state={state}");
    world.logins.finish("openai", Some(&address)).await.expect("logged in");
    assert!(vendor.asked()[0].1.contains("code=c&"));

    let begun = world.logins.begin("openai", 0, &HashMap::new()).await.expect("begun");
    let other = "http://localhost:1455/auth/callback?code=c&state=other";
    assert!(matches!(world.logins.finish("openai", Some(other)).await, Err(AuthError::BadInput(_))));
    drop(begun);

    let begun = world.logins.begin("openai", 0, &HashMap::new()).await.expect("begun");
    let (state, redirect) = (parameter(&begun.url, "state"), parameter(&begun.url, "redirect_uri"));
    assert!(come_back(&redirect, &format!("error=access_denied&state={state}")).await.starts_with("HTTP/1.1 400"));
    assert_eq!(world.logins.finish("openai", None).await, Err(AuthError::Refused("access_denied".into())));
}

#[tokio::test]
async fn a_device_login_at_openai_waits_until_the_code_is_typed() {
    let mut pending = 2;
    let vendor = Vendor::start(move |path, _| match path {
        "/api/accounts/deviceauth/usercode" => {
            (200, json!({ "device_auth_id": "d", "user_code": "WXYZ", "interval": "0" }))
        }
        "/api/accounts/deviceauth/token" if pending > 0 => {
            pending -= 1;
            (403, json!({ "error": { "code": "deviceauth_authorization_unknown" } }))
        }
        "/api/accounts/deviceauth/token" => (200, json!({ "authorization_code": "c", "code_verifier": "v" })),
        _ => (200, json!({ "access_token": "a", "refresh_token": "r", "expires_in": "60" })),
    })
    .await;
    let world = World::new(&vendor.url);
    let begun = world.logins.begin("openai", 1, &HashMap::new()).await.expect("begun");
    assert_eq!((begun.url, begun.instructions), (format!("{}/codex/device", vendor.url), "Enter code: WXYZ".into()));
    world.logins.finish("openai", None).await.expect("logged in");
    assert_eq!((world.kept()["openai"]["access"].clone(), vendor.asked().len()), (json!("a"), 5));
}

#[tokio::test]
async fn a_token_that_has_run_out_is_renewed_once_for_all_and_stored_before_it_is_used() {
    let vendor =
        Vendor::start(|_, _| (200, json!({ "access_token": "a2", "refresh_token": "r2", "expires_in": 3600 }))).await;
    let world = World::new(&vendor.url);
    world.oauth("openai", 1);
    let credentials: Vec<_> = (0..50).map(|_| world.logins.credential("openai").expect("a credential")).collect();
    let all = join_all(credentials.iter().map(|credential| async {
        let access = credential.access().await.expect("access");
        assert_eq!(world.kept()["openai"]["access"], "a2", "used before it was stored");
        access
    }))
    .await;
    assert!(all.iter().all(|access| access.secret == Secret::Bearer("a2".into())));
    assert_eq!(all[0].headers["chatgpt-account-id"], "acc", "what the answer leaves out stays");
    let asked = vendor.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].1.contains("refresh_token=r1") && asked[0].1.contains("grant_type=refresh_token"));
    assert_eq!(world.kept()["openai"]["refresh"], "r2");
}

#[tokio::test]
async fn a_token_that_was_refused_is_renewed_once_and_one_that_others_renewed_is_taken() {
    let vendor =
        Vendor::start(|_, _| (200, json!({ "access_token": "a2", "refresh_token": "r2", "expires_in": 3600 }))).await;
    let world = World::new(&vendor.url);
    world.oauth("openai", NEVER);
    let credential = world.logins.credential("openai").expect("a credential");
    let old = credential.access().await.expect("access");
    assert_eq!((old.secret.clone(), vendor.asked().len()), (Secret::Bearer("a1".into()), 0));
    let renewed = join_all((0..10).map(|_| credential.refused(&old))).await;
    assert_eq!((renewed, vendor.asked().len()), (vec![true; 10], 1));
}

#[tokio::test]
async fn a_login_that_no_longer_holds_says_so_and_a_vendor_that_is_away_may_come_back() {
    let vendor =
        Vendor::start(|_, _| (400, json!({ "error": "invalid_grant", "error_description": "r1 is used up" }))).await;
    let world = World::new(&vendor.url);
    world.oauth("openai", 1);
    let error = world.logins.credential("openai").expect("a credential").access().await.expect_err("an error");
    assert_eq!(error.class(), crate::ErrorClass::Auth);
    assert!(error.to_string().contains("troupe auth login openai") && !error.to_string().contains("r1"), "{error}");

    let world = World::new(NOBODY);
    world.oauth("openai", 1);
    let error = world.logins.credential("openai").expect("a credential").access().await.expect_err("an error");
    assert!(error.is_retryable(), "{error}");
    assert!(world.logins.credential("mistral").is_none());
}

#[test]
fn nothing_secret_is_shown() {
    let world = World::new(NOBODY);
    let login = world.oauth("openai", 1);
    let authorization =
        Authorization { url: "http://x/?state=s3cret".into(), instructions: "Enter code: s3cret".into() };
    let shown = format!("{login:?} {authorization:?} {:?} {:?}", world.logins, Login::key("sk-1"));
    assert!(
        !shown.contains("a1") && !shown.contains("r1") && !shown.contains("s3cret") && !shown.contains("sk-1"),
        "{shown}"
    );
}
