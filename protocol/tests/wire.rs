//! Recorded JSON of OpenCode 1.18 goes through our types and comes out the same: what a client reads from Troupe has
//! the shape it reads from OpenCode.
//!
//! `data/*.json` are lists of samples `{what, json}`, one for each distinct shape that was seen of a kind (names, hashes,
//! times and long texts replaced).

use std::path::Path;

use pretty_assertions::StrComparison;
use protocol::agent::Agent;
use protocol::command::Command;
use protocol::config::{Config, Share};
use protocol::event::SyncEvent;
use protocol::file::{FileContent, FileNode, FoundLine};
use protocol::project::{Places, Project, VcsInfo};
use protocol::prompt::{CommandBody, PromptBody, ShellBody};
use protocol::provider::Provider;
use protocol::question::{Answers, QuestionRequest};
use protocol::session::{CreateSession, FileDiff, UpdateSession};
use protocol::{
    Action, EventFrame, GlobalFrame, Message, MessageWithParts, Part, PermissionRequest, Rule, Session, SessionError,
    SessionStatus, Todo, permission,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Returns the samples of a file: what each is, and its JSON.
fn samples(file: &str) -> Vec<(String, Value)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    let text = std::fs::read_to_string(&path).expect("a file of samples");
    let list: Vec<Value> = serde_json::from_str(&text).expect("a list of samples");
    assert!(!list.is_empty(), "{file} has no samples");
    list.into_iter().map(|sample| (sample["what"].as_str().expect("a name").into(), sample["json"].clone())).collect()
}

/// Returns the samples of a file whose name begins with `what`.
fn samples_of(file: &str, what: &str) -> Vec<(String, Value)> {
    let some: Vec<_> = samples(file).into_iter().filter(|(name, _)| name.starts_with(what)).collect();
    assert!(!some.is_empty(), "{file} has no sample of {what}");
    some
}

/// Reads each sample as `T` and writes it again; both have to be equal. All samples that aren't are shown.
#[track_caller]
fn round_trip<T: DeserializeOwned + Serialize>(samples: Vec<(String, Value)>) {
    round_trip_but::<T>(samples, |_| {});
}

/// As [`round_trip`]; `forgive` takes out of a sample what needn't come back.
#[track_caller]
fn round_trip_but<T: DeserializeOwned + Serialize>(samples: Vec<(String, Value)>, forgive: impl Fn(&mut Value)) {
    let mut faults = Vec::new();
    for (what, sample) in samples {
        let fault = match serde_json::from_value::<T>(sample.clone()) {
            Err(error) => format!("{what} can't be read: {error}\n{sample}"),
            Ok(read) => {
                let written = plain(serde_json::to_value(read).expect("JSON"));
                let mut sample = plain(sample);
                forgive(&mut sample);
                if written == sample {
                    continue;
                }
                // Sorted, so that only what differs is shown.
                let lines = |mut value: Value| {
                    value.sort_all_objects();
                    format!("{value:#}")
                };
                format!("{what} (left: on the wire):\n{}", StrComparison::new(&lines(sample), &lines(written)))
            }
        };
        faults.push(fault);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// Makes equal numbers equal values: JSON's `0` and `0.0` are the same to a client.
fn plain(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(list) => list.into_iter().map(plain).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, plain(value))).collect(),
        value => value,
    }
}

#[test]
fn sessions() {
    round_trip::<Session>(samples("session.json"));
}

#[test]
fn messages_of_both_roles() {
    round_trip::<Message>(samples("message.json"));
}

#[test]
fn messages_with_their_parts() {
    round_trip::<MessageWithParts>(samples("message_with_parts.json"));
}

#[test]
fn parts_of_each_kind_and_tools_in_each_state() {
    round_trip::<Part>(samples("part.json"));
}

#[test]
fn errors_of_turns() {
    round_trip::<SessionError>(samples("error.json"));
}

#[test]
fn events() {
    round_trip::<EventFrame>(samples("event.json"));
}

#[test]
fn events_of_all_directories() {
    round_trip::<GlobalFrame>(samples("global_event.json"));
}

#[test]
fn numbered_copies_of_events() {
    let copies = samples("sync.json").into_iter();
    round_trip::<SyncEvent>(copies.map(|(what, frame)| (what, frame["payload"]["syncEvent"].clone())).collect());
}

#[test]
fn statuses() {
    round_trip::<SessionStatus>(samples("status.json"));
}

#[test]
fn permission_requests() {
    round_trip::<PermissionRequest>(samples("permission.json"));
}

#[test]
fn questions() {
    round_trip::<QuestionRequest>(samples("question.json"));
}

#[test]
fn to_dos() {
    round_trip::<Todo>(samples("todo.json"));
}

#[test]
fn agents() {
    // Of an agent of a file OpenCode writes `null` for what the file leaves out, against its own schema. Troupe has to
    // understand that, and leaves such keys out.
    round_trip_but::<Agent>(samples("agent.json"), |agent| {
        agent.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    });
}

#[test]
fn commands() {
    round_trip::<Command>(samples("command.json"));
}

#[test]
fn providers_with_their_models() {
    round_trip::<Provider>(samples("provider.json"));
}

#[test]
fn projects_and_places() {
    round_trip::<Project>(samples_of("project.json", "project"));
    round_trip::<Places>(samples_of("project.json", "places"));
    round_trip::<VcsInfo>(samples_of("project.json", "vcs"));
    round_trip::<FileDiff>(samples_of("project.json", "diff"));
}

#[test]
fn files() {
    round_trip::<FileNode>(samples_of("file.json", "node"));
    round_trip::<FileContent>(samples_of("file.json", "content"));
    round_trip::<FoundLine>(samples_of("file.json", "found"));
}

#[test]
fn bodies_of_requests() {
    round_trip::<CreateSession>(samples_of("request.json", "create_session"));
    round_trip::<UpdateSession>(samples_of("request.json", "update_session"));
    round_trip::<PromptBody>(samples_of("request.json", "prompt"));
    round_trip::<CommandBody>(samples_of("request.json", "command"));
    round_trip::<ShellBody>(samples_of("request.json", "shell"));
    round_trip::<permission::ReplyBody>(samples_of("request.json", "reply"));
    let answers = samples_of("request.json", "answers").into_iter();
    round_trip::<Answers>(answers.map(|(what, body)| (what, body["answers"].clone())).collect());
}

/// Configs are only read: what clients see of them is the JSON they were merged from.
#[test]
fn configs_are_read() {
    let read = |(what, json): (String, Value)| {
        serde_json::from_value::<Config>(json).unwrap_or_else(|error| panic!("{what}: {error}"))
    };
    let of_projects: Vec<_> = samples_of("config.json", "project config").into_iter().map(read).collect();
    let rules: Vec<_> = of_projects.iter().filter_map(|config| config.permission.as_ref()).map(|p| p.rules()).collect();
    let webfetch = Rule::new("webfetch", "*", Action::Deny);
    assert!(rules.iter().any(|rules| rules.contains(&webfetch)), "{rules:?}");
    assert!(of_projects.iter().any(|config| config.agent.get("build").is_some_and(|build| build.steps == Some(2))));

    let whole: Vec<_> = samples_of("config.json", "config").into_iter().map(read).collect();
    let config = whole.iter().find(|config| config.model.is_some()).expect("a config of a directory");
    assert_eq!(config.share, Some(Share::Disabled));
    let provider = &config.provider["mock"];
    assert_eq!(provider.npm.as_deref(), Some("@ai-sdk/openai-compatible"));
    assert!(provider.options.base_url.is_some());
    assert_eq!(provider.models["mock"].limit.map(|limit| (limit.context, limit.output)), Some((128_000, 8_192)));
    assert_eq!(config.agent["rev"].prompt.as_deref(), Some("You review code."));
}
