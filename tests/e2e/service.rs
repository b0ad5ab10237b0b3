//! Who may talk to the service, where it listens, and who owns the data.

mod owner;

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Home, Wire};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::world::{World, said, troupe};

const EVIL: &str = "https://evil.example";

/// An answer: its status, its headers in lower case, its body.
type Answer = (u16, HashMap<String, String>, String);

/// Sends a request over a connection, with these headers and nothing else.
async fn exchange(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, request: &str) -> Answer {
    stream.write_all(request.replace('\n', "\r\n").as_bytes()).await.expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("an answer");
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {request}: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    (status, head.lines().filter_map(header).collect(), body.to_owned())
}

/// Sends what a browser, or a program that plays one, would.
async fn send(wire: &Wire, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let address = wire.base_url().strip_prefix("http://").expect("an address").to_owned();
    let stream = TcpStream::connect(&address).await.expect("a connection");
    let host =
        if headers.iter().any(|(name, _)| *name == "host") { String::new() } else { format!("host: {address}\n") };
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let length = body.len();
    let headers = format!("{headers}x-opencode-directory: {}\n", wire.directory().display());
    let request = format!("{line} HTTP/1.1\n{host}{headers}connection: close\ncontent-length: {length}\n\n{body}");
    exchange(stream, &request).await
}

fn allowed(answer: &Answer) -> Option<&str> {
    answer.1.get("access-control-allow-origin").map(String::as_str)
}

/// Writes the person's own settings.
fn settings(home: &Home, config: Value) {
    let path = home.path(".config/opencode/opencode.json");
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    std::fs::write(path, config.to_string()).expect("written");
}

#[tokio::test]
async fn pages_of_the_internet_can_neither_write_nor_read() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    let json = ("content-type", "application/json");
    let writes = [
        ("POST /session".to_owned(), r#"{"title":"evil"}"#),
        (format!("POST /session/{session}/prompt_async"), r#"{"parts":[{"type":"text","text":"evil"}]}"#),
        (format!("PATCH /session/{session}"), r#"{"title":"evil"}"#),
        (format!("DELETE /session/{session}"), ""),
    ];
    for (line, body) in &writes {
        for kind in [("content-type", "text/plain"), json, ("content-type", "application/x-www-form-urlencoded")] {
            for origin in [EVIL, "null", "http://localhost.evil.example", "https://127.0.0.1.evil.example:4096"] {
                let answer = send(&world.wire, line, &[("origin", origin), kind], body).await;
                assert_eq!((answer.0, allowed(&answer)), (403, None), "{line} {origin} {kind:?}");
                let error: Value = serde_json::from_str(&answer.2).expect("JSON");
                assert!(error["data"]["message"].as_str().is_some_and(|text| text.contains("--cors")), "{error}");
            }
        }
    }
    for path in ["GET /session", "GET /event", "GET /global/event"] {
        let answer = send(&world.wire, path, &[("origin", EVIL)], "").await;
        assert_eq!((answer.0, allowed(&answer)), (403, None), "{path}");
    }
    let asks = [("origin", EVIL), ("access-control-request-method", "POST"), ("access-control-request-headers", "x")];
    assert_eq!(allowed(&send(&world.wire, "OPTIONS /session", &asks, "").await), None);
    // A name of the internet that was made to point to this machine.
    let rebound = [("host", "evil.example"), ("origin", "http://evil.example")];
    assert_eq!(send(&world.wire, "GET /session", &rebound, "").await.0, 403);
    assert_eq!(world.wire.get("/session").await.1.as_array().map(Vec::len), Some(1));
    assert_ne!(world.wire.session(&session).await["title"], "evil");
    assert_eq!(world.model.requests().len(), 0);
}

#[tokio::test]
async fn a_write_that_is_no_json_is_refused() {
    let world = World::start().await;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json"] {
        let answer = send(&world.wire, "POST /session", &[("content-type", kind)], r#"{"title":"x"}"#).await;
        assert_eq!(answer.0, 415, "{kind}: {}", answer.2);
    }
    for kind in ["application/json", "application/json; charset=utf-8"] {
        assert_eq!(send(&world.wire, "POST /session", &[("content-type", kind)], "{}").await.0, 200, "{kind}");
    }
    assert_eq!(world.wire.get("/session").await.1.as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn pages_of_this_machine_and_those_that_were_named_come_in() {
    let world = World::start().await;
    for origin in ["http://localhost:3000", "http://127.0.0.1:5173", "https://app.opencode.ai"] {
        let answer = send(&world.wire, "GET /session", &[("origin", origin)], "").await;
        assert_eq!((answer.0, allowed(&answer)), (200, Some(origin)));
    }
    let home = Home::new();
    settings(&home, json!({ "server": { "cors": ["https://three.example"] } }));
    let elsewhere = World::start().await;
    elsewhere.project.change_config(json!({ "server": { "cors": ["https://project.example"] } }));
    let named = troupe().arg("--cors").arg("https://one.example").arg("--cors").arg("https://two.example");
    let service = named.home(&home).dir(elsewhere.project.dir()).start().await;
    let wire = service.wire(elsewhere.project.dir());
    for (origin, is_named) in [
        ("https://one.example", true),
        ("https://two.example", true),
        ("https://three.example", true),
        ("https://project.example", false),
        ("https://one.example:444", false),
        ("http://one.example", false),
    ] {
        let answer = send(&wire, "GET /session", &[("origin", origin)], "").await;
        let wanted = if is_named { (200, Some(origin)) } else { (403, None) };
        assert_eq!((answer.0, allowed(&answer)), wanted, "{origin}");
        let preflight = send(&wire, "OPTIONS /session", &[("origin", origin)], "").await;
        assert_eq!((preflight.0, allowed(&preflight)), (204, wanted.1), "{origin}");
    }
}

#[tokio::test]
async fn it_does_not_start_where_other_machines_could_use_it_without_a_password() {
    for (hostname, password) in [("0.0.0.0", None), ("::", None), ("0.0.0.0", Some(""))] {
        let mut service = troupe().arg("--hostname").arg(hostname);
        if let Some(password) = password {
            service = service.env("OPENCODE_SERVER_PASSWORD", password);
        }
        let ran = service.start_and_end().await;
        assert_eq!(ran.status.code(), Some(1), "{hostname}");
        assert!(ran.stderr.contains("OPENCODE_SERVER_PASSWORD"), "{}", ran.stderr);
        assert!(!ran.stdout.contains("listening"), "no address is named: {}", ran.stdout);
    }
    let home = Home::new();
    settings(&home, json!({ "server": { "hostname": "0.0.0.0" } }));
    assert_eq!(troupe().home(&home).start_and_end().await.status.code(), Some(1));
}

#[tokio::test]
async fn with_a_password_it_listens_everywhere_and_asks_for_it() {
    let service = troupe().arg("--hostname").arg("0.0.0.0").env("OPENCODE_SERVER_PASSWORD", "SECRET").start().await;
    let port = service.base_url().rsplit(':').next().expect("a port").to_owned();
    let wire = Wire::new(format!("http://127.0.0.1:{port}"), service.home().dir());
    for path in ["/global/health", "/session", "/event", "/doc", "/metrics"] {
        assert_eq!(wire.get(path).await, (401, Value::Null), "{path}");
    }
    let wrong = wire.clone().with_password("opencode", "WRONG");
    assert_eq!(wrong.get("/global/health").await.0, 401);
    let right = wire.with_password("opencode", "SECRET");
    assert_eq!(right.get("/global/health").await.0, 200);
    let said = service.stdout() + &service.stderr();
    assert!(said.contains("password") && !said.contains("SECRET"), "{said}");
}

#[tokio::test]
async fn on_this_machine_it_is_open_and_says_so() {
    let world = World::start().await;
    assert_eq!(world.wire.get("/global/health").await.0, 200);
    assert!(world.service.stderr().contains("OPENCODE_SERVER_PASSWORD is not set"), "{}", world.service.stderr());
}

#[tokio::test]
async fn the_persons_settings_name_the_port() {
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port").local_addr().expect("an address").port();
    let home = Home::new();
    settings(&home, json!({ "server": { "port": free, "hostname": "127.0.0.1" } }));
    let service = troupe().home(&home).without_port().start().await;
    assert_eq!(service.base_url(), format!("http://127.0.0.1:{free}"));
}

/// Asks for the health over a unix socket.
async fn health(socket: &Path) -> u16 {
    let stream = UnixStream::connect(socket).await.expect("a connection");
    exchange(stream, "GET /global/health HTTP/1.1\nhost: localhost\nconnection: close\n\n").await.0
}

#[tokio::test]
async fn whoever_may_open_the_socket_comes_in_and_nobody_else_may() {
    let home = Home::new();
    let socket = home.path("run/troupe.sock");
    let locked = troupe().home(&home).env("OPENCODE_SERVER_PASSWORD", "SECRET");
    let mut service = locked.arg("--socket").arg(socket.display().to_string()).start().await;
    let own = service.home().path(".local/share/troupe/troupe.sock");
    for socket in [&socket, &own] {
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(socket), 0o600);
        assert_eq!(mode(socket.parent().expect("a directory")), 0o700);
        assert_eq!(health(socket).await, 200);
    }
    let wire = service.wire(service.home().dir());
    assert_eq!(wire.get("/global/health").await.0, 401);
    // What a killed service leaves is in nobody's way.
    service.kill9().await;
    assert!(socket.exists());
    service.restart().await;
    assert_eq!(health(&socket).await, 200);
}

#[tokio::test]
async fn a_socket_takes_nothing_elses_place() {
    let service = troupe().start().await;
    let theirs = service.home().path(".local/share/troupe/troupe.sock");
    let file = service.home().path("file");
    std::fs::write(&file, "precious").expect("written");
    for path in [&theirs, &file, &service.home().dir().to_owned()] {
        let ran = troupe().arg("--socket").arg(path.display().to_string()).start_and_end().await;
        assert_eq!(ran.status.code(), Some(1));
        assert!(ran.stderr.contains(&path.display().to_string()), "{}", ran.stderr);
    }
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "precious");
    assert_eq!(health(&theirs).await, 200);
}

#[tokio::test]
async fn sessions_of_two_directories_are_listed_apart_and_prompts_go_to_theirs() {
    let world = World::start().await;
    let other = tempfile::tempdir().expect("a directory");
    let elsewhere = world.service.wire(other.path().canonicalize().expect("a path"));
    let (here, there) = (world.wire.create_session().await, elsewhere.create_session().await);
    let ids = async |wire: &Wire| {
        let list = wire.get("/session").await.1;
        list.as_array()
            .into_iter()
            .flatten()
            .map(|info| info["id"].as_str().expect("an id").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&world.wire).await, std::slice::from_ref(&here));
    assert_eq!(ids(&elsewhere).await, [there]);
    world.model.script("hi", [support::Step::text("hello")]);
    assert_eq!(said(&elsewhere.prompt(&here, "hi").await), "hello", "an id is enough to find a session");
}
