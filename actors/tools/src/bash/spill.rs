//! The whole output, kept in a file for the model to read in pieces.

use std::io;
use std::path::{Path, PathBuf};

use tokio::fs::File;
use tokio::io::AsyncWriteExt;

/// Bytes held in memory before there is a file: most outputs never need one.
const HELD: usize = 64 * 1024;

/// Bytes written at most.
const MOST: u64 = 64 * 1024 * 1024;

/// The raw output on its way to a file of the owner alone (0600). A lone carriage return gets a line feed behind it,
/// so that what was overwritten can be read line by line.
#[derive(Debug)]
pub(super) struct Spill {
    directory: PathBuf,
    most: u64,
    held: Vec<u8>,
    file: Option<(File, PathBuf)>,
    /// Bytes that came, and bytes that were kept.
    came: u64,
    kept: u64,
    /// The last byte was a carriage return.
    returned: bool,
    failed: Option<io::Error>,
}

impl Spill {
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            most: MOST,
            held: Vec::new(),
            file: None,
            came: 0,
            kept: 0,
            returned: false,
            failed: None,
        }
    }

    #[cfg(test)]
    fn with_most(directory: &Path, most: u64) -> Self {
        Self { most, ..Self::new(directory) }
    }

    /// Takes the next piece. A disk that fails is told at the end; the command goes on.
    pub(super) async fn push(&mut self, bytes: &[u8]) {
        self.came += bytes.len() as u64;
        if self.failed.is_some() || self.kept >= self.most {
            return;
        }
        self.hold(bytes);
        if self.held.len() > HELD
            && let Err(error) = self.flush().await
        {
            self.failed = Some(error);
        }
    }

    /// Returns the file with the whole output; it is written out. None when nothing came.
    pub(super) async fn keep(mut self) -> io::Result<PathBuf> {
        if let Some(error) = self.failed.take() {
            self.remove().await;
            return Err(error);
        }
        if self.kept >= self.most && self.came > self.kept {
            let note = format!("\n[the rest is not kept: {} bytes came, {} are here]\n", self.came, self.kept);
            self.held.extend_from_slice(note.as_bytes());
        }
        match self.write_out().await {
            Ok(path) => Ok(path),
            Err(error) => {
                self.remove().await;
                Err(error)
            }
        }
    }

    /// Removes the file, if there is one.
    pub(super) async fn discard(self) {
        self.remove().await;
    }

    async fn write_out(&mut self) -> io::Result<PathBuf> {
        self.flush().await?;
        match &mut self.file {
            Some((file, path)) => {
                file.flush().await?;
                Ok(path.clone())
            }
            None => Err(io::Error::other("there is no output")),
        }
    }

    async fn remove(self) {
        if let Some((_, path)) = self.file {
            let _ = tokio::fs::remove_file(path).await;
        }
    }

    fn hold(&mut self, bytes: &[u8]) {
        let room = usize::try_from(self.most - self.kept).unwrap_or(usize::MAX);
        let bytes = bytes.get(..room).unwrap_or(bytes);
        self.kept += bytes.len() as u64;
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.returned) && *first != b'\n' {
                self.held.push(b'\n');
            }
            let end = memchr::memchr(b'\r', rest).map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            self.held.extend_from_slice(line);
            self.returned = line.ends_with(b"\r");
            rest = after;
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some((file, _)) => file,
            None => {
                let directory = self.directory.clone();
                let made = tokio::task::spawn_blocking(move || create(&directory)).await;
                let (file, path) = made.map_err(io::Error::other)??;
                &mut self.file.insert((File::from_std(file), path)).0
            }
        };
        file.write_all(&self.held).await?;
        self.held.clear();
        Ok(())
    }
}

/// Makes a new file that only its owner can read, named as OpenCode names them.
fn create(directory: &Path) -> io::Result<(std::fs::File, PathBuf)> {
    std::fs::create_dir_all(directory)?;
    let file = tempfile::Builder::new().prefix("tool_").rand_bytes(26).tempfile_in(directory)?;
    file.keep().map_err(|e| e.error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn the_file_is_the_owners_alone_and_holds_everything() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(&dir.path().join("deep/er"));
        spill.push(b"one\n").await;
        spill.push(&b"x".repeat(100_000)).await;
        spill.push(b"\ntwo\n").await;
        let path = spill.keep().await.unwrap();
        let text = std::fs::read(&path).unwrap();
        assert_eq!(text.len(), 100_009);
        assert!(text.starts_with(b"one\n") && text.ends_with(b"\ntwo\n"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(path.file_name().unwrap().to_str().unwrap().starts_with("tool_"));
    }

    #[tokio::test]
    async fn lone_carriage_returns_end_lines() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(dir.path());
        for piece in ["1\r2\r", "3\r\n", "4\r", "\n5\r\r6"] {
            spill.push(piece.as_bytes()).await;
        }
        assert_eq!(std::fs::read_to_string(spill.keep().await.unwrap()).unwrap(), "1\r\n2\r\n3\r\n4\r\n5\r\n\r\n6");
    }

    #[tokio::test]
    async fn past_the_cap_a_note_ends_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = Spill::with_most(dir.path(), 10);
        spill.push(b"12345678").await;
        spill.push(b"90abcdef").await;
        spill.push(b"more").await;
        let text = std::fs::read_to_string(spill.keep().await.unwrap()).unwrap();
        assert_eq!(text, "1234567890\n[the rest is not kept: 20 bytes came, 10 are here]\n");
    }

    #[tokio::test]
    async fn a_discarded_file_is_gone_and_a_small_output_never_makes_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(dir.path());
        spill.push(b"small").await;
        assert!(spill.file.is_none());
        spill.push(&b"x".repeat(100_000)).await;
        assert!(spill.file.is_some());
        spill.discard().await;
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_made_is_an_error_at_the_end_only() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let mut spill = Spill::new(&dir.path().join("file/below"));
        spill.push(&b"x".repeat(100_000)).await;
        spill.push(b"y").await;
        assert!(spill.keep().await.is_err());
    }
}
