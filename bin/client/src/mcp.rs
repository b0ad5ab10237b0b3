//! MCP servers.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::connection::{Client, Patience};
use crate::error::ClientError;

/// How an MCP server is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum McpStatus {
    /// Its tools can be used.
    Connected,
    /// It is being started.
    Connecting,
    /// It is switched off.
    Disabled,
    /// It can't be used.
    Failed {
        /// Why.
        error: String,
    },
    /// It wants a person to log in.
    NeedsAuth,
    /// It wants a login, and takes only clients that were registered by hand.
    NeedsClientRegistration {
        /// What to do.
        error: String,
    },
}

/// An MCP server of the client's directory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// How it is.
    #[serde(flatten)]
    pub status: McpStatus,
    /// `local` or `remote`; none where its entry can't be read.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// Its tools.
    #[serde(default)]
    pub tools: Vec<McpTool>,
    /// How many prompts it has.
    #[serde(default)]
    pub prompts: usize,
    /// How many resources and templates it has.
    #[serde(default)]
    pub resources: usize,
    /// How often it was started.
    #[serde(default)]
    pub starts: u64,
    /// Output of it that was no message.
    #[serde(default)]
    pub junk: u64,
}

/// A tool of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct McpTool {
    /// Its name for models and rules.
    pub name: String,
    /// The server's name for it.
    pub tool: String,
    /// What was changed of its schema.
    #[serde(default)]
    pub changes: Vec<String>,
}

/// A login that was begun.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct LoginBegun {
    /// The address a person opens.
    #[serde(rename = "authorizationUrl")]
    pub authorization_url: String,
    /// Names the login.
    #[serde(rename = "oauthState")]
    pub state: String,
}

impl std::fmt::Debug for LoginBegun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginBegun").finish_non_exhaustive()
    }
}

impl Client {
    /// Returns the MCP servers of the client's directory.
    pub async fn mcp_servers(&self) -> Result<Vec<McpServer>, ClientError> {
        self.get(&["troupe", "mcp"]).await
    }

    /// Begins a login at a server.
    pub async fn mcp_begin_login(&self, name: &str) -> Result<LoginBegun, ClientError> {
        self.post(&["mcp", name, "auth"], &json!({}), Patience::Turn).await
    }

    /// Ends a login with the code the person came back with.
    pub async fn mcp_finish_login(&self, name: &str, code: &str, state: &str) -> Result<McpStatus, ClientError> {
        let body = json!({ "code": code, "state": state });
        self.post(&["mcp", name, "auth", "callback"], &body, Patience::Turn).await
    }

    /// Forgets the login at a server.
    pub async fn mcp_forget_login(&self, name: &str) -> Result<(), ClientError> {
        self.delete(&["mcp", name, "auth"]).await
    }

    /// Merges an entry into the settings of the client's directory, or into those that hold for all.
    pub async fn mcp_configure(&self, name: &str, entry: &Value, global: bool) -> Result<(), ClientError> {
        let path: &[&str] = if global { &["global", "config"] } else { &["config"] };
        let _: Value = self.patch(path, &json!({ "mcp": { name: entry } })).await?;
        Ok(())
    }
}
