//! The calls of one answer: which piece belongs to which, and when one is whole.
//!
//! By the vendor's documents each piece has the index of its call, and the first piece of a call its id and name. In the
//! field the index is missing or always 0, the id is missing, empty, equal for all or new in each piece, the name comes
//! late or in each piece, and arguments are objects. What is certain decides first; see [`find`].

use protocol::model::ModelEvent;
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::CallDelta;
use crate::IdSource;
use crate::call::{Call, Calls, argument_text};
use crate::text::{Pieces, whole};

/// What a call is told by.
#[derive(Default)]
pub(super) struct Key {
    index: Option<u64>,
    /// As the vendor gave it; empty if not.
    vendor_id: String,
    /// The piece of the answer its newest piece came with.
    chunk: u64,
}

/// A piece of a call, read.
struct Piece<'a> {
    index: Option<u64>,
    id: String,
    tool: String,
    arguments: Option<&'a RawValue>,
}

/// Takes a piece of a call that came with piece `chunk` of the answer.
pub(super) fn take(
    calls: &mut Calls<Key>,
    delta: &CallDelta<'_>,
    chunk: u64,
    ids: &IdSource,
    out: &mut Vec<ModelEvent>,
) {
    let function = delta.function.as_ref();
    let piece = Piece {
        index: delta.index.and_then(|raw| raw.get().trim_matches('"').parse().ok()),
        id: id(delta.id),
        tool: whole(function.and_then(|function| function.name)),
        arguments: function.and_then(|function| function.arguments),
    };
    let at = match find(calls, &piece, chunk) {
        Some(at) => at,
        None => {
            if piece.is_bare() && piece.has_no_arguments() {
                return;
            }
            calls.close_whole(out);
            let key = Key { index: piece.index, vendor_id: piece.id.clone(), chunk: 0 };
            calls.begin(key, &piece.id, ids)
        }
    };
    let Some((key, call)) = calls.get_mut(at).filter(|(_, call)| !call.is_closed()) else { return };
    key.chunk = chunk;
    if key.vendor_id.is_empty() {
        key.vendor_id.clone_from(&piece.id);
    }
    // First the name: behind arguments it can't grow any more.
    call.name(&piece.tool, out);
    if let Some(raw) = piece.arguments {
        call.add(raw);
    }
    if let Some(extra) = delta.extra_content.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()) {
        call.metadata.get_or_insert_default().insert("extra_content".into(), extra);
    }
}

/// Returns the call that `piece` goes on with; none if it begins one.
fn find(calls: &Calls<Key>, piece: &Piece<'_>, chunk: u64) -> Option<usize> {
    // Without an index the id says which; without either it is the newest.
    let at = match piece.index {
        Some(_) => calls
            .newest(|key, _| key.index == piece.index)
            .or_else(|| calls.newest(|key, call| key.index.is_none() && !call.is_closed()).filter(|_| piece.is_bare())),
        None => calls
            .newest(|key, _| !piece.id.is_empty() && key.vendor_id == piece.id)
            .or_else(|| calls.newest(|_, _| true)),
    }?;
    let (key, call) = calls.get(at)?;
    let named = !piece.tool.is_empty() && !call.tool.is_empty();
    let same_id = !piece.id.is_empty() && piece.id == key.vendor_id;
    let other_id = !piece.id.is_empty() && !key.vendor_id.is_empty() && !same_id;
    let again = || same_id && piece.adds_nothing(call);
    // A name in pieces, or longer than before: its server tells calls apart by index, and gave an id to the first piece.
    let name_goes_on = || {
        key.chunk != chunk
            && piece.index.is_some()
            && key.index == piece.index
            && call.arguments().is_empty()
            && piece.tool != call.tool
            && (piece.id.is_empty() && !key.vendor_id.is_empty() || piece.tool.starts_with(&call.tool))
    };
    let goes_on = if other_id {
        // An id in each piece, new each time: without a name it can't begin a call, and this one isn't whole.
        piece.tool.is_empty() && !call.is_closed() && !call.arguments().is_empty() && !call.is_whole()
    } else if !named {
        true
    } else if same_id && piece.index.is_some() {
        // Index, id and name are equal: it is this call, but for whole arguments behind whole ones.
        !call.is_whole() || again()
    } else if same_id || call.arguments().trim().is_empty() {
        // The name once more: a server that repeats it with each piece, or two calls in one piece of the answer.
        name_goes_on() || call.tool == piece.tool && key.chunk != chunk && (!call.is_whole() || again())
    } else {
        !call.is_whole()
    };
    goes_on.then_some(at)
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
            || self.arguments.is_some_and(|raw| argument_text(&mut Pieces::default(), raw) == call.arguments())
    }
}

fn id(raw: Option<&RawValue>) -> String {
    match raw.map(RawValue::get) {
        // Some servers count.
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => number.to_owned(),
        _ => whole(raw),
    }
}
