//! The calls of one answer: which piece belongs to which, and when one is whole.
//!
//! By the vendor's documents each piece has the index of its call, and the first piece of a call its id and name. In the
//! field the index is missing or always 0, the id is missing, empty, equal for all or new in each piece, the name comes
//! late or in each piece, and arguments are objects. What is certain decides first; see [`Calls::find`].

use protocol::model::ModelEvent;
use protocol::{CallId, JsonMap};
use serde_json::value::RawValue;
use serde_json::{Value, error::Category};

use super::text::{Pieces, whole};
use super::wire::CallDelta;
use crate::IdSource;

/// Stands for the name of a call that has none, so that it can go into the history.
const NAMELESS: &str = "unknown";

/// The calls so far.
#[derive(Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
}

struct Call {
    index: Option<u64>,
    /// As the vendor gave it; empty if not.
    vendor_id: String,
    id: CallId,
    tool: String,
    /// The piece of the answer its newest piece came with.
    chunk: u64,
    arguments: String,
    pieces: Pieces,
    metadata: Option<JsonMap>,
    started: bool,
    closed: bool,
}

/// A piece of a call, read.
struct Piece<'a> {
    index: Option<u64>,
    id: String,
    tool: String,
    arguments: Option<&'a RawValue>,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With a finish reason.
    Finished,
    /// With `[DONE]` alone.
    Marked,
    /// With neither.
    Lost,
}

/// What arguments are.
enum Arguments {
    Object(JsonMap),
    /// They break off.
    Cut(String),
    /// They are no JSON object.
    Broken(String),
}

impl Calls {
    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes a piece of a call that came with piece `chunk` of the answer.
    pub(super) fn take(&mut self, delta: &CallDelta<'_>, chunk: u64, ids: &IdSource, out: &mut Vec<ModelEvent>) {
        let function = delta.function.as_ref();
        let piece = Piece {
            index: delta.index.and_then(|raw| raw.get().trim_matches('"').parse().ok()),
            id: id(delta.id),
            tool: whole(function.and_then(|function| function.name)),
            arguments: function.and_then(|function| function.arguments),
        };
        let at = match self.find(&piece, chunk) {
            Some(at) => at,
            None => {
                if piece.is_bare() && piece.has_no_arguments() {
                    return;
                }
                self.close_whole(out);
                self.begin(&piece, ids)
            }
        };
        let Some(call) = self.calls.get_mut(at).filter(|call| !call.closed) else { return };
        call.chunk = chunk;
        if call.vendor_id.is_empty() {
            call.vendor_id = piece.id;
        }
        if call.tool.is_empty() {
            call.tool = piece.tool;
        }
        if let Some(raw) = piece.arguments {
            call.add(raw);
        }
        if let Some(extra) = delta.extra_content.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()) {
            call.metadata.get_or_insert_default().insert("extra_content".into(), extra);
        }
        if !call.started && !call.tool.is_empty() {
            call.started = true;
            out.push(ModelEvent::CallStart { id: call.id.clone(), tool: call.tool.clone() });
        }
    }

    /// Gives the calls whose arguments are a whole object by now.
    pub(super) fn close_whole(&mut self, out: &mut Vec<ModelEvent>) {
        for call in self.calls.iter_mut().filter(|call| !call.closed && call.may_be_whole()) {
            if let Arguments::Object(input) = read(&call.arguments) {
                call.close(Arguments::Object(input), out);
            }
        }
    }

    /// Returns whether the arguments of a call break off without a reason of the model's: how the answer ended tells.
    pub(super) fn break_off(&self, end: End) -> bool {
        let cut = |call: &Call| matches!(read(&call.arguments), Arguments::Cut(_));
        self.calls.iter().filter(|call| !call.closed).any(|call| match end {
            End::Finished => false,
            End::Marked => cut(call),
            End::Lost => call.arguments.trim().is_empty() || cut(call),
        })
    }

    /// Gives all the calls that are left.
    pub(super) fn close(&mut self, out: &mut Vec<ModelEvent>) {
        for call in self.calls.iter_mut().filter(|call| !call.closed) {
            call.close(read(&call.arguments), out);
        }
    }

    /// Returns the call that `piece` goes on with; none if it begins one.
    fn find(&self, piece: &Piece<'_>, chunk: u64) -> Option<usize> {
        let newest = |wanted: &dyn Fn(&Call) -> bool| self.calls.iter().rposition(wanted);
        // Without an index the id says which; without either it is the newest.
        let at = match piece.index {
            Some(_) => newest(&|call| call.index == piece.index)
                .or_else(|| newest(&|call| call.index.is_none() && !call.closed).filter(|_| piece.is_bare())),
            None => newest(&|call| !piece.id.is_empty() && call.vendor_id == piece.id).or_else(|| newest(&|_| true)),
        }?;
        let call = self.calls.get(at)?;
        let named = !piece.tool.is_empty() && !call.tool.is_empty();
        let same_id = !piece.id.is_empty() && piece.id == call.vendor_id;
        let other_id = !piece.id.is_empty() && !call.vendor_id.is_empty() && !same_id;
        let again = || same_id && piece.adds_nothing(call);
        let goes_on = if other_id {
            // An id in each piece, new each time: without a name it can't begin a call, and this one isn't whole.
            piece.tool.is_empty() && !call.closed && !call.arguments.is_empty() && !call.is_whole()
        } else if !named {
            true
        } else if same_id && piece.index.is_some() {
            // Index, id and name are equal: it is this call, but for whole arguments behind whole ones.
            !call.is_whole() || again()
        } else if same_id || call.arguments.trim().is_empty() {
            // The name once more: a server that repeats it with each piece, or two calls in one piece of the answer.
            call.tool == piece.tool && call.chunk != chunk && (!call.is_whole() || again())
        } else {
            !call.is_whole()
        };
        goes_on.then_some(at)
    }

    fn begin(&mut self, piece: &Piece<'_>, ids: &IdSource) -> usize {
        let taken = |id: &str| self.calls.iter().any(|call| call.id.as_str() == id);
        let id = if piece.id.is_empty() || taken(&piece.id) { ids() } else { CallId::new(piece.id.as_str()) };
        self.calls.push(Call {
            index: piece.index,
            vendor_id: piece.id.clone(),
            id,
            tool: String::new(),
            chunk: 0,
            arguments: String::new(),
            pieces: Pieces::default(),
            metadata: None,
            started: false,
            closed: false,
        });
        self.calls.len() - 1
    }
}

impl Piece<'_> {
    /// Returns whether it has arguments only.
    fn is_bare(&self) -> bool {
        self.id.is_empty() && self.tool.is_empty()
    }

    fn has_no_arguments(&self) -> bool {
        self.arguments.is_none_or(|raw| argument_text(&mut Pieces::default(), raw).trim().is_empty())
    }

    /// Returns whether it says only what the call has, as a last piece that repeats the whole call does.
    fn adds_nothing(&self, call: &Call) -> bool {
        self.has_no_arguments()
            || self.arguments.is_some_and(|raw| argument_text(&mut Pieces::default(), raw) == call.arguments)
    }
}

impl Call {
    fn add(&mut self, raw: &RawValue) {
        let text = argument_text(&mut self.pieces, raw);
        // The whole call once more.
        if !text.is_empty() && text == self.arguments && self.is_whole() {
            return;
        }
        self.arguments.push_str(&text);
    }

    /// A cheap look before a dear one.
    fn may_be_whole(&self) -> bool {
        self.arguments.trim_end().ends_with('}')
    }

    fn is_whole(&self) -> bool {
        self.closed || self.may_be_whole() && matches!(read(&self.arguments), Arguments::Object(_))
    }

    fn close(&mut self, arguments: Arguments, out: &mut Vec<ModelEvent>) {
        self.closed = true;
        let id = self.id.clone();
        let nameless = self.tool.is_empty();
        if nameless {
            self.tool = NAMELESS.into();
        }
        let tool = self.tool.clone();
        if !self.started {
            out.push(ModelEvent::CallStart { id: id.clone(), tool: tool.clone() });
        }
        out.push(match arguments {
            _ if nameless => {
                let error = "the call names no tool".into();
                ModelEvent::CallBroken { id, tool, raw: self.arguments.clone(), error }
            }
            Arguments::Object(input) => ModelEvent::Call { id, tool, input, metadata: self.metadata.take() },
            Arguments::Cut(error) | Arguments::Broken(error) => {
                ModelEvent::CallBroken { id, tool, raw: self.arguments.clone(), error }
            }
        });
    }
}

fn id(raw: Option<&RawValue>) -> String {
    match raw.map(RawValue::get) {
        // Some servers count.
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => number.to_owned(),
        _ => whole(raw),
    }
}

/// Returns the text of a piece of arguments; that of an object is its JSON.
fn argument_text(pieces: &mut Pieces, raw: &RawValue) -> String {
    match raw.get() {
        text if text.starts_with('"') => pieces.take(raw),
        json => json.to_owned(),
    }
}

/// Reads arguments. Nothing, or `null`, is an empty object; an object inside a JSON string is one too.
fn read(text: &str) -> Arguments {
    if text.trim().is_empty() {
        return Arguments::Object(JsonMap::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(input)) => Arguments::Object(input),
        Ok(Value::Null) => Arguments::Object(JsonMap::new()),
        Ok(Value::String(inner)) => match serde_json::from_str(&inner) {
            Ok(Value::Object(input)) => Arguments::Object(input),
            _ => Arguments::Broken("the arguments are a JSON string, not a JSON object".into()),
        },
        Ok(_) => Arguments::Broken("the arguments are JSON, but not a JSON object".into()),
        Err(error) if error.classify() == Category::Eof => {
            Arguments::Cut(format!("the arguments are invalid JSON: they break off ({error})"))
        }
        Err(error) => Arguments::Broken(format!("the arguments are invalid JSON: {error}")),
    }
}
