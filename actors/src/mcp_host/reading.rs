//! Resources of servers for people: which there are, and what is in one that comes with a prompt.

use std::time::Duration;

use actix::prelude::*;
use indexmap::IndexMap;
use mcp::result::{self, Shaped};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::McpHost;
use super::tool::Line;

/// Which resources are there?
#[derive(Message)]
#[rtype(result = "IndexMap<String, ListedResource>")]
pub struct ListResources;

/// A resource, as clients list it to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedResource {
    /// The server's name for it.
    pub name: String,
    /// What it is read by.
    pub uri: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its media type.
    #[serde(rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// The server.
    pub client: String,
}

/// What is in this resource?
#[derive(Message, Clone, Debug)]
#[rtype(result = "Result<Shaped, ReadError>")]
pub struct ReadResource {
    /// The server that has it.
    pub server: String,
    /// What it is read by.
    pub uri: String,
    /// How long it may take, a server that is being started included.
    pub limit: Duration,
}

/// Why a resource was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is no such server.
    #[error("there is no MCP server {server:?}; there are: {}", known.join(", "))]
    NoServer {
        /// What was named.
        server: String,
        /// What there is.
        known: Vec<String>,
    },
    /// It took too long.
    #[error("it took longer than {:.1} s", limit.as_secs_f32())]
    Late {
        /// How long it had.
        limit: Duration,
    },
    /// The server could not be asked, or said no.
    #[error("{0}")]
    Server(String),
}

impl Handler<ListResources> for McpHost {
    type Result = MessageResult<ListResources>;

    fn handle(&mut self, _: ListResources, _: &mut Self::Context) -> Self::Result {
        let mut all = IndexMap::new();
        for slot in self.slots.values() {
            let offers = slot.condition.borrow().offers.clone();
            for resource in &offers.resources {
                let listed = ListedResource {
                    name: resource.name.clone(),
                    uri: resource.uri.clone(),
                    description: resource.description.clone(),
                    mime: resource.mime.clone(),
                    client: slot.name.to_string(),
                };
                all.insert(format!("{}:{}", plain(&slot.name), plain(&resource.name)), listed);
            }
        }
        MessageResult(all)
    }
}

impl Handler<ReadResource> for McpHost {
    type Result = ResponseFuture<Result<Shaped, ReadError>>;

    fn handle(&mut self, ReadResource { server, uri, limit }: ReadResource, _: &mut Self::Context) -> Self::Result {
        let Some(slot) = self.slots.get(&server) else {
            let known = self.slots.keys().cloned().collect();
            return Box::pin(async { Err(ReadError::NoServer { server, known }) });
        };
        let line = Line { server: slot.name.clone(), condition: slot.condition.subscribe() };
        let read = self.deps.io.spawn(async move {
            tokio::time::timeout(limit, read(line, &uri)).await.unwrap_or(Err(ReadError::Late { limit }))
        });
        Box::pin(async move {
            read.await.unwrap_or_else(|_| Err(ReadError::Server("the MCP server could not be asked".into())))
        })
    }
}

async fn read(line: Line, uri: &str) -> Result<Shaped, ReadError> {
    let connection = line.connection(&CancellationToken::new()).await;
    let connection = connection.map_err(|error| ReadError::Server(error.to_string()))?;
    let read = connection.read_resource(uri).await.map_err(|error| ReadError::Server(error.to_string()))?;
    Ok(result::resource(&read))
}

/// As OpenCode writes names in keys.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}
