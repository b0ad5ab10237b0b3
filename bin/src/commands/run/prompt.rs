//! What is said: the words of the command line, what comes on standard input, and files.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use protocol::part::FilePart;
use protocol::prompt::{PartInput, PartInputKind};
use url::Url;

/// Returns the words joined by spaces, and below them what standard input holds where it is no terminal. Nothing is
/// quoted or trimmed.
pub fn text(words: &[String]) -> anyhow::Result<String> {
    let mut input = String::new();
    let mut stdin = std::io::stdin();
    if !stdin.is_terminal() {
        let mut bytes = Vec::new();
        stdin.read_to_end(&mut bytes).context("reading standard input")?;
        input = String::from_utf8(bytes).context("standard input is no UTF-8 text")?;
    }
    Ok(join(words, input))
}

fn join(words: &[String], input: String) -> String {
    match (words.is_empty(), input.is_empty()) {
        (true, _) => input,
        (false, true) => words.join(" "),
        (false, false) => format!("{}\n{input}", words.join(" ")),
    }
}

/// Returns the parts of a prompt: the files, then the text.
pub fn parts(text: String, files: &[PathBuf], directory: Option<&Path>) -> anyhow::Result<Vec<PartInput>> {
    let mut parts = Vec::new();
    for file in files {
        parts.push(PartInput { id: None, kind: PartInputKind::File(self::file(file, directory)?) });
    }
    let kind = PartInputKind::Text { text, synthetic: None, ignored: None, time: None, metadata: None };
    parts.push(PartInput { id: None, kind });
    Ok(parts)
}

/// Returns a file as a part. Only its path is sent: the server reads it.
fn file(path: &Path, directory: Option<&Path>) -> anyhow::Result<FilePart> {
    let path = directory.map_or_else(|| path.to_owned(), |directory| directory.join(path));
    let Ok(found) = std::fs::metadata(&path) else { bail!("file not found: {}", path.display()) };
    let path = std::path::absolute(&path).with_context(|| format!("looking for {}", path.display()))?;
    let Ok(url) = Url::from_file_path(&path) else { bail!("{} has no file: url", path.display()) };
    Ok(FilePart {
        mime: if found.is_dir() { "application/x-directory" } else { mime(&path) }.to_owned(),
        filename: path.file_name().map(|name| name.to_string_lossy().into_owned()),
        url: url.into(),
        source: None,
    })
}

/// Models see pictures and PDF files as such; anything else is read as text.
fn mime(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        _ => "text/plain",
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn words_and_input_are_joined_as_they_are() {
        let words = ["say".to_owned(), " \"hi\"  there".to_owned()];
        assert_eq!(join(&words, String::new()), "say  \"hi\"  there");
        assert_eq!(join(&words, "in\n".into()), "say  \"hi\"  there\nin\n");
        assert_eq!(join(&[], "in\n".into()), "in\n");
    }

    #[test]
    fn a_file_is_named_by_its_url_and_kind() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["a b.txt", "x.PNG", "m.ts"] {
            std::fs::write(dir.path().join(name), "x").expect("written");
        }
        let of = |name: &str| file(Path::new(name), Some(dir.path())).expect("a part");
        assert_eq!(of("a b.txt").url, format!("file://{}/a%20b.txt", dir.path().display()));
        assert_eq!((of("x.PNG").mime, of("m.ts").mime), ("image/png".into(), "text/plain".into()));
        assert_eq!(of(".").mime, "application/x-directory");
        let error = file(Path::new("none"), Some(dir.path())).expect_err("not there").to_string();
        assert!(error.starts_with("file not found: "), "{error}");
    }
}
