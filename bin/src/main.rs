//! `troupe`: a local agent runtime. Composes the crates; `commands/` has one file a command.

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod commands;
mod descriptors;
mod exit;
mod logging;
mod memory;
mod owner;
mod reach;
mod signals;

use exit::Exit;

/// A local agent runtime: runs many coding-agent sessions side by side.
#[derive(Debug, Parser)]
#[command(name = "troupe", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Without a command: the terminal client
    #[command(flatten)]
    tui: commands::tui::Tui,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve sessions over HTTP, in OpenCode's protocol
    Serve(commands::serve::Serve),
    /// Give a prompt and print the answer
    Run(Box<commands::run::Run>),
    /// Add MCP servers, look at them, log in at them; or be one
    Mcp(commands::mcp::Mcp),
    /// List the models that can be used, as PROVIDER/MODEL
    Models(commands::models::Models),
    /// Log in to providers and out again
    #[command(subcommand)]
    Auth(commands::auth::Auth),
}

fn main() -> ExitCode {
    let result = if is_guard() { tools::guard::run().map(|()| Exit::Done).map_err(Into::into) } else { run() };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            say(&format!("Error: {}", told(&error)));
            Exit::Failed.into()
        }
    }
}

/// Whether this is `troupe guard`, which ends child processes when the service goes and is started by the service
/// itself. It lives as long and does next to nothing, so it is spared the memory that the command line takes.
fn is_guard() -> bool {
    let mut args = std::env::args_os().skip(1);
    args.next().is_some_and(|arg| arg == "guard") && args.next().is_none()
}

fn run() -> anyhow::Result<Exit> {
    memory::return_large_blocks();
    descriptors::allow_more();
    let cli = Cli::parse();
    match cli.command {
        None => cli.tui.run(),
        Some(Command::Serve(serve)) => serve.run(),
        Some(Command::Run(run)) => run.run(),
        Some(Command::Mcp(mcp)) => mcp.run(),
        Some(Command::Models(models)) => models.run(),
        Some(Command::Auth(auth)) => auth.run(),
    }
}

/// Returns an error with its causes, each said once: most of ours say their cause themselves.
fn told(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Writes a line to standard error, which may be gone: `eprintln!` would panic then.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_each_cause_once() {
        let cause = std::io::Error::other("disk full");
        let error = anyhow::Error::new(cause).context("writing failed: disk full").context("starting");
        assert_eq!(told(&error), "starting: writing failed: disk full");
    }
}
