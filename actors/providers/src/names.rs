//! Ids of calls and names of tools within the letters a vendor allows. A history may hold those of other vendors.

use std::collections::{HashMap, HashSet};

use protocol::model::{AssistantContent, ModelMessage};

use crate::call::NAMELESS;

/// What a vendor allows in an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdRule {
    /// Anything.
    Any,
    /// Anything up to a length in bytes.
    Short(usize),
    /// Letters, digits, `_` and `-`, up to a length.
    Word(usize),
    /// Exactly nine letters and digits.
    Nine,
}

/// The ids of a request, each by a legal one of its own.
pub(crate) struct Ids<'a> {
    legal: HashMap<&'a str, String>,
}

impl<'a> Ids<'a> {
    /// Returns the ids of all calls in `messages`. Equal ones stay equal, different ones different, and what is legal
    /// stays as it is. The same history gives the same ids, so that the vendor's cache holds.
    pub(crate) fn new(messages: &'a [ModelMessage], rule: IdRule) -> Self {
        let calls = messages.iter().filter_map(|message| match message {
            ModelMessage::Assistant(parts) => Some(parts),
            _ => None,
        });
        let ids: Vec<&str> = calls
            .flatten()
            .filter_map(|part| match part {
                AssistantContent::Call { id, .. } => Some(id.as_str()),
                _ => None,
            })
            .collect();
        let mut taken: HashSet<String> = ids.iter().filter(|id| rule.allows(id)).map(|id| (*id).to_owned()).collect();
        let mut legal = HashMap::new();
        for id in ids {
            if rule.allows(id) || legal.contains_key(id) {
                continue;
            }
            let mut candidate = rule.bend(id, None);
            let mut number = 0;
            while !taken.insert(candidate.clone()) {
                number += 1;
                candidate = rule.bend(id, Some(number));
            }
            legal.insert(id, candidate);
        }
        Self { legal }
    }

    /// Returns the legal id for an id.
    pub(crate) fn get<'b>(&'b self, id: &'b str) -> &'b str {
        self.legal.get(id).map_or(id, String::as_str)
    }
}

impl IdRule {
    /// Returns whether an id keeps the rule.
    pub(crate) fn allows(self, id: &str) -> bool {
        !id.is_empty()
            && match self {
                Self::Any => true,
                Self::Short(most) => id.len() <= most,
                Self::Word(most) => id.len() <= most && id.bytes().all(is_word),
                Self::Nine => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            }
    }

    /// Returns an id near `id` that keeps the rule. Of a long one the end is kept: ids differ there.
    fn bend(self, id: &str, number: Option<u32>) -> String {
        let number = number.map(|number| format!("x{number}")).unwrap_or_default();
        let most = match self {
            Self::Any => usize::MAX,
            Self::Short(most) | Self::Word(most) => most,
            Self::Nine => 9,
        };
        let kept = |byte: u8| match self {
            Self::Nine => byte.is_ascii_alphanumeric().then_some(byte as char),
            _ => Some(if is_word(byte) { byte as char } else { '_' }),
        };
        let letters: Vec<char> = id.bytes().filter_map(kept).collect();
        let room = most.saturating_sub(number.len());
        let from = letters.len().saturating_sub(room);
        let mut bent: String = letters.iter().skip(from).collect();
        if bent.is_empty() && self != Self::Nine {
            bent.push_str("call");
        }
        if self == Self::Nine {
            bent.extend(std::iter::repeat_n('0', room.saturating_sub(bent.len())));
        }
        bent + &number
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Returns a tool's name within letters, digits, `_` and `-`, at most 64: models make names up, and a vendor refuses a
/// history with one it doesn't allow.
pub(crate) fn tool_name(name: &str) -> String {
    let legal: String = name.chars().take(64).map(|c| if c.is_ascii() && is_word(c as u8) { c } else { '_' }).collect();
    if legal.is_empty() { NAMELESS.into() } else { legal }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use protocol::CallId;
    use serde_json::json;

    use super::*;

    fn history(ids: &[String]) -> Vec<ModelMessage> {
        let call = |id: &String| AssistantContent::Call {
            id: CallId::new(id.as_str()),
            tool: "t".into(),
            input: json!({}),
            metadata: None,
        };
        vec![ModelMessage::Assistant(ids.iter().map(call).collect())]
    }

    fn bent(rule: IdRule, ids: &[&str]) -> Vec<String> {
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        let history = history(&ids);
        let legal = Ids::new(&history, rule);
        ids.iter().map(|id| legal.get(id).to_owned()).collect()
    }

    #[test]
    fn legal_ids_stay_and_others_come_near() {
        assert_eq!(bent(IdRule::Any, &["a.b", "c"]), ["a.b", "c"]);
        assert_eq!(
            bent(IdRule::Word(64), &["f.read:0", "f_read_0", "f-read_0"]),
            ["f_read_0x1", "f_read_0", "f-read_0"]
        );
        assert_eq!(
            bent(IdRule::Nine, &["toolu_01abcdefgh", "abc", "123456789"]),
            ["1abcdefgh", "abc000000", "123456789"]
        );
        assert_eq!(bent(IdRule::Short(4), &["abcdef", "xxcdef"]), ["cdef", "efx1"]);
    }

    #[test]
    fn names_of_tools_keep_their_letters() {
        assert_eq!(tool_name("read_file-2"), "read_file-2");
        assert_eq!(tool_name("functions.read 好"), "functions_read__");
        assert_eq!(tool_name(""), "unknown");
        assert_eq!(tool_name(&"x".repeat(80)).len(), 64);
    }

    proptest! {
        #[test]
        fn all_ids_become_legal_and_stay_apart(
            ids in proptest::collection::hash_set("[a-c._:好-]{0,12}", 0..12),
            rule in prop_oneof![Just(IdRule::Word(8)), Just(IdRule::Word(64)), Just(IdRule::Nine), Just(IdRule::Short(8))],
        ) {
            let ids: Vec<String> = ids.into_iter().collect();
            let history = history(&ids);
            let legal = Ids::new(&history, rule);
            let bent: HashSet<&str> = ids.iter().map(|id| legal.get(id)).collect();
            prop_assert_eq!(bent.len(), ids.len());
            prop_assert!(bent.iter().all(|id| rule.allows(id)), "{:?}", bent);
        }
    }
}
