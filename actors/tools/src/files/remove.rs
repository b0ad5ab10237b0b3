//! Removes files.

use std::path::Path;

use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::context::Effects;
use crate::error::ToolError;
use crate::files::open::{Parents, kind_in, not_regular, open_parent};
use crate::path::Kind;

/// Returns what the system knows of a regular file (real path): its mode, its owner.
pub(crate) fn stat(real: &Path, shown: &Path) -> Result<FileStat, ToolError> {
    let (directory, name) = open_parent(real, Parents::Demand).map_err(ToolError::io("opening", shown))?;
    let found = fstatat(&directory, name, AtFlags::AT_SYMLINK_NOFOLLOW);
    found.map_err(|error| ToolError::io("opening", shown)(error.into()))
}

/// Removes a regular file (real path). Call it under the path's lock.
pub(crate) fn remove(real: &Path, shown: &Path, _effects: &Effects) -> Result<(), ToolError> {
    let failed = |error: std::io::Error| ToolError::io("removing", shown)(error);
    let (directory, name) = open_parent(real, Parents::Demand).map_err(failed)?;
    match kind_in(&directory, name).map_err(failed)? {
        Kind::File => unlinkat(&directory, name, UnlinkatFlags::NoRemoveDir).map_err(|error| failed(error.into())),
        other => Err(not_regular(shown, other)),
    }
}
