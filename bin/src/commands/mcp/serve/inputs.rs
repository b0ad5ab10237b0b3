//! What the tools take. The doc comments of the fields are what the calling agent reads.

use std::time::Duration;

use protocol::permission::Reply;
use schemars::JsonSchema;
use serde::Deserialize;

/// How long is waited where a call doesn't say: shorter than clients wait for an answer by default (60 s).
const WAIT: u64 = 45;
/// The longest wait in seconds.
const LONGEST: u64 = 600;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSession {
    /// The directory it works in (default: the one Troupe was started for)
    pub directory: Option<String>,
    /// A title; without one it is named after its first prompt
    pub title: Option<String>,
    /// The agent of its prompts
    pub agent: Option<String>,
    /// The model of its prompts, as PROVIDER/MODEL
    pub model: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// The session
    pub session_id: String,
    /// What it shall do, or a word about what it did
    pub text: String,
    /// Another agent, from now on
    pub agent: Option<String>,
    /// Another model, from now on, as PROVIDER/MODEL
    pub model: Option<String>,
    /// Seconds to wait for the turn's end (default: 45, at most 600); 0 returns at once. The work goes on afterwards
    /// all the same
    pub wait_seconds: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The session
    pub session_id: String,
    /// Seconds to wait until it is idle or waits for an answer (default: 0, at most 600)
    pub wait_seconds: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadMessages {
    /// The session
    pub session_id: String,
    /// How many of the newest messages (default: 10, at most 100)
    pub limit: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerPermission {
    /// The session, as it was prompted
    pub session_id: String,
    /// The request, as `status` names it
    pub permission_id: String,
    /// `once` allows this call, `always` also later ones like it in this session, `reject` refuses all the session has
    /// asked for
    #[schemars(schema_with = "replies")]
    pub reply: Reply,
    /// With `reject`: why, and what to do instead; the turn then goes on
    pub message: Option<String>,
    /// Seconds to wait for what comes of it, as with `prompt`
    pub wait_seconds: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerQuestion {
    /// The session, as it was prompted
    pub session_id: String,
    /// The request, as `status` names it
    pub question_id: String,
    /// For each of its questions, in order, the chosen labels or words of your own; left out, they stay without an answer
    pub answers: Option<Vec<Vec<String>>>,
    /// Seconds to wait for what comes of it, as with `prompt`
    pub wait_seconds: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Abort {
    /// The session
    pub session_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListSessions {
    /// The directory (default: the one Troupe was started for)
    pub directory: Option<String>,
    /// Words in the title
    pub search: Option<String>,
    /// How many (default: 20, at most 100)
    pub limit: Option<u32>,
}

fn replies(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "enum": ["once", "always", "reject"] })
}

/// Returns how long a call that begins or continues work waits.
pub fn wait(seconds: Option<u64>) -> Duration {
    Duration::from_secs(seconds.unwrap_or(WAIT).min(LONGEST))
}
