//! The block `mcp` of the settings, in OpenCode's shape. An entry is read alone: a bad one says what is wrong with it
//! and leaves the others be.

use std::fmt;
use std::time::Duration;

use indexmap::IndexMap;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;

/// How long a tool list may be waited for where the entry names no time.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of a server's name.
const MAX_NAME: usize = 128;

/// One server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// Where it is.
    pub kind: ServerKind,
    /// Whether it is started by itself.
    pub enabled: bool,
    /// How long a tool list may be waited for.
    pub timeout: Duration,
    /// The same, where the entry says it.
    pub own_timeout: Option<Duration>,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerKind {
    /// A child process.
    Local(Local),
    /// Somewhere on the network.
    Remote(Remote),
}

/// A server that is a child process.
#[derive(Clone, PartialEq, Eq)]
pub struct Local {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables besides the inherited ones. May hold secrets.
    pub environment: IndexMap<String, String>,
    /// Where it runs, relative to the project's directory (default: there).
    pub cwd: Option<String>,
}

/// A server on the network.
#[derive(Clone, PartialEq)]
pub struct Remote {
    /// Where.
    pub url: Url,
    /// Sent with each request. May hold secrets.
    pub headers: HeaderMap,
    /// How to log in; none where the entry says `oauth: false`.
    pub oauth: Option<OAuth>,
}

/// What the entry says about logging in.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OAuth {
    /// A client registered by hand; else one is registered by itself.
    #[serde(rename = "clientId")]
    pub client_id: Option<String>,
    /// Its secret.
    #[serde(rename = "clientSecret")]
    pub client_secret: Option<String>,
    /// What is asked for, separated by spaces (default: what the server says it needs).
    pub scope: Option<String>,
    /// Where the login comes back to (default: a port of this machine, see [`crate::auth::Callbacks`]).
    #[serde(rename = "redirectUri")]
    pub redirect_uri: Option<String>,
    /// The port of this machine where the login comes back to.
    #[serde(rename = "callbackPort")]
    pub callback_port: Option<u16>,
}

/// What is wrong with an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mcp.{name}: {problem}")]
pub struct ConfigProblem {
    /// The entry.
    pub name: String,
    /// What is wrong there, and what to do.
    pub problem: String,
}

impl ServerConfig {
    /// Reads an entry; none for one that only switches a server of another file on or off.
    pub fn read(name: &str, entry: &Value) -> Result<Option<Self>, ConfigProblem> {
        let bad = |problem: String| ConfigProblem { name: name.to_owned(), problem };
        if name.is_empty() || name.len() > MAX_NAME || name.contains(char::is_control) {
            return Err(bad(format!("a server's name is 1 to {MAX_NAME} bytes without control characters")));
        }
        let Some(object) = entry.as_object() else {
            return Err(bad("must be an object with `type`: \"local\" or \"remote\"".into()));
        };
        let kind = match object.get("type").map(Value::as_str) {
            None if object.contains_key("enabled") => return Ok(None),
            Some(Some("local")) => ServerKind::Local(local(entry).map_err(bad)?),
            Some(Some("remote")) => ServerKind::Remote(remote(entry).map_err(bad)?),
            _ => return Err(bad("`type` must be \"local\" or \"remote\"".into())),
        };
        let Common { enabled, timeout } = typed(entry).map_err(bad)?;
        if timeout == Some(0) {
            return Err(bad("`timeout` must be a number of ms above 0".into()));
        }
        let own_timeout = timeout.map(Duration::from_millis);
        let timeout = own_timeout.unwrap_or(DEFAULT_TIMEOUT);
        Ok(Some(Self { kind, enabled: enabled.unwrap_or(true), timeout, own_timeout }))
    }

    /// Returns where a remote server is.
    pub fn remote(&self) -> Option<&Remote> {
        match &self.kind {
            ServerKind::Remote(remote) => Some(remote),
            ServerKind::Local(_) => None,
        }
    }
}

#[derive(Deserialize)]
struct Common {
    enabled: Option<bool>,
    timeout: Option<u64>,
}

fn local(entry: &Value) -> Result<Local, String> {
    #[derive(Deserialize)]
    struct Entry {
        command: Vec<String>,
        #[serde(default)]
        environment: IndexMap<String, String>,
        cwd: Option<String>,
    }
    let Entry { command, environment, cwd } = typed(entry)?;
    if command.first().is_none_or(|program| program.trim().is_empty()) {
        return Err("`command` must name a program, then its arguments: [\"npx\", \"-y\", …]".into());
    }
    let texts = command.iter().chain(environment.keys()).chain(environment.values());
    if texts.into_iter().any(|text| text.contains('\0')) || environment.keys().any(|k| k.is_empty() || k.contains('='))
    {
        return Err("`command` and `environment` hold what no process can be given (NUL, or a name with `=`)".into());
    }
    Ok(Local { command, environment, cwd })
}

fn remote(entry: &Value) -> Result<Remote, String> {
    #[derive(Deserialize)]
    struct Entry {
        url: String,
        #[serde(default)]
        headers: IndexMap<String, String>,
        oauth: Option<Value>,
    }
    let Entry { url, headers, oauth } = typed(entry)?;
    let url = Url::parse(&url).map_err(|error| format!("`url` is no address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("`url` must begin with http:// or https://".into());
    }
    let mut map = HeaderMap::new();
    for (name, value) in &headers {
        let read = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        // Its value may be a secret, so only the name is told.
        let Some((name, mut value)) = read else { return Err(format!("the header {name:?} can't be sent")) };
        value.set_sensitive(true);
        map.insert(name, value);
    }
    let oauth = match oauth {
        None | Some(Value::Bool(true)) => Some(OAuth::default()),
        Some(Value::Bool(false)) => None,
        Some(value) => Some(typed(&value).map_err(|problem| format!("`oauth`: {problem}"))?),
    };
    Ok(Remote { url, headers: map, oauth })
}

/// What serde says may quote a value, and so a secret: only the kind of a wrong value is told.
fn typed<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| {
        let said = error.to_string();
        match said.split_once(": ") {
            Some(("invalid type", rest)) => {
                let kind = rest.split([' ', ',']).next().unwrap_or_default();
                let expected = rest.rsplit_once("expected ").map_or("something else", |(_, expected)| expected);
                format!("a value is of the kind {kind}, {expected} is expected")
            }
            _ => said,
        }
    })
}

impl fmt::Debug for Local {
    /// Leaves the values of the environment out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local")
            .field("command", &self.command)
            .field("environment", &self.environment.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish()
    }
}

impl fmt::Debug for Remote {
    /// Leaves what may be a secret out: login and query of the address, header values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("host", &self.url.host_str())
            .field("path", &self.url.path())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("oauth", &self.oauth)
            .finish()
    }
}

impl fmt::Debug for OAuth {
    /// Leaves the secret out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("client_id", &self.client_id)
            .field("scope", &self.scope)
            .field("redirect_uri", &self.redirect_uri)
            .field("callback_port", &self.callback_port)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn read(entry: Value) -> Result<Option<ServerConfig>, String> {
        ServerConfig::read("srv", &entry).map_err(|problem| problem.to_string())
    }

    #[test]
    fn both_kinds_are_read_in_opencodes_shape() {
        let entry = json!({ "type": "local", "command": ["node", "x.js"], "environment": { "A": "b" }, "timeout": 50 });
        let config = read(entry).unwrap().unwrap();
        assert_eq!(config.timeout, Duration::from_millis(50));
        assert!(config.enabled);
        let ServerKind::Local(local) = config.kind else { panic!("not local") };
        assert_eq!((local.command.len(), local.environment["A"].as_str()), (2, "b"));

        let entry = json!({ "type": "remote", "url": "https://x.test/mcp", "headers": { "X-Key": "k" },
            "oauth": { "clientId": "c", "scope": "a b" }, "enabled": false });
        let config = read(entry).unwrap().unwrap();
        assert_eq!((config.enabled, config.timeout), (false, DEFAULT_TIMEOUT));
        let remote = config.remote().unwrap();
        assert_eq!(remote.headers["x-key"], "k");
        assert_eq!(remote.oauth.as_ref().unwrap().client_id.as_deref(), Some("c"));
        let off = read(json!({ "type": "remote", "url": "https://x.test", "oauth": false })).unwrap().unwrap();
        assert_eq!(off.remote().unwrap().oauth, None);
    }

    #[test]
    fn an_entry_that_only_switches_is_no_server() {
        assert_eq!(read(json!({ "enabled": false })), Ok(None));
    }

    #[test]
    fn a_bad_entry_is_named_with_what_is_wrong() {
        let wrong = |entry| read(entry).unwrap_err();
        assert!(wrong(json!("x")).starts_with("mcp.srv: must be an object"));
        assert!(wrong(json!({ "command": ["x"] })).contains("`type`"));
        assert!(wrong(json!({ "type": "local", "command": [] })).contains("`command`"));
        assert!(wrong(json!({ "type": "local" })).contains("command"));
        assert!(wrong(json!({ "type": "remote", "url": "ftp://x" })).contains("http"));
        assert!(wrong(json!({ "type": "remote", "url": "http://x", "headers": { "a b": "c" } })).contains("a b"));
        assert!(wrong(json!({ "type": "local", "command": ["x"], "timeout": 0 })).contains("timeout"));
    }

    #[test]
    fn neither_errors_nor_debug_text_hold_secrets() {
        let wrong = read(json!({ "type": "remote", "url": "http://x", "headers": "hunter2" })).unwrap_err();
        assert!(!wrong.contains("hunter2"), "{wrong}");
        let wrong = read(json!({ "type": "local", "command": "hunter2" })).unwrap_err();
        assert!(!wrong.contains("hunter2"), "{wrong}");
        let entry = json!({ "type": "remote", "url": "http://u:hunter2@x/?k=hunter2", "headers": { "K": "hunter2" },
            "oauth": { "clientSecret": "hunter2" } });
        assert!(!format!("{:?}", read(entry)).contains("hunter2"));
        let entry = json!({ "type": "local", "command": ["x"], "environment": { "K": "hunter2" } });
        assert!(!format!("{:?}", read(entry)).contains("hunter2"));
    }
}
