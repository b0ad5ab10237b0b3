//! Lets git pass ignore and attribute files that have no end.
//!
//! Git opens each `.gitignore` and `.gitattributes` of a worktree, and where one is a fifo it waits for a writer, for
//! ever. Being one for a moment lets it go on as if the file were empty. They are looked for only where git takes long.

use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use tokio::sync::mpsc;

/// How long git runs before it is looked for what holds it up.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often a fifo that was found is opened: git may come by again.
const EVERY: Duration = Duration::from_millis(20);
/// What git reads by its name.
const READ: [&str; 2] = [".gitignore", ".gitattributes"];

/// Lets git go on where it waits for a fifo below a directory. Never returns: drop it when git has ended.
pub async fn relieve(directory: PathBuf) -> ! {
    tokio::time::sleep(PATIENCE).await;
    let (found, mut fifos) = mpsc::unbounded_channel();
    // Ends early when nobody listens any more.
    drop(tokio::task::spawn_blocking(move || walk(&directory, &found)));
    let mut known: Vec<PathBuf> = Vec::new();
    loop {
        tokio::select! {
            Some(fifo) = fifos.recv() => known.push(fifo),
            () = tokio::time::sleep(EVERY), if !known.is_empty() => known.iter().for_each(|fifo| open_and_close(fifo)),
            else => std::future::pending().await,
        }
    }
}

/// Tells of the fifos among git's files below a directory, those at the top first.
fn walk(directory: &Path, found: &mpsc::UnboundedSender<PathBuf>) {
    let mut level = vec![directory.to_owned()];
    while !level.is_empty() {
        let mut next = Vec::new();
        for directory in level {
            if found.is_closed() {
                return;
            }
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if READ.iter().any(|read| name == *read) {
                    // Of a link it counts where it goes: an older git follows it.
                    if std::fs::metadata(entry.path()).is_ok_and(|file| file.file_type().is_fifo()) {
                        let _ = found.send(entry.path());
                    }
                } else if name != ".git" && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    next.push(entry.path());
                }
            }
        }
        level = next;
    }
}

/// Opens a fifo for writing if somebody reads it just now; the reader sees its end then.
fn open_and_close(fifo: &Path) {
    let flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    // Without a reader it can't be opened, and needn't.
    drop(std::fs::OpenOptions::new().write(true).custom_flags(flags.bits()).open(fifo));
}
