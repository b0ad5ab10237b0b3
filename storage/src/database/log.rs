//! The write-ahead log beside the file, before SQLite looks at it: SQLite throws away a log it can't read, and does
//! without one that is gone, without a word.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::salvage::with;
use crate::error::StorageError;

/// What a log begins with, but for its last bit. Source: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.
const MAGIC: u32 = 0x377f_0682;

/// What became of the log.
#[derive(Debug, PartialEq, Eq)]
pub enum Log {
    /// It is as SQLite left it, or there is none.
    Sound,
    /// It is gone, and was there when the last life of the service ended.
    Gone,
    /// It can't be read. It is kept here.
    Kept(PathBuf),
}

/// Returns what became of the log of a database; one that can't be read is moved aside.
pub fn look(path: &Path, now_ms: u64) -> Result<Log, StorageError> {
    let log = with(path, "-wal");
    let mut head = Vec::new();
    match std::fs::File::open(&log) {
        Ok(file) => file.take(4).read_to_end(&mut head).map_err(StorageError::file("reading", &log))?,
        // A close takes both away, a crash leaves both.
        Err(_) if with(path, "-shm").exists() && !log.exists() => return Ok(Log::Gone),
        Err(_) => return Ok(Log::Sound),
    };
    let magic = <[u8; 4]>::try_from(head.as_slice()).map_or(0, u32::from_be_bytes);
    if head.is_empty() || magic & !1 == MAGIC {
        return Ok(Log::Sound);
    }
    let kept = with(path, &format!(".damaged-{now_ms}-wal"));
    std::fs::rename(&log, &kept).map_err(StorageError::file("keeping a copy of", &log))?;
    Ok(Log::Kept(kept))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_log_that_is_gone_or_no_log_is_told_from_one_that_is_sound() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.db");
        let look = || look(&path, 7).expect("looked at");
        assert_eq!(look(), Log::Sound);
        std::fs::write(dir.path().join("x.db-shm"), "").expect("written");
        assert_eq!(look(), Log::Gone);
        let log = dir.path().join("x.db-wal");
        for sound in [b"".as_slice(), b"\x37\x7f\x06\x82...", b"\x37\x7f\x06\x83..."] {
            std::fs::write(&log, sound).expect("written");
            assert_eq!(look(), Log::Sound);
        }
        for broken in [b"\0\0\0\0....".as_slice(), b"x"] {
            std::fs::write(&log, broken).expect("written");
            assert_eq!(look(), Log::Kept(dir.path().join("x.db.damaged-7-wal")));
            assert_eq!(std::fs::read(dir.path().join("x.db.damaged-7-wal")).expect("kept"), broken);
            assert!(!log.exists());
        }
    }
}
