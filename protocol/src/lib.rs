//! The shapes Troupe speaks: ids, sessions, messages, parts, events, permissions, config, and what passes between
//! the loop and a model.
//!
//! Pure data: serde only, no IO, no async, no actors. Everything that crosses the HTTP wire has the JSON of
//! OpenCode 1.18 (v1), so that its clients work unmodified. Start at [`session`], [`message`] and [`part`] for what
//! is stored, [`event`] for what clients see, [`model`] for what a provider adapter gets and gives.

pub mod agent;
pub mod clock;
pub mod command;
pub mod config;
pub mod error;
pub mod event;
pub mod file;
pub mod id;
pub mod message;
pub mod model;
pub mod part;
pub mod permission;
pub mod project;
pub mod prompt;
pub mod provider;
pub mod question;
pub mod session;
pub mod skill;
pub mod surrogate;
pub mod todo;

pub use clock::{Clock, SystemClock};
pub use error::SessionError;
pub use event::{Event, EventFrame, GlobalFrame};
pub use id::{CallId, EventId, Ids, MessageId, PartId, PermissionId, QuestionId, SessionId};
pub use message::{AssistantMessage, Message, MessageWithParts, UserMessage};
pub use part::{Part, PartKind, ToolState};
pub use permission::{Action, PermissionRequest, Rule, Ruleset};
pub use session::{Session, SessionStatus};
pub use todo::Todo;

/// A JSON object, key order kept.
pub type JsonMap = serde_json::Map<String, serde_json::Value>;

/// Returns whether a flag is unset; for `skip_serializing_if`.
pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Reads a value that was given, `null` included: for fields that tell "not there" from "there and null".
pub(crate) fn given<'de, T: serde::Deserialize<'de>, D: serde::Deserializer<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

/// Reads a value where `null` stands for its default.
pub(crate) fn or_default<'de, T, D>(d: D) -> Result<T, D::Error>
where
    T: serde::Deserialize<'de> + Default,
    D: serde::Deserializer<'de>,
{
    <Option<T> as serde::Deserialize>::deserialize(d).map(Option::unwrap_or_default)
}
