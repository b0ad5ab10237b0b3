//! What a tool is given with a call, and what it can ask of the runtime.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use protocol::permission::{Action, Rule};
use protocol::question::{Answers, Question};
use protocol::{CallId, JsonMap, MessageId, SessionId, Todo};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::diagnostics::Diagnosed;
use crate::error::ToolError;
use crate::files::Files;
use crate::lsp::LanguageQuestion;
use crate::process::{ProcessGroup, Processes};
use crate::tool::ToolOutput;

/// Everything a tool call has besides its arguments.
#[derive(Clone)]
pub struct ToolContext {
    /// The session that calls.
    pub session_id: SessionId,
    /// The assistant message that holds the call.
    pub message_id: MessageId,
    /// The call.
    pub call_id: CallId,
    /// The agent that calls; empty where the person does.
    pub agent: String,
    /// Where it works.
    pub place: Arc<Place>,
    /// The way to the runtime and the person.
    pub desk: Arc<dyn Desk>,
    /// Cancelled when the call is aborted or out of time. Blocking work looks at it at least every 50 ms.
    pub cancel: CancellationToken,
    /// The locks of files that are being written, and what the session has seen of them.
    pub files: Files,
    /// Starts child processes that never outlive their owner.
    pub processes: Processes,
    /// For fetches.
    pub http: reqwest::Client,
    /// Where the session's plan is to be written, absolute.
    pub plan: PathBuf,
}

/// Where a tool works: the same for all calls of a directory.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The session's directory; relative paths count from here.
    pub directory: PathBuf,
    /// The top of its repository; the directory itself where there is none. Paths below it are inside.
    pub worktree: PathBuf,
    /// Whether there is a repository.
    pub is_repository: bool,
    /// Where whole outputs are kept that were cut for the model; reading there is always inside.
    pub spill: PathBuf,
    /// The settings.
    pub config: Arc<protocol::config::Config>,
}

/// What a tool needs from above it. The executor answers. A desk that can't do a thing leaves it out: who asks for it is
/// told that the call was aborted.
pub trait Desk: Send + Sync {
    /// Asks for a permission and waits: for a rule at once, for a person as long as it takes.
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<(), Refusal>>;

    /// Puts questions to the person and waits for the answers.
    fn question(&self, _questions: Vec<Question>) -> BoxFuture<'_, Result<Answers, Refusal>> {
        Box::pin(async { Err(Refusal::Withdrawn) })
    }

    /// Says that effects begin: returns when that is stored, so that after a crash the call is known to have begun.
    /// All asks come before it.
    fn begin(&self) -> BoxFuture<'_, Result<Effects, ToolError>>;

    /// Shows how far the call is. The last one counts; the executor bounds the rate.
    fn progress(&self, _progress: Progress) {}

    /// Returns the session's to-do list.
    fn todo_list(&self) -> BoxFuture<'_, Result<Vec<Todo>, ToolError>> {
        Box::pin(async { Err(ToolError::Aborted) })
    }

    /// Gives the session's next step to another agent, with a message for it; returns when that is stored. Said twice
    /// by one call it is one message.
    fn hand_over<'a>(&'a self, _agent: &'a str, _message: String) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async { Err(ToolError::Aborted) })
    }

    /// Says that a call inside of this one is about to run. Returns its arguments as the person's plugins want them; an
    /// error is their refusal.
    fn before<'a>(&'a self, _tool: &'a str, input: JsonMap) -> BoxFuture<'a, Result<JsonMap, ToolError>> {
        Box::pin(async { Ok(input) })
    }

    /// Says that a call inside of this one has run. Returns its output as the person's plugins want it.
    fn after<'a>(&'a self, _tool: &'a str, _input: JsonMap, output: ToolOutput) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async { output })
    }

    /// Returns variables that a command line in `directory` is run with, besides the inherited ones.
    fn shell_env(&self, _directory: &std::path::Path) -> BoxFuture<'_, Vec<(String, String)>> {
        Box::pin(async { Vec::new() })
    }

    /// Replaces the session's to-do list.
    fn todos(&self, _todos: Vec<Todo>) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async { Err(ToolError::Aborted) })
    }

    /// Says that a file was written (absolute path).
    fn file_edited(&self, _path: &std::path::Path) {}

    /// Says that a file was looked at (absolute path): who knows its language may get ready for it.
    fn file_read(&self, _path: &std::path::Path) {}

    /// Returns what language servers say of files that were just written or removed (absolute paths), in bounded time.
    /// Nothing where there is no server for them.
    fn diagnose(&self, _written: Vec<PathBuf>) -> BoxFuture<'_, Diagnosed> {
        Box::pin(async { Diagnosed::default() })
    }

    /// Puts a question to the language servers of a file.
    fn ask_language_servers(&self, _question: LanguageQuestion) -> BoxFuture<'_, Result<Vec<Value>, ToolError>> {
        Box::pin(async { Err(ToolError::Aborted) })
    }

    /// Gives work to a subagent and waits for its answer.
    fn delegate(&self, _delegation: Delegation) -> BoxFuture<'_, Result<Delegated, ToolError>> {
        Box::pin(async { Err(ToolError::Aborted) })
    }

    /// Records that a process group was started for the call, so that a later run of the service can end it.
    fn process_started(&self, _group: ProcessGroup) {}

    /// Records that nothing of a process group is left.
    fn process_ended(&self, _group: ProcessGroup) {}
}

/// Work for a subagent.
#[derive(Clone, Debug, PartialEq)]
pub struct Delegation {
    /// A few words for a person.
    pub description: String,
    /// What it is told.
    pub prompt: String,
    /// Which agent does it.
    pub agent: String,
    /// An earlier subagent's session to go on with.
    pub resume: Option<SessionId>,
    /// Nobody waits for its answer: that comes to the session as a message of its own.
    pub background: bool,
}

/// What a subagent answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Delegated {
    /// Its session.
    pub session_id: SessionId,
    /// Its last words, or why it failed; nothing of one in the background.
    pub answer: Result<String, String>,
}

/// Proof that [`Desk::begin`] was awaited. What changes the world (writing a file, starting a process) demands it.
#[derive(Clone, Debug)]
pub struct Effects(());

impl Effects {
    /// Returns the proof. For implementors of [`Desk`] only: the beginning must be stored before.
    pub fn stored() -> Self {
        Self(())
    }
}

/// A request for a permission.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Which: `edit`, `bash`, `external_directory`…
    pub permission: String,
    /// For what; each is judged alone, the strictest verdict wins.
    pub patterns: Vec<String>,
    /// What is meant as well: it is denied, or asked for, by rules that speak of it, and not by those that speak of all.
    pub aside: Vec<String>,
    /// What a reply `always` allows from then on.
    pub always: Vec<String>,
    /// What a person wants to see.
    pub metadata: JsonMap,
    /// The mildest verdict possible: [`Action::Ask`] for what can't be judged with certainty. A reply `always` quiets it
    /// for what the metadata's [`EXACTLY`] says, if that is there: no pattern does.
    pub floor: Action,
}

/// In the metadata of a request whose floor is raised: the very thing that is asked for, and where, as one text.
pub const EXACTLY: &str = "exactly";

impl Ask {
    /// Returns a request that rules alone decide.
    pub fn new(permission: impl Into<String>, patterns: Vec<String>, always: Vec<String>, metadata: JsonMap) -> Self {
        Self { permission: permission.into(), patterns, aside: Vec::new(), always, metadata, floor: Action::Allow }
    }
}

/// How far a call is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// For a person.
    pub title: Option<String>,
    /// What clients draw from (bash: `output`).
    pub metadata: JsonMap,
}

/// Why a call may not run. The text is for the model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// A rule says no.
    #[error(
        "A permission rule forbids this call: {permission} is denied for `{}`. The rules that speak of it are \
         {}; the last one that matches wins. Do it another way, or leave it.",
        brief(pattern),
        listed(rules)
    )]
    Denied {
        /// The permission.
        permission: String,
        /// The part of the call it forbids.
        pattern: String,
        /// The rules that speak of the permission, the deciding one among them.
        rules: Vec<Rule>,
    },
    /// A plugin says no.
    #[error("A plugin forbids this call: {permission} for {}. Do it another way, or leave it.", brief(&patterns.join(", ")))]
    ByPlugin {
        /// The permission.
        permission: String,
        /// What for.
        patterns: Vec<String>,
    },
    /// A person said no; the turn stops.
    #[error("The person rejected this call.")]
    Rejected,
    /// A person said no, and why; the turn goes on.
    #[error("The person rejected this call and says: {0}")]
    Corrected(String),
    /// A person did not want to answer; the turn stops.
    #[error("The person closed the question without an answer.")]
    Dismissed,
    /// The asker's session is gone, or the desk: nobody decided.
    #[error("the request was withdrawn before anybody decided")]
    Withdrawn,
}

/// Most characters quoted of what is refused; the model knows what it called.
const MAX_QUOTED: usize = 300;

fn brief(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

/// Rules as OpenCode lists them: JSON, with the pattern last where a rule speaks of everything.
fn listed(rules: &[Rule]) -> String {
    let json = |rule: &Rule| {
        let quote = |text: &str| serde_json::Value::from(text).to_string();
        let action = serde_json::to_string(&rule.action).unwrap_or_default();
        let (permission, pattern) = (quote(&rule.permission), quote(&rule.pattern));
        if rule.permission == "*" {
            format!(r#"{{"permission":{permission},"action":{action},"pattern":{pattern}}}"#)
        } else {
            format!(r#"{{"permission":{permission},"pattern":{pattern},"action":{action}}}"#)
        }
    };
    format!("[{}]", rules.iter().map(json).collect::<Vec<_>>().join(","))
}

impl Refusal {
    /// Returns whether the turn stops with it.
    pub fn stops_turn(&self) -> bool {
        matches!(self, Self::Rejected | Self::Dismissed)
    }
}

impl ToolContext {
    /// Asks for a permission. See [`Desk::ask`].
    pub async fn ask(&self, ask: Ask) -> Result<(), ToolError> {
        Ok(self.desk.ask(ask).await?)
    }

    /// Returns what language servers say of files that were just written; nothing once the call is aborted.
    pub(crate) async fn diagnose(&self, written: Vec<PathBuf>) -> Diagnosed {
        tokio::select! {
            diagnosed = self.desk.diagnose(written) => diagnosed,
            () = self.cancel.cancelled() => Diagnosed::default(),
        }
    }

    /// Says that effects begin. See [`Desk::begin`].
    pub async fn begin(&self) -> Result<Effects, ToolError> {
        self.desk.begin().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_quotes_the_beginning_of_a_long_call() {
        let (short, long) = ("é".repeat(MAX_QUOTED), "é".repeat(100_000));
        let denied =
            |pattern: &str| Refusal::Denied { permission: "bash".into(), pattern: pattern.into(), rules: Vec::new() };
        assert!(denied(&short).to_string().contains(&format!("`{short}`")));
        let by_plugin = Refusal::ByPlugin { permission: "bash".into(), patterns: vec![long.clone()] };
        for refusal in [denied(&long), by_plugin] {
            let told = refusal.to_string();
            assert!(told.contains(&format!("{short}…")) && told.len() < 1000, "{told}");
        }
    }
}
