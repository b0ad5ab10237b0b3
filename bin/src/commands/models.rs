//! `models`: what can be asked, and what is known of it.

use std::io::Write;
use std::sync::Arc;

use actors::workspace::catalogue::Catalogue;
use actors::workspace::models::{self, MODELS_DEV};
use actors::workspace::{Http, Vendors};
use anyhow::{Context, bail};
use clap::Args;
use protocol::SystemClock;
use protocol::provider::Model;

use crate::exit::Exit;
use crate::owner::{self, Ground};

/// List the models that can be used, as PROVIDER/MODEL
#[derive(Debug, Args)]
pub struct Models {
    /// Only those of this provider, be there a key for it or not
    provider: Option<String>,
    /// Print what is known of each: limits, prices, abilities
    #[arg(long)]
    verbose: bool,
    /// Fetch the list of models.dev first
    #[arg(long)]
    refresh: bool,
}

/// The variable that names another server than models.dev.
const MODELS_URL: &str = "OPENCODE_MODELS_URL";

impl Models {
    pub fn run(self) -> anyhow::Result<Exit> {
        crate::logging::start("warn");
        owner::run(|ground| self.list(ground))
    }

    async fn list(self, ground: Ground) -> anyhow::Result<Exit> {
        let clock = Arc::new(SystemClock);
        let vendors = vendors(&ground);
        if self.refresh {
            let base = ground.environment.get(MODELS_URL).unwrap_or(MODELS_DEV);
            let client = vendors.http.client();
            let count = models::refresh(&client, base, vendors.models.path(), &*clock).await?;
            crate::say(&format!("Fetched the models of {count} providers from {base}"));
        }
        let directory = std::env::current_dir().context("finding the current directory")?;
        let worktree = storage::project::identify(&directory).await.worktree;
        let work = ground.io.spawn_blocking(move || {
            let settings = storage::config::load(&directory, &worktree, &ground.places, &ground.environment)
                .map_err(|broken| broken.error)?;
            let catalogue = Catalogue::new(&settings.config, &ground.environment, &vendors);
            let list = vendors.models.list();
            let mut shown: Vec<(String, Model)> = Vec::new();
            let mut add = |models: &mut dyn Iterator<Item = Model>| {
                shown.extend(models.map(|model| (format!("{}/{}", model.provider_id, model.id), model)));
            };
            match &self.provider {
                None => catalogue.providers().for_each(|known| add(&mut known.models.values().cloned())),
                Some(id) => {
                    let known = catalogue.providers().find(|known| known.id == *id);
                    match (known, list.provider(id)) {
                        (Some(known), _) => add(&mut known.models.values().cloned()),
                        (None, Some(listed)) => {
                            add(&mut list.models(listed)?.into_values());
                            crate::say(&format!("There is no key for {id} yet: troupe auth login {id}"));
                        }
                        (None, None) => bail!("provider {id:?} is not known; `troupe models` lists those in use"),
                    }
                }
            }
            Ok(shown)
        });
        let shown = work.await.context("reading the models")??;
        let mut out = std::io::stdout().lock();
        for (name, model) in shown {
            // Whoever reads may have seen enough.
            if writeln!(out, "{name}").is_err() {
                break;
            }
            if self.verbose {
                let _ = writeln!(out, "{}", serde_json::to_string_pretty(&model)?);
            }
        }
        Ok(Exit::Done)
    }
}

/// Returns where providers come from.
pub(super) fn vendors(ground: &Ground) -> Vendors {
    Vendors::new(&ground.places, Arc::new(SystemClock), Http::new(env!("CARGO_PKG_VERSION")))
}
