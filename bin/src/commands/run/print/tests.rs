use std::cell::RefCell;
use std::rc::Rc;

use pretty_assertions::assert_eq;

use protocol::SessionError;

use super::*;

struct Noon;

impl Clock for Noon {
    fn now_ms(&self) -> u64 {
        12
    }
}

/// Where a test reads what was printed.
#[derive(Clone, Default)]
struct Paper(Rc<RefCell<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).expect("text")
    }

    fn output(&self, is_terminal: bool) -> Output {
        Output { to: Box::new(self.clone()), is_terminal, has_colours: is_terminal, is_closed: false }
    }
}

/// Returns what goes to the two streams.
fn printed(format: Format, is_terminal: bool, told: &[Told]) -> (String, String) {
    let (out, err) = (Paper::default(), Paper::default());
    let mut printer = Printer {
        format,
        shows_thinking: false,
        session: SessionId::parse("ses_1").expect("an id"),
        clock: Arc::new(Noon),
        author: String::new(),
        out: out.output(is_terminal),
        err: err.output(is_terminal),
    };
    told.iter().for_each(|told| printer.tell(told));
    (out.text(), err.text())
}

fn part(kind: Value) -> Told {
    let part = with(with(with(kind, "id", json!("prt_1")), "sessionID", json!("ses_1")), "messageID", json!("msg_1"));
    Told::Part(Arc::new(serde_json::from_value(part).expect("a part")))
}

fn turn() -> Vec<Told> {
    let request = json!({
        "id": "per_1", "sessionID": "ses_2", "permission": "bash", "patterns": ["echo hi"], "metadata": {}, "always": [],
    });
    let time = json!({ "start": 1, "end": 2 });
    vec![
        part(json!({ "type": "step-start" })),
        part(json!({ "type": "text", "text": "first\u{1b}[2J\n", "time": time })),
        part(json!({ "type": "reasoning", "text": "hm", "time": time })),
        part(json!({ "type": "tool", "tool": "read", "callID": "c", "state": {
            "status": "completed", "input": {}, "output": "", "title": "a.txt", "metadata": {}, "time": time,
        } })),
        part(json!({ "type": "tool", "tool": "bash", "callID": "c", "state": {
            "status": "error", "input": { "command": "echo hi" }, "error": "not allowed", "time": time,
        } })),
        Told::Permission(Arc::new(serde_json::from_value(request).expect("a request")), Reply::Reject),
        Told::Error(SessionError::unknown("broken")),
    ]
}

#[test]
fn answers_go_to_standard_output_and_all_else_beside_it() {
    let (out, err) = printed(Format::Default, false, &turn());
    assert_eq!(out, "first\u{1b}[2J\n");
    assert_eq!(
        err,
        "→ Read a.txt\n✗ $ echo hi: not allowed\n! permission requested: bash (echo hi); rejected\nError: broken\n"
    );
}

#[test]
fn a_terminal_is_not_steered_by_an_answer() {
    let (out, err) = printed(Format::Default, true, &turn());
    assert_eq!(out, "\nfirst[2J\n\n");
    assert!(err.starts_with("\u{1b}[2m→ Read a.txt\u{1b}[0m\n"), "{err:?}");
}

#[test]
fn json_is_one_object_a_line() {
    let (out, err) = printed(Format::Json, false, &turn());
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(kinds, ["step_start", "text", "tool_use", "tool_use", "permission", "error"]);
    assert_eq!((&lines[0]["timestamp"], &lines[0]["sessionID"]), (&json!(12), &json!("ses_1")));
    assert_eq!(lines[1]["part"]["text"], "first\u{1b}[2J\n");
    assert_eq!((&lines[4]["sessionID"], &lines[4]["permission"]["reply"]), (&json!("ses_2"), &json!("reject")));
    assert_eq!(lines[5]["error"], json!({ "name": "UnknownError", "data": { "message": "broken" } }));
    assert_eq!(err, "! permission requested: bash (echo hi); rejected\n");
}
