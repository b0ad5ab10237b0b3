//! What OpenRouter and Copilot send beside thinking and want back with it: signatures, encrypted thinking, a seal.
//!
//! It belongs to the thinking it comes with, but where there is none to the call, and where there is neither it stands
//! for thinking without text. All of it goes back with the message, whichever part kept it.
//!
//! Source: <https://openrouter.ai/docs/guides/best-practices/reasoning-tokens>.

use protocol::JsonMap;
use protocol::model::AssistantContent;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::text::whole;

/// OpenRouter's list.
pub(super) const DETAILS: &str = "reasoning_details";
/// Copilot's seal.
pub(super) const OPAQUE: &str = "reasoningOpaque";

/// What came and was not yet given to a part.
#[derive(Default)]
pub(super) struct VendorData {
    details: Vec<Value>,
    opaque: String,
}

impl VendorData {
    /// Takes a list of details and returns whether there were some. Pieces of one text are put together.
    pub(super) fn take_details(&mut self, raw: &RawValue) -> bool {
        let details: Vec<Value> = serde_json::from_str(raw.get()).unwrap_or_default();
        let some = !details.is_empty();
        for detail in details {
            if !self.details.last_mut().is_some_and(|last| goes_on(last, &detail)) && detail.is_object() {
                self.details.push(detail);
            }
        }
        some
    }

    /// Takes a seal and returns whether there was one; the last counts.
    pub(super) fn take_opaque(&mut self, raw: &RawValue) -> bool {
        let opaque = whole(Some(raw));
        let some = !opaque.is_empty();
        if some {
            self.opaque = opaque;
        }
        some
    }

    /// Returns whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.details.is_empty() && self.opaque.is_empty()
    }

    /// Gives what there is, under the vendor's name.
    pub(super) fn give(&mut self, vendor: &str) -> JsonMap {
        let mut data = JsonMap::new();
        if !self.details.is_empty() {
            data.insert(DETAILS.into(), std::mem::take(&mut self.details).into());
        }
        if !self.opaque.is_empty() {
            data.insert(OPAQUE.into(), std::mem::take(&mut self.opaque).into());
        }
        JsonMap::from_iter([(vendor.to_owned(), data.into())])
    }
}

/// Adds a detail to the last one where it goes on with its text; returns whether it did.
fn goes_on(last: &mut Value, detail: &Value) -> bool {
    let field = match detail["type"].as_str() {
        Some("reasoning.text") => "text",
        Some("reasoning.summary") => "summary",
        _ => return *last == *detail,
    };
    let same = |name: &str| last[name] == detail[name] || detail[name].is_null();
    if last["type"] != detail["type"] || !same("index") || !(same("id") || last["id"].is_null()) {
        return false;
    }
    if let Value::Object(last) = last {
        let text =
            [last.get(field), detail.get(field)].into_iter().flatten().filter_map(Value::as_str).collect::<String>();
        for (name, value) in detail.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            last.insert(name.clone(), value.clone());
        }
        last.insert(field.into(), json!(text));
    }
    true
}

/// Returns what is kept of a vendor's under `name` with the parts of a message.
fn kept<'a>(parts: &'a [AssistantContent], vendor: &str, name: &str) -> Vec<&'a Value> {
    let metadata = parts.iter().filter_map(|part| match part {
        AssistantContent::Text { metadata, .. }
        | AssistantContent::Reasoning { metadata, .. }
        | AssistantContent::Call { metadata, .. } => metadata.as_ref(),
    });
    metadata.filter_map(|metadata| metadata.get(vendor)?.get(name)).collect()
}

/// Returns OpenRouter's details of a message, in order, each once.
pub(super) fn details(parts: &[AssistantContent]) -> Vec<&Value> {
    let mut all: Vec<&Value> = Vec::new();
    for detail in kept(parts, "openrouter", DETAILS).into_iter().filter_map(Value::as_array).flatten() {
        if !all.contains(&detail) {
            all.push(detail);
        }
    }
    all
}

/// Returns Copilot's seal of a message.
pub(super) fn opaque(parts: &[AssistantContent]) -> Option<&str> {
    kept(parts, "copilot", OPAQUE).into_iter().find_map(Value::as_str)
}
