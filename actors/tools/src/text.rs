//! Text as it is on disk: byte order marks, encodings, line ends, and what is not text at all.
//!
//! A file is decoded so that it can be put together again byte for byte: an edit encodes only what it puts in, and
//! everything around it keeps its bytes. What could not be put together again is not edited.

pub(crate) mod lines;
pub(crate) mod runs;

use std::borrow::Cow;
use std::ops::Range;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, ISO_2022_JP, UTF_8};

/// Bytes looked at to judge what a file is, when it isn't read whole.
pub(crate) const SAMPLE: usize = 1024 * 1024;

const UTF8_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];
const UTF16_LE_MARK: &[u8] = &[0xFF, 0xFE];
const UTF16_BE_MARK: &[u8] = &[0xFE, 0xFF];

/// A byte that isn't UTF-8 stands in decoded text as this plus its value: in the last private-use plane, which no
/// real text uses (a file that does is not edited).
const STRAY: u32 = 0x10_FF00;

/// How a file's text is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// UTF-8.
    Utf8,
    /// UTF-8 with some bytes that aren't.
    Stray,
    /// UTF-16, little end first, with its mark.
    Utf16Le,
    /// UTF-16, big end first, with its mark.
    Utf16Be,
    /// One of the older ones, by a good guess.
    Legacy(&'static Encoding),
}

/// Text that can't be written in a file's encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EncodeError {
    /// A character is missing there.
    #[error("the new text has characters that {0} does not have")]
    Missing(&'static str),
    /// The character that stands for what can't be decoded.
    #[error("the new text has U+FFFD, which only stands for bytes that can't be shown; it is never written")]
    Replacement,
}

impl Codec {
    /// Returns the codec of a content, or of its first bytes when `is_whole` is false, and the length of its byte
    /// order mark; none for what is not text.
    pub(crate) fn detect(bytes: &[u8], is_whole: bool) -> Option<(Self, usize)> {
        for (mark, codec) in [(UTF16_LE_MARK, Self::Utf16Le), (UTF16_BE_MARK, Self::Utf16Be)] {
            if let Some(body) = bytes.strip_prefix(mark) {
                return codec.looks_like_text(body).then_some((codec, mark.len()));
            }
        }
        let mark = if bytes.starts_with(UTF8_MARK) { UTF8_MARK.len() } else { 0 };
        let body = bytes.get(mark..).unwrap_or_default();
        if body.contains(&0) {
            return None;
        }
        let is_utf8 = match std::str::from_utf8(body) {
            Ok(_) => true,
            // The sample may end within a character.
            Err(error) => !is_whole && error.error_len().is_none(),
        };
        let controls = body.iter().filter(|b| **b < 0x09 || (0x0E..0x20).contains(*b) && **b != 0x1B).count();
        // Terminal recordings and the like are full of controls and text; with bytes that aren't UTF-8, few are enough.
        let most = if is_utf8 { body.len() * 3 / 10 } else { body.len() / 20 };
        if controls > most {
            return None;
        }
        if is_utf8 {
            return Some((Self::Utf8, mark));
        }
        Some((if mark > 0 { Self::Stray } else { Self::guess(body, is_whole) }, mark))
    }

    /// Returns whether wide units are text: other files begin with these two bytes too.
    fn looks_like_text(self, body: &[u8]) -> bool {
        let text = self.show(body.get(..body.len() & !1).unwrap_or_default());
        let odd = text.chars().filter(|c| *c == char::REPLACEMENT_CHARACTER || *c == '\0').count();
        odd <= 1 + text.len() / 1000
    }

    fn guess(body: &[u8], is_whole: bool) -> Self {
        let (mut wide, mut strays) = (0, 0);
        for chunk in body.utf8_chunks() {
            wide += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
            strays += chunk.invalid().len();
        }
        // Legacy text happens to look like UTF-8 only now and then.
        if wide > strays {
            return Self::Stray;
        }
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(body, is_whole);
        match detector.guess(None, Utf8Detection::Deny) {
            encoding if encoding == UTF_8 => Self::Stray,
            encoding => Self::Legacy(encoding),
        }
    }

    /// Returns the encoding's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Utf8 | Self::Stray => "UTF-8",
            Self::Utf16Le => "UTF-16 (little-endian)",
            Self::Utf16Be => "UTF-16 (big-endian)",
            Self::Legacy(encoding) => encoding.name(),
        }
    }

    /// Returns what the model should know of the encoding; nothing for UTF-8.
    pub(crate) fn note(self) -> Option<String> {
        match self {
            Self::Utf8 => None,
            Self::Stray => Some("Not all of this file is valid UTF-8: bytes that aren't are shown as U+FFFD.".into()),
            Self::Utf16Le | Self::Utf16Be => Some(format!("This file is not UTF-8 but {}.", self.name())),
            Self::Legacy(_) => {
                Some(format!("This file is not UTF-8. It was decoded as {}, which is a guess.", self.name()))
            }
        }
    }

    /// Returns bytes as text to be shown: what can't be decoded is U+FFFD.
    pub(crate) fn show(self, bytes: &[u8]) -> Cow<'_, str> {
        match self {
            Self::Utf8 | Self::Stray => String::from_utf8_lossy(bytes),
            Self::Utf16Le => encoding_rs::UTF_16LE.decode_without_bom_handling(bytes).0,
            Self::Utf16Be => encoding_rs::UTF_16BE.decode_without_bom_handling(bytes).0,
            Self::Legacy(encoding) => encoding.decode_without_bom_handling(bytes).0,
        }
    }

    /// Returns text that [`Codec::encode`] turns into these bytes again; none where there is no such text.
    fn decode(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        match self {
            Self::Utf8 => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Self::Stray => {
                let mut text = String::with_capacity(bytes.len());
                for chunk in bytes.utf8_chunks() {
                    text.push_str(chunk.valid());
                    text.extend(chunk.invalid().iter().filter_map(|b| char::from_u32(STRAY + u32::from(*b))));
                }
                Some(Cow::Owned(text))
            }
            Self::Utf16Le => encoding_rs::UTF_16LE.decode_without_bom_handling_and_without_replacement(bytes),
            Self::Utf16Be => encoding_rs::UTF_16BE.decode_without_bom_handling_and_without_replacement(bytes),
            // Its bytes mean something else after each escape, so pieces can't be put between others.
            Self::Legacy(encoding) if encoding == ISO_2022_JP => None,
            Self::Legacy(encoding) => encoding.decode_without_bom_handling_and_without_replacement(bytes),
        }
    }

    /// Returns text as bytes of this encoding.
    fn encode(self, text: &str) -> Result<Cow<'_, [u8]>, EncodeError> {
        match self {
            Self::Utf8 => Ok(Cow::Borrowed(text.as_bytes())),
            Self::Stray => {
                let mut bytes = Vec::with_capacity(text.len());
                for c in text.chars() {
                    match u8::try_from(u32::from(c).wrapping_sub(STRAY)) {
                        Ok(byte) => bytes.push(byte),
                        Err(_) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                    }
                }
                Ok(Cow::Owned(bytes))
            }
            Self::Utf16Le => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>().into()),
            Self::Utf16Be => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>().into()),
            Self::Legacy(encoding) => match encoding.encode(text) {
                (bytes, _, false) => Ok(bytes),
                (_, _, true) => Err(EncodeError::Missing(encoding.name())),
            },
        }
    }

    /// Returns text from outside as bytes of this encoding.
    fn encode_new(self, text: &str) -> Result<Cow<'_, [u8]>, EncodeError> {
        if self != Self::Utf8 && text.contains(char::REPLACEMENT_CHARACTER) {
            return Err(EncodeError::Replacement);
        }
        if self == Self::Stray && text.chars().any(is_stray) {
            return Err(EncodeError::Missing("the set of characters of this tool"));
        }
        self.encode(text)
    }
}

/// A file's text, which can be changed in places and put together again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    /// Without a byte order mark; line ends as they are.
    pub(crate) body: String,
    pub(crate) codec: Codec,
    /// Bytes of the byte order mark, none or one.
    mark: Vec<u8>,
}

/// Why a content is not text that can be changed in places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TextError {
    /// It has NULs or too many control characters.
    #[error("it is a binary file")]
    Binary,
    /// Decoding and encoding it would change bytes that nobody meant to change.
    #[error("it is not UTF-8 (perhaps {0}) and could not be put together again byte for byte; use a command for it")]
    OneWay(&'static str),
}

impl Text {
    /// Decodes a file's whole content.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, TextError> {
        let (codec, mark) = Codec::detect(bytes, true).ok_or(TextError::Binary)?;
        let (mark, raw) = bytes.split_at_checked(mark).unwrap_or((&[], bytes));
        let attempts = [codec, Codec::Stray];
        // A wrong guess shows when it can't be reversed; then only the ASCII and UTF-8 parts can be changed.
        let reversible = |codec: Codec| {
            let text = codec.decode(raw)?;
            (codec.encode(&text).ok()? == raw).then(|| (codec, text.into_owned()))
        };
        let tries = if matches!(codec, Codec::Legacy(_)) { &attempts[..] } else { &attempts[..1] };
        let (codec, body) = tries.iter().find_map(|codec| reversible(*codec)).ok_or(TextError::OneWay(codec.name()))?;
        Ok(Self { body, codec, mark: mark.to_vec() })
    }

    /// Returns the file's content with places of [`Text::body`] replaced. They are in order and don't overlap.
    pub(crate) fn splice(&self, places: &[(Range<usize>, String)]) -> Result<Vec<u8>, EncodeError> {
        let mut bytes = self.mark.clone();
        let mut at = 0;
        for (range, new) in places {
            bytes.extend_from_slice(&self.codec.encode(self.body.get(at..range.start).unwrap_or_default())?);
            bytes.extend_from_slice(&self.codec.encode_new(new)?);
            at = range.end;
        }
        bytes.extend_from_slice(&self.codec.encode(self.body.get(at..).unwrap_or_default())?);
        Ok(bytes)
    }

    /// Returns the text to be shown: with U+FFFD for what can't be decoded.
    pub(crate) fn shown(&self) -> String {
        self.shown_with(&[])
    }

    /// Returns the text to be shown with places of [`Text::body`] replaced, as [`Text::splice`] does.
    pub(crate) fn shown_with(&self, places: &[(Range<usize>, String)]) -> String {
        let mut text = String::with_capacity(self.body.len());
        let mut at = 0;
        for (range, new) in places {
            text.push_str(self.body.get(at..range.start).unwrap_or_default());
            text.push_str(new);
            at = range.end;
        }
        text.push_str(self.body.get(at..).unwrap_or_default());
        match self.codec {
            Codec::Stray => text.chars().map(|c| if is_stray(c) { char::REPLACEMENT_CHARACTER } else { c }).collect(),
            _ => text,
        }
    }

    /// Returns whether the file begins with a byte order mark.
    pub(crate) fn has_mark(&self) -> bool {
        !self.mark.is_empty()
    }
}

/// Returns whether a character of [`Text::body`] stands for a byte that can't be decoded.
pub(crate) fn is_stray(c: char) -> bool {
    u32::from(c) >= STRAY
}

/// Returns the ASCII character that a typographic one is taken for.
pub(crate) fn fold(c: char) -> char {
    match c {
        '‘' | '’' | '‚' | '‛' | '′' | '´' => '\'',
        '“' | '”' | '„' | '‟' | '″' | '«' | '»' => '"',
        '‐' | '‑' | '‒' | '–' | '—' | '―' | '−' => '-',
        '\u{A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
        _ => c,
    }
}

/// Returns text without a byte order mark.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{FEFF}').unwrap_or(text)
}

/// Returns a content as text to be shown, for instance in a diff; none for what is not text.
pub(crate) fn shown(bytes: &[u8]) -> Option<String> {
    let (codec, mark) = Codec::detect(bytes, true)?;
    Some(codec.show(bytes.get(mark..)?).into_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn detect(bytes: &[u8]) -> Option<Codec> {
        Codec::detect(bytes, true).map(|(codec, _)| codec)
    }

    #[test]
    fn wide_characters_cut_at_the_end_of_the_sample_are_text() {
        let text = "中".repeat(5000);
        for cut in 1..7 {
            assert_eq!(Codec::detect(&text.as_bytes()[..text.len() - cut], false), Some((Codec::Utf8, 0)));
        }
        assert_eq!(detect(text.as_bytes()), Some(Codec::Utf8));
    }

    #[test]
    fn binary_files_are_recognised() {
        assert_eq!(detect(b"\x7fELF\x02\x01\x01\0\0"), None);
        assert_eq!(detect(b"a\0b"), None);
        let noise: Vec<u8> = (0..2000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8 | 1).collect();
        assert_eq!(detect(&noise), None);
        assert_eq!(detect(&[UTF16_LE_MARK, b"\0\0\0\0\0\0"].concat()), None);
        assert_eq!(detect(b""), Some(Codec::Utf8));
        assert_eq!(detect("\x1b[31mred\x1b[0m\n".as_bytes()), Some(Codec::Utf8));
    }

    #[test]
    fn gbk_is_flagged_and_only_the_change_is_encoded() {
        let raw = b"\xD6\xD0\xCE\xC4\nx=1\n";
        let text = Text::decode(raw).unwrap();
        assert_ne!(text.codec, Codec::Utf8);
        assert!(text.codec.note().unwrap().contains("UTF-8"));
        let at = text.body.find("x=1").unwrap();
        assert_eq!(text.splice(&[(at..at + 3, "x=2".into())]).unwrap(), b"\xD6\xD0\xCE\xC4\nx=2\n");
        assert_eq!(text.splice(&[(at..at + 3, "\u{FFFD}".into())]), Err(EncodeError::Replacement));
    }

    #[test]
    fn a_longer_gbk_text_is_decoded() {
        let plain = "这是一个用于测试编码检测的简单文本文件，内容为中文。\n第二行也是中文。\n";
        let raw = encoding_rs::GBK.encode(plain).0;
        let text = Text::decode(&raw).unwrap();
        assert_eq!(text.codec, Codec::Legacy(encoding_rs::GBK));
        assert_eq!(text.body, plain);
        let at = text.body.find("简单").unwrap();
        let changed = text.splice(&[(at..at + "简单".len(), "复杂".into())]).unwrap();
        assert_eq!(changed, &*encoding_rs::GBK.encode(&plain.replace("简单", "复杂")).0);
        assert_eq!(text.splice(&[(at..at, "🦀".into())]), Err(EncodeError::Missing("GBK")));
    }

    #[test]
    fn stray_bytes_in_utf8_survive() {
        let raw = "grün schön über\n".as_bytes().iter().chain(b"\xFF\xFE rest\n").copied().collect::<Vec<u8>>();
        let text = Text::decode(&raw).unwrap();
        assert_eq!(text.codec, Codec::Stray);
        assert_eq!(text.shown(), "grün schön über\n\u{FFFD}\u{FFFD} rest\n");
        let at = text.body.find("rest").unwrap();
        let changed = text.splice(&[(at..at + 4, "ende".into())]).unwrap();
        assert!(changed.ends_with(b"\xFF\xFE ende\n"));
    }

    #[test]
    fn marks_are_hidden_and_kept() {
        for (mark, codec) in
            [(UTF8_MARK, Codec::Utf8), (UTF16_LE_MARK, Codec::Utf16Le), (UTF16_BE_MARK, Codec::Utf16Be)]
        {
            let mut raw = mark.to_vec();
            raw.extend_from_slice(&codec.encode("a\nb").unwrap());
            let text = Text::decode(&raw).unwrap();
            assert_eq!((&*text.body, text.codec, text.has_mark()), ("a\nb", codec, true));
            let mut want = mark.to_vec();
            want.extend_from_slice(&codec.encode("X\nb").unwrap());
            assert_eq!(text.splice(&[(0..1, "X".into())]).unwrap(), want);
            assert_eq!(shown(&raw).unwrap(), "a\nb");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_decoded_is_put_together_again(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(text) = Text::decode(&raw) {
                prop_assert_eq!(text.splice(&[]).unwrap(), raw);
            }
        }

        #[test]
        fn text_in_old_encodings_is_put_together_again(plain in "[a-z0-9 é我们中文本件あいうカ\n]{0,80}") {
            for encoding in [encoding_rs::GBK, encoding_rs::SHIFT_JIS, encoding_rs::WINDOWS_1252, encoding_rs::BIG5] {
                let raw = encoding.encode(&plain).0;
                if let Ok(text) = Text::decode(&raw) {
                    prop_assert_eq!(&text.splice(&[]).unwrap(), &*raw);
                }
            }
        }
    }
}
