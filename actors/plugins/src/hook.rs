//! The hooks that plugins may have, under OpenCode's names. Source: `@opencode-ai/plugin`, `Hooks`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A place where plugins may change what Troupe does. Each takes an input and an output; the output may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// A message of the person is about to be stored: `{message, parts}`.
    ChatMessage,
    /// A request's settings: `{temperature, topP, topK, maxOutputTokens, options}`.
    ChatParams,
    /// A request's headers: `{headers}`.
    ChatHeaders,
    /// A command is about to be given to the model: `{parts}`.
    CommandBefore,
    /// The end of a compaction: `{enabled}`.
    CompactionAutocontinue,
    /// Something happened.
    Event,
    /// The conversation of a request: `{messages}`.
    MessagesTransform,
    /// A person is about to be asked: `{status}`.
    PermissionAsk,
    /// A summary is about to be written: `{context, prompt}`.
    SessionCompacting,
    /// A command line is about to run: `{env}`.
    ShellEnv,
    /// A request's system texts: `{system}`.
    SystemTransform,
    /// A text is complete: `{text}`.
    TextComplete,
    /// What a model is told of a tool: `{description, parameters}`.
    ToolDefinition,
    /// A call is about to run: `{args}`. An error is a refusal.
    ToolBefore,
    /// A call has run: `{title, output, metadata}`.
    ToolAfter,
}

impl Hook {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::ChatMessage,
        Self::ChatParams,
        Self::ChatHeaders,
        Self::CommandBefore,
        Self::CompactionAutocontinue,
        Self::Event,
        Self::MessagesTransform,
        Self::PermissionAsk,
        Self::SessionCompacting,
        Self::ShellEnv,
        Self::SystemTransform,
        Self::TextComplete,
        Self::ToolDefinition,
        Self::ToolBefore,
        Self::ToolAfter,
    ];

    /// Returns whether this is the name of one.
    pub fn is_name(name: &str) -> bool {
        Self::ALL.iter().any(|hook| hook.as_str() == name)
    }

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ChatMessage => "chat.message",
            Self::ChatParams => "chat.params",
            Self::ChatHeaders => "chat.headers",
            Self::CommandBefore => "command.execute.before",
            Self::CompactionAutocontinue => "experimental.compaction.autocontinue",
            Self::Event => "event",
            Self::MessagesTransform => "experimental.chat.messages.transform",
            Self::PermissionAsk => "permission.ask",
            Self::SessionCompacting => "experimental.session.compacting",
            Self::ShellEnv => "shell.env",
            Self::SystemTransform => "experimental.chat.system.transform",
            Self::TextComplete => "experimental.text.complete",
            Self::ToolDefinition => "tool.definition",
            Self::ToolBefore => "tool.execute.before",
            Self::ToolAfter => "tool.execute.after",
        }
    }

    /// Returns whether an error of it is an answer: what it looked at is not to be done.
    pub fn refuses(self) -> bool {
        self == Self::ToolBefore
    }
}

/// A plugin does not want a call to run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("The plugin {plugin} refused this call: {message}")]
pub struct Refused {
    /// The plugin.
    pub plugin: String,
    /// What it says.
    pub message: String,
}

/// What running a hook came to.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Outcome {
    /// The outputs, one for each call.
    pub outputs: Vec<Value>,
    /// What went wrong.
    #[serde(default)]
    pub problems: Vec<Problem>,
    /// It is not to be done.
    #[serde(default)]
    pub refused: Option<Refused>,
}

/// A hook that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Problem {
    pub plugin: String,
    pub message: String,
    /// The hook, where the message stands alone.
    #[serde(default)]
    pub name: Option<String>,
}
