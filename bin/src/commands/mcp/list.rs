//! `mcp list`.

use clap::Args;
use client::{McpServer, McpStatus};

use super::{print, settled, with_client, words};
use crate::exit::Exit;
use crate::owner::Ground;
use crate::reach::Target;

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    target: Target,
}

impl List {
    pub async fn run(self, ground: Ground) -> anyhow::Result<Exit> {
        with_client(self.target, ground, async |client| {
            let servers = settled(&client).await?;
            match servers.is_empty() {
                true => print("No MCP servers here; `troupe mcp add` adds one."),
                false => print(&listed(&servers)),
            }
            Ok(Exit::Done)
        })
        .await
    }
}

/// One line a server.
fn listed(servers: &[McpServer]) -> String {
    let width = servers.iter().map(|server| server.name.chars().count()).max().unwrap_or_default();
    let line = |server: &McpServer| {
        let tools = match (&server.status, server.tools.len()) {
            (McpStatus::Connected, 1) => ", 1 tool".to_owned(),
            (McpStatus::Connected, count) => format!(", {count} tools"),
            _ => String::new(),
        };
        let kind = server.kind.as_deref().unwrap_or("-");
        format!("{:width$}  {kind:6}  {}{tools}", server.name, words(&server.status))
    };
    servers.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_server_is_a_line() {
        let servers: Vec<McpServer> = serde_json::from_value(json!([
            { "name": "demo", "status": "connected", "type": "local", "tools": [{ "name": "demo_a", "tool": "a" }] },
            { "name": "longer", "status": "failed", "error": "it broke", "type": "remote" },
        ]))
        .expect("servers");
        let wanted = "demo    local   connected, 1 tool\nlonger  remote  failed: it broke";
        assert_eq!(listed(&servers), wanted);
    }
}
