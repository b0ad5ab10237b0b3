//! Makes bytes text: `eventsource-client` gives a stream up at the first byte that is none.

use std::str::from_utf8;

use bytes::Bytes;

const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Puts `U+FFFD` for what is no UTF-8, in pieces that may be cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct Lossy {
    /// The first bytes of a character whose rest is still to come.
    begun: Vec<u8>,
}

impl Lossy {
    /// Returns the piece as text, without a character at its end that is cut in two. Nothing is copied where all is
    /// well.
    pub(crate) fn take(&mut self, piece: Bytes) -> Bytes {
        if self.begun.is_empty() && from_utf8(&piece).is_ok() {
            return piece;
        }
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(&piece);
        let mut text = Vec::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while let Err(error) = from_utf8(rest) {
            let (good, bad) = rest.split_at(error.valid_up_to());
            text.extend_from_slice(good);
            // Without a length the bytes may yet become a character.
            let Some((_, after)) = error.error_len().and_then(|length| bad.split_at_checked(length)) else {
                self.begun = bad.to_vec();
                return text.into();
            };
            text.extend_from_slice(REPLACEMENT);
            rest = after;
        }
        text.extend_from_slice(rest);
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_the_same_text_however_they_are_cut(
            bytes in proptest::collection::vec(prop_oneof![
                Just(b'a'), Just(0xe5), Just(0xa5), Just(0xbd), Just(0xf0), Just(0x9f), any::<u8>(),
            ], 0..40),
            sizes in proptest::collection::vec(1_usize..5, 1..8),
        ) {
            // Behind a letter no character is left begun.
            let bytes = [&bytes[..], b"z"].concat();
            let (mut lossy, mut text, mut rest) = (Lossy::default(), Vec::new(), bytes.as_slice());
            for size in sizes.iter().cycle() {
                let (piece, later) = rest.split_at((*size).min(rest.len()));
                text.extend_from_slice(&lossy.take(Bytes::copy_from_slice(piece)));
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(String::from_utf8(text).expect("text"), String::from_utf8_lossy(&bytes));
        }
    }
}
