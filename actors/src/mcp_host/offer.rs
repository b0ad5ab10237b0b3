//! What the servers of a directory offer together: tools under names that are safe, short, distinct and always the
//! same; commands; what models are told. Pure.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mcp::names;
use protocol::command::Command;
use serde::Serialize;
use tools::AnyTool;

use super::resources;
use super::server::Condition;
use super::tool::{Line, McpTool};
use crate::workspace::sources::{Guide, Offered};

/// Most characters of what a server tells models about itself.
const MAX_GUIDE: usize = 8_000;

/// A tool as it is shown, and what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Its name for models and rules.
    pub name: String,
    /// The server's name for it.
    pub tool: String,
    /// What was changed of its schema.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// What is offered, and how it came to its names.
#[derive(Clone, Default)]
pub struct Offer {
    /// For sessions.
    pub offered: Arc<Offered>,
    /// For people, by server.
    pub shown: Vec<(Arc<str>, Vec<Shown>)>,
}

/// Returns what servers offer together, in their order. `silence` says how long nothing may be heard of a server's
/// calls, `taken` are names of other tools.
pub fn offer<'a>(
    servers: &[(Line, Condition)],
    silence: impl Fn(&str) -> Option<Duration>,
    taken: impl IntoIterator<Item = &'a str>,
) -> Offer {
    let mut taken: HashSet<String> = taken.into_iter().map(str::to_owned).collect();
    let mut offered = Offered::default();
    let readable: Vec<Line> =
        servers.iter().filter(|(_, condition)| condition.has_resources).map(|(line, _)| line.clone()).collect();
    for tool in resources::tools(readable) {
        taken.insert(tool.id().to_owned());
        offered.tools.push(tool);
    }
    let mut shown = Vec::new();
    for (line, condition) in servers {
        let of_server = tools(line, condition, silence(&line.server), &mut taken);
        let about: Vec<String> = of_server.iter().map(|tool| tool.id.clone()).collect();
        if let Some(text) = &condition.instructions
            && !about.is_empty()
        {
            let text: Arc<str> = text.chars().take(MAX_GUIDE).collect::<String>().into();
            offered.guides.push(Guide { from: format!("the MCP server {}", line.server), text, about });
        }
        let as_shown = |tool: &McpTool| Shown {
            name: tool.id.clone(),
            tool: tool.name.clone(),
            changes: tool.accepted.changes.clone(),
        };
        shown.push((line.server.clone(), of_server.iter().map(as_shown).collect()));
        offered.tools.extend(of_server.into_iter().map(|tool| Arc::new(tool) as Arc<dyn AnyTool>));
        offered.commands.extend(condition.offers.prompts.iter().map(|prompt| command(&line.server, prompt)));
    }
    Offer { offered: Arc::new(offered), shown }
}

fn tools(line: &Line, condition: &Condition, silence: Option<Duration>, taken: &mut HashSet<String>) -> Vec<McpTool> {
    let listed = &condition.offers.tools;
    let ids = names::tool_names(&line.server, listed.iter().map(|tool| tool.name.as_str()));
    let mut tools = Vec::new();
    for (tool, id) in listed.iter().zip(ids) {
        // The same name of another server, or of a built-in tool.
        let id = match taken.contains(&id) {
            true => names::other_name(&line.server, &tool.name),
            false => id,
        };
        if !taken.insert(id.clone()) {
            tracing::debug!(server = &*line.server, tool = tool.name, "a tool is listed twice; the first counts");
            continue;
        }
        let accepted = mcp::schema::accept(&tool.schema);
        for change in &accepted.changes {
            tracing::debug!(server = &*line.server, tool = tool.name, change, "the schema of an MCP tool is changed");
        }
        let description = description(&line.server, &tool.name, &id, &tool.description);
        tools.push(McpTool { id, name: tool.name.clone(), description, accepted, silence, line: line.clone() });
    }
    tools
}

/// What the model reads; where a tool has another name than its own, also that.
fn description(server: &str, tool: &str, id: &str, own: &str) -> String {
    let known_as = format!("The tool `{tool}` of the MCP server `{server}`.");
    let is_plain = id.strip_suffix(tool).is_some_and(|rest| rest.strip_suffix('_') == Some(server));
    match own.trim() {
        "" => known_as,
        own if is_plain => own.to_owned(),
        own => format!("{own}\n\n({known_as})"),
    }
}

fn command(server: &str, prompt: &mcp::Prompt) -> Command {
    Command {
        name: names::command_name(server, &prompt.name),
        description: prompt.description.clone(),
        agent: None,
        model: None,
        variant: None,
        source: Some("mcp".into()),
        template: String::new(),
        subtask: None,
        hints: (1..=prompt.arguments.len()).map(|number| format!("${number}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use mcp::{Offers, Prompt, PromptArgument, RemoteTool, Status};
    use pretty_assertions::assert_eq;
    use serde_json::json;
    use tokio::sync::watch;

    use super::*;

    fn server(name: &str, tools: &[&str]) -> (Line, Condition) {
        let tool = |name: &&str| RemoteTool {
            name: (*name).into(),
            description: "does it".into(),
            schema: json!({ "type": "object" }),
        };
        let condition = Condition {
            offers: Arc::new(Offers { tools: tools.iter().map(tool).collect(), ..Offers::default() }),
            ..Condition::new(Status::Connected)
        };
        let (_, receiver) = watch::channel(condition.clone());
        (Line { server: name.into(), condition: receiver }, condition)
    }

    fn ids(offer: &Offer) -> Vec<String> {
        offer.offered.tools.iter().map(|tool| tool.id().to_owned()).collect()
    }

    #[test]
    fn names_that_others_have_end_in_a_hash_and_the_mapping_is_shown() {
        let servers = [server("a", &["b_c", "x"]), server("a_b", &["c"]), server("web", &["fetch", "fetch"])];
        let offer = offer(&servers, |_| None, ["web_fetch"]);
        let ids = ids(&offer);
        assert_eq!(ids[..2], ["a_b_c", "a_x"]);
        assert!(ids[2].starts_with("a_b_c_") && ids[3].starts_with("web_fetch_"), "{ids:?}");
        assert_eq!(ids.len(), 4, "a tool that is listed twice is one");
        assert_eq!(offer.shown[1].1, [Shown { name: ids[2].clone(), tool: "c".into(), changes: vec![] }]);
        let spec = offer.offered.tools[2].spec();
        assert_eq!(spec.description, "does it\n\n(The tool `c` of the MCP server `a_b`.)");
        assert_eq!(offer.offered.tools[0].spec().description, "does it");
    }

    #[test]
    fn resources_bring_their_tools_prompts_are_commands_and_instructions_go_with_the_tools() {
        let (line, mut condition) = server("s", &["t"]);
        condition.has_resources = true;
        condition.instructions = Some("use t first".into());
        let argument = |name: &str| PromptArgument { name: name.into(), is_required: false };
        let prompt = Prompt { name: "hey".into(), description: None, arguments: vec![argument("a"), argument("b")] };
        Arc::make_mut(&mut condition.offers).prompts = vec![prompt];
        let offer = offer(&[(line, condition)], |_| None, []);
        let names = ["list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "s_t"];
        assert_eq!(ids(&offer), names);
        assert_eq!(offer.offered.guides[0].about, ["s_t"]);
        let command = &offer.offered.commands[0];
        assert_eq!((command.name.as_str(), command.hints.as_slice()), ("s:hey", &["$1".to_owned(), "$2".into()][..]));
    }
}
