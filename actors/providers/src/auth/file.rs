//! `auth.json`: ours, and OpenCode's.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::Value;

use super::login::{Login, Source};
use super::{AuthError, Forgotten};

type Entries = IndexMap<String, Value>;

/// The two files. What others keep in ours stays.
#[derive(Clone, Debug)]
pub(super) struct Files {
    own: PathBuf,
    opencodes: PathBuf,
}

impl Files {
    pub(super) fn new(own: PathBuf, opencodes: PathBuf) -> Self {
        Self { own, opencodes }
    }

    pub(super) fn paths(&self) -> [PathBuf; 2] {
        [self.own.clone(), self.opencodes.clone()]
    }

    /// Returns all logins that can be read. Blocks.
    pub(super) fn all(&self) -> Result<IndexMap<String, (Login, Source)>, AuthError> {
        let mut all = IndexMap::new();
        let own = read(&self.own)?;
        let others = read(&self.opencodes).unwrap_or_else(|error| {
            tracing::warn!(%error, "OpenCode's logins are passed over");
            Entries::new()
        });
        for (entries, source) in [(own, Source::Own), (others, Source::OpenCode)] {
            for (provider, value) in entries {
                match serde_json::from_value::<Login>(value) {
                    Ok(login) => drop(all.entry(provider).or_insert((login, source))),
                    // What is wrong may be quoted with a secret.
                    Err(_) => tracing::warn!(provider, "a login of a kind that is not known is passed over"),
                }
            }
        }
        Ok(all)
    }

    pub(super) async fn get(&self, provider: &str) -> Result<Option<Login>, AuthError> {
        let (files, provider) = (self.clone(), provider.to_owned());
        blocking(move || Ok(files.all()?.swap_remove(&provider).map(|(login, _)| login))).await
    }

    pub(super) async fn set(&self, provider: &str, login: Login) -> Result<(), AuthError> {
        let (path, provider) = (self.own.clone(), provider.to_owned());
        blocking(move || {
            let value =
                serde_json::to_value(login).map_err(|_| AuthError::File("the login can't be written".into()))?;
            change(&path, |entries| {
                entries.insert(provider, value);
                true
            })
            .map(drop)
        })
        .await
    }

    pub(super) async fn remove(&self, provider: &str) -> Result<Forgotten, AuthError> {
        let (files, provider) = (self.clone(), provider.to_owned());
        blocking(move || {
            let was_there = change(&files.own, |entries| entries.shift_remove(&provider).is_some())?;
            if read(&files.opencodes).is_ok_and(|entries| entries.contains_key(&provider)) {
                return Ok(Forgotten::KeptByOpenCode(files.opencodes.clone()));
            }
            Ok(if was_there { Forgotten::Gone } else { Forgotten::Nothing })
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AuthError> + Send + 'static,
) -> Result<T, AuthError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(AuthError::File("the file of logins can't be used".into())))
}

fn read(path: &Path) -> Result<Entries, AuthError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Entries::new()),
        Err(error) => return Err(AuthError::File(format!("reading {} failed: {error}", path.display()))),
    };
    if text.trim().is_empty() {
        return Ok(Entries::new());
    }
    // What serde says may quote a key.
    serde_json::from_str(&text).map_err(|error| {
        let place = format!("{}:{}:{}", path.display(), error.line(), error.column());
        AuthError::File(format!("{place}: the logins can't be read; mend the file or delete it"))
    })
}

/// Changes ours; returns what `change` says, which is whether there is something to write. Another process may do the
/// same: they take turns.
fn change(path: &Path, change: impl FnOnce(&mut Entries) -> bool) -> Result<bool, AuthError> {
    let failed = |error: std::io::Error| AuthError::File(format!("writing {} failed: {error}", path.display()));
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    let turn = private(&path.with_extension("json.lock")).map_err(failed)?;
    turn.lock().map_err(failed)?;
    let mut entries = read(path)?;
    let changed = change(&mut entries);
    if changed {
        write(path, &entries).map_err(failed)?;
    }
    Ok(changed)
}

/// Writes beside it, then puts the new one in its place: whatever happens, one of the two is whole.
fn write(path: &Path, entries: &Entries) -> std::io::Result<()> {
    let beside = path.with_extension("json.new");
    let mut file = private(&beside)?;
    file.set_len(0)?;
    file.write_all(&serde_json::to_vec_pretty(entries)?)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}

/// Opens a file that is its owner's alone.
fn private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(file)
}
