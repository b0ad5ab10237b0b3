//! Programs that a test writes and has run.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program, with its directories.
///
/// A process of its own writes it: were it this one, a child forked by another test's thread just then would hold the
/// file open for writing until its own `exec`, and running the program would fail with `ETXTBSY` meanwhile.
pub fn write_program(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    let script = r#"cat > "$0" && chmod 755 "$0""#;
    let mut writer = Command::new("sh").args(["-c", script]).arg(path).stdin(Stdio::piped()).spawn().expect("a shell");
    writer.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
    let status = writer.wait().expect("waited for");
    assert!(status.success(), "{}: {status}", path.display());
}
