use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pretty_assertions::assert_eq;
use protocol::prompt::{PartInputKind, PromptBody};
use protocol::{PermissionId, SystemClock};
use serde_json::{Value, json};

use super::*;
use crate::app::picker::Subject;
use crate::effect::{Outcome, Setup};
use crate::samples::{agent, answer_with, event, permission, session, status, text, user};

fn app() -> App {
    let mut app = App::new("/p".into(), Start::Home, Arc::new(SystemClock));
    let agents = vec![agent("build", "primary"), agent("plan", "primary"), agent("explore", "subagent")];
    app.outcome(Outcome::Setup(Box::new(Setup { agents, ..Setup::default() })));
    app.event(&event("server.connected", json!({})));
    app.take_effects();
    app
}

/// An app that shows session `ses_1`.
fn shown() -> App {
    let mut app = app();
    app.outcome(Outcome::Opened(session("ses_1", "A title", json!({})), Vec::new()));
    app.take_effects();
    app.is_dirty = false;
    app
}

fn press(app: &mut App, code: KeyCode) -> Vec<Effect> {
    app.key(KeyEvent::new(code, KeyModifiers::NONE));
    app.take_effects()
}

fn control(app: &mut App, character: char) -> Vec<Effect> {
    app.key(KeyEvent::new(KeyCode::Char(character), KeyModifiers::CONTROL));
    app.take_effects()
}

fn write(app: &mut App, text: &str) -> Vec<Effect> {
    app.terminal(&Terminal::Paste(text.into()));
    press(app, KeyCode::Enter)
}

use crossterm::event::Event as Terminal;

fn prompt(work: &Work) -> &PromptBody {
    match work {
        Work::Prompt(body) => body,
        other => panic!("{other:?}"),
    }
}

fn id(text: &str) -> SessionId {
    SessionId::parse(text).expect("an id")
}

#[test]
fn the_first_prompt_makes_a_session_and_is_sent_to_it() {
    let mut app = app();
    press(&mut app, KeyCode::Tab);
    let effects = write(&mut app, "do\nit");
    let [Effect::Create(body, work)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(body.agent.as_deref(), Some("plan"));
    let sent = prompt(work);
    assert_eq!(sent.agent.as_deref(), Some("plan"));
    assert!(matches!(&sent.parts[0].kind, PartInputKind::Text { text, .. } if text == "do\nit"));
    assert!(app.is_creating && app.input.is_empty());
    assert_eq!(write(&mut app, "too early"), []);

    app.outcome(Outcome::Created(session("ses_1", "New", json!({})), work.clone()));
    assert_eq!(app.take_effects(), [Effect::Work(id("ses_1"), work.clone())]);
    assert_eq!(app.input.text(), "too early");
}

#[test]
fn what_could_not_be_sent_is_written_again() {
    let mut app = shown();
    let effects = write(&mut app, "!ls -l");
    let [Effect::Work(_, work)] = effects.as_slice() else { panic!("{effects:?}") };
    let error = client::Client::tcp("no address").expect_err("no address");
    app.outcome(Outcome::NotSent(work.clone(), error));
    assert_eq!(app.input.text(), "!ls -l");
    assert!(matches!(app.notice, Some(Notice::Error(_))));
}

#[test]
fn only_what_changes_the_screen_is_drawn() {
    let mut app = shown();
    let drawn = |app: &mut App, event: &Event| {
        app.event(event);
        std::mem::take(&mut app.is_dirty)
    };
    assert!(!drawn(&mut app, &event("server.heartbeat", json!({}))));
    assert!(!drawn(&mut app, &status(json!({ "type": "idle" }))));
    assert!(drawn(&mut app, &status(json!({ "type": "busy" }))));
    assert!(!drawn(&mut app, &status(json!({ "type": "busy" }))), "it was busy before");
    assert!(drawn(&mut app, &user("msg_1", 1)));
    let other = event("session.status", json!({ "sessionID": "ses_2", "status": { "type": "busy" } }));
    assert!(drawn(&mut app, &other), "lists show it");
    assert!(!drawn(&mut app, &event("file.edited", json!({ "file": "/p/a" }))));
    assert!(app.is_animated());
    drawn(&mut app, &status(json!({ "type": "idle" })));
    assert!(!app.is_animated(), "nothing moves when nothing works");
}

#[test]
fn escape_twice_stops_the_turn_and_another_key_between_does_not() {
    let mut app = shown();
    assert_eq!(press(&mut app, KeyCode::Esc), []);
    assert_eq!(app.armed, None, "nothing runs");
    app.event(&status(json!({ "type": "busy" })));
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Char('x'));
    assert_eq!(press(&mut app, KeyCode::Esc), []);
    assert_eq!(press(&mut app, KeyCode::Esc), [Effect::Abort(id("ses_1"))]);
}

#[test]
fn control_c_clears_the_line_then_leaves_and_asks_while_a_turn_runs() {
    let mut app = shown();
    press(&mut app, KeyCode::Char('x'));
    assert_eq!(control(&mut app, 'c'), []);
    assert!(app.input.is_empty());
    app.event(&status(json!({ "type": "busy" })));
    assert_eq!(control(&mut app, 'c'), []);
    assert_eq!(control(&mut app, 'c'), [Effect::Quit]);
    app.event(&status(json!({ "type": "idle" })));
    assert_eq!(control(&mut app, 'c'), [Effect::Quit]);
}

#[test]
fn a_permission_is_answered_by_one_key_and_is_gone_at_once() {
    let mut app = shown();
    app.event(&permission("per_1", "ses_1", json!({})));
    app.event(&permission("per_1", "ses_1", json!({})));
    assert_eq!(app.asks.len(), 1, "told twice");
    let effects = press(&mut app, KeyCode::Enter);
    let [Effect::Permission(request, _)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(*request, PermissionId::parse("per_1").expect("an id"));
    assert_eq!(press(&mut app, KeyCode::Enter), [], "the second key answers nothing");
}

#[test]
fn a_request_does_not_take_the_keys_of_a_line_that_is_being_written() {
    let mut app = shown();
    press(&mut app, KeyCode::Char('s'));
    app.event(&permission("per_1", "ses_1", json!({})));
    assert_eq!(press(&mut app, KeyCode::Char('y')), []);
    assert_eq!(app.input.text(), "sy");
}

#[test]
fn a_subagents_request_is_shown_and_another_sessions_is_only_counted() {
    let mut app = shown();
    let child = session("ses_child", "c", json!({ "parentID": "ses_1" }));
    app.event(&event("session.created", json!({ "sessionID": "ses_child", "info": child })));
    app.event(&permission("per_2", "ses_other", json!({})));
    assert_eq!(app.take_effects(), [Effect::Find(id("ses_other"))]);
    assert!(app.ask().is_none());
    assert_eq!(app.others_waiting(), 1);
    app.event(&permission("per_1", "ses_child", json!({})));
    assert_eq!(app.ask().map(Ask::id), Some("per_1"));

    // It turns out to be a grandchild that was there before this client.
    app.outcome(Outcome::Found(session("ses_other", "o", json!({ "parentID": "ses_between" }))));
    assert_eq!(app.take_effects(), [Effect::Find(id("ses_between"))]);
    app.outcome(Outcome::Found(session("ses_between", "b", json!({ "parentID": "ses_1" }))));
    assert_eq!(app.others_waiting(), 0);
}

#[test]
fn after_a_loss_all_is_read_anew_and_what_was_answered_meanwhile_goes() {
    let mut app = shown();
    app.event(&permission("per_1", "ses_1", json!({})));
    app.lost("cut".into());
    app.event(&event("server.connected", json!({})));
    assert_eq!(app.outage, None);
    assert_eq!(app.take_effects(), [Effect::Waiting, Effect::Read(id("ses_1")), Effect::Statuses]);
    app.event(&permission("per_2", "ses_1", json!({})));
    app.outcome(Outcome::Waiting(Vec::new(), Vec::new()));
    assert_eq!(app.asks.iter().map(Ask::id).collect::<Vec<_>>(), ["per_2"], "it came after the question");
}

#[test]
fn commands_are_the_clients_own_the_directorys_or_an_error() {
    let mut app = shown();
    let command: Command =
        serde_json::from_value(json!({ "name": "review", "template": "x", "hints": [] })).expect("a command");
    app.commands = vec![command];
    let effects = write(&mut app, "/review a b");
    let [Effect::Work(_, work)] = effects.as_slice() else { panic!("{effects:?}") };
    assert!(matches!(&**work, Work::Command(body) if body.command == "review" && body.arguments == "a b"));
    assert_eq!(write(&mut app, "/rename Better"), [Effect::Rename(id("ses_1"), "Better".into())]);
    assert_eq!(write(&mut app, "/nothing"), []);
    assert_eq!(app.input.text(), "/nothing");
    app.input.clear();
    assert_eq!(write(&mut app, "/ses"), [Effect::Sessions], "it can be but one");
    assert_eq!(app.picker.as_ref().map(|picker| picker.subject), Some(Subject::Sessions));
    app.picker = None;
    assert_eq!(write(&mut app, "/new"), []);
    assert!(app.session.is_none());
}

#[test]
fn a_chosen_session_is_opened_and_a_busy_one_is_listened_to_anew() {
    let mut app = app();
    control(&mut app, 'l');
    let other = session("ses_2", "Other", json!({}));
    app.outcome(Outcome::Sessions(vec![session("ses_1", "One", json!({})), other.clone()]));
    press(&mut app, KeyCode::Down);
    assert_eq!(press(&mut app, KeyCode::Enter), [Effect::Open(id("ses_2"))]);
    let busy = event("session.status", json!({ "sessionID": "ses_2", "status": { "type": "busy" } }));
    app.event(&busy);
    app.outcome(Outcome::Opened(other, Vec::new()));
    assert_eq!(app.take_effects(), [Effect::Listen]);
}

#[test]
fn scrolling_stays_where_it_is_until_the_end_is_reached() {
    let mut app = shown();
    app.viewport.set(Viewport { lines: 100, height: 20 });
    press(&mut app, KeyCode::PageUp);
    assert_eq!(app.top, Some(62));
    app.viewport.set(Viewport { lines: 120, height: 20 });
    assert_eq!(app.top, Some(62), "new lines don't move it");
    press(&mut app, KeyCode::Home);
    assert_eq!(app.top, Some(0));
    for _ in 0..6 {
        press(&mut app, KeyCode::PageDown);
    }
    assert_eq!(app.top, None);
}

#[test]
fn an_error_is_said_only_where_no_message_tells_it() {
    let mut app = shown();
    let error = |message: &str| json!({ "name": "UnknownError", "data": { "message": message } });
    let fails = |message: &str| event("session.error", json!({ "sessionID": "ses_1", "error": error(message) }));
    let told = answer_with("msg_2", "msg_1", 2, json!({ "error": error("told") }));
    for event in [user("msg_1", 1), told, fails("told")] {
        app.event(&event);
    }
    assert_eq!(app.notice, None);
    app.event(&fails("not told"));
    assert_eq!(app.notice, Some(Notice::Error("not told".into())));
}

#[test]
fn usage_is_the_newest_answers_share_of_its_window() {
    let mut app = shown();
    let model = |id: &str| ModelRef { provider_id: "mock".into(), model_id: id.into(), variant: None };
    app.models = vec![(model("mock"), "Mock".into(), 1000)];
    let tokens = json!({ "input": 200, "output": 50, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    app.event(&answer_with("msg_2", "msg_1", 2, json!({ "tokens": tokens })));
    app.event(&answer_with("msg_3", "msg_1", 3, json!({})));
    assert_eq!(app.usage().map(|(tokens, share)| (tokens.input, share)), Some((200, Some(25))));
}

#[test]
fn deltas_of_other_sessions_are_not_shown() {
    let mut app = shown();
    let mut event: Value = serde_json::to_value(text("prt_1", "msg_1", "x", true)).expect("JSON");
    event["properties"]["sessionID"] = json!("ses_2");
    app.event(&user("msg_1", 1));
    app.is_dirty = false;
    app.event(&serde_json::from_value(event).expect("an event"));
    assert!(!app.is_dirty && app.conversation.entries()[0].parts.is_empty());
}
