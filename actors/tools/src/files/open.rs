//! Opens files by their real path, one directory at a time and following no link.
//!
//! A real path holds no links when it is judged. Should one be put into it afterwards, the opening fails instead of
//! leading elsewhere: check and open are about the same file.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fstatat, mkdirat};

use crate::error::ToolError;
use crate::path::{Kind, kind_of_type};

/// How a directory on the way is opened: passing through it must be allowed, listing it need not.
#[cfg(target_os = "linux")]
const PASS: OFlag = OFlag::O_PATH;
#[cfg(not(target_os = "linux"))]
const PASS: OFlag = OFlag::O_RDONLY;

/// What to do with directories on the way that don't exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parents {
    /// It is an error.
    Demand,
    /// They are made.
    Make,
}

/// Returns the directory that holds `real`, and the name in it. Errors on a link on the way.
pub(crate) fn open_parent(real: &Path, parents: Parents) -> io::Result<(OwnedFd, &OsStr)> {
    let flags = PASS | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut directory = open("/", flags, Mode::empty())?;
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
    let name = real.file_name().ok_or_else(no_name)?;
    for component in real.parent().ok_or_else(no_name)?.components() {
        let Component::Normal(part) = component else { continue };
        directory = match openat(&directory, part, flags, Mode::empty()) {
            Err(Errno::ENOENT) if parents == Parents::Make => {
                match mkdirat(&directory, part, Mode::from_bits_truncate(0o777)) {
                    Ok(()) | Err(Errno::EEXIST) => openat(&directory, part, flags, Mode::empty())?,
                    Err(error) => return Err(error.into()),
                }
            }
            opened => opened?,
        };
    }
    Ok((directory, name))
}

/// Returns a directory's entries; each with its name and whether it is a directory, links followed. Errors when there
/// is a link on the way to the directory itself.
pub(crate) fn entries(real: &Path, most: usize) -> io::Result<Vec<(OsString, bool)>> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let directory = match open_parent(real, Parents::Demand) {
        Ok((parent, name)) => openat(&parent, name, flags, Mode::empty())?,
        Err(_) if real.file_name().is_none() => open(real, flags, Mode::empty())?,
        Err(error) => return Err(error),
    };
    // The handle's own name, where the system has such names.
    let handle = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    let path = if handle.exists() { &*handle } else { real };
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)?.take(most) {
        let entry = entry?;
        let file_type = entry.file_type()?;
        let is_directory = file_type.is_dir() || (file_type.is_symlink() && entry.path().is_dir());
        entries.push((entry.file_name(), is_directory));
    }
    Ok(entries)
}

/// Returns what a directory holds under `name`, without following a link.
pub(crate) fn kind_in(directory: impl AsFd, name: &OsStr) -> io::Result<Kind> {
    match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => Kind::File,
            SFlag::S_IFDIR => Kind::Directory,
            SFlag::S_IFIFO => Kind::Special("a fifo"),
            SFlag::S_IFSOCK => Kind::Special("a socket"),
            SFlag::S_IFCHR | SFlag::S_IFBLK => Kind::Special("a device"),
            _ => Kind::Special("a symbolic link"),
        }),
        Err(Errno::ENOENT) => Ok(Kind::Missing),
        Err(error) => Err(error.into()),
    }
}

/// Opens a regular file for reading; none when there is nothing. Anything else is an error that names what it is: a
/// fifo would wait for its writer, a device may never end.
pub(crate) fn open_regular(real: &Path, shown: &Path) -> Result<Option<(File, Metadata)>, ToolError> {
    match try_open(real) {
        Ok(Opened::File(file, metadata)) => Ok(Some((file, metadata))),
        Ok(Opened::Other(Kind::Missing)) => Ok(None),
        Ok(Opened::Other(kind)) => Err(not_regular(shown, kind)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(ToolError::io("opening", shown)(error)),
    }
}

enum Opened {
    File(File, Metadata),
    Other(Kind),
}

fn try_open(real: &Path) -> io::Result<Opened> {
    if real.file_name().is_none() {
        return Ok(Opened::Other(Kind::Directory));
    }
    let (directory, name) = open_parent(real, Parents::Demand)?;
    match kind_in(&directory, name)? {
        Kind::File => {}
        other => return Ok(Opened::Other(other)),
    }
    // Should it have become a fifo or a terminal since, opening must neither wait nor take it over.
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let file = File::from(openat(&directory, name, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    match kind_of_type(metadata.file_type()) {
        Kind::File => Ok(Opened::File(file, metadata)),
        other => Ok(Opened::Other(other)),
    }
}

/// Returns the error for what should have been a regular file.
pub(crate) fn not_regular(shown: &Path, kind: Kind) -> ToolError {
    let what = match kind {
        Kind::Missing => "nothing",
        Kind::File => "a file",
        Kind::Directory => "a directory",
        Kind::Special(what) => what,
    };
    ToolError::failed(format!("{} is not a regular file but {what}.", shown.display()))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_put_into_the_path_after_the_check_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::fs::write(root.join("real/f"), "secret").unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("real/f", root.join("file")).unwrap();
        let opened = |path: &str| open_regular(&root.join(path), Path::new(path));
        let mut text = String::new();
        opened("real/f").unwrap().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "secret");
        assert!(!matches!(opened("link/f"), Ok(Some(_))));
        assert!(opened("file").unwrap_err().to_string().contains("symbolic link"));
        assert!(open_parent(&root.join("link/new"), Parents::Make).is_err());
        assert_eq!(entries(&root.join("real"), 9).unwrap(), [("f".into(), false)]);
        assert!(entries(&root.join("link"), 9).is_err());
        assert!(!entries(Path::new("/"), 9).unwrap().is_empty());
    }

    #[test]
    fn what_is_not_a_regular_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().canonicalize().unwrap().join("p");
        nix::unistd::mkfifo(&fifo, Mode::from_bits_truncate(0o600)).unwrap();
        let error = |path: &Path| open_regular(path, path).unwrap_err().to_string();
        assert!(error(&fifo).ends_with("is not a regular file but a fifo."));
        assert!(error(Path::new("/dev/zero")).ends_with("is not a regular file but a device."));
        assert!(error(Path::new("/")).ends_with("is not a regular file but a directory."));
        assert!(open_regular(Path::new("/no/such/file"), Path::new("x")).unwrap().is_none());
    }
}
