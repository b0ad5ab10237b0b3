//! Events as they go over the wire: `id: BOOT-SEQ-ROW`, `data: JSON`, an empty line.

use std::fmt::Write;
use std::sync::Arc;

use actors::bus::Entry;
use bytes::{BufMut, BytesMut};
use protocol::{EventFrame, GlobalFrame};
use serde::Serialize;
use storage::store::LoggedEvent;
use storage::{Body, Delta, Frame, Origin};

/// Which events a stream carries.
#[derive(Clone, Debug)]
pub enum Scope {
    /// Those of one directory, as `{id, type, properties}`.
    Directory(String),
    /// All, as `{directory, project, payload}`, with numbered copies of durable ones.
    Everything,
}

/// Writes events of a scope.
#[derive(Debug)]
pub struct Frames {
    /// The scope.
    pub scope: Scope,
}

impl Frames {
    /// Writes events, adjacent deltas of one part as one: under the last one's id.
    pub fn entries(&self, out: &mut BytesMut, boot: &str, entries: &[Arc<Entry>]) {
        let mut wanted = entries.iter().filter(|entry| self.is_wanted(entry)).peekable();
        while let Some(entry) = wanted.next() {
            let Body::Delta(delta) = &entry.frame.body else {
                self.event(out, boot, entry, |out| properties(out, &entry.frame));
                continue;
            };
            let (mut last, mut merged) = (entry, None::<String>);
            while let Some(next) = wanted.next_if(|next| continues(next, delta)) {
                if let Body::Delta(more) = &next.frame.body {
                    merged.get_or_insert_with(|| delta.text.clone()).push_str(&more.text);
                }
                last = next;
            }
            let text = merged.as_deref().unwrap_or(&delta.text);
            self.event(out, boot, last, |out| delta_properties(out, delta, text));
        }
    }

    fn is_wanted(&self, entry: &Entry) -> bool {
        match &self.scope {
            Scope::Directory(directory) => !entry.is_copy && entry.frame.origin.directory == *directory,
            Scope::Everything => true,
        }
    }

    fn event(&self, out: &mut BytesMut, boot: &str, entry: &Entry, properties: impl FnOnce(&mut BytesMut)) {
        let frame = &entry.frame;
        put(out, format_args!("id: {boot}-{}-{}\ndata: ", entry.seq, entry.row));
        self.around(out, &frame.origin.directory, &frame.origin.project, |out| match (entry.is_copy, frame.durable) {
            (true, Some(durable)) => {
                let session = frame.session_id.as_ref().map_or("", |id| id.as_str());
                copy(out, (frame.id.as_str(), frame.kind), durable.seq, session, properties);
            }
            _ => payload(out, frame.id.as_str(), frame.kind, properties),
        });
    }

    /// Writes an event of the durable log. Its id belongs to no life of the bus: a client that comes back with it gets
    /// the log above its row.
    pub fn logged(&self, out: &mut BytesMut, event: &LoggedEvent) {
        let properties = |out: &mut BytesMut| out.put_slice(event.properties.as_bytes());
        let start = |out: &mut BytesMut| put(out, format_args!("id: log-0-{}\ndata: ", event.row));
        match &self.scope {
            Scope::Directory(directory) if *directory != event.directory => {}
            Scope::Directory(_) => {
                start(out);
                payload(out, &event.id, &event.kind, properties);
                out.put_slice(b"\n\n");
            }
            Scope::Everything => {
                // One without its copy would be a gap in the numbers: the row is done only with both.
                out.put_slice(b"data: ");
                self.around(out, &event.directory, &event.project, |out| {
                    payload(out, &event.id, &event.kind, properties)
                });
                start(out);
                self.around(out, &event.directory, &event.project, |out| {
                    copy(out, (&event.id, &event.kind), event.seq, &event.session_id, properties);
                });
            }
        }
    }

    /// Writes an event of the stream's own: without an id, so that a reconnect goes on after the last real one.
    pub fn own(&self, out: &mut BytesMut, event: &EventFrame) {
        out.put_slice(b"data: ");
        match self.scope {
            Scope::Directory(_) => json(out, event),
            Scope::Everything => {
                out.put_slice(br#"{"payload":"#);
                json(out, event);
                out.put_slice(b"}");
            }
        }
        out.put_slice(b"\n\n");
    }

    /// Writes an event of a directory that is told again; without an id too.
    pub fn elsewhere(&self, out: &mut BytesMut, origin: &Origin, event: EventFrame) {
        match &self.scope {
            Scope::Directory(directory) if *directory == origin.directory => self.own(out, &event),
            Scope::Directory(_) => {}
            Scope::Everything => {
                let (directory, project) = (Some(origin.directory.clone()), Some(origin.project.clone()));
                out.put_slice(b"data: ");
                json(out, &GlobalFrame { directory, project, payload: event });
                out.put_slice(b"\n\n");
            }
        }
    }

    /// Writes a payload with what the scope puts around it, and the frame's end.
    fn around(&self, out: &mut BytesMut, directory: &str, project: &str, payload: impl FnOnce(&mut BytesMut)) {
        match self.scope {
            Scope::Directory(_) => payload(out),
            Scope::Everything => {
                out.put_slice(br#"{"directory":"#);
                json(out, directory);
                out.put_slice(br#","project":"#);
                json(out, project);
                out.put_slice(br#","payload":"#);
                payload(out);
                out.put_slice(b"}");
            }
        }
        out.put_slice(b"\n\n");
    }
}

/// Whether an event is more text of the same part.
fn continues(entry: &Entry, delta: &Delta) -> bool {
    matches!(&entry.frame.body, Body::Delta(next) if next.part_id == delta.part_id)
}

fn payload(out: &mut BytesMut, id: &str, kind: &str, properties: impl FnOnce(&mut BytesMut)) {
    put(out, format_args!(r#"{{"id":"{id}","type":"{kind}","properties":"#));
    properties(out);
    out.put_slice(b"}");
}

/// The numbered copy of a durable event.
fn copy(out: &mut BytesMut, (id, kind): (&str, &str), seq: u64, session: &str, properties: impl FnOnce(&mut BytesMut)) {
    put(
        out,
        format_args!(
            r#"{{"type":"sync","id":"{id}","syncEvent":{{"id":"{id}","type":"{kind}.1","seq":{seq},"aggregateID":"{session}","data":"#
        ),
    );
    properties(out);
    out.put_slice(b"}}");
}

fn properties(out: &mut BytesMut, frame: &Frame) {
    match &frame.body {
        Body::Json(text) => text.pieces().iter().for_each(|piece| out.put_slice(piece.as_bytes())),
        Body::Delta(delta) => delta_properties(out, delta, &delta.text),
    }
}

fn delta_properties(out: &mut BytesMut, delta: &Delta, text: &str) {
    let Delta { session_id, message_id, part_id, .. } = delta;
    put(
        out,
        format_args!(
            r#"{{"sessionID":"{session_id}","messageID":"{message_id}","partID":"{part_id}","field":"text","delta":"#
        ),
    );
    json(out, text);
    out.put_slice(b"}");
}

fn put(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    // Writing to a growing buffer has no errors.
    let _ = out.write_fmt(text);
}

fn json(out: &mut BytesMut, value: &(impl Serialize + ?Sized)) {
    if let Err(error) = serde_json::to_writer(out.writer(), value) {
        tracing::error!(%error, "an event could not be written");
    }
}

#[cfg(test)]
mod tests;
