//! What is switched on by the environment and the config beyond what everybody has. Names are OpenCode's.

use std::path::PathBuf;

use protocol::config::{Config, SearchProvider};
use storage::places::{Environment, Places};
use tools::websearch::SearchSettings;

/// What is switched on.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// How the web is searched.
    pub search: SearchSettings,
    /// The plan agent and the others hand over to each other.
    pub plan_mode: bool,
    /// Other repositories can be cloned and looked at; the clones are here.
    pub clones: Option<PathBuf>,
    /// Language servers can be asked by the model.
    pub lsp_tool: bool,
    /// The to-do list can be read again. Not everybody's: it is in the conversation, and costs words in each request.
    pub todoread: bool,
    /// Several calls can be made in one.
    pub batch: bool,
}

impl Flags {
    /// Reads the flags.
    pub fn of(config: &Config, environment: &Environment, places: &Places) -> Self {
        let is_set = |name: &str| environment.get(name).is_some_and(is_true);
        let experimental = |name: &str| {
            let all = is_set("OPENCODE_EXPERIMENTAL");
            // One that is set alone says so for itself.
            environment.get(name).map_or(all, is_true)
        };
        let own = |name: &str| environment.get(name).map(str::to_owned);
        let search = &config.troupe.search;
        let named = match environment.get("OPENCODE_WEBSEARCH_PROVIDER") {
            Some("exa") => Some(SearchProvider::Exa),
            Some("parallel") => Some(SearchProvider::Parallel),
            _ => None,
        };
        let by_flag =
            [("OPENCODE_ENABLE_PARALLEL", SearchProvider::Parallel), ("OPENCODE_ENABLE_EXA", SearchProvider::Exa)];
        let switched_on = || {
            let found = by_flag.into_iter().find(|(flag, _)| is_set(flag)).map(|(_, provider)| provider);
            found.or_else(|| experimental("OPENCODE_EXPERIMENTAL_EXA").then_some(SearchProvider::Exa))
        };
        Self {
            search: SearchSettings {
                provider: search.provider.or_else(|| switched_on().map(|found| named.unwrap_or(found))),
                exa_url: search.exa_url.clone(),
                exa_key: own("EXA_API_KEY"),
                parallel_url: search.parallel_url.clone(),
                parallel_key: own("PARALLEL_API_KEY"),
            },
            plan_mode: experimental("OPENCODE_EXPERIMENTAL_PLAN_MODE"),
            clones: experimental("OPENCODE_EXPERIMENTAL_SCOUT").then(|| places.cache.join("repos")),
            lsp_tool: experimental("OPENCODE_EXPERIMENTAL_LSP_TOOL"),
            todoread: config.tools.iter().flatten().any(|(tool, is_on)| tool == "todoread" && *is_on)
                || config.permission.iter().flat_map(|p| p.rules()).any(|rule| rule.permission == "todoread"),
            batch: config.experimental.get("batch_tool").and_then(serde_json::Value::as_bool).unwrap_or(false),
        }
    }
}

fn is_true(value: &str) -> bool {
    value == "1" || value.eq_ignore_ascii_case("true")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn flags(environment: &[(&str, &str)], config: serde_json::Value) -> Flags {
        let config = serde_json::from_value(config).expect("a config");
        let environment = environment.iter().copied().collect();
        Flags::of(&config, &environment, &Places::of(&environment))
    }

    #[test]
    fn nothing_is_switched_on_by_itself() {
        let none = flags(&[("EXA_API_KEY", "secret"), ("OPENCODE_WEBSEARCH_PROVIDER", "exa")], json!({}));
        assert_eq!(
            (none.search.provider, none.plan_mode, none.clones.is_some(), none.lsp_tool, none.batch),
            (None, false, false, false, false)
        );
        assert!(!format!("{none:?}").contains("secret"));
    }

    #[test]
    fn the_config_goes_before_flags_and_a_flag_alone_before_all_together() {
        let search = |environment: &[(&str, &str)], config| flags(environment, config).search.provider;
        assert_eq!(search(&[("OPENCODE_ENABLE_EXA", "true")], json!({})), Some(SearchProvider::Exa));
        assert_eq!(search(&[("OPENCODE_ENABLE_PARALLEL", "1")], json!({})), Some(SearchProvider::Parallel));
        let both = [("OPENCODE_ENABLE_EXA", "1"), ("OPENCODE_WEBSEARCH_PROVIDER", "parallel")];
        assert_eq!(search(&both, json!({})), Some(SearchProvider::Parallel));
        let named = json!({ "troupe": { "search": { "provider": "exa" } } });
        assert_eq!(search(&both, named), Some(SearchProvider::Exa));
        let some = flags(&[("OPENCODE_EXPERIMENTAL", "1"), ("OPENCODE_EXPERIMENTAL_LSP_TOOL", "0")], json!({}));
        assert_eq!((some.plan_mode, some.clones.is_some(), some.lsp_tool), (true, true, false));
        assert!(flags(&[], json!({ "experimental": { "batch_tool": true } })).batch);
    }
}
