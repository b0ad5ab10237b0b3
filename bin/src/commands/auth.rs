//! `auth`: logins at providers, kept in `auth.json` of the data directory. A service that runs sees them at its next
//! request.

use std::collections::HashMap;
use std::io::{BufRead, IsTerminal, Write};

use actors::workspace::auth::{self, Forgotten, Login, Logins, Source};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::Value;

use super::models::vendors;
use crate::exit::Exit;
use crate::owner::{self, Ground};

/// Log in to providers and out again
#[derive(Debug, Subcommand)]
pub enum Auth {
    /// Log in to a provider: in a browser where it has such a login, else with a key
    Login(LogIn),
    /// List the logins, and the keys in the environment
    #[command(visible_alias = "ls")]
    List,
    /// Forget a login
    Logout(LogOut),
}

#[derive(Debug, Args)]
pub struct LogIn {
    /// The provider, such as anthropic; asked for where it is missing
    provider: Option<String>,
    /// Take a key: typed unseen, or read from standard input where that is no terminal
    #[arg(long)]
    key: bool,
    /// The domain of a company's own GitHub, for github-copilot
    #[arg(long, value_name = "DOMAIN")]
    enterprise: Option<String>,
}

#[derive(Debug, Args)]
pub struct LogOut {
    /// The provider
    provider: String,
}

impl Auth {
    pub fn run(self) -> anyhow::Result<Exit> {
        crate::logging::start("warn");
        owner::run(|ground| async move {
            let vendors = vendors(&ground);
            match self {
                Self::Login(login) => {
                    let known = |id: &str| vendors.models.list().provider(id).is_some();
                    login.run(&vendors.logins, &ground, known).await
                }
                Self::List => {
                    list(&vendors.logins, &ground, &vendors.models.list())?;
                    Ok(Exit::Done)
                }
                Self::Logout(logout) => logout.run(&vendors.logins).await,
            }
        })
    }
}

impl LogIn {
    async fn run(self, logins: &Logins, ground: &Ground, known: impl Fn(&str) -> bool) -> anyhow::Result<Exit> {
        let has_person = std::io::stdin().is_terminal();
        let provider = match self.provider {
            Some(provider) => provider,
            None if has_person => ask("Provider (such as anthropic, openai, github-copilot): ")?,
            None => bail!("name the provider: troupe auth login PROVIDER"),
        };
        if !known(&provider) {
            crate::say(&format!(
                "{provider:?} is none of the known providers: its key is kept for a provider of that name in the config."
            ));
        }
        let method = if self.key { None } else { method(&provider, has_person)? };
        match method {
            None => {
                let key = if has_person {
                    rpassword::prompt_password(format!("Key of {provider}: ")).context("reading the key")?
                } else {
                    line()?
                };
                let key = key.trim();
                if key.is_empty() {
                    bail!("no key was given; nothing is kept");
                }
                logins.set(&provider, Login::key(key)).await?;
            }
            Some(method) => {
                let inputs = self.enterprise.map(|domain| {
                    HashMap::from([
                        ("deploymentType".to_owned(), "enterprise".to_owned()),
                        ("enterpriseUrl".to_owned(), domain),
                    ])
                });
                let (logins, of) = (logins.clone(), provider.clone());
                let log_in = ground.io.spawn(async move {
                    let begun = logins.begin(&of, method, &inputs.unwrap_or_default()).await?;
                    crate::say(&format!("Go to: {}\n{}\nWaiting…", begun.url, begun.instructions));
                    logins.finish(&of, None).await
                });
                log_in.await.context("logging in")??;
            }
        }
        crate::say(&format!("Logged in to {provider}."));
        Ok(Exit::Done)
    }
}

/// Returns the place of the way to log in that the person takes; none: with a key.
fn method(provider: &str, has_person: bool) -> anyhow::Result<Option<usize>> {
    let all = auth::methods();
    let methods = all.get(provider).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let by_browser = |method: &Value| method["type"] == "oauth";
    match methods {
        [] => Ok(None),
        [only] => Ok(by_browser(only).then_some(0)),
        _ if !has_person => Ok(None),
        methods => {
            for (number, method) in methods.iter().enumerate() {
                crate::say(&format!("{}. {}", number + 1, method["label"].as_str().unwrap_or_default()));
            }
            let chosen: usize = ask("Number: ")?.parse().context("that is no number")?;
            let method = chosen.checked_sub(1).and_then(|at| Some((at, methods.get(at)?)));
            let (at, method) = method.context("there is no such number")?;
            Ok(by_browser(method).then_some(at))
        }
    }
}

impl LogOut {
    async fn run(self, logins: &Logins) -> anyhow::Result<Exit> {
        let provider = self.provider;
        match logins.remove(&provider).await? {
            Forgotten::Gone => crate::say(&format!("Logged out of {provider}.")),
            Forgotten::Nothing => bail!("there is no login of {provider}; `troupe auth list` lists those there are"),
            Forgotten::KeptByOpenCode(path) => bail!(
                "a login of {provider} is OpenCode's own, in {}: log out there, or name it in `disabled_providers`",
                path.display()
            ),
        }
        Ok(Exit::Done)
    }
}

/// Prints the logins, one a line; never a key.
fn list(logins: &Logins, ground: &Ground, models: &actors::workspace::models::ModelList) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let [own, opencodes] = logins.files();
    for (provider, (login, source)) in logins.all()? {
        let file = if source == Source::Own { &own } else { &opencodes };
        // Whoever reads may have seen enough.
        let _ = writeln!(out, "{provider}\t{}\t{}", login.kind(), file.display());
    }
    for listed in models.providers() {
        for name in listed.env.iter().filter(|name| ground.environment.get(name).is_some()) {
            let _ = writeln!(out, "{}\tenv\t{name}", listed.id);
        }
    }
    Ok(())
}

fn ask(question: &str) -> anyhow::Result<String> {
    let _ = write!(std::io::stderr(), "{question}");
    let answer = line()?.trim().to_owned();
    if answer.is_empty() { bail!("nothing was given") } else { Ok(answer) }
}

fn line() -> anyhow::Result<String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("reading standard input")?;
    Ok(line)
}
