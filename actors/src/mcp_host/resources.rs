//! Tools that list and read what servers have to be read.

use std::fmt::Write;
use std::sync::Arc;

use mcp::CallError;
use protocol::JsonMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tools::{AnyTool, Ask, Tool, ToolContext, ToolError, ToolOutput, Traits};

use super::tool::Line;

/// The permission of all three.
const READ: &str = "read_mcp_resource";

/// Returns the tools, where a server has resources.
pub fn tools(servers: Vec<Line>) -> Vec<Arc<dyn AnyTool>> {
    if servers.is_empty() {
        return Vec::new();
    }
    let servers: Arc<[Line]> = servers.into();
    vec![
        Arc::new(ListResources(servers.clone())),
        Arc::new(ListTemplates(servers.clone())),
        Arc::new(ReadResource(servers)),
    ]
}

/// Lists the resources.
struct ListResources(Arc<[Line]>);

/// Lists the templates.
struct ListTemplates(Arc<[Line]>);

/// Reads a resource.
struct ReadResource(Arc<[Line]>);

/// Which servers to list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ListInput {
    /// The server to list; without it all are listed
    #[serde(default)]
    #[schemars(with = "String")]
    server: Option<String>,
}

/// What to read.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ReadInput {
    /// The server that has it
    server: String,
    /// The URI of the resource, as list_mcp_resources names it or made of a template
    uri: String,
}

/// A line of a list.
struct Entry<'a> {
    uri: &'a str,
    name: &'a str,
    mime: Option<&'a str>,
    description: Option<&'a str>,
}

impl Tool for ListResources {
    type Input = ListInput;

    const ID: &'static str = "list_mcp_resources";
    const DESCRIPTION: &'static str = "Lists the resources of the connected MCP servers: documents, records and other \
        context that can be read with read_mcp_resource. Each line has the URI, the name, and where known the media \
        type and a description.";
    const TRAITS: Traits = Traits::reading(READ);

    async fn run(&self, input: ListInput, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        listed(&self.0, input.server.as_deref(), |line| {
            let offers = line.condition.borrow().offers.clone();
            let mut text = String::new();
            for resource in &offers.resources {
                let (mime, description) = (resource.mime.as_deref(), resource.description.as_deref());
                Entry { uri: &resource.uri, name: &resource.name, mime, description }.write(&mut text);
            }
            (text, offers.resources.len())
        })
    }
}

impl Tool for ListTemplates {
    type Input = ListInput;

    const ID: &'static str = "list_mcp_resource_templates";
    const DESCRIPTION: &'static str = "Lists the resource templates of the connected MCP servers: URIs with places in \
        braces. Fill the places in and read the result with read_mcp_resource.";
    const TRAITS: Traits = Traits::reading(READ);

    async fn run(&self, input: ListInput, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        listed(&self.0, input.server.as_deref(), |line| {
            let offers = line.condition.borrow().offers.clone();
            let mut text = String::new();
            for template in &offers.templates {
                let (mime, description) = (template.mime.as_deref(), template.description.as_deref());
                Entry { uri: &template.uri_template, name: &template.name, mime, description }.write(&mut text);
            }
            (text, offers.templates.len())
        })
    }
}

impl Tool for ReadResource {
    type Input = ReadInput;

    const ID: &'static str = READ;
    const DESCRIPTION: &'static str = "Reads a resource of an MCP server. Text is returned as text, images and PDFs \
        are attached.";
    const TRAITS: Traits = Traits::reading(READ);

    async fn run(&self, input: ReadInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let line = found(&self.0, &input.server)?;
        let metadata = JsonMap::from_iter([("server".into(), json!(input.server)), ("uri".into(), json!(input.uri))]);
        cx.ask(Ask::new(READ, vec![input.uri.clone()], vec!["*".into()], metadata)).await?;
        let connection = line.connection(&cx.cancel).await?;
        let read = tokio::select! {
            () = cx.cancel.cancelled() => return Err(ToolError::Aborted),
            read = connection.read_resource(&input.uri) => read,
        };
        let shaped = match read {
            Ok(result) => mcp::result::resource(&result),
            Err(CallError::Cancelled) => return Err(ToolError::Aborted),
            Err(error) => return Err(ToolError::failed(error.to_string())),
        };
        let output = ToolOutput::new(input.uri, shaped.text, json!({}));
        Ok(ToolOutput { attachments: shaped.attachments, ..output })
    }
}

impl Entry<'_> {
    fn write(&self, text: &mut String) {
        // Writing to a string has no errors.
        let _ = write!(text, "- {}", self.uri);
        if self.name != self.uri {
            let _ = write!(text, " ({})", self.name);
        }
        if let Some(mime) = self.mime {
            let _ = write!(text, " [{mime}]");
        }
        if let Some(description) = self.description {
            let _ = write!(text, ": {}", description.lines().collect::<Vec<_>>().join(" "));
        }
        text.push('\n');
    }
}

fn listed(
    servers: &[Line],
    only: Option<&str>,
    list: impl Fn(&Line) -> (String, usize),
) -> Result<ToolOutput, ToolError> {
    let wanted = match only.filter(|only| !only.is_empty()) {
        Some(only) => vec![found(servers, only)?],
        None => servers.iter().collect(),
    };
    let (mut text, mut count) = (String::new(), 0);
    for line in wanted {
        let (entries, number) = list(line);
        if number > 0 {
            let _ = writeln!(text, "{}{}:\n{entries}", if text.is_empty() { "" } else { "\n" }, line.server);
        }
        count += number;
    }
    if count == 0 {
        text = "There are none.".into();
    }
    Ok(ToolOutput::new("", text.trim_end(), json!({ "count": count })))
}

fn found<'a>(servers: &'a [Line], name: &str) -> Result<&'a Line, ToolError> {
    servers.iter().find(|line| &*line.server == name).ok_or_else(|| {
        let known: Vec<&str> = servers.iter().map(|line| &*line.server).collect();
        ToolError::failed(format!("No MCP server {name:?} has resources; these do: {}.", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use mcp::{Offers, Resource, Status};
    use pretty_assertions::assert_eq;
    use tokio::sync::watch;

    use super::*;
    use crate::mcp_host::server::Condition;

    fn line(name: &str, uris: &[&str]) -> Line {
        let resource = |uri: &&str| Resource {
            uri: (*uri).into(),
            name: "a name".into(),
            description: Some("two\nlines".into()),
            mime: Some("text/plain".into()),
        };
        let offers = Offers { resources: uris.iter().map(resource).collect(), ..Offers::default() };
        let condition = Condition { offers: Arc::new(offers), ..Condition::new(Status::Connected) };
        Line { server: name.into(), condition: watch::channel(condition).1 }
    }

    fn list(servers: &[Line], only: Option<&str>) -> Result<String, String> {
        let listed = listed(servers, only, |line| {
            let offers = line.condition.borrow().offers.clone();
            let uris: Vec<&str> = offers.resources.iter().map(|resource| resource.uri.as_str()).collect();
            (uris.join(" "), uris.len())
        });
        listed.map(|output| output.output).map_err(|error| error.to_string())
    }

    #[test]
    fn lists_are_by_server_and_an_unknown_one_is_told_with_those_there_are() {
        let servers = [line("a", &["x:1", "x:2"]), line("b", &[]), line("c", &["y:1"])];
        assert_eq!(list(&servers, None).unwrap(), "a:\nx:1 x:2\n\nc:\ny:1");
        assert_eq!(list(&servers, Some("b")).unwrap(), "There are none.");
        assert!(list(&servers, Some("d")).unwrap_err().contains("a, b, c"));
    }

    #[test]
    fn an_entry_is_one_line() {
        let mut text = String::new();
        Entry { uri: "x:1", name: "a name", mime: Some("text/plain"), description: Some("two\nlines") }
            .write(&mut text);
        Entry { uri: "x:2", name: "x:2", mime: None, description: None }.write(&mut text);
        assert_eq!(text, "- x:1 (a name) [text/plain]: two lines\n- x:2\n");
    }
}
