//! Where providers come from, besides the config: the list of models, the logins, and the client that speaks to them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol::Clock;
use providers::auth::Logins;
use providers::models::ModelList;
use storage::places::Places;

use crate::workspace::Http;

/// Where providers come from. Cheap to clone; one for the process.
#[derive(Clone, Debug)]
pub struct Vendors {
    /// What is known of models.
    pub models: Models,
    /// What proves who we are.
    pub logins: Logins,
    /// Shared by all providers.
    pub http: Http,
}

impl Vendors {
    /// Returns those of these places. Reads nothing yet.
    pub fn new(places: &Places, clock: Arc<dyn Clock>, http: Http) -> Self {
        let client = {
            let http = http.clone();
            move || http.client()
        };
        let logins = Logins::new(places.data.join("auth.json"), places.opencode_data.join("auth.json"), clock, client);
        Self { models: Models::new(places.cache.join("models.jsonl")), logins, http }
    }

    /// Returns the files that say what there is.
    pub fn files(&self) -> Vec<PathBuf> {
        self.logins.files().into_iter().chain([self.models.path().to_owned()]).collect()
    }
}

/// The list of models: the one that was fetched last, else the one that is compiled in.
#[derive(Clone, Debug)]
pub struct Models {
    path: Arc<Path>,
}

impl Models {
    /// Returns the list that is fetched into this file.
    pub fn new(path: PathBuf) -> Self {
        Self { path: path.into() }
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the list. Only the providers in it are read now, so that it is read again by whoever asks. Blocks.
    pub fn list(&self) -> ModelList {
        let built_in = ModelList::built_in();
        if !self.path.exists() {
            return built_in;
        }
        match ModelList::read(&self.path) {
            // A newer program may know more than what was fetched for an older one.
            Ok(fetched) if fetched.date >= built_in.date => fetched,
            Ok(_) => built_in,
            Err(error) => {
                tracing::warn!(%error, "the list that is compiled in is used");
                built_in
            }
        }
    }
}
