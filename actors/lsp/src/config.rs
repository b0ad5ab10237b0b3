//! Which servers there are: the known ones, and what config says.
//!
//! `lsp: false` switches all off. An object changes known ones and adds others, by name:
//! `{"NAME": {"command", "extensions", "env", "initialization", "disabled"}}`. Entries that can't be read are left
//! out with a warning.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::known::{KNOWN, Known};

/// A server that may be used.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Ends of the names of its files; none: all files.
    pub extensions: Vec<String>,
    /// What is run, if config says.
    pub command: Option<Vec<String>>,
    /// Variables besides the inherited ones.
    pub env: Vec<(String, String)>,
    /// What it is told at its start, and when it asks for settings.
    pub initialization: Value,
    /// What is known of it by itself.
    pub known: Option<&'static Known>,
}

/// Which servers may be used.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    servers: Vec<Server>,
    /// What they were read from.
    source: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Own {
    disabled: bool,
    command: Option<Vec<String>>,
    extensions: Option<Vec<String>>,
    env: Map<String, Value>,
    initialization: Value,
}

impl Settings {
    /// Reads the settings.
    pub fn of(config: Option<&Value>) -> Self {
        let own = match config {
            Some(Value::Bool(false)) => return Self { servers: Vec::new(), source: config.cloned() },
            Some(Value::Object(own)) => own.clone(),
            _ => Map::new(),
        };
        let mut servers: Vec<Server> = KNOWN.iter().map(Server::known).collect();
        for (name, own) in own {
            match Own::deserialize(own) {
                Ok(Own { disabled: true, .. }) => servers.retain(|server| server.name != name),
                Ok(own) => {
                    let at = servers.iter().position(|server| server.name == name);
                    if at.is_none() && own.command.as_ref().is_none_or(Vec::is_empty) {
                        tracing::warn!(name, "a language server without a command is left out");
                        continue;
                    }
                    let mut server = match at {
                        Some(at) => servers.remove(at),
                        None => Server::new(&name),
                    };
                    server.change(own);
                    servers.insert(at.unwrap_or(servers.len()), server);
                }
                Err(error) => tracing::warn!(name, %error, "a language server's settings can't be read"),
            }
        }
        Self { servers, source: config.cloned() }
    }

    /// Returns whether these were read from the same.
    pub fn is_of(&self, config: Option<&Value>) -> bool {
        self.source.as_ref() == config
    }

    /// Returns the servers for a file, by its name alone.
    pub fn fitting(&self, path: &Path) -> impl Iterator<Item = &Server> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        self.servers.iter().filter(move |server| {
            server.extensions.is_empty()
                || server
                    .extensions
                    .iter()
                    .any(|end| if end.starts_with('.') { name.ends_with(end) } else { name == *end })
        })
    }

    /// Returns whether there may be a server for a file, by its name alone.
    pub fn cover(&self, path: &Path) -> bool {
        self.fitting(path).next().is_some()
    }
}

impl Server {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            extensions: Vec::new(),
            command: None,
            env: Vec::new(),
            initialization: Value::Null,
            known: None,
        }
    }

    fn known(known: &'static Known) -> Self {
        let extensions = known.extensions.iter().map(|&end| end.to_owned()).collect();
        Self { extensions, known: Some(known), ..Self::new(known.name) }
    }

    fn change(&mut self, own: Own) {
        let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let Some(command) = own.command.filter(|command| !command.is_empty()) {
            self.command = Some(command);
        }
        if let Some(extensions) = own.extensions {
            self.extensions = extensions;
        }
        self.env = own.env.into_iter().map(|(name, value)| (name, text(value))).collect();
        self.initialization = own.initialization;
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn fitting(config: Option<Value>, file: &str) -> Vec<String> {
        Settings::of(config.as_ref()).fitting(Path::new(file)).map(|server| server.name.clone()).collect()
    }

    #[test]
    fn known_servers_are_there_by_themselves() {
        assert_eq!(fitting(None, "/p/main.rs"), ["rust"]);
        assert_eq!(fitting(Some(json!(true)), "/p/a.py"), ["pyright"]);
        assert_eq!(fitting(None, "/p/Dockerfile"), ["dockerfile"]);
        assert_eq!(fitting(None, "/p/notes.txt"), Vec::<String>::new());
    }

    #[test]
    fn all_can_be_switched_off_and_one_alone_too() {
        assert_eq!(fitting(Some(json!(false)), "/p/main.rs"), Vec::<String>::new());
        assert_eq!(fitting(Some(json!({ "rust": { "disabled": true } })), "/p/main.rs"), Vec::<String>::new());
        assert_eq!(fitting(Some(json!({ "rust": { "disabled": true } })), "/p/a.py"), ["pyright"]);
    }

    #[test]
    fn config_adds_servers_and_changes_known_ones() {
        let config = json!({
            "mine": { "command": ["my-server", "-x"], "extensions": [".my"], "env": { "A": "b", "N": 1 } },
            "pyright": { "initialization": { "a": 1 } },
            "no-command": { "extensions": [".my"] },
            "junk": { "command": 7 },
        });
        assert_eq!(fitting(Some(config.clone()), "/p/x.my"), ["mine"]);
        let settings = Settings::of(Some(&config));
        let mine = settings.fitting(Path::new("x.my")).next().unwrap();
        assert_eq!(mine.command, Some(vec!["my-server".into(), "-x".into()]));
        assert_eq!(mine.env, [("A".into(), "b".into()), ("N".into(), "1".into())]);
        let pyright = settings.fitting(Path::new("x.py")).next().unwrap();
        assert!(pyright.known.is_some() && pyright.initialization == json!({ "a": 1 }));
        assert!(settings.is_of(Some(&config)) && !settings.is_of(None));
    }
}
