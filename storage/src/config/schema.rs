//! The settings there are, as data: OpenCode's (its `config.json` schema), and the block `troupe`.

use super::shape::Shape::{Any, Count, Either, Flag, Keys, List, Map, Number, Off, OneOf, Open, Positive, Text};
use super::shape::{Key, Shape, key, needed};

const ACTION: Shape = OneOf(&["allow", "ask", "deny"]);
static ACTION_OF_PATTERN: Shape = ACTION;
static RULES_OF_PERMISSION: Shape = Either(&[ACTION, Map(&ACTION_OF_PATTERN)]);
const PERMISSION: Shape = Either(&[ACTION, Map(&RULES_OF_PERMISSION)]);
static TEXT: Shape = Text;
static FLAG: Shape = Flag;
static ANY: Shape = Any;
const TEXTS: Shape = List(&TEXT);
const TEXT_OF_NAME: Shape = Map(&TEXT);
const FLAG_OF_NAME: Shape = Map(&FLAG);
const ANY_OF_NAME: Shape = Map(&ANY);
/// A time limit in ms; `false` for none.
const LIMIT_MS: Shape = Either(&[Positive, Off]);

/// An agent; what else it has are options for the provider.
pub static AGENT: Shape = Open(&[
    key("name", Text),
    key("model", Text),
    key("variant", Text),
    key("temperature", Number),
    key("top_p", Number),
    key("prompt", Text),
    key("tools", FLAG_OF_NAME),
    key("disable", Flag),
    key("description", Text),
    key("mode", OneOf(&["subagent", "primary", "all"])),
    key("hidden", Flag),
    key("options", ANY_OF_NAME),
    key("color", Text),
    key("steps", Positive),
    key("maxSteps", Positive),
    key("permission", PERMISSION),
]);

/// A command.
pub static COMMAND: Shape = Keys(&[
    key("name", Text),
    needed("template", Text),
    key("description", Text),
    key("agent", Text),
    key("model", Text),
    key("variant", Text),
    key("subtask", Flag),
    // Of other programs' commands, which are used here as they are.
    key("argument-hint", Any),
    key("allowed-tools", Any),
]);

static COST: &[Key] = &[
    key("input", Number),
    key("output", Number),
    key("cache_read", Number),
    key("cache_write", Number),
    key("context_over_200k", Any),
    key("tiers", Any),
];
static MODALITY: Shape = OneOf(&["text", "audio", "image", "video", "pdf"]);
const MODALITIES: Shape = List(&MODALITY);

static MODEL: Shape = Keys(&[
    key("id", Text),
    key("name", Text),
    key("family", Text),
    key("release_date", Text),
    key("attachment", Flag),
    key("reasoning", Flag),
    key("reasoning_options", Any),
    key("temperature", Flag),
    key("tool_call", Flag),
    key("interleaved", Either(&[Flag, Text, Keys(&[needed("field", Text)])])),
    key("cost", Keys(COST)),
    key("limit", Keys(&[key("context", Count), key("input", Count), key("output", Count)])),
    key("modalities", Keys(&[key("input", MODALITIES), key("output", MODALITIES)])),
    key("experimental", Any),
    key("status", OneOf(&["alpha", "beta", "deprecated", "active"])),
    key("provider", Keys(&[key("npm", Text), key("api", Text)])),
    key("options", ANY_OF_NAME),
    key("headers", TEXT_OF_NAME),
    key("variants", Map(&ANY_OPTIONS)),
    // Of the catalogue's own files, which may be copied as they are.
    key("open_weights", Any),
    key("knowledge", Any),
    key("last_updated", Any),
    key("structured_output", Any),
]);
static ANY_OPTIONS: Shape = ANY_OF_NAME;

static PROVIDER: Shape = Keys(&[
    key("id", Text),
    key("name", Text),
    key("npm", Text),
    key("api", Text),
    key("doc", Text),
    key("env", TEXTS),
    key("whitelist", TEXTS),
    key("blacklist", TEXTS),
    key(
        "options",
        Open(&[
            key("apiKey", Text),
            key("baseURL", Text),
            key("enterpriseUrl", Text),
            key("setCacheKey", Flag),
            key("headers", TEXT_OF_NAME),
            key("timeout", LIMIT_MS),
            key("headerTimeout", LIMIT_MS),
            key("chunkTimeout", LIMIT_MS),
        ]),
    ),
    key("models", Map(&MODEL)),
]);

static MCP_SERVER: Shape = Either(&[
    Keys(&[
        needed("type", OneOf(&["local"])),
        needed("command", TEXTS),
        key("cwd", Text),
        key("environment", TEXT_OF_NAME),
        key("enabled", Flag),
        key("timeout", Positive),
    ]),
    Keys(&[
        needed("type", OneOf(&["remote"])),
        needed("url", Text),
        key("enabled", Flag),
        key("headers", TEXT_OF_NAME),
        key(
            "oauth",
            Either(&[
                Keys(&[
                    key("clientId", Text),
                    key("clientSecret", Text),
                    key("scope", Text),
                    key("callbackPort", Positive),
                    key("redirectUri", Text),
                ]),
                Off,
            ]),
        ),
        key("timeout", Positive),
    ]),
    Keys(&[needed("enabled", Flag)]),
]);

static FORMATTER: Shape =
    Keys(&[key("disabled", Flag), key("command", TEXTS), key("environment", TEXT_OF_NAME), key("extensions", TEXTS)]);

static LSP_SERVER: Shape = Keys(&[
    key("disabled", Flag),
    key("command", TEXTS),
    key("extensions", TEXTS),
    key("env", TEXT_OF_NAME),
    key("initialization", ANY_OF_NAME),
]);

static PLUGIN: Shape = Either(&[Text, List(&ANY)]);

const BUDGET: Shape = Keys(&[
    key("tokens", Count),
    key("cost", Number),
    key("requests", Count),
    key("steps", Count),
    key("wall_ms", Count),
]);

const TROUPE: Shape = Keys(&[
    key("fallback", TEXTS),
    key("retry", Keys(&[key("max_attempts", Positive), key("base_ms", Count), key("max_delay_ms", Count)])),
    key(
        "limits",
        Keys(&[
            key("requests", Count),
            key("requests_per_provider", Count),
            key("requests_per_tree", Count),
            key("processes", Count),
        ]),
    ),
    key("budget", Keys(&[key("turn", BUDGET), key("session", BUDGET), key("tree", BUDGET), key("day", BUDGET)])),
    key("plugins", Keys(&[key("runtime", Text), key("hook_ms", Count), key("load_ms", Count)])),
    key("task", Keys(&[key("timeout_ms", Count)])),
    key("recovery", OneOf(&["resume", "interrupt"])),
    key("durability", OneOf(&["full", "normal"])),
    key("damaged", OneOf(&["salvage", "replace"])),
    key("workspace", Keys(&[key("idle_ms", Count)])),
    key("snapshot", Keys(&[key("max_file_bytes", Count), key("min_free_bytes", Count)])),
    key("edit", Keys(&[key("anchors", OneOf(&["off", "similar"]))])),
    key(
        "search",
        Keys(&[key("provider", OneOf(&["exa", "parallel"])), key("exa_url", Text), key("parallel_url", Text)]),
    ),
]);

/// All settings.
pub static SETTINGS: Shape = Keys(&[
    key("$schema", Text),
    key("shell", Text),
    key("logLevel", OneOf(&["DEBUG", "INFO", "WARN", "ERROR"])),
    key(
        "server",
        Keys(&[
            key("port", Count),
            key("hostname", Text),
            key("mdns", Flag),
            key("mdnsDomain", Text),
            key("cors", TEXTS),
        ]),
    ),
    key("command", Map(&COMMAND)),
    key("skills", Keys(&[key("paths", TEXTS), key("urls", TEXTS)])),
    key("references", ANY_OF_NAME),
    key("reference", ANY_OF_NAME),
    key("watcher", Keys(&[key("ignore", TEXTS)])),
    key("snapshot", Flag),
    key("plugin", List(&PLUGIN)),
    key("share", OneOf(&["manual", "auto", "disabled"])),
    key("autoshare", Flag),
    key("autoupdate", Either(&[Flag, OneOf(&["notify"])])),
    key("disabled_providers", TEXTS),
    key("enabled_providers", TEXTS),
    key("model", Text),
    key("small_model", Text),
    key("default_agent", Text),
    key("subagent_depth", Count),
    key("username", Text),
    key("mode", Map(&AGENT)),
    key("agent", Map(&AGENT)),
    key("provider", Map(&PROVIDER)),
    key("mcp", Map(&MCP_SERVER)),
    key("formatter", Either(&[Flag, Map(&FORMATTER)])),
    key("lsp", Either(&[Flag, Map(&LSP_SERVER)])),
    key("instructions", TEXTS),
    key("layout", OneOf(&["auto", "stretch"])),
    key("permission", PERMISSION),
    key("tools", FLAG_OF_NAME),
    key("attachment", ANY_OF_NAME),
    key("enterprise", Keys(&[key("url", Text)])),
    key("tool_output", Keys(&[key("max_lines", Positive), key("max_bytes", Positive)])),
    key(
        "compaction",
        Keys(&[
            key("auto", Flag),
            key("prune", Flag),
            key("tail_turns", Count),
            key("preserve_recent_tokens", Count),
            key("reserved", Count),
        ]),
    ),
    key("experimental", Open(&[key("mcp_timeout", Positive)])),
    // Once OpenCode's, of its terminal client: read by nobody here, and no mistake.
    key("theme", Any),
    key("keybinds", Any),
    key("tui", Any),
    key("troupe", TROUPE),
]);

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use protocol::config::{self as typed, Config, TroupeConfig};
    use serde::de::{Deserialize, Deserializer, Error, Visitor};
    use serde_json::json;

    use super::super::shape::check;
    use super::*;

    /// Learns which fields a type reads.
    struct Fields<'a>(&'a mut Vec<&'static str>);

    impl<'de> Deserializer<'de> for Fields<'_> {
        type Error = serde::de::value::Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(Self::Error::custom("no struct"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            self.0.extend(fields);
            self.deserialize_any(visitor)
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    fn fields<T: for<'de> Deserialize<'de>>() -> Vec<&'static str> {
        let mut fields = Vec::new();
        let _ = T::deserialize(Fields(&mut fields));
        fields.sort_unstable();
        fields
    }

    /// Returns the keys of the shape under these keys.
    fn keys(path: &[&str]) -> Vec<&'static str> {
        let of = |shape: &'static Shape| match shape {
            Keys(keys) | Open(keys) => *keys,
            other => panic!("no keys: {other:?}"),
        };
        let mut found = of(&SETTINGS);
        for name in path {
            found = of(&found.iter().find(|key| key.name == *name).unwrap_or_else(|| panic!("{name}")).shape);
        }
        let mut names: Vec<&str> = found.iter().map(|key| key.name).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_is_read_is_in_the_schema_and_troupes_own_block_is_the_same_in_both() {
        let known = keys(&[]);
        let missing: Vec<&str> = fields::<Config>().into_iter().filter(|field| !known.contains(field)).collect();
        assert_eq!(missing, Vec::<&str>::new());
        assert_eq!(keys(&["troupe"]), fields::<TroupeConfig>());
        for (block, read) in [
            ("retry", fields::<typed::RetryConfig>()),
            ("limits", fields::<typed::LimitsConfig>()),
            ("budget", fields::<typed::BudgetConfig>()),
            ("plugins", fields::<typed::PluginsConfig>()),
            ("task", fields::<typed::TaskConfig>()),
            ("workspace", fields::<typed::WorkspaceConfig>()),
            ("snapshot", fields::<typed::SnapshotConfig>()),
            ("edit", fields::<typed::EditConfig>()),
            ("search", fields::<typed::SearchConfig>()),
        ] {
            assert_eq!(keys(&["troupe", block]), read, "{block}");
        }
        assert_eq!(keys(&["troupe", "budget", "turn"]), fields::<typed::Budget>());
        assert_eq!(keys(&["compaction"]), fields::<typed::CompactionConfig>());
    }

    #[test]
    fn settings_as_people_have_them_are_all_known() {
        let settings = json!({
            "$schema": "https://opencode.ai/config.json", "theme": "x", "autoupdate": "notify",
            "model": "a/b", "permission": { "bash": { "*": "ask" }, "edit": "deny", "demo_*": "ask" },
            "plugin": ["a", ["b", { "c": 1 }]],
            "agent": { "x": { "steps": 3, "reasoningEffort": "high", "permission": "ask" } },
            "provider": { "p": {
                "options": { "apiKey": "k", "chunkTimeout": false, "region": "eu" },
                "models": { "m": { "limit": { "context": 1, "output": 2 }, "variants": { "high": { "x": 1 } } } },
            } },
            "mcp": {
                "l": { "type": "local", "command": ["x"], "environment": { "A": "b" } },
                "r": { "type": "remote", "url": "https://x", "oauth": false }, "off": { "enabled": false },
            },
            "lsp": { "rust": { "disabled": true } }, "formatter": false,
            "troupe": { "retry": { "base_ms": 5 }, "edit": { "anchors": "similar" } },
        });
        let found = check(&SETTINGS, &settings, &settings);
        assert_eq!((found.wrong, found.unknown), (vec![], vec![]));
    }
}
