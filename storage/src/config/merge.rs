//! Merging settings, and bringing their older spellings to one form. Pure.
//! Source: OpenCode `config/config.ts`.

use std::path::Path;

use serde_json::{Map, Value, json};

/// An agent's keys that are not options of its provider.
const AGENT_KEYS: [&str; 16] = [
    "name",
    "model",
    "variant",
    "prompt",
    "description",
    "temperature",
    "top_p",
    "mode",
    "hidden",
    "color",
    "steps",
    "maxSteps",
    "options",
    "permission",
    "disable",
    "tools",
];

/// Merges stronger settings into weaker ones: objects key by key; of lists the later one counts, except `instructions`
/// and `plugin`, which add up. Where one file gives an action to a whole permission and a stronger one to patterns of
/// it, the action stays as that of `*`, at the front.
pub fn merge(into: &mut Value, stronger: Value) {
    merge_at(into, stronger, &mut Vec::new());
}

fn merge_at(into: &mut Value, stronger: Value, at: &mut Vec<String>) {
    match (into, stronger) {
        (Value::Object(into), Value::Object(stronger)) => {
            for (key, value) in stronger {
                match into.get_mut(&key) {
                    Some(existing) => {
                        at.push(key);
                        merge_at(existing, value, at);
                        at.pop();
                    }
                    None => drop(into.insert(key, value)),
                }
            }
        }
        (Value::Array(into), Value::Array(more)) if matches!(at.as_slice(), [k] if k == "instructions" || k == "plugin") => {
            for value in more {
                if !into.contains(&value) {
                    into.push(value);
                }
            }
        }
        (into @ Value::String(_), stronger @ Value::Object(_)) if at.iter().any(|key| key == "permission") => {
            *into = json!({ "*": into.take() });
            merge_at(into, stronger, at);
        }
        (into, stronger) => *into = stronger,
    }
}

/// Brings one file's settings to the form they are merged in: agents with `options` and `permission`, permissions as
/// objects, plugins of files as addresses. `base` is where relative paths count from.
pub fn normal(settings: &mut Value, base: &Path) {
    let Some(settings) = settings.as_object_mut() else { return };
    if let Some(permission) = settings.get_mut("permission") {
        whole_permission(permission);
    }
    for kind in ["agent", "mode"] {
        for agent in settings.get_mut(kind).and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
            normal_agent(agent);
        }
    }
    for plugin in settings.get_mut("plugin").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = if plugin.is_array() { plugin.get_mut(0) } else { Some(plugin) };
        if let Some(Value::String(name)) = name
            && (name.starts_with("./") || name.starts_with("../") || name.starts_with('/'))
        {
            *name = file_url(&base.join(&*name));
        }
    }
}

/// Brings merged settings to the form they are read in.
pub fn finish(settings: &mut Value) {
    let Some(settings) = settings.as_object_mut() else { return };
    if let Some(Value::Object(modes)) = settings.get("mode").cloned() {
        let mut agents = json!({ "agent": {} });
        for (name, mut mode) in modes {
            if let Some(mode) = mode.as_object_mut() {
                mode.insert("mode".into(), "primary".into());
            }
            agents["agent"][name] = mode;
        }
        let mut all = json!({ "agent": settings.get("agent").cloned().unwrap_or_else(|| json!({})) });
        merge(&mut all, agents);
        settings.insert("agent".into(), all["agent"].take());
    }
    if let Some(Value::Object(tools)) = settings.get("tools") {
        let mut rules = json!({ "permission": switches(tools) });
        let own = settings.get("permission").cloned().unwrap_or_else(|| json!({}));
        merge(&mut rules, json!({ "permission": own }));
        settings.insert("permission".into(), rules["permission"].take());
    }
    if settings.get("autoshare") == Some(&Value::Bool(true)) {
        settings.entry("share").or_insert_with(|| "auto".into());
    }
    if let Some(Value::Array(plugins)) = settings.get_mut("plugin") {
        last_of_each(plugins);
    }
}

fn whole_permission(permission: &mut Value) {
    if permission.is_string() {
        *permission = json!({ "*": permission.take() });
    }
}

/// Tools switched on or off, as rules; those that write files share one.
fn switches(tools: &Map<String, Value>) -> Value {
    let mut rules = Map::new();
    for (tool, on) in tools {
        let permission = if matches!(tool.as_str(), "write" | "edit" | "patch" | "multiedit") { "edit" } else { tool };
        rules.insert(permission.into(), if *on == Value::Bool(true) { "allow" } else { "deny" }.into());
    }
    Value::Object(rules)
}

fn normal_agent(agent: &mut Value) {
    let Some(agent) = agent.as_object_mut() else { return };
    let mut permission = agent.get("permission").cloned().unwrap_or_else(|| json!({}));
    whole_permission(&mut permission);
    if let Some(Value::Object(tools)) = agent.get("tools") {
        let mut rules = switches(tools);
        merge_at(&mut rules, permission, &mut vec!["permission".into()]);
        permission = rules;
    }
    agent.insert("permission".into(), permission);
    let mut options = agent.get("options").and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, value) in agent.iter().filter(|(key, _)| !AGENT_KEYS.contains(&key.as_str())) {
        options.insert(key.clone(), value.clone());
    }
    agent.insert("options".into(), Value::Object(options));
    if let Some(steps) = agent.get("maxSteps").cloned() {
        agent.entry("steps").or_insert(steps);
    }
}

fn file_url(path: &Path) -> String {
    let mut clean = std::path::PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => drop(clean.pop()),
            other => clean.push(other),
        }
    }
    format!("file://{}", clean.display())
}

/// Of plugins of one name the last counts: `pkg@1` and `pkg@2` are one, and so are two files of one name.
fn last_of_each(plugins: &mut Vec<Value>) {
    let name = |plugin: &Value| -> Option<String> {
        let spec = plugin.as_str().or_else(|| plugin.get(0)?.as_str())?;
        if let Some(path) = spec.strip_prefix("file://") {
            return Some(Path::new(path).file_stem()?.to_string_lossy().into_owned());
        }
        match spec.rfind('@') {
            Some(at) if at > 0 => spec.get(..at).map(str::to_owned),
            _ => Some(spec.to_owned()),
        }
    };
    let names: Vec<Option<String>> = plugins.iter().map(name).collect();
    let mut index = 0;
    plugins.retain(|_| {
        index += 1;
        let own = names.get(index - 1);
        !names.iter().skip(index).any(|later| Some(later) == own && later.is_some())
    });
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn merged(files: &[Value]) -> Value {
        let mut all = json!({});
        for file in files {
            let mut file = file.clone();
            normal(&mut file, Path::new("/p/.opencode"));
            merge(&mut all, file);
        }
        finish(&mut all);
        all
    }

    #[test]
    fn lists_of_instructions_and_plugins_add_up_and_others_are_replaced() {
        let all = merged(&[
            json!({ "instructions": ["a"], "plugin": ["x@1", "./own.ts"], "disabled_providers": ["p"] }),
            json!({ "instructions": ["b", "a"], "plugin": ["@s/x@1", "x@2", ["@s/x", { "o": 1 }]], "disabled_providers": ["q"] }),
        ]);
        let wanted = json!({
            "instructions": ["a", "b"], "plugin": ["file:///p/.opencode/own.ts", "x@2", ["@s/x", { "o": 1 }]],
            "disabled_providers": ["q"],
        });
        assert_eq!(all, wanted);
    }

    #[test]
    fn an_action_for_a_whole_permission_stays_under_patterns_of_a_stronger_file() {
        let all = merged(&[
            json!({ "permission": "ask" }),
            json!({ "permission": { "bash": "deny", "edit": "allow" } }),
            json!({ "permission": { "bash": { "git *": "allow" }, "edit": "ask" } }),
        ]);
        let wanted = json!({ "*": "ask", "bash": { "*": "deny", "git *": "allow" }, "edit": "ask" });
        assert_eq!(all["permission"], wanted);
    }

    #[test]
    fn older_spellings_become_rules_and_agents() {
        let all = merged(&[json!({
            "tools": { "write": false, "bash": true }, "permission": { "bash": "ask" }, "autoshare": true,
            "mode": { "plan": { "tools": { "bash": false } } },
            "agent": { "plan": { "maxSteps": 3, "reasoningEffort": "high", "permission": "ask" } },
        })]);
        assert_eq!(all["permission"], json!({ "edit": "deny", "bash": "ask" }));
        assert_eq!(all["share"], "auto");
        let plan = &all["agent"]["plan"];
        assert_eq!((&plan["mode"], &plan["steps"]), (&json!("primary"), &json!(3)));
        assert_eq!(plan["options"], json!({ "reasoningEffort": "high" }));
        assert_eq!(plan["permission"], json!({ "*": "ask", "bash": "deny" }));
    }
}
