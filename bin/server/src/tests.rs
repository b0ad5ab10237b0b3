//! The whole server with a runtime behind it, over real connections.

use std::time::Duration;

use actors::runtime::Options;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use storage::DataDir;
use storage::places::{Environment, Places};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::*;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

struct Service {
    root: TempDir,
    runtime: Runtime,
    running: Running,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.head, self.body))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

impl Service {
    async fn start(access: Access) -> Self {
        sse::http::install_crypto();
        let root = tempfile::tempdir().expect("a directory");
        let home = root.path().to_string_lossy().into_owned();
        let environment = Environment::from_iter([("HOME", home)]);
        let places = Places::of(&environment);
        let data = DataDir::own(&places.data).expect("a data directory");
        let options = Options { places, environment, program: None, version: "1.2.3".into() };
        let io = tokio::runtime::Handle::current();
        let runtime = Runtime::start(&data, options, io).await.expect("a runtime");
        let directory = root.path().join("project");
        std::fs::create_dir_all(&directory).expect("a project");
        let server = Server { runtime: runtime.clone(), start_directory: directory, access };
        let sockets = vec![root.path().join("run/socket")];
        let running =
            listen(server, &Listen { addresses: vec![([127, 0, 0, 1], 0).into()], sockets }).expect("a server");
        Self { root, runtime, running }
    }

    async fn stop(self) {
        self.runtime.stop().await;
        self.running.handle.stop(false).await;
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.running.addresses[0]).await.expect("a connection")
    }

    async fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        exchange(self.connect().await, method, path, headers, body).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", "").await
    }

    async fn send(&self, method: &str, path: &str, body: Value) -> Answer {
        self.ask(method, path, "content-type: application/json\r\n", &body.to_string()).await
    }

    /// Opens an event stream and gives what is written up to (and with) this text.
    async fn listen(&self, path: &str, headers: &str, until: &str) -> (String, TcpStream) {
        let mut stream = self.connect().await;
        write(&mut stream, "GET", path, headers, "").await;
        let text = read_until(&mut stream, until).await;
        (text, stream)
    }
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), method: &str, path: &str, headers: &str, body: &str) {
    let host = if headers.starts_with("host:") { "" } else { "host: localhost\r\n" };
    let length = body.len();
    let text = format!(
        "{method} {path} HTTP/1.1\r\n{host}{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.expect("sent");
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Answer {
    write(&mut stream, method, path, headers, body).await;
    let mut bytes = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("an answer in time").expect("an answer");
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

async fn read_until(stream: &mut TcpStream, until: &str) -> String {
    let mut seen = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&seen).contains(until) {
            let mut piece = [0; 4096];
            let length = stream.read(&mut piece).await.expect("more");
            assert_ne!(length, 0, "the stream ended: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&piece[..length]);
        }
    };
    if timeout(PATIENCE, read).await.is_err() {
        panic!("no {until:?} in time");
    }
    String::from_utf8_lossy(&seen).into_owned()
}

/// The last id of a stream's text.
fn last_id(text: &str) -> &str {
    text.lines().rev().find_map(|line| line.strip_prefix("id: ")).expect("an id")
}

#[actix_web::test]
async fn a_password_is_asked_for_everywhere_but_on_the_socket() {
    let access = Access { password: Some(("opencode".into(), "PW".into())), origins: Vec::new() };
    let service = Service::start(access).await;
    for path in ["/global/health", "/doc", "/event", "/global/event", "/", "/api/health"] {
        let refused = service.get(path).await;
        assert_eq!((refused.status, refused.body.as_str()), (401, ""), "{path}");
        assert_eq!(refused.header("www-authenticate"), Some(r#"Basic realm="Secure Area""#));
        assert_eq!(refused.header("vary"), Some("Origin"));
        assert_eq!(refused.header("content-length"), Some("0"));
    }
    let token = STANDARD.encode("opencode:PW");
    let headers = format!("authorization: Basic {token}\r\norigin: http://localhost:3000\r\n");
    let welcome = service.ask("GET", "/global/health", &headers, "").await;
    assert_eq!((welcome.status, welcome.json()), (200, json!({ "healthy": true, "version": "1.2.3" })));
    assert_eq!(welcome.header("access-control-allow-origin"), Some("http://localhost:3000"));
    assert_eq!(service.get(&format!("/session?auth_token={token}")).await.json(), json!([]));
    let socket = UnixStream::connect(service.root.path().join("run/socket")).await.expect("a socket");
    assert_eq!(exchange(socket, "GET", "/global/health", "", "").await.status, 200);

    let asked =
        "origin: https://app.opencode.ai\r\naccess-control-request-headers: content-type,x-opencode-directory\r\n";
    let preflight = service.ask("OPTIONS", "/session", asked, "").await;
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("https://app.opencode.ai"));
    assert_eq!(preflight.header("access-control-allow-headers"), Some("content-type,x-opencode-directory"));
    assert_eq!(preflight.header("access-control-allow-methods"), Some("GET, HEAD, PUT, PATCH, POST, DELETE"));
    assert_eq!(preflight.header("access-control-max-age"), Some("86400"));
    assert_eq!(preflight.header("vary"), Some("Access-Control-Request-Headers, Origin"));
    let preflight = service.ask("OPTIONS", "/session", "origin: https://evil.example\r\n", "").await;
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (204, None));
    service.stop().await;
}

#[actix_web::test]
async fn foreign_pages_and_names_are_refused_before_anything_is_done() {
    let service = Service::start(Access::default()).await;
    let evil = "origin: https://evil.example\r\ncontent-type: application/json\r\n";
    let refused = service.ask("POST", "/session", evil, "{}").await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (403, None));
    assert_eq!(refused.json()["name"], "ForbiddenError");
    assert_eq!(service.ask("GET", "/session", "host: evil.example\r\n", "").await.status, 403);
    assert_eq!(service.ask("POST", "/session", "content-type: text/plain\r\n", "{}").await.status, 415);
    assert_eq!(
        service.ask("POST", "/permission/per_x/reply", "content-type: Application/JSON\r\n", "{}").await.status,
        400
    );
    assert_eq!(service.get("/session").await.json(), json!([]));
    let head = service.ask("HEAD", "/session", "", "").await;
    assert_eq!((head.status, head.body.as_str(), head.header("content-length")), (200, "", Some("2")));
    let unknown = service.get("/nope").await;
    assert_eq!((unknown.status, unknown.json()["name"].clone()), (404, json!("NotFoundError")));
    service.stop().await;
}

#[actix_web::test]
async fn sessions_are_listed_by_directory_project_path_and_title() {
    let service = Service::start(Access::default()).await;
    let create = async |directory: &str, body: Value| {
        let made = service.send("POST", &format!("/session?directory={directory}"), body).await;
        assert_eq!(made.status, 200, "{}", made.body);
        made.json()["id"].as_str().expect("an id").to_owned()
    };
    let parent = create("/no/such/a", json!({ "title": "First" })).await;
    let child = create("/no/such/a", json!({ "parentID": parent, "title": "below" })).await;
    let elsewhere = create("/no/such/b", json!({ "title": "other" })).await;
    let list = async |query: &str| {
        let listed = service.get(&format!("/session?directory=/no/such/a&{query}")).await.json();
        let ids =
            listed.as_array().expect("a list").iter().map(|session| session["id"].as_str().expect("an id").to_owned());
        ids.collect::<std::collections::BTreeSet<String>>()
    };
    let set = |ids: &[&String]| ids.iter().map(|id| (*id).clone()).collect();
    assert_eq!(list("").await, set(&[&parent, &child]));
    assert_eq!(list("roots=true").await, set(&[&parent]));
    assert_eq!(list("search=first").await, set(&[&parent]));
    assert_eq!(list("scope=project").await, set(&[&parent, &child, &elsewhere]));
    assert_eq!(list("path=").await, set(&[&parent, &child, &elsewhere]));
    assert_eq!(list("path=no/such/b").await, set(&[&elsewhere]));
    assert_eq!(list("limit=1").await.len(), 1);
    assert_eq!(list("start=9000000000000").await, set(&[]));
    assert_eq!(service.get("/session?limit=x").await.status, 400);
    assert_eq!(service.get(&format!("/session/{parent}/children")).await.json()[0]["id"], child);
    for path in ["children", "todo", "diff", "message"] {
        let missing = service.get(&format!("/session/ses_none/{path}")).await;
        let wanted = json!({ "name": "NotFoundError", "data": { "message": "Session not found: ses_none" } });
        assert_eq!((missing.status, missing.json()), (404, wanted), "{path}");
        assert_eq!(
            service.get(&format!("/session/{parent}/{path}")).await.json(),
            if path == "children" {
                service.get(&format!("/session/{parent}/children")).await.json()
            } else {
                json!([])
            }
        );
    }
    let wrong = service.get("/session/abc").await;
    assert_eq!((wrong.status, wrong.json()["data"]["kind"].clone()), (400, json!("Params")));
    assert_eq!(service.send("POST", "/session", json!({ "title": 5 })).await.json()["_tag"], "BadRequest");
    assert_eq!(service.get(&format!("/session/{parent}/message?before=x")).await.json()["_tag"], "BadRequest");
    service.stop().await;
}

#[actix_web::test]
async fn a_stream_begins_with_its_connection_and_goes_on_where_it_was_left() {
    let service = Service::start(Access::default()).await;
    let (text, mut stream) = service.listen("/event?directory=/no/such/a", "", "server.connected").await;
    assert!(text.contains("text/event-stream") && text.contains("no-cache, no-transform"), "{text}");
    let create = async |title: &str| {
        let path = "/session?directory=/no/such/a";
        assert_eq!(service.send("POST", path, json!({ "title": title })).await.status, 200);
        assert_eq!(
            service.send("POST", "/session?directory=/no/such/b", json!({ "title": "hidden" })).await.status,
            200
        );
    };
    create("one").await;
    let seen = read_until(&mut stream, "session.created").await;
    let seen = if seen.contains("\"one\"") { seen } else { seen.clone() + &read_until(&mut stream, "\"one\"").await };
    let position = last_id(&seen).trim().to_owned();
    drop(stream);
    create("two").await;

    // What the ring has comes as it was, and only that.
    let resume = format!("last-event-id: {position}\r\n");
    let (text, _) = service.listen("/event?directory=/no/such/a", &resume, "\"two\"").await;
    assert!(!text.contains("\"one\"") && !text.contains("hidden") && !text.contains("resync"), "{text}");
    // A position of another life is answered from the log, and the client is told.
    let row = position.rsplit('-').next().expect("a row");
    let (text, _) = service.listen(&format!("/event?directory=/no/such/a&after=other-5-{row}"), "", "\"two\"").await;
    assert!(text.contains("server.resync") && text.contains("id: log-0-"), "{text}");
    assert!(!text.contains("\"one\"") && !text.contains("hidden"), "{text}");
    // All directories, with the numbered copies.
    let (text, _) = service.listen("/global/event?after=other-5-0", "", "\"two\"").await;
    assert!(text.contains("hidden") && text.contains(r#""type":"sync""#), "{text}");
    service.stop().await;
}

#[actix_web::test]
async fn the_service_stops_though_streams_are_open() {
    let service = Service::start(Access::default()).await;
    let (_, mut stream) = service.listen("/event", "", "server.connected").await;
    service.runtime.stop().await;
    let mut rest = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("an end in time").expect("an end");
    service.running.handle.stop(true).await;
}

#[actix_web::test]
async fn replies_to_nothing_and_settings_are_answered_in_their_shapes() {
    let service = Service::start(Access::default()).await;
    let reply = service.send("POST", "/permission/per_1/reply", json!({ "reply": "once" })).await;
    let wanted = json!({ "_tag": "PermissionNotFoundError", "requestID": "per_1", "message": "Permission request not found: per_1" });
    assert_eq!((reply.status, reply.json()), (404, wanted));
    assert_eq!(service.send("POST", "/question/que_1/reject", json!({})).await.json()["_tag"], "QuestionNotFoundError");
    assert_eq!(service.send("POST", "/question/abc/reject", json!({})).await.status, 400);
    assert_eq!(service.get("/api/permission/saved").await.json(), json!({ "data": [] }));
    assert_eq!(service.ask("DELETE", "/api/permission/saved/x", "", "").await.status, 404);
    assert_eq!(service.get("/global/config").await.json(), json!({ "$schema": "https://opencode.ai/config.json" }));
    let config = service.get("/config").await.json();
    assert_eq!((&config["mode"], &config["plugin"]), (&json!({}), &json!([])));
    let providers = service.get("/config/providers").await.json();
    assert_eq!(providers["default"], json!({ "demo": "tour" }));
    assert!(service.get("/provider").await.body.contains(r#""connected":["demo"]}"#));
    assert_eq!(service.get("/session/status").await.json(), json!({}));
    assert_eq!(service.get("/project/current").await.json()["id"], "global");
    let metrics = service.get("/metrics").await;
    assert!(metrics.body.contains("\ntroupe_event_subscribers 0\n"), "{}", metrics.body);
    assert_eq!(service.get("/troupe/supervision").await.json()["restarts"], 0);
    assert_eq!(
        service.send("POST", "/log", json!({ "service": "x", "level": "info", "message": "m" })).await.body,
        "true"
    );
    assert_eq!(service.send("POST", "/instance/dispose", json!({})).await.body, "true");
    std::fs::write(service.root.path().join("project/a.txt"), "alpha\nbeta\n").expect("written");
    assert_eq!(service.get("/find?pattern=beta").await.json()[0]["line_number"], 2);
    assert_eq!(service.get("/find/file?query=a").await.json(), json!(["a.txt"]));
    assert_eq!(service.get("/find?pattern=(").await.status, 400);
    assert_eq!(service.get("/file?path=.").await.json()[0]["path"], "a.txt");
    assert_eq!(service.get("/file/content?path=a.txt").await.json()["content"], "alpha\nbeta\n");
    assert_eq!(service.get("/file/content?path=none").await.status, 404);
    assert_eq!(service.get("/file/content?path=../../../../../../etc/passwd").await.status, 403);
    service.stop().await;
}

#[actix_web::test]
async fn who_waits_for_a_turn_hears_of_its_end_though_the_session_fell() {
    let service = Service::start(Access::default()).await;
    let id = service.send("POST", "/session", json!({})).await.json()["id"].as_str().expect("an id").to_owned();
    let prompt = json!({ "messageID": "msg_1", "parts": [{ "type": "text", "text": "hello" }] });
    let answer = service.send("POST", &format!("/session/{id}/message"), prompt).await;
    assert_eq!((answer.status, answer.json()["info"]["parentID"].clone()), (200, json!("msg_1")), "{}", answer.body);
    // What a waiter sees of a fall: its sender is gone.
    let (_, lost) = tokio::sync::oneshot::channel();
    let server =
        Server { runtime: service.runtime.clone(), start_directory: PathBuf::new(), access: Access::default() };
    let (session, message) = (ids::session(&id).expect("an id"), ids::message("msg_1").expect("an id"));
    let again = wait::answer(&server, &session, &message, lost).await.expect("an answer");
    assert_eq!(serde_json::to_value(again).expect("JSON"), answer.json());
    let (_, lost) = tokio::sync::oneshot::channel();
    let unknown = ids::session("ses_none").expect("an id");
    let gone = wait::answer(&server, &unknown, &message, lost).await.expect_err("an error");
    assert_eq!(gone.to_string(), "Session not found: ses_none");
    service.stop().await;
}
