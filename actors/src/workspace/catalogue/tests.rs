use pretty_assertions::assert_eq;
use protocol::SystemClock;
use protocol::provider::ProviderSource;
use serde_json::{Value, json};
use storage::places::Places;
use tempfile::TempDir;

use super::*;
use crate::workspace::Http;

/// A home with nothing in it.
struct Home {
    dir: TempDir,
    vendors: Vendors,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().to_string_lossy().into_owned();
        let places = Places::of(&Environment::from_iter([("HOME", home)]));
        let vendors = Vendors::new(&places, Arc::new(SystemClock), Http::new("test"));
        Self { dir, vendors }
    }

    fn logged_in(self, entries: Value) -> Self {
        let path = self.dir.path().join(".local/share/troupe/auth.json");
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(path, entries.to_string()).expect("written");
        self
    }

    fn catalogue(&self, config: Value, environment: &[(&str, &str)]) -> Catalogue {
        let config = serde_json::from_value(config).expect("a config");
        Catalogue::new(&config, &Environment::from_iter(environment.iter().copied()), &self.vendors)
    }
}

fn catalogue(config: Value) -> Catalogue {
    Home::new().catalogue(config, &[("SOME_KEY", "from the environment")])
}

fn mock() -> Value {
    json!({ "provider": { "mock": {
        "name": "Mock", "env": ["SOME_KEY"],
        "options": { "baseURL": "http://127.0.0.1:1/v1", "apiKey": "secret", "headers": { "x-key": "secret" } },
        "models": { "mock": { "limit": { "context": 128000, "output": 8192 } }, "small": {}, "vision": { "reasoning": true } },
    } } })
}

fn in_use(catalogue: &Catalogue) -> Vec<(&str, ProviderSource)> {
    catalogue.providers().map(|provider| (provider.id.as_str(), provider.source)).collect()
}

fn model<'a>(catalogue: &'a Catalogue, provider: &str, model: &str) -> &'a Model {
    let provider = catalogue.providers().find(|known| known.id == provider).expect("a provider");
    provider.models.get(model).unwrap_or_else(|| panic!("no {model}"))
}

#[test]
fn without_a_provider_there_is_the_demo() {
    let catalogue = catalogue(json!({}));
    let model = catalogue.default_model().expect("a model");
    assert_eq!((model.provider_id.as_str(), model.model_id.as_str()), ("demo", "tour"));
    assert!(catalogue.has(&model));
}

#[test]
fn nothing_secret_is_shown() {
    let home = Home::new().logged_in(json!({ "mistral": { "type": "api", "key": "sk-secret" } }));
    let catalogue = home.catalogue(mock(), &[("SOME_KEY", "from the environment")]);
    let shown = serde_json::to_string(&catalogue.providers().collect::<Vec<_>>()).expect("JSON");
    assert!(!shown.contains("secret") && !shown.contains("environment"), "{shown}");
}

#[test]
fn an_unknown_model_is_named_with_those_there_are() {
    let catalogue = catalogue(mock());
    let error = |name: &str| {
        let wanted = ModelRef::parse(name).expect("a name");
        catalogue.choose(&wanted).err().expect("an error").to_string()
    };
    assert_eq!(error("mock/nope"), r#"provider "mock" has no model "nope"; it has: mock, small, vision"#);
    assert_eq!(error("zzz/x"), r#"provider "zzz" is not known; there are: mock"#);
}

#[test]
fn the_last_model_by_name_is_the_default_and_a_variant_brings_its_options() {
    let catalogue = catalogue(mock());
    assert_eq!(catalogue.defaults()["mock"], "vision");
    let wanted = ModelRef { variant: Some("high".into()), ..ModelRef::parse("mock/vision").expect("a name") };
    let Ok(chosen) = catalogue.choose(&wanted) else { panic!("not chosen") };
    assert_eq!(chosen.variant["reasoningEffort"], "high");
}

#[test]
fn a_key_in_the_environment_or_a_login_brings_a_listed_provider() {
    let home = Home::new().logged_in(json!({
        "mistral": { "type": "api", "key": "k" },
        "github-copilot": { "type": "oauth", "refresh": "g", "access": "g", "expires": 0 },
        "somebody-else": { "type": "api", "key": "k" },
    }));
    let environment =
        [("ANTHROPIC_API_KEY", "k"), ("GITHUB_TOKEN", "k"), ("AWS_ACCESS_KEY_ID", "k"), ("AWS_REGION", "r")];
    let catalogue = home.catalogue(json!({}), &environment);
    let listed: Vec<_> = in_use(&catalogue);
    assert_eq!(
        listed[..3],
        [
            ("mistral", ProviderSource::Api),
            ("github-copilot", ProviderSource::Custom),
            ("anthropic", ProviderSource::Env),
        ]
    );
    // One key of AWS's signs nothing, and is never sent as it is.
    assert_eq!(listed.len(), 3, "{listed:?}");
    let default = catalogue.default_model().expect("a model");
    assert!(catalogue.has(&default), "{default:?}");
    assert_eq!(model(&catalogue, "github-copilot", "gpt-4.1").api.npm, "@ai-sdk/github-copilot");

    // A token of GitHub's is there for other programs.
    assert_eq!(in_use(&Home::new().catalogue(json!({}), &[("GITHUB_TOKEN", "k")])), [("demo", ProviderSource::Custom)]);
    let off = home.catalogue(
        json!({ "disabled_providers": ["mistral"], "enabled_providers": ["mistral", "anthropic"] }),
        &environment,
    );
    assert_eq!(in_use(&off), [("anthropic", ProviderSource::Env)]);
}

#[test]
fn a_cloud_is_in_use_by_what_its_own_tools_find() {
    let aws = [("AWS_ACCESS_KEY_ID", "AKIA-x"), ("AWS_SECRET_ACCESS_KEY", "s3cret"), ("AWS_REGION", "eu-west-1")];
    let catalogue = Home::new().catalogue(json!({}), &aws);
    assert_eq!(in_use(&catalogue), [("amazon-bedrock", ProviderSource::Env)]);
    let bedrock = catalogue.providers().next().expect("a provider");
    assert!(bedrock.models.len() > 50);
    for model in bedrock.models.keys() {
        let wanted = ModelRef { provider_id: "amazon-bedrock".into(), model_id: model.clone(), variant: None };
        assert!(catalogue.has(&wanted), "{model}: {:?}", catalogue.choose(&wanted).err());
    }
    let shown = serde_json::to_string(&catalogue.providers().collect::<Vec<_>>()).expect("JSON");
    assert!(!shown.contains("s3cret") && !shown.contains("AKIA-x"), "{shown}");
    for environment in [&[("AWS_PROFILE", "work")], &[("AWS_BEARER_TOKEN_BEDROCK", "k")]] {
        let catalogue = Home::new().catalogue(json!({}), environment);
        assert_eq!(in_use(&catalogue), [("amazon-bedrock", ProviderSource::Env)]);
    }

    let google = [("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")];
    let catalogue = Home::new().catalogue(json!({}), &google);
    let listed = in_use(&catalogue);
    assert!(listed.contains(&("google-vertex", ProviderSource::Env)), "{listed:?}");
    let wanted = ModelRef { provider_id: "google-vertex".into(), model_id: "gemini-2.5-pro".into(), variant: None };
    assert!(catalogue.has(&wanted), "{:?}", catalogue.choose(&wanted).err());
    assert_eq!(in_use(&Home::new().catalogue(json!({}), &google[..1])), [("demo", ProviderSource::Custom)]);
}

#[test]
fn keys_that_sign_are_never_taken_for_one_that_is_sent() {
    for (name, is_key) in [
        ("AWS_ACCESS_KEY_ID", false),
        ("AWS_SECRET_ACCESS_KEY", false),
        ("AWS_SESSION_TOKEN", false),
        ("AWS_BEARER_TOKEN_BEDROCK", true),
    ] {
        let environment = Environment::from_iter([(name, "k")]);
        assert_eq!(known::env_key("x", &[name.to_owned()], &environment).is_some(), is_key, "{name}");
        // The config names its variables itself.
        let config = json!({ "provider": { "x": { "env": [name], "options": { "baseURL": "http://h" }, "models": { "m": {} } } } });
        let source = if is_key { ProviderSource::Env } else { ProviderSource::Config };
        let catalogue = Home::new().catalogue(config, &[(name, "k")]);
        assert_eq!(in_use(&catalogue).first(), Some(&("x", source)), "{name}");
    }
}

#[test]
fn config_goes_over_the_list_and_what_it_leaves_out_stays() {
    let config = json!({ "provider": { "anthropic": {
        "options": { "apiKey": "k" },
        "blacklist": ["claude-sonnet-4-6"],
        "models": {
            "claude-opus-4-5": { "limit": { "context": 100_000, "output": 1_000 }, "options": { "effort": "low" } },
            "mine": { "id": "claude-haiku-4-5", "name": "Mine", "variants": { "max": { "disabled": true }, "own": { "a": 1 } } },
            "new": { "cost": { "input": 1.0, "output": 2.0 } },
        },
    } } });
    let catalogue = Home::new().catalogue(config, &[]);
    let opus = model(&catalogue, "anthropic", "claude-opus-4-5");
    assert_eq!((opus.limit.context, opus.limit.output, opus.cost.input), (100_000, 1_000, 5.0));
    assert_eq!((opus.options["effort"].as_str(), opus.api.npm.as_str()), (Some("low"), "@ai-sdk/anthropic"));
    let mine = model(&catalogue, "anthropic", "mine");
    assert_eq!((mine.api.id.as_str(), mine.name.as_str(), mine.cost.input), ("claude-haiku-4-5", "Mine", 1.0));
    let variants: Vec<&String> = mine.variants.as_ref().expect("variants").keys().collect();
    assert_eq!(variants, ["high", "own"]);
    let new = model(&catalogue, "anthropic", "new");
    assert_eq!((new.cost.output, new.limit.context, new.api.npm.as_str()), (2.0, 0, "@ai-sdk/anthropic"));
    let anthropic = catalogue.providers().next().expect("a provider");
    assert!(!anthropic.models.contains_key("claude-sonnet-4-6") && anthropic.models.contains_key("claude-haiku-4-5"));
    assert_eq!(anthropic.name, "Anthropic");
}

#[test]
fn a_listed_provider_that_the_config_only_names_is_in_use_with_all_its_models() {
    let catalogue = Home::new().catalogue(json!({ "provider": { "lmstudio": {} } }), &[]);
    let first = catalogue.default_model().expect("a model");
    assert_eq!(first.provider_id, "lmstudio");
    assert_eq!(model(&catalogue, "lmstudio", &first.model_id).api.url, "http://127.0.0.1:1234/v1");
    assert!(catalogue.has(&first));
}

#[test]
fn addresses_are_filled_from_the_environment_and_models_nobody_speaks_are_left_out() {
    let environment = [("AZURE_API_KEY", "k"), ("AZURE_RESOURCE_NAME", "r"), ("COHERE_API_KEY", "k")];
    let catalogue = Home::new().catalogue(json!({}), &environment);
    assert!(!catalogue.providers().any(|known| known.models.values().any(|model| model.api.npm == "@ai-sdk/cohere")));
    let azure = catalogue.providers().next().expect("a provider");
    assert_eq!((azure.id.as_str(), azure.source), ("azure", ProviderSource::Env));
    for model in azure.models.keys() {
        let wanted = ModelRef { provider_id: "azure".into(), model_id: model.clone(), variant: None };
        assert!(catalogue.has(&wanted), "{model}: {:?}", catalogue.choose(&wanted).err());
    }
}

#[test]
fn an_account_of_chatgpt_has_its_models_alone_and_pays_for_none() {
    let login = json!({ "openai": { "type": "oauth", "refresh": "r", "access": "a", "expires": 1 } });
    let home = Home::new().logged_in(login);
    let catalogue = home.catalogue(json!({}), &[("OPENAI_API_KEY", "k")]);
    let openai = catalogue.providers().next().expect("a provider");
    assert!(openai.models.keys().all(|key| key.starts_with("gpt-5.")) && openai.models.len() > 3);
    assert_eq!(model(&catalogue, "openai", "gpt-5.4").cost, protocol::provider::Cost::default());
    let by_key = home.catalogue(json!({ "provider": { "openai": { "options": { "apiKey": "k" } } } }), &[]);
    assert!(by_key.has(&ModelRef::parse("openai/gpt-4.1").expect("a name")));
}

#[test]
fn a_small_model_is_one_that_is_known_to_be() {
    let catalogue = Home::new().catalogue(mock(), &[("ANTHROPIC_API_KEY", "k")]);
    let small = catalogue.small_model("anthropic").expect("a model");
    assert!(small.model_id.starts_with("claude-haiku-4-5"), "{small:?}");
    assert_eq!(catalogue.small_model("mock"), None);
}

#[test]
fn the_providers_that_are_not_used_are_those_of_the_list_the_config_does_not_rule_out() {
    let home = Home::new();
    let unused = |config: Value, environment: &[(&str, &str)]| -> Vec<String> {
        let catalogue = home.catalogue(config.clone(), environment);
        let config: Config = serde_json::from_value(config).expect("a config");
        catalogue.unused(&config, &home.vendors.models.list()).map(|provider| provider.id).collect()
    };
    let all = unused(mock(), &[]);
    assert!(all.len() > 100 && all.iter().any(|id| id == "anthropic"));
    let others = unused(mock(), &[("ANTHROPIC_API_KEY", "k")]);
    assert!(others.len() < all.len() && !others.iter().any(|id| id == "anthropic"));
    assert_eq!(unused(json!({ "enabled_providers": ["anthropic"] }), &[]), ["anthropic"]);
}

#[test]
fn a_list_that_was_fetched_counts_unless_the_program_is_newer_or_it_is_damaged() {
    let home = Home::new();
    let write = |date: &str, text: Option<&str>| {
        let api = json!({ "ven": { "models": { "m": {} } } }).to_string();
        let list = providers::models::compact(&api, date).expect("a list");
        std::fs::create_dir_all(home.vendors.models.path().parent().expect("a directory")).expect("made");
        std::fs::write(home.vendors.models.path(), text.unwrap_or(&list)).expect("written");
        home.vendors.models.list().providers().count()
    };
    assert!(home.vendors.models.list().providers().count() > 100);
    assert_eq!(write("9999-01-01", None), 1);
    assert!(write("2000-01-01", None) > 100);
    assert!(write("", Some("damaged")) > 100);
}
