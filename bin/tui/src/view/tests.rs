//! Screens as people see them.

use std::sync::Arc;

use protocol::SystemClock;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::View;
use crate::app::{App, Start};
use crate::effect::{Outcome, Setup};
use crate::samples::{agent, answer, answer_with, event, part, permission, session, status, text, tool, user};

/// When the screens are drawn: an hour after the samples' sessions were used.
const NOW: u64 = 4_600_000;

fn app() -> App {
    let mut app = App::new("/home/ada/project".into(), Start::Home, Arc::new(SystemClock));
    let agents = vec![agent("build", "primary"), agent("plan", "primary")];
    let config = serde_json::from_value(json!({ "model": "mock/mock" })).expect("settings");
    app.outcome(Outcome::Setup(Box::new(Setup { agents, config, ..Setup::default() })));
    app
}

fn shown(events: &[protocol::Event]) -> App {
    let mut app = app();
    app.outcome(Outcome::Opened(session("ses_1", "Rename the greeting", json!({})), Vec::new()));
    events.iter().for_each(|event| app.event(event));
    app
}

fn screen_of(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| View::default().draw(frame, app, NOW)).expect("drawn");
    terminal.backend().to_string()
}

fn asked(more: &str) -> protocol::Event {
    part("prt_u", "msg_1", json!({ "type": "text", "text": more }))
}

fn turn() -> Vec<protocol::Event> {
    let time = json!({ "start": 1, "end": 2 });
    let diff = "--- a/greet.txt\n+++ b/greet.txt\n@@ -1,2 +1,2 @@\n-hello\n+good morning\n world\n";
    let tokens = json!({ "input": 1200, "output": 50, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    vec![
        user("msg_1", 1_000),
        asked("Say \"good morning\" instead of \"hello\".\nThen run the tests."),
        answer("msg_2", "msg_1", 2_000),
        part("prt_1", "msg_2", json!({ "type": "reasoning", "text": "Small change.", "time": time })),
        text("prt_2", "msg_2", "I'll change **one** line in `greet.txt`:", true),
        tool(
            "prt_3",
            "msg_2",
            "read",
            json!({
                "status": "completed", "input": {}, "output": "", "title": "greet.txt", "metadata": {}, "time": time,
            }),
        ),
        tool(
            "prt_4",
            "msg_2",
            "edit",
            json!({
                "status": "completed", "input": {}, "output": "", "title": "greet.txt", "metadata": { "diff": diff },
                "time": time,
            }),
        ),
        tool(
            "prt_5",
            "msg_2",
            "bash",
            json!({
                "status": "error", "input": { "command": "cargo test" }, "error": "exit code 101", "time": time,
            }),
        ),
        text("prt_6", "msg_2", "The tests fail.", true),
        answer_with(
            "msg_2",
            "msg_1",
            2_000,
            json!({
                "finish": "stop", "time": { "created": 2_000, "completed": 5_200 }, "tokens": tokens,
            }),
        ),
    ]
}

#[test]
fn home() {
    insta::assert_snapshot!(screen_of(&app(), 72, 20));
}

#[test]
fn a_turn_that_has_ended() {
    insta::assert_snapshot!(screen_of(&shown(&turn()), 72, 34));
}

#[test]
fn a_turn_that_runs_in_a_low_terminal_shows_its_end() {
    let mut events = turn();
    events.truncate(5);
    events.push(tool(
        "prt_3",
        "msg_2",
        "bash",
        json!({
            "status": "running", "input": { "command": "cargo test" }, "time": { "start": 1 },
            "metadata": { "output": "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n" },
        }),
    ));
    events.push(status(json!({ "type": "busy" })));
    insta::assert_snapshot!(screen_of(&shown(&events), 60, 16));
}

#[test]
fn a_permission_shows_the_command_and_what_always_would_allow() {
    let mut app = shown(&[user("msg_1", 1_000), asked("Run the tests."), status(json!({ "type": "busy" }))]);
    app.event(&permission("per_1", "ses_1", json!({})));
    app.key(crossterm::event::KeyEvent::new(crossterm::event::KeyCode::Right, crossterm::event::KeyModifiers::NONE));
    insta::assert_snapshot!(screen_of(&app, 72, 14));
}

#[test]
fn a_permission_to_edit_shows_the_diff() {
    let diff: String = (0..30).map(|number| format!("+line {number}\n")).collect();
    let mut app = shown(&[user("msg_1", 1_000), asked("Write it."), status(json!({ "type": "busy" }))]);
    app.event(&permission(
        "per_1",
        "ses_1",
        json!({
            "permission": "edit", "patterns": ["notes.txt"], "always": ["*"],
            "metadata": { "filepath": "/p/notes.txt", "diff": format!("@@ -0,0 +1,30 @@\n{diff}") },
        }),
    ));
    insta::assert_snapshot!(screen_of(&app, 72, 20));
}

#[test]
fn a_question_lists_its_options() {
    let option = |label: &str, what: &str| json!({ "label": label, "description": what });
    let mut app = shown(&[user("msg_1", 1_000), asked("Set it up."), status(json!({ "type": "busy" }))]);
    app.event(&event(
        "question.asked",
        json!({
            "id": "que_1", "sessionID": "ses_1", "questions": [{
                "question": "Which database?", "header": "Database",
                "options": [option("SQLite", "one file"), option("Postgres", "a server")],
            }],
        }),
    ));
    insta::assert_snapshot!(screen_of(&app, 72, 18));
}

#[test]
fn a_list_of_sessions_shows_age_and_work() {
    let mut app = shown(&turn());
    app.event(&event("session.status", json!({ "sessionID": "ses_2", "status": { "type": "busy" } })));
    app.event(&permission("per_9", "ses_3", json!({})));
    app.key(crossterm::event::KeyEvent::new(
        crossterm::event::KeyCode::Char('l'),
        crossterm::event::KeyModifiers::CONTROL,
    ));
    let sessions = [("ses_1", "Rename the greeting"), ("ses_2", "At work"), ("ses_3", "Waits for a person")];
    app.outcome(Outcome::Sessions(sessions.map(|(id, title)| session(id, title, json!({}))).into()));
    insta::assert_snapshot!(screen_of(&app, 72, 18));
}

#[test]
fn a_retry_and_a_lost_connection_are_told_in_the_status_line() {
    let retry = json!({ "type": "retry", "attempt": 2, "message": "overloaded", "next": NOW + 2_500 });
    let mut app = shown(&[user("msg_1", 1_000), asked("Go."), status(retry)]);
    let retrying = screen_of(&app, 72, 8);
    app.lost("cut".into());
    let lost = screen_of(&app, 72, 8);
    insta::assert_snapshot!(format!("{retrying}\n{lost}"));
}

#[test]
fn any_size_can_be_drawn() {
    let mut app = shown(&turn());
    app.event(&permission("per_1", "ses_1", json!({})));
    for width in [1, 5, 20, 21, 40, 200] {
        for height in [1, 3, 8, 9, 15, 60] {
            screen_of(&app, width, height);
        }
    }
    app.picker = Some(crate::app::picker::Picker::new(crate::app::picker::Subject::Sessions, None));
    app.shows_help = true;
    for size in [(20, 8), (30, 10), (200, 60)] {
        screen_of(&app, size.0, size.1);
    }
}
