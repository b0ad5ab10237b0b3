//! The calls of one answer, as they grow: arguments come in pieces, and are given once they are whole.

use protocol::model::ModelEvent;
use protocol::surrogate::without_lone_surrogates;
use protocol::{CallId, JsonMap};
use serde_json::value::RawValue;
use serde_json::{Value, error::Category};

use crate::text::Pieces;

/// Stands for the name of a call that has none, so that it can go into the history.
pub(crate) const NAMELESS: &str = "unknown";

/// The calls so far, each with what its vendor tells it by.
pub(crate) struct Calls<K> {
    entries: Vec<(K, Call)>,
}

/// One call.
pub(crate) struct Call {
    pub(crate) id: CallId,
    /// Empty until it is known.
    pub(crate) tool: String,
    /// Sent back with it.
    pub(crate) metadata: Option<JsonMap>,
    arguments: String,
    pieces: Pieces,
    started: bool,
    closed: bool,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With a finish reason.
    Finished,
    /// With a mark that says no more than that it is over.
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

impl<K> Default for Calls<K> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<K> Calls<K> {
    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns a number that grows with each call and each piece of one.
    pub(crate) fn size(&self) -> usize {
        self.entries.iter().map(|(_, call)| 1 + call.tool.len() + call.arguments.len()).sum()
    }

    /// Returns the place of the newest call for which this holds.
    pub(crate) fn newest(&self, wanted: impl Fn(&K, &Call) -> bool) -> Option<usize> {
        self.entries.iter().rposition(|(key, call)| wanted(key, call))
    }

    /// Returns the call at a place.
    pub(crate) fn get(&self, at: usize) -> Option<&(K, Call)> {
        self.entries.get(at)
    }

    /// Returns the call at a place.
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut (K, Call)> {
        self.entries.get_mut(at)
    }

    /// Adds a call and returns its place. `vendor_id` is its id unless it is empty or another has it.
    pub(crate) fn begin(&mut self, key: K, vendor_id: &str, ids: &crate::IdSource) -> usize {
        let taken = self.entries.iter().any(|(_, call)| call.id.as_str() == vendor_id);
        let id = if vendor_id.is_empty() || taken { ids() } else { CallId::new(vendor_id) };
        self.entries.push((key, Call::new(id)));
        self.entries.len() - 1
    }

    /// Gives the calls whose arguments are a whole object by now.
    pub(crate) fn close_whole(&mut self, out: &mut Vec<ModelEvent>) {
        for (_, call) in self.entries.iter_mut().filter(|(_, call)| !call.closed && call.may_be_whole()) {
            if let Arguments::Object(input) = read(&call.arguments) {
                call.end(Arguments::Object(input), out);
            }
        }
    }

    /// Returns whether the arguments of a call break off without a reason of the model's: how the answer ended tells.
    pub(crate) fn break_off(&self, end: End) -> bool {
        let cut = |call: &Call| matches!(read(&call.arguments), Arguments::Cut(_));
        self.entries.iter().filter(|(_, call)| !call.closed).any(|(_, call)| match end {
            End::Finished => false,
            End::Marked => cut(call),
            End::Lost => call.arguments.trim().is_empty() || cut(call),
        })
    }

    /// Gives all the calls that are left.
    pub(crate) fn close(&mut self, out: &mut Vec<ModelEvent>) {
        self.entries.iter_mut().for_each(|(_, call)| call.close(out));
    }
}

impl Call {
    fn new(id: CallId) -> Self {
        Self {
            id,
            tool: String::new(),
            metadata: None,
            arguments: String::new(),
            pieces: Pieces::default(),
            started: false,
            closed: false,
        }
    }

    /// Returns whether it was given.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns the arguments so far.
    pub(crate) fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Sets the name if it has none, and says that it began once there is one. Before there are arguments a name may
    /// come in pieces, or longer than before.
    pub(crate) fn name(&mut self, tool: &str, out: &mut Vec<ModelEvent>) {
        if self.tool.is_empty() || self.arguments.is_empty() && tool.starts_with(&self.tool) {
            tool.clone_into(&mut self.tool);
        } else if self.arguments.is_empty() && !self.tool.ends_with(tool) {
            self.tool.push_str(tool);
        }
        if !self.started && !self.tool.is_empty() {
            self.started = true;
            out.push(ModelEvent::CallStart { id: self.id.clone(), tool: self.tool.clone() });
        }
    }

    /// Adds a piece of arguments. One that says the whole call again changes nothing.
    pub(crate) fn add(&mut self, raw: &RawValue) {
        let text = argument_text(&mut self.pieces, raw);
        if !text.is_empty() && text == self.arguments && self.is_whole() {
            return;
        }
        self.arguments.push_str(&text);
    }

    /// Takes the arguments whole, in place of the pieces.
    pub(crate) fn replace(&mut self, raw: &RawValue) {
        let text = argument_text(&mut Pieces::default(), raw);
        if !text.trim().is_empty() && !self.closed {
            self.arguments = text;
        }
    }

    /// Returns whether its arguments are an object, or it was given.
    pub(crate) fn is_whole(&self) -> bool {
        self.closed || self.may_be_whole() && matches!(read(&self.arguments), Arguments::Object(_))
    }

    /// Gives it as it is, once.
    pub(crate) fn close(&mut self, out: &mut Vec<ModelEvent>) {
        if !self.closed {
            self.end(read(&self.arguments), out);
        }
    }

    /// A cheap look before a dear one.
    fn may_be_whole(&self) -> bool {
        self.arguments.trim_end().ends_with('}')
    }

    fn end(&mut self, arguments: Arguments, out: &mut Vec<ModelEvent>) {
        self.closed = true;
        let nameless = self.tool.is_empty();
        self.name(if nameless { NAMELESS } else { "" }, out);
        let (id, tool) = (self.id.clone(), self.tool.clone());
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

/// Returns the text of a piece of arguments; that of an object is its JSON.
pub(crate) fn argument_text(pieces: &mut Pieces, raw: &RawValue) -> String {
    match raw.get() {
        text if text.starts_with('"') => pieces.take(raw),
        "null" => String::new(),
        json => json.to_owned(),
    }
}

/// Reads arguments. Nothing, or `null`, is an empty object; an object inside a JSON string is one too.
fn read(text: &str) -> Arguments {
    if text.trim().is_empty() {
        return Arguments::Object(JsonMap::new());
    }
    match serde_json::from_str(&without_lone_surrogates(text)) {
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
