//! Strings of the vendor's JSON.

use serde_json::value::RawValue;

/// Reads the pieces of one text. A server that cuts its text by UTF-16 units, as JavaScript does, may cut a character
/// beyond the first plane in two: `"\ud83d"`, then `"\ude00"`. Each half alone is no text.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// The first half of a character.
    half: Option<u16>,
}

impl Pieces {
    /// Returns the piece's text; empty for anything but a string.
    pub(crate) fn take(&mut self, raw: &RawValue) -> String {
        if self.half.is_none()
            && let Ok(text) = serde_json::from_str::<String>(raw.get())
        {
            return text;
        }
        if !raw.get().starts_with('"') {
            return String::new();
        }
        let mut units: Vec<u16> = self.half.take().into_iter().chain(units(raw.get())).collect();
        if units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
            self.half = units.pop();
        }
        String::from_utf16_lossy(&units)
    }
}

/// Returns a string of its own; empty for anything but a string.
pub(crate) fn whole(raw: Option<&RawValue>) -> String {
    raw.map(|raw| Pieces::default().take(raw)).unwrap_or_default()
}

/// Returns a whole number, also one in a string or with a fraction; none for anything else.
pub(crate) fn number(raw: Option<&RawValue>) -> Option<u64> {
    let number: f64 = raw?.get().trim_matches('"').parse().ok()?;
    (number >= 0.0 && number.is_finite()).then_some(number as u64)
}

/// Reads an object of an event; what is of another form has nothing. (A list would else be read by the order of fields.)
pub(crate) fn read<'a, T: Default + serde::Deserialize<'a>>(raw: Option<&'a RawValue>) -> T {
    raw.filter(|raw| raw.get().starts_with('{'))
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

/// Returns the elements of a list of an event; what is of another form has none.
pub(crate) fn elements(raw: Option<&RawValue>) -> Vec<&RawValue> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// Returns the UTF-16 units of a JSON string that is known to be well-formed.
fn units(json: &str) -> Vec<u16> {
    let inner = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    let mut units = Vec::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        let c = match if c == '\\' { chars.next() } else { None } {
            None => c,
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                units.push(u16::from_str_radix(&digits, 16).unwrap_or(0xfffd));
                continue;
            }
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some(escaped) => escaped,
        };
        units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    }
    units
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn join(pieces: &[&str]) -> String {
        let mut joined = Pieces::default();
        pieces.iter().map(|piece| joined.take(serde_json::from_str(piece).expect("JSON"))).collect()
    }

    #[test]
    fn a_character_cut_in_two_halves_is_whole_again() {
        assert_eq!(join(&[r#""a\ud83d""#, r#""\ude00 \"b\"""#, r#""c""#]), "a😀 \"b\"c");
    }

    #[test]
    fn a_half_that_stays_alone_is_a_replacement_and_other_types_are_no_text() {
        assert_eq!(join(&[r#""a\ud83d""#, r#""b""#]), "a\u{fffd}b");
        assert_eq!(join(&[r#""\ude00""#, "7", "{}", "[]"]), "\u{fffd}");
    }

    proptest! {
        #[test]
        fn units_of_any_string_are_those_of_its_json(text in ".*") {
            let json = serde_json::to_string(&text).expect("JSON");
            prop_assert_eq!(units(&json), text.encode_utf16().collect::<Vec<_>>());
        }

        #[test]
        fn a_text_cut_between_any_units_is_the_same(text in "[a\\\\\"\n好😀]{0,12}", at in 0_usize..24) {
            let all: Vec<u16> = text.encode_utf16().collect();
            let (first, second) = all.split_at(at.min(all.len()));
            let json = |units: &[u16]| {
                let digits: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
                format!("\"{digits}\"")
            };
            prop_assert_eq!(join(&[&json(first), &json(second)]), text);
        }
    }
}
