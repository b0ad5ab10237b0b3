//! `mcp add`.

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Map, Value, json};

use super::{print, settled, with_client, words};
use crate::exit::Exit;
use crate::owner::Ground;
use crate::reach::Target;

#[derive(Debug, Args)]
pub struct Add {
    /// What it is called; its tools are called NAME_TOOL
    name: String,
    /// The program to start and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "url", conflicts_with = "url")]
    command: Vec<String>,
    /// The address of a server on the network
    #[arg(long)]
    url: Option<String>,
    /// A variable for the program, as NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "url")]
    env: Vec<String>,
    /// Where the program runs, relative to the project
    #[arg(long, conflicts_with = "url")]
    cwd: Option<String>,
    /// A header for each request, as NAME: VALUE; may be repeated
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    header: Vec<String>,
    /// Never log in by itself
    #[arg(long, requires = "url")]
    no_oauth: bool,
    /// How long its tools may be waited for, in ms
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
    /// Put it into the settings that hold for all directories, not into the project's
    #[arg(long)]
    global: bool,
    #[command(flatten)]
    target: Target,
}

impl Add {
    pub async fn run(self, ground: Ground) -> anyhow::Result<Exit> {
        let entry = self.entry()?;
        with_client(self.target, ground, async |client| {
            client.mcp_configure(&self.name, &entry, self.global).await?;
            let servers = settled(&client).await?;
            let server = servers.iter().find(|server| server.name == self.name).context("it is not in the settings")?;
            print(&format!("{}: {}", self.name, words(&server.status)));
            Ok(Exit::Done)
        })
        .await
    }

    /// The entry of the settings.
    fn entry(&self) -> anyhow::Result<Value> {
        let mut entry = match &self.url {
            Some(url) => json!({ "type": "remote", "url": url }),
            None => json!({ "type": "local", "command": self.command }),
        };
        let Some(object) = entry.as_object_mut() else { bail!("no entry") };
        let environment = pairs(&self.env, '=')?;
        let headers = pairs(&self.header, ':')?;
        for (key, map) in [("environment", environment), ("headers", headers)] {
            if !map.is_empty() {
                object.insert(key.into(), map.into());
            }
        }
        object.extend(self.cwd.as_ref().map(|cwd| ("cwd".to_owned(), json!(cwd))));
        object.extend(self.no_oauth.then(|| ("oauth".to_owned(), json!(false))));
        object.extend(self.timeout.map(|timeout| ("timeout".to_owned(), json!(timeout))));
        Ok(entry)
    }
}

fn pairs(given: &[String], between: char) -> anyhow::Result<Map<String, Value>> {
    let pair = |text: &String| {
        let (name, value) = text.split_once(between)?;
        Some((name.trim().to_owned(), json!(value.trim())))
    };
    // It may be a secret, so it is not shown.
    let wrong = || format!("a value has no `{between}`: write NAME{between}VALUE");
    given.iter().map(|text| pair(text).with_context(wrong)).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use pretty_assertions::assert_eq;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        add: Add,
    }

    fn entry(args: &[&str]) -> Result<Value, String> {
        let cli = Cli::try_parse_from([&["add"], args].concat()).map_err(|error| error.to_string())?;
        cli.add.entry().map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_become_an_entry_of_the_settings() {
        assert_eq!(
            entry(&["x", "--env", "A=b=c", "--timeout", "9", "--", "npx", "-y", "pkg"]),
            Ok(
                json!({ "type": "local", "command": ["npx", "-y", "pkg"], "environment": { "A": "b=c" }, "timeout": 9 })
            )
        );
        assert_eq!(
            entry(&["x", "--url", "https://x.test/mcp", "--header", "Authorization: Bearer k", "--no-oauth"]),
            Ok(json!({ "type": "remote", "url": "https://x.test/mcp", "headers": { "Authorization": "Bearer k" },
                "oauth": false }))
        );
    }

    #[test]
    fn what_is_wrong_is_told_without_secrets() {
        let wrong = entry(&["x", "--env", "hunter2", "--", "npx"]).unwrap_err();
        assert!(wrong.contains("NAME=VALUE") && !wrong.contains("hunter2"), "{wrong}");
        assert!(entry(&["x"]).is_err() && entry(&["x", "--url", "u", "--", "npx"]).is_err());
    }
}
