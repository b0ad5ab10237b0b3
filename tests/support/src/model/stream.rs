//! A step as what is written to the socket, in order.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::gate::Gate;
use super::step::{At, Body, Chunks, Finish, Mark, Piece, Step, Turn};

/// One thing to do with the connection. After the last the body is ended properly.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Head { status: u16, headers: Vec<(String, String)> },
    Write(Bytes),
    Wait(Duration),
    Gate(Gate),
    Hang,
    Cut,
    Reset,
}

/// Returns a value as a server-sent event; a string is sent bare.
pub(super) fn frame(value: &Value) -> String {
    match value {
        Value::String(text) => format!("data: {text}\n\n"),
        value => format!("data: {value}\n\n"),
    }
}

/// Returns what answers one request. `serial` makes ids unique, `model` is the name the request gave.
pub(super) fn actions(step: &Step, serial: u64, model: &str) -> Vec<Action> {
    let mut out = Out { step, actions: Vec::new() };
    if let Some(time) = step.first {
        out.actions.push(Action::Wait(time));
    }
    out.marks(At::Head);
    let mut headers = step.headers.clone();
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        headers.push(("content-type".into(), "text/event-stream".into()));
    }
    out.actions.push(Action::Head { status: step.status, headers });
    match &step.body {
        Body::Turn(turn) => out.turn(turn, &format!("r{serial}"), model),
        Body::Raw { pieces, bytewise } => out.raw(pieces, *bytewise),
    }
    out.actions
}

struct Out<'a> {
    step: &'a Step,
    actions: Vec<Action>,
}

impl Out<'_> {
    fn turn(&mut self, turn: &Turn, id: &str, model: &str) {
        let chunk = |delta: Value, finish: Option<&str>| {
            json!({
                "id": id, "object": "chat.completion.chunk", "created": 1, "model": model,
                "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
            })
        };
        self.marks(At::Start);
        self.send(&chunk(json!({ "role": "assistant", "content": "" }), None));
        if let Some(reasoning) = &turn.reasoning {
            self.send(&chunk(json!({ "reasoning_content": reasoning }), None));
        }
        let pieces = turn.text.as_deref().map(|text| match turn.chunks {
            Chunks::Split(count) => split(text, count),
            Chunks::Repeat(count) => vec![text; count],
        });
        for (i, piece) in pieces.into_iter().flatten().enumerate() {
            self.send(&chunk(json!({ "content": piece }), None));
            self.marks(At::Text(i + 1));
            self.pause();
        }
        for (i, call) in turn.calls.iter().enumerate() {
            let call_id = call.id.clone().unwrap_or_else(|| format!("call_{id}_{i}"));
            let function = json!({ "name": call.name, "arguments": "" });
            let opening = json!({ "index": i, "id": call_id, "type": "function", "function": function });
            self.send(&chunk(json!({ "tool_calls": [opening] }), None));
            self.marks(At::CallName(i));
            for piece in split(&call.arguments, call.pieces) {
                let more = json!({ "index": i, "function": { "arguments": piece } });
                self.send(&chunk(json!({ "tool_calls": [more] }), None));
            }
            self.marks(At::Call(i));
        }
        self.marks(At::End);
        let fitting = if turn.calls.is_empty() { "stop" } else { "tool_calls" };
        match &turn.finish {
            Finish::Fitting => self.send(&chunk(json!({}), Some(fitting))),
            Finish::Reason(reason) => self.send(&chunk(json!({}), Some(reason))),
            Finish::Missing => {}
        }
        let usage = turn.usage;
        let mut counts = json!({
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
        });
        if let Some(cached) = usage.cached {
            counts["prompt_tokens_details"] = json!({ "cached_tokens": cached });
        }
        if let Some(reasoning) = usage.reasoning {
            counts["completion_tokens_details"] = json!({ "reasoning_tokens": reasoning });
        }
        self.send(&json!({
            "id": id, "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [], "usage": counts,
        }));
        self.send(&json!("[DONE]"));
    }

    fn raw(&mut self, pieces: &[Piece], bytewise: bool) {
        self.marks(At::Start);
        let mut sent = 0;
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => {
                    let width = if bytewise { 1 } else { bytes.len().max(1) };
                    self.actions.extend(bytes.chunks(width).map(|part| Action::Write(bytes.slice_ref(part))));
                    sent += 1;
                    self.marks(At::Text(sent));
                    self.pause();
                }
                Piece::Gate(gate) => self.actions.push(Action::Gate(gate.clone())),
                Piece::Wait(time) => self.actions.push(Action::Wait(*time)),
            }
        }
        self.marks(At::End);
    }

    fn send(&mut self, value: &Value) {
        self.actions.push(Action::Write(frame(value).into()));
    }

    fn pause(&mut self) {
        self.actions.extend(self.step.every.map(Action::Wait));
    }

    fn marks(&mut self, here: At) {
        for (at, mark) in &self.step.marks {
            if *at == here {
                self.actions.push(match mark {
                    Mark::Gate(gate) => Action::Gate(gate.clone()),
                    Mark::Hang => Action::Hang,
                    Mark::Cut => Action::Cut,
                    Mark::Reset => Action::Reset,
                });
            }
        }
    }
}

/// Returns `text` in at most `count` pieces of about equal length, none empty, cut between characters.
fn split(text: &str, count: usize) -> Vec<&str> {
    let total = text.chars().count();
    let width = total.div_ceil(count.max(1)).max(1);
    let mut rest = text;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let end = rest.char_indices().nth(width).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn text_is_split_between_characters_and_nothing_is_lost() {
        assert_eq!(split("añbñc", 2), ["añb", "ñc"]);
        assert_eq!(split("ab", 9), ["a", "b"]);
        assert_eq!(split("", 3), [""; 0]);
    }
}
