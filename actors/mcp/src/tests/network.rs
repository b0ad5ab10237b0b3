use pretty_assertions::assert_eq;

use super::*;
use crate::auth::AuthProblem;
use crate::error::CallError;
use crate::testing::{HttpServer, Options};

fn entry(server: &HttpServer, more: Value) -> Value {
    let mut entry = json!({ "type": "remote", "url": server.url(), "headers": { "x-key": "k" } });
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entry
}

/// Ten tools, as many as are called at once.
fn ten() -> Script {
    let tools = (0..10).map(|n| crate::testing::ScriptedTool::new(&format!("n{n}"), &format!("result {n}")));
    Script { tools: tools.collect(), ..Script::default() }
}

async fn authorizer() -> (Authorizer, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Authorizer::new(dir.path(), Arc::new(protocol::SystemClock)), dir)
}

async fn login(authorizer: &Authorizer, target: &Target) {
    let remote = target.config.remote().unwrap();
    let begun = authorizer.begin("srv", remote).await.unwrap();
    authorizer.finish("srv", "good", Some(&begun.state), None).await.unwrap();
}

#[tokio::test]
async fn both_transports_and_both_forms_of_answers_are_spoken() {
    for options in [
        Options::default(),
        Options { streams: true, ..Options::default() },
        Options { legacy: true, ..Options::default() },
    ] {
        let server = HttpServer::start(Script::tools([("one", "1"), ("two", "2")]), options.clone()).await;
        let connection = connect(&target(&entry(&server, json!({}))), &environment()).await.unwrap();
        assert_eq!(connection.tools().await.unwrap().len(), 2, "{options:?}");
        assert_eq!(call(&connection, "two", json!({})).await.as_deref(), Ok("2"), "{options:?}");
        assert!(call(&connection, "three", json!({})).await.unwrap_err().contains("no such tool"));
        assert_eq!(server.stats().headers["x-key"], "k");
        assert!(connection.is_alive().await);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_from_one_that_is_no_mcp_server() {
    let server = HttpServer::start(Script::default(), Options::default()).await;
    let entry = entry(&server, json!({}));
    let url = server.url().replace("/mcp", "/nothing");
    let other = connect(&target(&json!({ "type": "remote", "url": url })), &environment()).await.unwrap_err();
    assert!(matches!(&other, ConnectError::Handshake(said) if said.contains("404")), "{other}");
    drop(server);
    let gone = connect(&target(&entry), &environment()).await.unwrap_err();
    assert!(matches!(gone, ConnectError::Unreachable { .. }), "{gone}");
    assert!(!gone.is_final());
}

#[tokio::test]
async fn a_server_that_went_away_fails_calls_and_is_not_alive() {
    let server = HttpServer::start(Script::tools([("one", "1")]), Options::default()).await;
    let connection = connect(&target(&entry(&server, json!({}))), &environment()).await.unwrap();
    drop(server);
    let error = call(&connection, "one", json!({})).await.unwrap_err();
    assert!(error.contains("could not be asked"), "{error}");
    assert!(!connection.is_alive().await);
}

#[tokio::test]
async fn a_login_is_asked_for_and_then_used() {
    let server = HttpServer::start(ten(), Options { login: true, expires: 600, ..Options::default() }).await;
    let (authorizer, dir) = authorizer().await;
    let (target, _) = with_login(&entry(&server, json!({})), &authorizer);
    let before = connect(&target, &environment()).await.unwrap_err();
    assert!(matches!(before, ConnectError::NeedsAuth), "{before}");
    assert!(!authorizer.needs_registration("srv", target.config.remote().unwrap()).await);

    let remote = target.config.remote().unwrap();
    let begun = authorizer.begin("srv", remote).await.unwrap();
    let url = reqwest::Url::parse(&begun.authorization_url).unwrap();
    let query: std::collections::HashMap<_, _> = url.query_pairs().into_owned().collect();
    assert_eq!(query["code_challenge_method"], "S256");
    assert_eq!(query["client_id"], "registered");
    assert_eq!(query["scope"], "mcp");
    assert_eq!(query["redirect_uri"], "http://127.0.0.1:19876/mcp/oauth/callback");
    assert_eq!(query["state"], begun.state);
    // Neither another login's code nor a wrong one ends it well.
    let stranger = authorizer.finish("srv", "good", Some("other"), None).await;
    assert_eq!(stranger, Err(AuthProblem::NotBegun));
    authorizer.finish("srv", "good", Some(&begun.state), None).await.unwrap();
    assert_eq!(authorizer.finish("srv", "good", None, None).await, Err(AuthProblem::NotBegun));
    assert_eq!(server.stats().token_request["code_verifier"].len(), 43);

    let connection = connect(&target, &environment()).await.unwrap();
    assert_eq!(call(&connection, "n1", json!({})).await.as_deref(), Ok("result 1"));
    let kept: Value = serde_json::from_slice(&std::fs::read(dir.path().join("mcp-auth.json")).unwrap()).unwrap();
    assert_eq!(kept["srv"]["tokens"]["accessToken"], "access1");
    assert_eq!(kept["srv"]["tokens"]["refreshToken"], "refresh1");
    assert_eq!(kept["srv"]["clientInfo"]["clientId"], "registered");
    assert_eq!(kept["srv"]["serverUrl"], server.url());
    // The registered client is used again.
    login(&authorizer, &target).await;
    assert_eq!(server.stats().registrations, 1);
    assert!(authorizer.forget("srv").await.unwrap());
    assert!(matches!(connect(&target, &environment()).await, Err(ConnectError::NeedsAuth)));
}

#[tokio::test]
async fn a_wrong_code_is_refused_and_keeps_nothing() {
    let server = HttpServer::start(ten(), Options { login: true, ..Options::default() }).await;
    let (authorizer, _dir) = authorizer().await;
    let (target, tokens) = with_login(&entry(&server, json!({ "oauth": { "clientId": "cases" } })), &authorizer);
    authorizer.begin("srv", target.config.remote().unwrap()).await.unwrap();
    let refused = authorizer.finish("srv", "hunter2", None, None).await.unwrap_err();
    assert!(matches!(refused, AuthProblem::Refused(_)) && !refused.to_string().contains("hunter2"), "{refused}");
    assert_eq!(tokens.current().await, Ok(None));
    assert_eq!(server.stats().registrations, 0);
}

#[tokio::test]
async fn one_refresh_serves_all_calls_of_all_connections_and_is_stored_before_use() {
    for legacy in [false, true] {
        let server =
            HttpServer::start(ten(), Options { login: true, expires: 600, legacy, ..Options::default() }).await;
        let (authorizer, dir) = authorizer().await;
        let (target, _) = with_login(&entry(&server, json!({ "oauth": { "clientId": "cases" } })), &authorizer);
        login(&authorizer, &target).await;
        let connections =
            [connect(&target, &environment()).await.unwrap(), connect(&target, &environment()).await.unwrap()];
        server.expire();
        let calls = (0..10).map(|n| {
            // The older transport of the scripted server answers on the last stream only.
            let connection = if legacy { &connections[1] } else { &connections[n % 2] };
            async move { call(connection, &format!("n{n}"), json!({})).await }
        });
        let results = futures::future::join_all(calls).await;
        for (n, result) in results.into_iter().enumerate() {
            assert_eq!(result, Ok(format!("result {n}")), "legacy: {legacy}");
        }
        let stats = server.stats();
        assert_eq!((stats.refreshes, stats.reused), (u32::from(!legacy) as usize, 0), "legacy: {legacy}");
        let kept: Value = serde_json::from_slice(&std::fs::read(dir.path().join("mcp-auth.json")).unwrap()).unwrap();
        assert_eq!(kept["srv"]["tokens"]["refreshToken"], if legacy { "refresh1" } else { "refresh2" });
    }
}

#[tokio::test]
async fn a_token_that_has_run_out_is_renewed_before_it_is_sent() {
    let server = HttpServer::start(ten(), Options { login: true, expires: 0, ..Options::default() }).await;
    let (authorizer, _dir) = authorizer().await;
    let (target, tokens) = with_login(&entry(&server, json!({})), &authorizer);
    login(&authorizer, &target).await;
    assert_eq!(tokens.current().await.unwrap().as_deref(), Some("access2"));
    assert_eq!(server.stats().unauthorized, 2, "only the discovery, of the login and of the renewal, has no token");
}

#[tokio::test]
async fn a_login_that_no_longer_holds_is_told_as_such() {
    let server = HttpServer::start(ten(), Options { login: true, expires: 600, ..Options::default() }).await;
    let (authorizer, _dir) = authorizer().await;
    let (target, _) = with_login(&entry(&server, json!({})), &authorizer);
    login(&authorizer, &target).await;
    let connection = connect(&target, &environment()).await.unwrap();
    server.revoke();
    let never = CancellationToken::new();
    let result = connection.call("n1", JsonMap::new(), FakeDesk::new(), None, &never).await;
    assert_eq!(result, Err(CallError::NeedsAuth));
    assert!(matches!(connect(&target, &environment()).await, Err(ConnectError::NeedsAuth)));
}

#[tokio::test]
async fn who_registers_no_clients_says_so() {
    let server = HttpServer::start(ten(), Options { login: true, no_registration: true, ..Options::default() }).await;
    let (authorizer, _dir) = authorizer().await;
    let (by_itself, _) = with_login(&entry(&server, json!({})), &authorizer);
    let remote = by_itself.config.remote().unwrap();
    assert!(authorizer.needs_registration("srv", remote).await);
    assert_eq!(authorizer.begin("srv", remote).await, Err(AuthProblem::RegistrationNeeded));
    let (by_hand, _) = with_login(&entry(&server, json!({ "oauth": { "clientId": "cases" } })), &authorizer);
    assert!(!authorizer.needs_registration("srv", by_hand.config.remote().unwrap()).await);
    login(&authorizer, &by_hand).await;
    let off = entry(&server, json!({ "oauth": false }));
    let off = connect(&target(&off), &environment()).await.unwrap_err();
    assert!(matches!(&off, ConnectError::Handshake(said) if said.contains("oauth")), "{off}");
}

#[tokio::test]
async fn a_browser_brings_the_code_back_to_a_port_of_this_machine() {
    let server = HttpServer::start(ten(), Options { login: true, expires: 600, ..Options::default() }).await;
    let (authorizer, _dir) = authorizer().await;
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let (target, _) = with_login(&entry(&server, json!({ "oauth": { "callbackPort": port } })), &authorizer);
    let begun = authorizer.begin("srv", target.config.remote().unwrap()).await.unwrap();
    let browser = async {
        // It is listened before this runs the first time.
        let page = |query: String| async move {
            let answer = reqwest::get(format!("http://127.0.0.1:{port}/mcp/oauth/callback?{query}")).await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        };
        let (status, text) = page("code=good&state=<script>".into()).await;
        assert_eq!(status, 400);
        assert!(!text.contains("script"), "{text}");
        page(format!("code=good&state={}", begun.state)).await
    };
    let (callback, (status, _)) = tokio::join!(authorizer.callback(&begun), browser);
    assert_eq!(status, 200);
    let callback = callback.unwrap();
    authorizer.finish("srv", &callback.code, Some(&begun.state), callback.issuer.as_deref()).await.unwrap();
    assert!(connect(&target, &environment()).await.is_ok());
    // Nobody waits: nobody listens.
    until("the port stays open", || std::net::TcpStream::connect(("127.0.0.1", port)).is_err()).await;
}
