//! Events on their way out: serialised once, after what they tell is committed.

use std::sync::Arc;

use futures::future::BoxFuture;
use protocol::{EventId, MessageId, PartId, SessionId};

/// Where an event happened.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The directory; `global` for what belongs to none.
    pub directory: String,
    /// The directory's project.
    pub project: String,
}

/// An event, ready to be sent.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Ascending.
    pub id: EventId,
    /// The event's type on the wire.
    pub kind: &'static str,
    /// Where it happened.
    pub origin: Arc<Origin>,
    /// Its session.
    pub session_id: Option<SessionId>,
    /// Its number within the session and its row in the durable log, where it is durable.
    pub durable: Option<Durable>,
    /// What it says.
    pub body: Body,
}

impl Frame {
    /// Returns about how much memory it takes, in bytes.
    pub fn size(&self) -> usize {
        let body = match &self.body {
            Body::Json(properties) => properties.len(),
            Body::Delta(delta) => delta.text.len() + 128,
        };
        body + 192
    }
}

/// Where a durable event is in the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    /// From 0, without gaps, for each session.
    pub seq: u64,
    /// In the durable log of all sessions.
    pub row: u64,
}

/// What an event says.
#[derive(Clone, Debug)]
pub enum Body {
    /// Its properties as JSON.
    Json(Properties),
    /// More text of a part: kept apart, so that adjacent ones can be merged for a slow reader.
    Delta(Arc<Delta>),
}

/// Properties as JSON, in pieces: what is large is shared with the row it was made for, not copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// The beginning.
    pub head: Arc<str>,
    /// What follows it.
    pub data: Arc<str>,
    /// The end.
    pub tail: Arc<str>,
}

impl Properties {
    /// Returns properties in one piece.
    pub fn whole(json: String) -> Self {
        Self { head: json.into(), ..Self::default() }
    }

    /// Returns how long they are, in bytes.
    pub fn len(&self) -> usize {
        self.head.len() + self.data.len() + self.tail.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pieces, in order.
    pub fn pieces(&self) -> [&str; 3] {
        [&self.head, &self.data, &self.tail]
    }
}

impl std::fmt::Display for Properties {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pieces().iter().try_for_each(|piece| f.write_str(piece))
    }
}

/// More text of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The session.
    pub session_id: SessionId,
    /// The message.
    pub message_id: MessageId,
    /// The part.
    pub part_id: PartId,
    /// What is appended to its `text`.
    pub text: String,
}

/// Takes events out. Called by the journal alone, in order.
pub trait Sink: Send + Sync + 'static {
    /// Takes these events and returns when there is room for more.
    fn publish(&self, frames: Vec<Frame>) -> BoxFuture<'_, ()>;
}
