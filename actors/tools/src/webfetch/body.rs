//! The body of an answer: read within bounds, told from binary data, decoded.

use encoding_rs::{Encoding, UTF_8};
use futures::StreamExt;
use reqwest::Response;
use url::Url;

use crate::error::ToolError;

/// Bytes of a page at most.
const MOST: usize = 5 * 1024 * 1024;

/// Bytes in which a page may say its encoding; the standard's number.
const HEAD: usize = 1024;

/// Reads an answer, but no more than we take.
pub(super) async fn read(url: &Url, response: Response) -> Result<Vec<u8>, ToolError> {
    let too_large = || {
        let most = MOST / 1024 / 1024;
        ToolError::failed(format!(
            "{} is larger than {most} MB. Fetch a smaller page, or download it with a command.",
            shown(url)
        ))
    };
    if response.content_length().is_some_and(|length| length > MOST as u64) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|e| failure(url, &e))?;
        if bytes.len() + piece.len() > MOST {
            return Err(too_large());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Returns a url without the password in it.
pub(super) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    if url.password().is_some() {
        // Fails only for urls without a host, which have no password.
        let _ = url.set_password(Some("***"));
    }
    url.to_string()
}

/// Returns why a request failed, down to its cause.
pub(super) fn failure(url: &Url, error: &reqwest::Error) -> ToolError {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    // Some say nothing but the url, which may hold a password.
    let reason = if error.is_redirect() { "too many redirects".to_owned() } else { cause.to_string() };
    ToolError::failed(format!("{} could not be fetched: {reason}.", shown(url)))
}

/// Returns whether a body is text: by its media type, else by its bytes.
pub(super) fn is_text(media: &str, bytes: &[u8]) -> bool {
    let (kind, subtype) = media.split_once('/').unwrap_or((media, ""));
    let textual = ["json", "xml", "javascript", "ecmascript", "yaml", "x-yaml", "toml", "x-sh", "graphql", "sql"];
    match kind {
        "text" => true,
        "image" => subtype == "svg+xml",
        "audio" | "video" | "font" => false,
        _ if textual.iter().any(|t| subtype == *t || subtype.ends_with(&format!("+{t}"))) => true,
        _ => !bytes.iter().take(8 * 1024).any(|byte| *byte == 0),
    }
}

/// Returns whether a text without a media type begins as a page.
pub(super) fn looks_like_html(text: &str) -> bool {
    let start = text.trim_start().get(..15).unwrap_or_default().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// Decodes a body: by its byte order mark, the header, what the page says of itself, else as UTF-8.
pub(super) fn decode(content_type: &str, bytes: &[u8]) -> String {
    let from_header = content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        name.trim().eq_ignore_ascii_case("charset").then(|| Encoding::for_label(value.as_bytes())).flatten()
    });
    let encoding = from_header.or_else(|| said(bytes)).unwrap_or(UTF_8);
    encoding.decode(bytes).0.into_owned()
}

/// Returns the encoding that `<meta charset=…>` or an XML declaration names.
fn said(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(bytes.get(..HEAD).unwrap_or(bytes)).to_ascii_lowercase();
    let at = head.find("charset=").map(|at| at + 8).or_else(|| {
        let declared = head.starts_with("<?xml");
        head.find("encoding=").filter(|_| declared).map(|at| at + 9)
    })?;
    let label = head.get(at..)?.trim_start_matches(['"', '\'']);
    let end =
        label.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | ':' | '.')).unwrap_or(label.len());
    Encoding::for_label(label.get(..end)?.as_bytes())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_body_is_decoded_as_it_says() {
        assert_eq!(decode("text/plain; charset=ISO-8859-1", b"gr\xfcn"), "gr\u{fc}n");
        assert_eq!(decode("text/plain; Charset=\"windows-1252\"", b"\x80"), "\u{20ac}");
        assert_eq!(decode("text/html", b"<meta charset=\"iso-8859-1\">\xfc"), "<meta charset=\"iso-8859-1\">\u{fc}");
        assert_eq!(
            decode("text/html", b"<meta content='text/html; charset=koi8-r'>\xc1").chars().last(),
            Some('\u{430}')
        );
        assert_eq!(decode("text/xml", b"<?xml version='1.0' encoding='latin1'?>\xfc").chars().last(), Some('\u{fc}'));
        assert_eq!(decode("text/plain", "gr\u{fc}n".as_bytes()), "gr\u{fc}n");
        assert_eq!(decode("text/plain; charset=nonsense", b"a\xffb"), "a\u{fffd}b");
        assert_eq!(decode("text/plain", b"\xff\xfea\0"), "a");
    }

    #[test]
    fn text_is_told_from_binary() {
        for media in ["text/html", "application/json", "application/ld+json", "image/svg+xml", "application/javascript"]
        {
            assert!(is_text(media, b"\0"), "{media}");
        }
        for media in ["audio/mpeg", "video/mp4", "image/bmp"] {
            assert!(!is_text(media, b"text"), "{media}");
        }
        assert!(is_text("application/octet-stream", b"text") && !is_text("application/octet-stream", b"a\0b"));
        assert!(is_text("", b"text"));
    }

    #[test]
    fn a_password_is_not_shown() {
        assert_eq!(shown(&Url::parse("http://me:secret@example.org/x").unwrap()), "http://me:***@example.org/x");
    }
}
