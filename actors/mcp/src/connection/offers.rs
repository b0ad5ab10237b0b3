//! What a server offers, listed page by page and read with patience: what makes no sense is left out.

use rmcp::model::{ClientRequest, PaginatedRequestParams, RequestOptionalParam};
use serde_json::{Value, json};

use super::Connection;
use crate::error::CallError;

/// Most pages of a list, and most entries of all of them.
const PAGES: usize = 50;
const ENTRIES: usize = 1_000;
/// Most characters of a description.
const DESCRIPTION: usize = 8_000;

/// What a server offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offers {
    /// In the server's order.
    pub tools: Vec<RemoteTool>,
    /// In the server's order.
    pub prompts: Vec<Prompt>,
    /// In the server's order.
    pub resources: Vec<Resource>,
    /// In the server's order.
    pub templates: Vec<Template>,
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteTool {
    /// The server's name for it.
    pub name: String,
    /// What the model reads.
    pub description: String,
    /// As the server gave it.
    pub schema: Value,
}

/// A prompt of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The server's name for it.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// What it takes, in order.
    pub arguments: Vec<PromptArgument>,
}

/// What a prompt takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// Whether it can't be left out.
    pub is_required: bool,
}

/// A resource of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// What it is read by.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// Its media type.
    pub mime: Option<String>,
}

/// A family of resources of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// A uri with places to fill in (RFC 6570).
    pub uri_template: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// The media type of its resources.
    pub mime: Option<String>,
}

impl Connection {
    /// Lists everything the server offers. Only the tools are needed: what else fails to be listed is none.
    pub async fn offers(&self) -> Result<Offers, CallError> {
        let tools = self.tools().await?;
        let (prompts, (resources, templates)) = tokio::join!(self.prompts(), self.resources());
        Ok(Offers { tools, prompts, resources, templates })
    }

    /// Lists the tools. What is none is left out, with a warning.
    pub async fn tools(&self) -> Result<Vec<RemoteTool>, CallError> {
        if self.inner.peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
            return Ok(Vec::new());
        }
        let listed = self.list("tools", |params| {
            ClientRequest::ListToolsRequest(RequestOptionalParam {
                method: Default::default(),
                params,
                extensions: Default::default(),
            })
        });
        let tools = listed.await?;
        let read = |tool: Value| {
            let Some(name) = tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
                tracing::warn!(server = self.inner.server, "an MCP server lists a tool without a name; it is left out");
                return None;
            };
            let text = |key: &str| tool.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            let title = text("title").or_else(|| tool.pointer("/annotations/title")?.as_str());
            let description = text("description").or(title).unwrap_or_default();
            let description = description.chars().take(DESCRIPTION).collect();
            let schema = tool.get("inputSchema").cloned().unwrap_or_else(|| json!({ "type": "object" }));
            Some(RemoteTool { name: name.to_owned(), description, schema })
        };
        Ok(tools.into_iter().filter_map(read).collect())
    }

    /// Lists the prompts.
    pub async fn prompts(&self) -> Vec<Prompt> {
        if self.inner.peer.peer_info().is_none_or(|info| info.capabilities.prompts.is_none()) {
            return Vec::new();
        }
        let listed = self.list("prompts", |params| {
            ClientRequest::ListPromptsRequest(RequestOptionalParam {
                method: Default::default(),
                params,
                extensions: Default::default(),
            })
        });
        let argument = |argument: &Value| {
            let is_required = argument.get("required").and_then(Value::as_bool).unwrap_or(false);
            Some(PromptArgument { name: argument.get("name")?.as_str()?.to_owned(), is_required })
        };
        let read = |prompt: Value| {
            let arguments = prompt.get("arguments").and_then(Value::as_array).into_iter().flatten();
            Some(Prompt {
                name: prompt.get("name")?.as_str()?.to_owned(),
                description: optional(&prompt, "description"),
                arguments: arguments.filter_map(argument).collect(),
            })
        };
        self.listed_or_none("prompts", listed.await).into_iter().filter_map(read).collect()
    }

    /// Lists the resources and their templates.
    pub async fn resources(&self) -> (Vec<Resource>, Vec<Template>) {
        if self.inner.peer.peer_info().is_none_or(|info| info.capabilities.resources.is_none()) {
            return (Vec::new(), Vec::new());
        }
        let resources = self.list("resources", |params| {
            ClientRequest::ListResourcesRequest(RequestOptionalParam {
                method: Default::default(),
                params,
                extensions: Default::default(),
            })
        });
        let templates = self.list("resourceTemplates", |params| {
            ClientRequest::ListResourceTemplatesRequest(RequestOptionalParam {
                method: Default::default(),
                params,
                extensions: Default::default(),
            })
        });
        let (resources, templates) = tokio::join!(resources, templates);
        let resource = |resource: Value| {
            let uri = resource.get("uri")?.as_str()?.to_owned();
            Some(Resource {
                name: optional(&resource, "name").unwrap_or_else(|| uri.clone()),
                description: optional(&resource, "description"),
                mime: optional(&resource, "mimeType"),
                uri,
            })
        };
        let template = |template: Value| {
            let uri_template = template.get("uriTemplate")?.as_str()?.to_owned();
            Some(Template {
                name: optional(&template, "name").unwrap_or_else(|| uri_template.clone()),
                description: optional(&template, "description"),
                mime: optional(&template, "mimeType"),
                uri_template,
            })
        };
        (
            self.listed_or_none("resources", resources).into_iter().filter_map(resource).collect(),
            self.listed_or_none("resource templates", templates).into_iter().filter_map(template).collect(),
        )
    }

    /// Returns all entries of a list, page by page.
    async fn list(
        &self,
        key: &str,
        request: impl Fn(Option<PaginatedRequestParams>) -> ClientRequest,
    ) -> Result<Vec<Value>, CallError> {
        let mut entries = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let params =
                cursor.as_ref().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor.clone())));
            let mut page = self.request(request(params)).await?;
            match page.get_mut(key).map(Value::take) {
                Some(Value::Array(more)) => entries.extend(more),
                _ => return Err(CallError::Transport(format!("its answer holds no list of {key}"))),
            }
            let next = page.get("nextCursor").and_then(Value::as_str).filter(|next| !next.is_empty());
            if entries.len() > ENTRIES {
                tracing::warn!(
                    server = self.inner.server,
                    key,
                    "an MCP server lists more than {ENTRIES}; the rest is left out"
                );
                entries.truncate(ENTRIES);
                break;
            }
            match next {
                // The same again would go on for ever.
                Some(next) if cursor.as_deref() != Some(next) => cursor = Some(next.to_owned()),
                _ => break,
            }
        }
        Ok(entries)
    }

    fn listed_or_none(&self, what: &str, listed: Result<Vec<Value>, CallError>) -> Vec<Value> {
        listed.unwrap_or_else(|error| {
            tracing::warn!(server = self.inner.server, %error, "the {what} of an MCP server could not be listed");
            Vec::new()
        })
    }
}

fn optional(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}
