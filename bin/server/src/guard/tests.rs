use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn visit(method: &Method) -> Visit<'_> {
    Visit {
        method,
        origin: None,
        host: Some("127.0.0.1:4096"),
        authorization: None,
        token: None,
        over_socket: false,
        listening: "127.0.0.1:4096".parse().expect("an address"),
    }
}

fn locked() -> Access {
    Access { password: Some(("opencode".into(), "PW".into())), origins: vec!["https://mine.example/".into()] }
}

fn is_refused(access: &Access, visit: &Visit<'_>) -> bool {
    matches!(judge(access, visit), Verdict::Refuse(_))
}

fn basic(text: &str) -> String {
    format!("Basic {}", general_purpose::STANDARD.encode(text))
}

#[test]
fn only_the_right_name_and_password_come_in() {
    let with = |authorization: &str| {
        let authorization = Some(authorization);
        judge(&locked(), &Visit { authorization, ..visit(&Method::GET) })
    };
    assert_eq!(with(&basic("opencode:PW")), Verdict::Enter);
    assert_eq!(with(&basic("opencode:PW").replace("Basic", "basic")), Verdict::Enter);
    for wrong in ["other:PW", "opencode:WRONG", ":PW", "opencode:PW ", "opencode", ""] {
        assert_eq!(with(&basic(wrong)), Verdict::AskPassword, "{wrong}");
    }
    for wrong in ["Bearer PW", "Basic", "Basic !!", "PW"] {
        assert_eq!(with(wrong), Verdict::AskPassword, "{wrong}");
    }
    assert_eq!(judge(&locked(), &visit(&Method::GET)), Verdict::AskPassword);
}

#[test]
fn the_token_of_a_query_is_a_password_too() {
    let with = |token: String| judge(&locked(), &Visit { token: Some(token), ..visit(&Method::GET) });
    assert_eq!(with(general_purpose::STANDARD.encode("opencode:PW")), Verdict::Enter);
    assert_eq!(with(general_purpose::URL_SAFE_NO_PAD.encode("opencode:PW")), Verdict::Enter);
    assert_eq!(with(general_purpose::STANDARD.encode("opencode:pw")), Verdict::AskPassword);
    let plus = Access { password: Some(("u".into(), "~~~>".into())), origins: Vec::new() };
    let token = general_purpose::STANDARD.encode("u:~~~>").replace('+', " ");
    assert_eq!(judge(&plus, &Visit { token: Some(token), ..visit(&Method::GET) }), Verdict::Enter);
}

#[test]
fn whoever_may_open_the_socket_comes_in() {
    let visit = Visit { over_socket: true, host: Some("whatever"), ..visit(&Method::POST) };
    assert_eq!(judge(&locked(), &visit), Verdict::Enter);
    assert_eq!(judge(&Access::default(), &visit), Verdict::Enter);
}

#[test]
fn a_browser_may_always_ask_what_it_may_send() {
    let visit = Visit { origin: Some("https://evil.example"), host: Some("evil.example"), ..visit(&Method::OPTIONS) };
    assert_eq!(judge(&locked(), &visit), Verdict::Preflight);
    assert_eq!(judge(&Access::default(), &visit), Verdict::Preflight);
}

#[test]
fn pages_of_this_machine_come_in_and_others_do_not() {
    let from = |origin| Visit { origin: Some(origin), ..visit(&Method::POST) };
    for origin in [
        "http://localhost:3000",
        "http://localhost",
        "http://127.0.0.1:9",
        "http://[::1]:9",
        "tauri://localhost",
        "https://app.opencode.ai",
    ] {
        assert_eq!(judge(&Access::default(), &from(origin)), Verdict::Enter, "{origin}");
    }
    for origin in [
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
        "http://localhost:3000.evil.example",
        "http://127.0.0.1.evil.example",
        "https://app.opencode.ai.evil.example",
        "https://mine.example",
    ] {
        assert!(is_refused(&Access::default(), &from(origin)), "{origin}");
    }
    assert!(may_come(&locked(), "https://mine.example", None));
    assert!(may_come(&locked(), "http://192.168.1.5:4096", Some("192.168.1.5:4096")));
}

#[test]
fn a_name_that_could_be_made_to_point_here_is_refused_where_no_password_is_set() {
    let named = |host| Visit { host: Some(host), ..visit(&Method::GET) };
    for host in
        ["localhost:4096", "LOCALHOST", "x.localhost:1", "127.0.0.1", "127.1.2.3:4096", "[::1]:4096", "localhost."]
    {
        assert_eq!(judge(&Access::default(), &named(host)), Verdict::Enter, "{host}");
    }
    for host in
        ["evil.example", "evil.example:4096", "localhost.evil.example", "192.168.1.5:4096", "[::1", "a:b", "", "?"]
    {
        assert!(is_refused(&Access::default(), &named(host)), "{host}");
    }
    let everywhere = Visit { listening: "0.0.0.0:1".parse().expect("an address"), ..named("192.168.1.5:1") };
    assert_eq!(judge(&Access::default(), &everywhere), Verdict::Enter);
    assert_eq!(judge(&locked(), &named("evil.example")), Verdict::AskPassword);
    assert_eq!(judge(&Access::default(), &Visit { host: None, ..visit(&Method::GET) }), Verdict::Enter);
}

#[test]
fn requests_of_other_machines_are_noted_without_their_query() {
    let from = |peer: &str| {
        let request = actix_web::test::TestRequest::get().uri("/session?auth_token=PW");
        Guest::of(&request.peer_addr(peer.parse().expect("an address")).to_srv_request())
    };
    assert_eq!(from("127.0.0.1:9"), None);
    assert_eq!(from("[::ffff:127.0.0.1]:9"), None);
    let guest = Guest { peer: [192, 168, 1, 5].into(), method: Method::GET, path: "/session".into() };
    assert_eq!(from("192.168.1.5:9"), Some(guest));
    assert_eq!(Guest::of(&actix_web::test::TestRequest::get().to_srv_request()), None, "over a unix socket");
}

proptest! {
    #[test]
    fn nothing_a_client_says_makes_the_guard_panic(host in ".{0,40}", origin in ".{0,40}", token in ".{0,40}") {
        let said = Visit {
            host: Some(&host), origin: Some(&origin), authorization: Some(&token), token: Some(token.clone()),
            ..visit(&Method::GET)
        };
        prop_assert_ne!(judge(&locked(), &said), Verdict::Enter);
    }
}
