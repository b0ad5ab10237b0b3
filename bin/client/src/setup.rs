//! What a server offers: agents, models, commands, settings.

use indexmap::IndexMap;
use protocol::agent::Agent;
use protocol::command::Command;
use protocol::config::Config;
use protocol::provider::Provider;
use serde::Deserialize;

use crate::connection::Client;
use crate::error::ClientError;

/// The server is well.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Health {
    /// Always true: a server that isn't well doesn't answer.
    pub healthy: bool,
    /// Its version.
    pub version: String,
}

/// The providers that can be used, and the model each begins with.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Providers {
    /// Those that have what they need.
    pub providers: Vec<Provider>,
    /// By provider: a model's key.
    #[serde(default)]
    pub default: IndexMap<String, String>,
}

impl Client {
    /// Asks whether the server is there.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.get(&["global", "health"]).await
    }

    /// Returns the agents of the client's directory.
    pub async fn agents(&self) -> Result<Vec<Agent>, ClientError> {
        self.get(&["agent"]).await
    }

    /// Returns the providers that can be used in the client's directory.
    pub async fn providers(&self) -> Result<Providers, ClientError> {
        self.get(&["config", "providers"]).await
    }

    /// Returns the commands of the client's directory.
    pub async fn commands(&self) -> Result<Vec<Command>, ClientError> {
        self.get(&["command"]).await
    }

    /// Returns the settings of the client's directory, secrets left out.
    pub async fn config(&self) -> Result<Config, ClientError> {
        self.get(&["config"]).await
    }
}
