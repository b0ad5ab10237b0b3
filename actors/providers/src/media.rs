//! Files of a request, as vendors take them: by kind, with their data in base64, or as text.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use protocol::model::File;

/// Stands before the files of tools, where the vendor takes none in a result.
pub(crate) const ATTACHED: &str = "Files that the tools above returned:";

/// A file, looked into.
pub(crate) struct Media<'a> {
    pub(crate) kind: Kind,
    /// Media type, without parameters.
    pub(crate) mime: &'a str,
    pub(crate) filename: Option<&'a str>,
    pub(crate) url: &'a str,
}

/// What vendors tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Image,
    Pdf,
    Audio,
    Video,
    /// Anything that is text.
    Text,
    Other,
}

impl<'a> Media<'a> {
    pub(crate) fn of(file: &'a File) -> Self {
        let mime = file.mime.split(';').next().unwrap_or_default().trim();
        let kind = match mime.split_once('/') {
            // An image by name, but no vendor takes it for one.
            _ if mime == "image/svg+xml" => Kind::Text,
            Some(("image", _)) => Kind::Image,
            Some(("audio", _)) => Kind::Audio,
            Some(("video", _)) => Kind::Video,
            Some(("text", _)) => Kind::Text,
            Some(("application", "pdf")) => Kind::Pdf,
            Some(("application", "json" | "xml" | "yaml" | "toml" | "javascript" | "x-sh" | "x-yaml")) => Kind::Text,
            _ => Kind::Other,
        };
        Self { kind, mime, filename: file.filename.as_deref().filter(|name| !name.is_empty()), url: &file.url }
    }

    /// Returns the data in base64; none where the url is no `data:` url, or is empty.
    pub(crate) fn base64(&self) -> Option<Cow<'a, str>> {
        let (head, data) = self.url.strip_prefix("data:")?.split_once(',')?;
        if data.is_empty() {
            return None;
        }
        if head.ends_with(";base64") {
            return Some(data.into());
        }
        let bytes: Vec<u8> = percent_decode_str(data).collect();
        Some(BASE64_STANDARD.encode(bytes).into())
    }

    /// Returns the file as text, if it is text and not empty.
    pub(crate) fn text(&self) -> Option<String> {
        if self.kind != Kind::Text {
            return None;
        }
        let bytes = BASE64_STANDARD.decode(self.base64()?.as_bytes()).ok()?;
        String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
    }

    /// Returns the address, where the file is not in the request.
    pub(crate) fn remote(&self) -> Option<&'a str> {
        (self.url.starts_with("http://") || self.url.starts_with("https://")).then_some(self.url)
    }

    /// Returns its name, or one for its kind.
    pub(crate) fn name(&self) -> &'a str {
        self.filename.unwrap_or(if self.kind == Kind::Pdf { "document.pdf" } else { "file" })
    }

    /// Returns what the model reads where the vendor takes no such file: the text of one, else that it is missing.
    pub(crate) fn note(&self) -> String {
        match self.text() {
            Some(text) => text,
            None if self.base64().is_none() && self.remote().is_none() => {
                format!("[The file {:?} ({}) is empty or damaged and was left out.]", self.name(), self.mime)
            }
            None => {
                format!("[The file {:?} ({}) was left out: it can't be sent to this model.]", self.name(), self.mime)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn file(mime: &str, url: &str) -> File {
        File { mime: mime.into(), filename: None, url: url.into() }
    }

    #[test]
    fn a_files_kind_is_told_by_its_media_type() {
        for (mime, kind) in [
            ("image/png", Kind::Image),
            ("image/svg+xml", Kind::Text),
            ("application/pdf", Kind::Pdf),
            ("audio/wav", Kind::Audio),
            ("video/mp4", Kind::Video),
            ("text/plain; charset=utf-8", Kind::Text),
            ("application/json", Kind::Text),
            ("application/zip", Kind::Other),
            ("", Kind::Other),
        ] {
            assert_eq!(Media::of(&file(mime, "")).kind, kind, "{mime}");
        }
    }

    #[test]
    fn data_is_read_in_both_forms_of_a_data_url() {
        let base64 = |url: &str| Media::of(&file("text/plain", url)).base64().map(Cow::into_owned);
        assert_eq!(base64("data:text/plain;base64,aGk="), Some("aGk=".into()));
        assert_eq!(base64("data:text/plain,h%69"), Some("aGk=".into()));
        assert_eq!(base64("data:text/plain;base64,"), None);
        assert_eq!(base64("https://h/x"), None);
        assert_eq!(Media::of(&file("text/plain", "data:,h%69")).text(), Some("hi".into()));
        assert_eq!(Media::of(&file("text/plain", "data:;base64,!")).text(), None);
    }

    #[test]
    fn a_file_that_cannot_be_sent_leaves_a_note_and_a_text_its_text() {
        assert_eq!(Media::of(&file("text/plain", "data:,hi")).note(), "hi");
        let note = Media::of(&file("application/zip", "data:application/zip;base64,AA==")).note();
        assert!(note.contains("application/zip") && note.contains("can't be sent"), "{note}");
        assert!(Media::of(&file("image/png", "data:image/png;base64,")).note().contains("empty"));
    }
}
