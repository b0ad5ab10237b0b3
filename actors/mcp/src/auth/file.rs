//! `mcp-auth.json` of the data directory, in OpenCode's format: by server, its tokens and its client.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;
use protocol::JsonMap;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::AuthProblem;

/// What is kept of one server.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenSet>,
    /// The client it registered.
    #[serde(default, rename = "clientInfo", skip_serializing_if = "Option::is_none")]
    pub client_info: Option<ClientInfo>,
    /// Where it was: an entry holds for this address only.
    #[serde(default, rename = "serverUrl", skip_serializing_if = "Option::is_none")]
    pub server_url: Option<String>,
    /// What others keep there.
    #[serde(flatten)]
    pub rest: JsonMap,
}

/// Tokens.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenSet {
    /// Sent with each request.
    #[serde(rename = "accessToken")]
    pub access_token: String,
    /// Gets the next ones.
    #[serde(default, rename = "refreshToken", skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// When the access token runs out, in seconds since the Unix epoch.
    #[serde(default, rename = "expiresAt", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<f64>,
    /// What they are good for, separated by spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// A registered client.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// Its name at the server.
    #[serde(rename = "clientId")]
    pub client_id: String,
    /// Its secret.
    #[serde(default, rename = "clientSecret", skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// When it was registered, in seconds since the Unix epoch.
    #[serde(default, rename = "clientIdIssuedAt", skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<f64>,
    /// When its secret runs out, in seconds since the Unix epoch; 0: never.
    #[serde(default, rename = "clientSecretExpiresAt", skip_serializing_if = "Option::is_none")]
    pub secret_expires_at: Option<f64>,
}

type Entries = IndexMap<String, Entry>;

/// The file. This process is the only one that writes it, so what was read once is known.
pub struct AuthFile {
    path: PathBuf,
    known: Mutex<Option<Arc<Entries>>>,
}

impl AuthFile {
    /// Returns the file at a path. Reads nothing yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, known: Mutex::new(None) }
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what is kept of a server at this address.
    pub async fn get(&self, server: &str, url: &str) -> Result<Option<Entry>, AuthProblem> {
        let entries = self.entries(&mut *self.known.lock().await).await?;
        Ok(entries.get(server).filter(|entry| entry.server_url.as_deref() == Some(url)).cloned())
    }

    /// Changes what is kept of a server at this address. What was kept of another address under its name goes. Returns
    /// when it is on disk.
    pub async fn change(&self, server: &str, url: &str, change: impl FnOnce(&mut Entry)) -> Result<(), AuthProblem> {
        let mut known = self.known.lock().await;
        let mut entries = Entries::clone(&*self.entries(&mut known).await?);
        let entry = entries.entry(server.to_owned()).or_default();
        if entry.server_url.as_deref() != Some(url) {
            *entry = Entry { server_url: Some(url.to_owned()), ..Entry::default() };
        }
        change(entry);
        self.store(entries, &mut known).await
    }

    /// Forgets a server. Returns whether anything was kept of it.
    pub async fn remove(&self, server: &str) -> Result<bool, AuthProblem> {
        let mut known = self.known.lock().await;
        let mut entries = Entries::clone(&*self.entries(&mut known).await?);
        if entries.shift_remove(server).is_none() {
            return Ok(false);
        }
        self.store(entries, &mut known).await?;
        Ok(true)
    }

    async fn entries(&self, known: &mut Option<Arc<Entries>>) -> Result<Arc<Entries>, AuthProblem> {
        if let Some(entries) = known {
            return Ok(entries.clone());
        }
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || read(&path)).await;
        let entries = Arc::new(read.unwrap_or_else(|_| Err(AuthProblem::File("reading it failed".into())))?);
        *known = Some(entries.clone());
        Ok(entries)
    }

    async fn store(&self, entries: Entries, known: &mut Option<Arc<Entries>>) -> Result<(), AuthProblem> {
        let (path, entries) = (self.path.clone(), Arc::new(entries));
        let to_write = entries.clone();
        let written = tokio::task::spawn_blocking(move || {
            write(&path, &to_write)
                .map_err(|error| AuthProblem::File(format!("writing {} failed: {error}", path.display())))
        });
        written.await.unwrap_or_else(|_| Err(AuthProblem::File("writing it failed".into())))?;
        *known = Some(entries);
        Ok(())
    }
}

fn read(path: &Path) -> Result<Entries, AuthProblem> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Entries::new()),
        Err(error) => return Err(AuthProblem::File(format!("reading {} failed: {error}", path.display()))),
    };
    if text.trim().is_empty() {
        return Ok(Entries::new());
    }
    // What serde says may quote a token.
    serde_json::from_str(&text).map_err(|error| {
        let place = format!("{}:{}:{}", path.display(), error.line(), error.column());
        AuthProblem::File(format!("{place}: the logins of MCP servers can't be read; mend the file or delete it"))
    })
}

/// Writes beside it, then puts the new one in its place: whatever happens, one of the two is whole.
fn write(path: &Path, entries: &Entries) -> std::io::Result<()> {
    let beside = path.with_extension("json.new");
    let mut options = std::fs::OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    file.write_all(&serde_json::to_vec_pretty(entries)?)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}

impl fmt::Debug for Entry {
    /// Leaves the secrets out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("has_tokens", &self.tokens.is_some())
            .field("client_id", &self.client_info.as_ref().map(|client| &client.client_id))
            .field("server_url", &self.server_url)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const URL: &str = "https://x.test/mcp";

    #[tokio::test]
    async fn opencodes_file_is_read_and_what_others_keep_in_it_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp-auth.json");
        let text = r#"{"srv":{"tokens":{"accessToken":"a","refreshToken":"r","expiresAt":1700000000.5,"scope":"x"},
            "clientInfo":{"clientId":"c","clientIdIssuedAt":1},"serverUrl":"https://x.test/mcp","codeVerifier":"v"},"other":{}}"#;
        std::fs::write(&path, text).unwrap();
        let file = AuthFile::new(path.clone());
        let entry = file.get("srv", URL).await.unwrap().unwrap();
        assert_eq!(entry.tokens.as_ref().unwrap().expires_at, Some(1700000000.5));
        // Of another address under the same name nothing is known.
        assert_eq!(file.get("srv", "https://evil.test/").await.unwrap(), None);
        file.change("srv", URL, |entry| entry.tokens = None).await.unwrap();
        let written: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(written["srv"]["codeVerifier"], "v");
        assert_eq!(written["srv"]["clientInfo"]["clientId"], "c");
        assert!(written["srv"].get("tokens").is_none() && written.get("other").is_some());
        assert!(file.remove("srv").await.unwrap());
        assert!(!file.remove("srv").await.unwrap());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn only_its_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp-auth.json");
        std::fs::write(&path, "{}").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let file = AuthFile::new(path.clone());
        file.change("srv", URL, |_| ()).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_broken_file_is_named_kept_and_not_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp-auth.json");
        std::fs::write(&path, r#"{"srv":{"tokens":"hunter2"}}"#).unwrap();
        let file = AuthFile::new(path.clone());
        let error = file.change("srv", URL, |_| ()).await.unwrap_err().to_string();
        assert!(error.contains("mcp-auth.json:1:") && !error.contains("hunter2"), "{error}");
        assert!(std::fs::read_to_string(&path).unwrap().contains("hunter2"));
    }
}
