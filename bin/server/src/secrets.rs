//! Hides secrets where settings are shown.

use actors::workspace::catalogue::HIDDEN;
use protocol::JsonMap;
use serde_json::Value;

/// Words in the name of a provider's option that is a secret.
const SECRET: [&str; 6] = ["key", "secret", "token", "password", "credential", "authorization"];

/// Hides the secrets of merged settings: what providers are opened with, and what MCP servers are given.
pub fn hide_in_settings(settings: &mut Value) {
    for provider in children(settings, "provider") {
        hide_in_provider(provider);
    }
    for server in children(settings, "mcp") {
        hide_values(server.get_mut("environment"));
        hide_values(server.get_mut("headers"));
        if let Some(Value::Object(oauth)) = server.get_mut("oauth") {
            hide_options(oauth);
        }
        if let Some(Value::String(url)) = server.get_mut("url") {
            hide_in_url(url);
        }
    }
}

/// Hides the secrets of a provider, as settings have it or as clients are shown it.
pub fn hide_in_provider(provider: &mut Value) {
    if let Some(key) = provider.get_mut("key") {
        *key = HIDDEN.into();
    }
    if let Some(Value::String(url)) = provider.get_mut("api") {
        hide_in_url(url);
    }
    if let Some(Value::Object(options)) = provider.get_mut("options") {
        hide_options(options);
    }
    for model in children(provider, "models") {
        hide_values(model.get_mut("headers"));
        if let Some(Value::Object(options)) = model.get_mut("options") {
            hide_options(options);
        }
    }
}

fn children<'a>(value: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(key).and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut())
}

fn hide_options(options: &mut JsonMap) {
    for (name, value) in options {
        let plain = name.to_ascii_lowercase();
        match value {
            _ if plain == "headers" => hide_values(Some(value)),
            Value::Object(below) => hide_options(below),
            // A number or a flag with such a name counts or switches something.
            Value::String(_) if SECRET.iter().any(|word| plain.contains(word)) => *value = HIDDEN.into(),
            Value::String(text) if text.contains("://") => hide_in_url(text),
            _ => {}
        }
    }
}

fn hide_values(map: Option<&mut Value>) {
    for value in map.and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut()) {
        *value = HIDDEN.into();
    }
}

/// Hides the user name and password an address may hold, and the values of its query.
fn hide_in_url(text: &mut String) {
    let Ok(mut url) = url::Url::parse(text) else { return };
    let has_user = !url.username().is_empty() || url.password().is_some();
    if !has_user && url.query().is_none() {
        return;
    }
    if has_user {
        // Only addresses that can't have a name refuse one, and they have none.
        let _ = url.set_password(None);
        let _ = url.set_username(HIDDEN);
    }
    let names: Vec<String> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
    if !names.is_empty() {
        url.query_pairs_mut().clear().extend_pairs(names.iter().map(|name| (name, HIDDEN)));
    }
    *text = url.into();
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn no_secret_is_shown_and_the_rest_stays() {
        let mut settings = json!({
            "model": "a/b",
            "provider": { "a": {
                "options": {
                    "apiKey": "hush", "baseURL": "http://me:hush@host/v1?api_key=hush", "headers": { "x": "hush" },
                    "maxTokens": 5, "secretAccessKey": "hush", "region": "eu", "nested": { "sessionToken": "hush" },
                },
                "models": { "b": { "headers": { "y": "hush" }, "limit": { "context": 1 } } },
            } },
            "mcp": {
                "l": { "type": "local", "command": ["x"], "environment": { "KEY": "hush" } },
                "r": { "url": "https://h/x?token=hush", "headers": { "z": "hush" }, "oauth": { "clientSecret": "hush", "clientId": "c" } },
                "off": false,
            },
        });
        hide_in_settings(&mut settings);
        assert!(!settings.to_string().contains("hush"), "{settings}");
        assert_eq!(settings["model"], "a/b");
        let options = &settings["provider"]["a"]["options"];
        assert_eq!(options["maxTokens"], 5);
        assert_eq!(options["region"], "eu");
        assert_eq!(options["baseURL"], "http://***@host/v1?api_key=***");
        assert_eq!(settings["mcp"]["l"]["environment"], json!({ "KEY": "***" }));
        assert_eq!(settings["mcp"]["r"]["oauth"]["clientId"], "c");
    }

    #[test]
    fn a_plain_address_is_left_as_it_was_written() {
        let mut provider = json!({ "options": { "baseURL": "http://127.0.0.1:1/v1" } });
        let before = provider.clone();
        hide_in_provider(&mut provider);
        assert_eq!(provider, before);
    }
}
