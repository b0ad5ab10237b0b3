//! The data directory and its one owner.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::config::TroupeConfig;
use rand::Rng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::database::Database;
use crate::error::StorageError;
use crate::places::Places;

/// Longest path of a unix socket that every system takes, in bytes.
const SOCKET_PATH: usize = 100;

/// How often, and after which time, the lock of a dead owner is tried again.
const TRIES: usize = 100;
const AGAIN: Duration = Duration::from_millis(20);

/// The data directory, owned by this process as long as this value lives.
#[derive(Debug)]
pub struct DataDir {
    root: PathBuf,
    lock: File,
    id: String,
}

/// What the lock file says of the owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its process id.
    pub pid: u32,
    /// Where it listens on TCP; empty when it doesn't.
    #[serde(default)]
    pub address: String,
    /// Its unix socket.
    pub socket: PathBuf,
}

impl DataDir {
    /// Makes the directory where it is missing and takes it. Errors with [`StorageError::Owned`] when another process
    /// has it.
    pub fn own(root: &Path) -> Result<Self, StorageError> {
        make_private(root)?;
        let path = root.join("troupe.lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(StorageError::file("opening", &path))?;
        match take(&lock, &path) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let owner =
                    read_owner(&path).unwrap_or(Owner { pid: 0, address: String::new(), socket: PathBuf::new() });
                let address = if owner.address.is_empty() { owner.socket.display().to_string() } else { owner.address };
                return Err(StorageError::Owned { path: root.to_owned(), pid: owner.pid, address });
            }
            Err(TryLockError::Error(source)) => return Err(StorageError::File { action: "locking", path, source }),
        }
        let directory = Self { root: root.to_owned(), lock, id: read_or_make_id(root)? };
        directory.announce("")?;
        Ok(directory)
    }

    /// Returns who owns a directory, if anybody does.
    pub fn owner(root: &Path) -> Option<Owner> {
        let path = root.join("troupe.lock");
        let file = File::open(&path).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => read_owner(&path),
            _ => None,
        }
    }

    /// Says where the owner listens on TCP (`http://HOST:PORT`).
    pub fn announce(&self, address: &str) -> Result<(), StorageError> {
        let owner = Owner { pid: std::process::id(), address: address.to_owned(), socket: self.socket() };
        let path = self.root.join("troupe.lock");
        let write = || -> std::io::Result<()> {
            let mut lock = &self.lock;
            lock.set_len(0)?;
            lock.rewind()?;
            lock.write_all(&serde_json::to_vec(&owner)?)?;
            lock.flush()
        };
        write().map_err(StorageError::file("writing", path))
    }

    /// Returns the directory's own random id; it stays the same for ever.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns where the owner's unix socket is: in the directory, or, where that path is too long for a socket, in
    /// the temporary directory under a name made of it.
    pub fn socket(&self) -> PathBuf {
        let path = self.root.join("troupe.sock");
        if path.as_os_str().len() <= SOCKET_PATH {
            return path;
        }
        let hash = Sha256::digest(path.as_os_str().as_encoded_bytes());
        let name: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        std::env::temp_dir().join(format!("troupe-{name}")).join("troupe.sock")
    }

    /// Opens the database as the global settings say.
    pub async fn database(&self, settings: &TroupeConfig, now_ms: u64) -> Result<Database, StorageError> {
        Database::open(&self.root.join("troupe.db"), settings.durability, settings.damaged, now_ms).await
    }
}

/// Makes a directory that only its owner can look into; an existing one is left as it is.
pub fn make_private(path: &Path) -> Result<(), StorageError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(StorageError::file("making", path))
}

/// Makes the directories of a service that owns its data.
pub fn make_places(places: &Places) -> Result<(), StorageError> {
    make_private(&places.data)?;
    make_private(&places.tool_output())?;
    make_private(&places.snapshots())
}

/// Locks the file. Where the owner it names is dead, a process that it had just begun to start holds the lock on for the
/// moment until its own program runs: that is waited for.
#[expect(clippy::disallowed_methods, reason = "at the start, when there is nothing else to do")]
fn take(lock: &File, path: &Path) -> Result<(), TryLockError> {
    for _ in 0..TRIES {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) if read_owner(path).is_some_and(|owner| is_dead(owner.pid)) => {
                std::thread::sleep(AGAIN);
            }
            taken => return taken,
        }
    }
    lock.try_lock()
}

#[cfg(unix)]
fn is_dead(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None) == Err(nix::errno::Errno::ESRCH)
}

#[cfg(not(unix))]
fn is_dead(_: u32) -> bool {
    false
}

fn read_owner(path: &Path) -> Option<Owner> {
    let mut text = String::new();
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn read_or_make_id(root: &Path) -> Result<String, StorageError> {
    let path = root.join("id");
    if let Ok(id) = std::fs::read_to_string(&path) {
        let id = id.trim();
        if !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Ok(id.to_owned());
        }
    }
    let id: String = rand::rng().sample_iter(rand::distr::Alphanumeric).take(16).map(char::from).collect();
    std::fs::write(&path, &id).map_err(StorageError::file("writing", &path))?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_second_owner_is_told_who_the_first_is() {
        let root = tempfile::tempdir().expect("a directory");
        let first = DataDir::own(root.path()).expect("owned");
        first.announce("http://127.0.0.1:4096").expect("announced");
        let second = DataDir::own(root.path());
        assert!(matches!(
            second,
            Err(StorageError::Owned { pid, address, .. }) if pid == std::process::id() && address == "http://127.0.0.1:4096"
        ));
        let id = first.id().to_owned();
        drop(first);
        assert_eq!(DataDir::owner(root.path()), None);
        assert_eq!(DataDir::own(root.path()).expect("owned again").id(), id);
    }

    #[cfg(unix)]
    #[test]
    fn the_lock_of_a_dead_owner_is_waited_for() {
        let root = tempfile::tempdir().expect("a directory");
        let first = DataDir::own(root.path()).expect("owned");
        let mut dead = std::process::Command::new("true").spawn().expect("started");
        dead.wait().expect("ended");
        let owner = Owner { pid: dead.id(), address: String::new(), socket: PathBuf::new() };
        std::fs::write(root.path().join("troupe.lock"), serde_json::to_vec(&owner).expect("JSON")).expect("written");
        let (path, begun) = (root.path().to_owned(), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                begun.wait();
                DataDir::own(&path).map(drop)
            });
            begun.wait();
            drop(first);
            second.join().expect("no panic").expect("owned");
        });
    }

    #[test]
    fn a_socket_path_is_never_too_long() {
        let root = tempfile::tempdir().expect("a directory");
        let deep = root.path().join("x".repeat(120));
        let directory = DataDir::own(&deep).expect("owned");
        assert!(directory.socket().as_os_str().len() <= SOCKET_PATH);
    }
}
