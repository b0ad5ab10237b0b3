//! JSON of writers that cut strings between the two halves of a character.

use std::borrow::Cow;

/// Returns JSON with `\ufffd` in place of each half of a surrogate pair that stands alone (`"\ud83d"`): legal for
/// JavaScript, which writes it when a string was cut inside of an emoji, and refused by strict readers.
pub fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    let mut mended = String::new();
    let mut done = 0;
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        let Some(unit) = escaped(json, at) else {
            // Another escape, such as `\\`, whose second character begins none.
            at += 1 + json.get(at + 1..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
            continue;
        };
        let is_pair = (0xd800..0xdc00).contains(&unit)
            && escaped(json, at + 6).is_some_and(|low| (0xdc00..0xe000).contains(&low));
        if (0xd800..0xe000).contains(&unit) && !is_pair {
            mended.push_str(json.get(done..at).unwrap_or_default());
            mended.push_str("\\ufffd");
            done = at + 6;
        }
        at += if is_pair { 12 } else { 6 };
    }
    if done == 0 {
        return Cow::Borrowed(json);
    }
    mended.push_str(json.get(done..).unwrap_or_default());
    Cow::Owned(mended)
}

/// Returns the unit of the escape `\uXXXX` at `at`.
fn escaped(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn halves_that_stand_alone_are_replaced_and_nothing_else() {
        for (json, mended) in [
            (r#""cut \ud83d""#, r#""cut \ufffd""#),
            (r#""\udc00\ud83dx\ud83d\ud83d\ude00""#, r#""\ufffd\ufffdx\ufffd\ud83d\ude00""#),
            (r#""\ud83d\u0041""#, r#""\ufffd\u0041""#),
            (r#""\ud83d\ude00 \\ud83d \u00e9 \" 日""#, r#""\ud83d\ude00 \\ud83d \u00e9 \" 日""#),
            (r#""\ud83"#, r#""\ud83"#),
            ("\\", "\\"),
        ] {
            assert_eq!(without_lone_surrogates(json), mended);
        }
    }

    proptest! {
        #[test]
        fn any_string_of_escapes_can_be_read_afterwards(text in r#"(\\u[dD][89a-fA-F][0-9a-f]{2}|\\\\|\\n|[a-zé日]){0,20}"#) {
            let json = format!("\"{text}\"");
            prop_assert!(serde_json::from_str::<String>(&without_lone_surrogates(&json)).is_ok());
        }

        #[test]
        fn what_can_be_read_stays_as_it_is(text in any::<String>()) {
            let json = serde_json::to_string(&text).expect("json");
            prop_assert_eq!(without_lone_surrogates(&json), json.as_str());
        }
    }
}
