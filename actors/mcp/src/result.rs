//! What a call of a server's tool gave, as the model is given it: text in one piece, images and PDFs as attachments
//! within what vendors take, and a line of text for everything else. Pure.
//!
//! A vendor refuses a whole conversation for one attachment it can't read, so each is looked into: its true type is
//! told by its first bytes, and what is too large, broken or of another type is only named.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use protocol::part::FilePart;
use serde_json::Value;

/// The largest image or PDF given to the model, in bytes.
pub const MAX_ATTACHMENT: usize = 5 * 1024 * 1024;
/// Most bytes of all attachments of one result.
const MAX_ATTACHED: usize = 10 * 1024 * 1024;
/// Most attachments of one result.
const MAX_ATTACHMENTS: usize = 20;
/// Most bytes of an error: nobody cuts it later.
const MAX_ERROR: usize = 16 * 1024;

/// Some servers break lines, and some leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What the model is given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shaped {
    /// All text. May be long; the executor cuts it.
    pub text: String,
    /// Images and PDFs.
    pub attachments: Vec<FilePart>,
}

/// Returns what a `tools/call` gave, or in the server's words why it failed (`isError`).
///
/// Structured content is given where there is nothing else: servers that have it put the same into the text.
pub fn shape(result: &Value) -> Result<Shaped, String> {
    let mut content = Content::default();
    let blocks = result.get("content").and_then(Value::as_array);
    for block in blocks.into_iter().flatten() {
        content.add(block);
    }
    let is_empty = content.texts.is_empty() && content.attachments.is_empty();
    match result.get("structuredContent") {
        Some(structured) if is_empty && !structured.is_null() => {
            content.texts.push(serde_json::to_string_pretty(structured).unwrap_or_default());
        }
        // Some other shape than the one there should be: still an answer.
        None if is_empty && blocks.is_none() && !result.is_null() && result.get("isError").is_none() => {
            content.texts.push(result.to_string());
        }
        _ => {}
    }
    let shaped = Shaped { text: content.texts.join("\n\n"), attachments: content.attachments };
    if result.get("isError").and_then(Value::as_bool) != Some(true) {
        return Ok(shaped);
    }
    Err(match shaped.text.trim() {
        "" => "The tool failed and does not say why.".into(),
        text if text.len() > MAX_ERROR => {
            let head = text.get(..text.floor_char_boundary(MAX_ERROR)).unwrap_or_default();
            format!("{head}\n\n...the error is {} bytes long and was truncated...", text.len())
        }
        text => text.to_owned(),
    })
}

/// Returns the contents of a resource as the model is given them.
pub fn resource(result: &Value) -> Shaped {
    let mut content = Content::default();
    for contents in result.get("contents").and_then(Value::as_array).into_iter().flatten() {
        content.add_contents(contents);
    }
    Shaped { text: content.texts.join("\n\n"), attachments: content.attachments }
}

/// Returns the messages of a prompt as one: what its text says, and what is attached.
pub fn prompt(result: &Value) -> Shaped {
    let mut content = Content::default();
    for message in result.get("messages").and_then(Value::as_array).into_iter().flatten() {
        match message.get("content") {
            Some(Value::Array(blocks)) => blocks.iter().for_each(|block| content.add(block)),
            Some(block) => content.add(block),
            None => {}
        }
    }
    Shaped { text: content.texts.join("\n\n"), attachments: content.attachments }
}

#[derive(Default)]
struct Content {
    texts: Vec<String>,
    attachments: Vec<FilePart>,
    attached: usize,
}

impl Content {
    fn add(&mut self, block: &Value) {
        let text = |key: &str| block.get(key).and_then(Value::as_str);
        match (text("type"), text("text"), text("data")) {
            (Some("text"), Some(text), _) => self.texts.push(text.to_owned()),
            (Some(kind @ ("image" | "audio")), _, Some(data)) => self.add_data(kind, text("mimeType"), None, data),
            (Some("resource"), ..) => {
                if let Some(contents) = block.get("resource") {
                    self.add_contents(contents);
                }
            }
            (Some("resource_link"), ..) => {
                let (name, uri) = (text("name").unwrap_or("a resource"), text("uri").unwrap_or_default());
                let about = text("description").map(|about| format!(": {about}")).unwrap_or_default();
                self.texts.push(format!("[{name}]({uri}){about}"));
            }
            (kind, ..) => {
                self.texts.push(format!("[content of the kind {:?}, which can't be shown]", kind.unwrap_or("?")))
            }
        }
    }

    fn add_contents(&mut self, contents: &Value) {
        let text = |key: &str| contents.get(key).and_then(Value::as_str);
        match (text("text"), text("blob")) {
            (Some(text), _) => self.texts.push(text.to_owned()),
            (None, Some(blob)) => self.add_data("resource", text("mimeType"), text("uri"), blob),
            (None, None) => {
                self.texts.push(format!("[the resource {} is empty]", text("uri").unwrap_or_default()));
            }
        }
    }

    fn add_data(&mut self, kind: &str, mime: Option<&str>, uri: Option<&str>, data: &str) {
        let claimed = mime.unwrap_or("an unknown type");
        let what = match uri {
            Some(uri) => format!("{kind} {uri} ({claimed})"),
            None => format!("{kind} ({claimed})"),
        };
        // Before anything is copied: three bytes are four characters.
        let size = data.len() / 4 * 3;
        if size > MAX_ATTACHMENT {
            let megabytes = |bytes: usize| bytes as f64 / 1024.0 / 1024.0;
            return self.texts.push(format!(
                "[{what} was left out: {:.1} MB is larger than the limit of {:.0} MB]",
                megabytes(size),
                megabytes(MAX_ATTACHMENT)
            ));
        }
        let clean: String;
        let data = if data.contains(|c: char| c.is_ascii_whitespace()) {
            clean = data.split_ascii_whitespace().collect();
            &clean
        } else {
            data
        };
        let Ok(bytes) = BASE64.decode(data) else {
            return self.texts.push(format!("[{what} was left out: it is no base64]"));
        };
        if let Some(mime) = shown(&bytes) {
            if self.attachments.len() >= MAX_ATTACHMENTS || self.attached + bytes.len() > MAX_ATTACHED {
                return self.texts.push(format!("[{what} was left out: the result has too many attachments for one]"));
            }
            self.attached += bytes.len();
            let url = format!("data:{mime};base64,{}", base64::engine::general_purpose::STANDARD.encode(&bytes));
            let filename = uri.map(|uri| uri.rsplit('/').next().unwrap_or(uri).to_owned());
            return self.attachments.push(FilePart { mime: mime.into(), filename, url, source: None });
        }
        let is_text = claimed.starts_with("text/") || claimed.contains("json") || claimed.contains("xml");
        match String::from_utf8(bytes) {
            Ok(text) if is_text => self.texts.push(text),
            _ => self.texts.push(format!("[{what} was left out: the model takes PNG, JPEG, GIF, WebP and PDF]")),
        }
    }
}

/// The true type of what a model can be shown; none of anything else.
fn shown(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'%', b'P', b'D', b'F', b'-', ..] => Some("application/pdf"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD as CODE;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    #[test]
    fn texts_are_joined_and_images_attached() {
        let result = json!({ "content": [
            { "type": "text", "text": "see" },
            { "type": "image", "mimeType": "image/png", "data": PNG },
            { "type": "text", "text": "that" }
        ], "structuredContent": { "not": "told again" } });
        let shaped = shape(&result).unwrap();
        assert_eq!(shaped.text, "see\n\nthat");
        let url = format!("data:image/png;base64,{PNG}");
        assert_eq!(shaped.attachments, [FilePart { mime: "image/png".into(), filename: None, url, source: None }]);
    }

    #[test]
    fn structured_content_alone_is_told_as_json() {
        assert_eq!(
            shape(&json!({ "content": [], "structuredContent": { "sum": 5 } })).unwrap().text,
            "{\n  \"sum\": 5\n}"
        );
        assert_eq!(shape(&json!({ "content": [] })).unwrap(), Shaped::default());
        assert_eq!(shape(&json!({ "toolResult": 5 })).unwrap().text, "{\"toolResult\":5}");
    }

    #[test]
    fn failures_are_the_servers_own_words_within_bounds() {
        let failed =
            |text: &str| shape(&json!({ "isError": true, "content": [{ "type": "text", "text": text }] })).unwrap_err();
        assert_eq!(failed("it failed"), "it failed");
        assert!(!failed("").is_empty());
        assert!(failed(&"é".repeat(MAX_ERROR)).len() < MAX_ERROR + 100);
    }

    #[test]
    fn what_is_too_large_or_broken_is_named_and_not_sent() {
        let mut big = CODE.decode(PNG).unwrap();
        big.resize(8_000_000, 7);
        let result = json!({ "content": [
            { "type": "image", "mimeType": "image/png", "data": CODE.encode(&big) },
            { "type": "image", "mimeType": "image/png", "data": "!!" },
            { "type": "image", "mimeType": "image/png", "data": CODE.encode("text") },
            { "type": "audio", "mimeType": "audio/wav", "data": CODE.encode("RIFFxxxxWAVE") },
            { "type": "hologram" }, { "nonsense": 1 }, 5
        ] });
        let shaped = shape(&result).unwrap();
        assert_eq!(shaped.attachments, []);
        assert!(
            shaped.text.contains("image (image/png) was left out: 7.6 MB is larger than the limit of 5 MB"),
            "{}",
            shaped.text
        );
        assert_eq!(shaped.text.split("\n\n").count(), 7);
    }

    #[test]
    fn an_image_is_of_the_type_its_bytes_tell() {
        let wrapped = format!("{}\n{}", &PNG[..20], PNG[20..].trim_end_matches('='));
        let result = json!({ "content": [{ "type": "image", "mimeType": "image/jpeg", "data": wrapped }] });
        let shaped = shape(&result).unwrap();
        assert_eq!(shaped.attachments[0].mime, "image/png");
        assert_eq!(shaped.attachments[0].url, format!("data:image/png;base64,{PNG}"));
    }

    #[test]
    fn many_images_are_bounded_together() {
        let mut image = CODE.decode(PNG).unwrap();
        image.resize(4_000_000, 0);
        let block = json!({ "type": "image", "mimeType": "image/png", "data": CODE.encode(&image) });
        let shaped = shape(&json!({ "content": [block, block, block] })).unwrap();
        assert_eq!(shaped.attachments.len(), 2);
        assert!(shaped.text.contains("too many attachments"));
    }

    #[test]
    fn resources_and_prompts_are_told_alike() {
        let contents = json!([{ "uri": "a://t", "text": "words" }, { "uri": "a://x/p.png", "blob": PNG },
            { "uri": "a://j", "mimeType": "application/json", "blob": CODE.encode("{}") }, { "uri": "a://e" }]);
        let shaped = resource(&json!({ "contents": contents }));
        assert_eq!(shaped.text, "words\n\n{}\n\n[the resource a://e is empty]");
        assert_eq!(shaped.attachments[0].filename.as_deref(), Some("p.png"));
        let embedded = json!({ "content": [{ "type": "resource", "resource": { "uri": "a://t", "text": "words" } },
            { "type": "resource_link", "uri": "a://l", "name": "l", "description": "more" }] });
        assert_eq!(shape(&embedded).unwrap().text, "words\n\n[l](a://l): more");
        let messages = json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "hey Ada" } },
            { "role": "assistant", "content": [{ "type": "text", "text": "hm" }] }] });
        assert_eq!(prompt(&messages).text, "hey Ada\n\nhm");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(kind in "text|image|audio|resource|resource_link|x", mime in "image/png|text/plain|", data in "[A-Za-z0-9+/=\n é]{0,40}") {
            let block = json!({ "type": kind, "mimeType": mime, "data": data, "text": data, "resource": { "uri": data, "blob": data } });
            let _ = shape(&json!({ "content": [block], "isError": data.is_empty() }));
            resource(&json!({ "contents": [block] }));
        }
    }
}
