//! Writes files whole: a reader sees the old content or the new one, never a part.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstatat};
use nix::unistd::{AccessFlags, UnlinkatFlags, faccessat, unlinkat};
use tokio_util::sync::CancellationToken;
use xattr::FileExt;

use crate::context::Effects;
use crate::error::ToolError;
use crate::files::open::{Parents, kind_in, not_regular, open_parent};

/// Whether a write made a file or replaced one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// There was none.
    Made,
    /// There was one.
    Replaced,
}

/// Writes a file: into a new one beside it, which then takes its name. An existing file keeps its mode and, where the
/// process may, its owner and extended attributes; other names of it (hard links) keep the old content. Directories on
/// the way are made. `real` has its links followed, so a link is written
/// through. Call it under the path's lock (`FileLocks::locked`).
///
/// Errors, with nothing changed, when there is something else than a regular file, when the file may not be written,
/// and when `cancel` was cancelled before the name changes hands.
pub(crate) fn write_atomic(
    real: &Path,
    shown: &Path,
    content: &[u8],
    effects: &Effects,
    cancel: &CancellationToken,
) -> Result<Written, ToolError> {
    write_like(real, shown, content, None, effects, cancel)
}

/// Writes a file as [`write_atomic`] does; a new one gets the mode and owner of another, for instance of the file it
/// takes the place of.
pub(crate) fn write_like(
    real: &Path,
    shown: &Path,
    content: &[u8],
    like: Option<&FileStat>,
    _effects: &Effects,
    cancel: &CancellationToken,
) -> Result<Written, ToolError> {
    let failed = |error: io::Error| ToolError::io("writing", shown)(error);
    if real.file_name().is_none() {
        return Err(not_regular(shown, crate::path::Kind::Directory));
    }
    let (directory, name) = open_parent(real, Parents::Make).map_err(failed)?;
    let old = match fstatat(&directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG => Some(stat),
        Ok(_) => return Err(not_regular(shown, kind_in(&directory, name).map_err(failed)?)),
        Err(Errno::ENOENT) => None,
        Err(error) => return Err(failed(error.into())),
    };
    if old.is_some() {
        // The directory's permission would be enough for the change of names. The file's own must hold too.
        faccessat(&directory, name, AccessFlags::W_OK, AtFlags::AT_EACCESS).map_err(|e| failed(e.into()))?;
    }
    let beside = Beside::new(&directory).map_err(failed)?;
    beside.fill(content, old.as_ref().or(like), old.and_then(|_| attributes(&directory, name))).map_err(failed)?;
    if cancel.is_cancelled() {
        return Err(ToolError::Aborted);
    }
    beside.rename(name).map_err(failed)?;
    Ok(if old.is_some() { Written::Replaced } else { Written::Made })
}

type Attributes = Vec<(OsString, Vec<u8>)>;

/// Returns the extended attributes of a file, among them its access list; none where it can't be read, or has none.
fn attributes(directory: &OwnedFd, name: &OsStr) -> Option<Attributes> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::empty()).ok()?);
    let value = |name: OsString| Some((name.clone(), file.get_xattr(&name).ok()??));
    Some(file.list_xattr().ok()?.filter_map(value).collect())
}

/// A file under a name of its own, gone again unless it was renamed.
struct Beside<'a> {
    directory: &'a OwnedFd,
    name: String,
    file: File,
    kept: bool,
}

impl<'a> Beside<'a> {
    fn new(directory: &'a OwnedFd) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let name = format!(".troupe-{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            match openat(directory, name.as_str(), flags, Mode::from_bits_truncate(0o666)) {
                Ok(file) => return Ok(Self { directory, name, file: file.into(), kept: false }),
                // Left by an earlier process of the same number.
                Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn fill(&self, content: &[u8], like: Option<&FileStat>, attributes: Option<Attributes>) -> io::Result<()> {
        if let Some(old) = like {
            // Nobody else may read it meanwhile.
            fchmod(self.file.as_fd(), Mode::from_bits_truncate(0o600))?;
            let own = self.file.metadata()?;
            if (own.uid(), own.gid()) != (old.st_uid, old.st_gid) {
                // Only a privileged process may give files away; without that the owner is who writes.
                let _ = fchown(&self.file, Some(old.st_uid), Some(old.st_gid));
            }
        }
        (&self.file).write_all(content)?;
        for (name, value) in attributes.into_iter().flatten() {
            // Some are only for privileged processes, or not for this file system.
            let _ = self.file.set_xattr(name, &value);
        }
        if let Some(old) = like {
            fchmod(self.file.as_fd(), Mode::from_bits_truncate(old.st_mode & 0o7777))?;
        }
        // Else a power cut could leave the new name with no content.
        self.file.sync_data()
    }

    fn rename(mut self, name: &OsStr) -> io::Result<()> {
        renameat(self.directory, self.name.as_str(), self.directory, name)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = unlinkat(self.directory, self.name.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use super::*;
    use crate::path::real_path;

    fn temp() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn write(path: &Path, content: &str) -> Result<Written, ToolError> {
        let real = real_path(path).unwrap();
        write_atomic(&real, path, content.as_bytes(), &Effects::stored(), &CancellationToken::new())
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn extended_attributes_stay() {
        let (_keep, root) = temp();
        let path = root.join("a.txt");
        std::fs::write(&path, "old").unwrap();
        if xattr::set(&path, "user.troupe", b"mine").is_err() {
            eprintln!("this file system has none");
            return;
        }
        assert_eq!(write(&path, "new").unwrap(), Written::Replaced);
        assert_eq!(xattr::get(&path, "user.troupe").unwrap().as_deref(), Some(b"mine".as_slice()));
    }

    #[test]
    fn a_new_file_comes_with_its_directories() {
        let (_keep, root) = temp();
        assert_eq!(write(&root.join("a/b/c.txt"), "x").unwrap(), Written::Made);
        assert_eq!(std::fs::read_to_string(root.join("a/b/c.txt")).unwrap(), "x");
        assert_eq!(names(&root.join("a/b")), ["c.txt"]);
    }

    #[test]
    fn an_existing_file_keeps_its_mode() {
        let (_keep, root) = temp();
        let path = root.join("run.sh");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(write(&path, "new").unwrap(), Written::Replaced);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o755);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn a_link_stays_and_its_target_is_written() {
        let (_keep, root) = temp();
        std::fs::create_dir(root.join("d")).unwrap();
        std::fs::write(root.join("d/target"), "old").unwrap();
        symlink("d/target", root.join("link")).unwrap();
        symlink("d/fresh", root.join("dangling")).unwrap();
        write(&root.join("link"), "new").unwrap();
        write(&root.join("dangling"), "made").unwrap();
        assert!(root.join("link").symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read_to_string(root.join("d/target")).unwrap(), "new");
        assert_eq!(std::fs::read_to_string(root.join("d/fresh")).unwrap(), "made");
    }

    #[test]
    fn a_directory_or_a_fifo_is_never_replaced() {
        let (_keep, root) = temp();
        std::fs::create_dir(root.join("d")).unwrap();
        nix::unistd::mkfifo(&root.join("p"), Mode::from_bits_truncate(0o600)).unwrap();
        for (name, what) in [("d", "directory"), ("p", "fifo")] {
            assert!(write(&root.join(name), "x").unwrap_err().to_string().contains(what));
        }
        assert_eq!(names(&root), ["d", "p"]);
    }

    #[test]
    fn an_aborted_write_leaves_nothing() {
        let (_keep, root) = temp();
        let cancel = CancellationToken::new();
        cancel.cancel();
        let path = root.join("f");
        std::fs::write(&path, "old").unwrap();
        let written = write_atomic(&path, &path, b"new", &Effects::stored(), &cancel);
        assert!(matches!(written, Err(ToolError::Aborted)));
        assert_eq!(names(&root), ["f"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    }
}
