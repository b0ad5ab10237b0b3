//! Messages of a session.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

use crate::config::BudgetConfig;
use crate::error::SessionError;
use crate::id::{MessageId, SessionId};
use crate::is_false;
use crate::part::Part;
use crate::session::FileDiff;

/// A message, without its parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// Of the person (or of the runtime in the person's place).
    User(UserMessage),
    /// Of the model: one for each model request.
    Assistant(AssistantMessage),
}

/// A message of the person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Its id.
    pub id: MessageId,
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// When.
    pub time: UserTime,
    /// The shape the answer must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<OutputFormat>,
    /// What the turn changed; set when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<UserSummary>,
    /// The agent that answers.
    pub agent: String,
    /// The model that answers.
    pub model: ModelRef,
    /// More text for the system prompt of this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Tools switched on or off with this prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<IndexMap<String, bool>>,
    /// What only Troupe knows of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub troupe: Option<Box<PromptSettings>>,
}

/// What only Troupe knows of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptSettings {
    /// What the turn may spend, in place of what the config says.
    pub budget: BudgetConfig,
}

/// A message of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Its id.
    pub id: MessageId,
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// When.
    pub time: AssistantTime,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<SessionError>,
    /// The newest user message it answers.
    #[serde(rename = "parentID")]
    pub parent_id: MessageId,
    /// The model.
    #[serde(rename = "modelID")]
    pub model_id: String,
    /// The model's provider.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The agent's name (the older spelling of `agent`).
    pub mode: String,
    /// The agent's name.
    pub agent: String,
    /// Where it worked.
    pub path: MessagePath,
    /// It is the summary of a compaction.
    #[serde(default, skip_serializing_if = "is_false")]
    pub summary: bool,
    /// In US dollars.
    pub cost: f64,
    /// What it used.
    pub tokens: Tokens,
    /// The value in the demanded shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The model's variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Why it ended: `stop`, `tool-calls`, `length`, `content-filter`, `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
}

impl AssistantMessage {
    /// Returns an answer to `parent_id` that begins at `created` (ms): nothing is said, used or known of it yet.
    pub fn begun(id: MessageId, session_id: SessionId, parent_id: MessageId, created: u64) -> Self {
        Self {
            id,
            session_id,
            time: AssistantTime { created, completed: None },
            error: None,
            parent_id,
            model_id: String::new(),
            provider_id: String::new(),
            mode: String::new(),
            agent: String::new(),
            path: MessagePath::default(),
            summary: false,
            cost: 0.0,
            tokens: Tokens::default(),
            structured: None,
            variant: None,
            finish: None,
        }
    }
}

/// A message and its parts, as lists give them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageWithParts {
    /// The message.
    pub info: Arc<Message>,
    /// Its parts, in order.
    pub parts: Vec<Arc<Part>>,
}

/// Names a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelRef {
    /// The provider's key in the config.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The model's key below it.
    #[serde(rename = "modelID")]
    pub model_id: String,
    /// A named set of options (`high`, `low`…).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl ModelRef {
    /// Returns the model named `provider/model`; the provider ends at the first `/`.
    pub fn parse(text: &str) -> Option<Self> {
        let (provider, model) = text.split_once('/')?;
        (!provider.is_empty() && !model.is_empty()).then(|| Self {
            provider_id: provider.into(),
            model_id: model.into(),
            variant: None,
        })
    }
}

/// When a user message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserTime {
    /// In ms since the Unix epoch, as for all times of the wire.
    pub created: u64,
}

/// When an assistant message began and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantTime {
    /// First.
    pub created: u64,
    /// Last; missing while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<u64>,
}

/// Where an assistant message worked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagePath {
    /// The session's directory.
    pub cwd: String,
    /// The project's worktree.
    pub root: String,
}

/// What a turn changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserSummary {
    /// A title for the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A text for the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The changed files.
    pub diffs: Vec<FileDiff>,
}

/// Token counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// All of a step, as the vendor counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Read and not from a cache.
    pub input: u64,
    /// Written and not thinking.
    pub output: u64,
    /// Thinking.
    pub reasoning: u64,
    /// Cached input.
    pub cache: CacheTokens,
}

/// Token counts of the vendor's prompt cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheTokens {
    /// Read from it.
    pub read: u64,
    /// Written to it.
    pub write: u64,
}

impl Tokens {
    /// Returns the sum of all kinds. Vendors' counts are taken as they come, so it ends at the largest number.
    pub fn all(&self) -> u64 {
        let kinds = [self.input, self.output, self.reasoning, self.cache.read, self.cache.write];
        kinds.into_iter().fold(0, u64::saturating_add)
    }
}

impl std::ops::AddAssign for Tokens {
    /// Adds the counts; `total` belongs to one step and is dropped.
    fn add_assign(&mut self, other: Self) {
        self.total = None;
        let counts = [
            (&mut self.input, other.input),
            (&mut self.output, other.output),
            (&mut self.reasoning, other.reasoning),
            (&mut self.cache.read, other.cache.read),
            (&mut self.cache.write, other.cache.write),
        ];
        for (count, more) in counts {
            *count = count.saturating_add(more);
        }
    }
}

/// The shape an answer must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputFormat {
    /// Any text.
    Text,
    /// A JSON value of this schema.
    JsonSchema {
        /// The schema.
        schema: Value,
        /// How often the model may try again.
        #[serde(default, rename = "retryCount", skip_serializing_if = "Option::is_none")]
        retry_count: Option<u32>,
    },
}

impl Message {
    /// Returns the message's id.
    pub fn id(&self) -> &MessageId {
        match self {
            Self::User(m) => &m.id,
            Self::Assistant(m) => &m.id,
        }
    }

    /// Returns the session's id.
    pub fn session_id(&self) -> &SessionId {
        match self {
            Self::User(m) => &m.session_id,
            Self::Assistant(m) => &m.session_id,
        }
    }

    /// Returns when it was created.
    pub fn created(&self) -> u64 {
        match self {
            Self::User(m) => m.time.created,
            Self::Assistant(m) => m.time.created,
        }
    }

    /// Returns the user message, if it is one.
    pub fn as_user(&self) -> Option<&UserMessage> {
        match self {
            Self::User(m) => Some(m),
            Self::Assistant(_) => None,
        }
    }

    /// Returns the assistant message, if it is one.
    pub fn as_assistant(&self) -> Option<&AssistantMessage> {
        match self {
            Self::User(_) => None,
            Self::Assistant(m) => Some(m),
        }
    }
}
