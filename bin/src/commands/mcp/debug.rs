//! `mcp debug`.

use std::fmt::Write;

use anyhow::bail;
use clap::Args;
use client::McpServer;

use super::{print, settled, with_client, words};
use crate::exit::Exit;
use crate::owner::Ground;
use crate::reach::Target;

#[derive(Debug, Args)]
pub struct Debug {
    /// The server
    name: String,
    #[command(flatten)]
    target: Target,
}

impl Debug {
    pub async fn run(self, ground: Ground) -> anyhow::Result<Exit> {
        with_client(self.target, ground, async |client| {
            let servers = settled(&client).await?;
            let Some(server) = servers.iter().find(|server| server.name == self.name) else {
                let known: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
                bail!("MCP server not found: {}; there are: {}", self.name, known.join(", "));
            };
            print(told(server).trim_end());
            Ok(Exit::Done)
        })
        .await
    }
}

/// All that is known of a server.
fn told(server: &McpServer) -> String {
    let mut text = format!("{} ({})\n", server.name, server.kind.as_deref().unwrap_or("its entry can't be read"));
    // Writing to a string has no errors.
    let _ = writeln!(text, "  status: {}", words(&server.status));
    let _ = writeln!(text, "  starts: {}", server.starts);
    let _ = writeln!(text, "  output that is no message: {}", server.junk);
    let _ = writeln!(text, "  prompts: {}, resources: {}", server.prompts, server.resources);
    let _ = writeln!(text, "  tools: {}", server.tools.len());
    for tool in &server.tools {
        let _ = writeln!(text, "    {} (the server calls it {:?})", tool.name, tool.tool);
        for change in &tool.changes {
            let _ = writeln!(text, "      its schema: {change}");
        }
    }
    text
}
