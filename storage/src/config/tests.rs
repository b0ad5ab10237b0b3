use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

struct World {
    root: tempfile::TempDir,
    environment: Environment,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let environment = Environment::from_iter([("HOME", root.path().to_string_lossy().into_owned())]);
        std::fs::create_dir_all(root.path().join("work/sub")).expect("made");
        Self { root, environment }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.environment = Environment::from_iter([
            ("HOME", self.root.path().to_string_lossy().into_owned()),
            (name, value.to_owned()),
        ]);
        self
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.root.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, text).expect("written");
        self
    }

    fn load(&self) -> Result<Settings, Box<Broken>> {
        let work = self.root.path().join("work");
        load(&work.join("sub"), &work, &Places::of(&self.environment), &self.environment)
    }

    fn load_in(&self, environment: &Environment) -> Result<Settings, Box<Broken>> {
        let work = self.root.path().join("work");
        load(&work.join("sub"), &work, &Places::of(environment), environment)
    }
}

#[test]
fn nearer_files_are_stronger_and_key_order_stays() {
    let world = World::new();
    world
        .write(".config/opencode/opencode.json", r#"{"model":"a/b","permission":{"bash":"ask","edit":"deny"}}"#)
        .write("work/opencode.json", r#"{"model":"c/d","instructions":["one"]}"#)
        .write(
            "work/sub/opencode.jsonc",
            "{ // nearer\n \"permission\": {\"bash\": \"allow\",}, \"instructions\": [\"two\"] }",
        );
    let settings = world.load().expect("settings");
    assert_eq!(settings.config.model.as_deref(), Some("c/d"));
    assert_eq!(settings.config.instructions, ["one", "two"]);
    assert_eq!(settings.merged["permission"], json!({ "bash": "allow", "edit": "deny" }));
    assert_eq!(settings.warnings, []);
}

#[test]
fn config_directories_come_after_files_and_the_nearest_of_the_project_is_the_strongest() {
    let world = World::new();
    world
        .write("work/.opencode/opencode.json", r#"{"username":"top","model":"top/m"}"#)
        .write("work/sub/.opencode/opencode.jsonc", r#"{"username":"sub"}"#)
        .write("work/sub/opencode.json", r#"{"username":"file","model":"file/m","small_model":"file/m"}"#)
        .write(".opencode/opencode.json", r#"{"default_agent":"plan"}"#)
        .write("dir/opencode.json", r#"{"share":"manual"}"#)
        .write("named.json", r#"{"small_model":"named/m","default_agent":"named","snapshot":false}"#);
    let at = |path: &str| world.root.path().join(path).to_string_lossy().into_owned();
    let environment = Environment::from_iter([
        ("HOME", at("")),
        ("OPENCODE_CONFIG", at("named.json")),
        ("OPENCODE_CONFIG_DIR", at("dir")),
        ("OPENCODE_CONFIG_CONTENT", r#"{"subagent_depth":4}"#.to_owned()),
        ("OPENCODE_DISABLE_PRUNE", "true".to_owned()),
    ]);
    let merged = world.load_in(&environment).expect("settings").merged;
    let wanted = json!({
        "small_model": "file/m", "default_agent": "plan", "snapshot": false, "username": "sub", "model": "top/m",
        "share": "manual", "subagent_depth": 4, "compaction": { "prune": false },
    });
    assert_eq!(merged, wanted);

    let mut off: Vec<(&str, String)> = vec![("HOME", at("")), ("OPENCODE_CONFIG", at("gone.json"))];
    off.push(("OPENCODE_DISABLE_PROJECT_CONFIG", "1".into()));
    let settings = world.load_in(&Environment::from_iter(off)).expect("settings");
    assert_eq!(settings.merged, json!({ "default_agent": "plan" }));
    assert!(settings.warnings[0].to_string().contains("OPENCODE_CONFIG names it"), "{:?}", settings.warnings);
}

#[test]
fn markdown_files_are_agents_modes_and_commands() {
    let world = World::new();
    world
        .write(
            "work/opencode.json",
            r#"{"agent":{"rev":{"model":"a/b"}},"command":{"greet":{"template":"x","model":"a/b"}}}"#,
        )
        .write(
            "work/.opencode/agent/rev.md",
            "---\ndescription: reviews\nmode: subagent\nreasoningEffort: low\n---\nYou review.\n",
        )
        .write("work/.opencode/agents/team/lead.md", "Leads.")
        .write("work/.opencode/mode/calm.md", "---\ntools:\n  write: false\n---\nCalm.")
        .write("work/sub/.opencode/commands/git/log.md", "---\ndescription: shows\nagent:\n---\nShow $1\n")
        .write("work/.opencode/command/greet.md", "---\nsubtask: true\n---\nHello")
        .write("work/.opencode/command/odd.md", "---\n[\n---\nx");
    let settings = world.load().expect("settings");
    let agent = &settings.merged["agent"];
    let rev = json!({
        "model": "a/b", "options": { "reasoningEffort": "low" }, "permission": {}, "name": "rev",
        "description": "reviews", "mode": "subagent", "prompt": "You review.", "reasoningEffort": "low",
    });
    assert_eq!(agent["rev"], rev);
    assert_eq!(agent["team/lead"]["prompt"], "Leads.");
    assert_eq!((&agent["calm"]["mode"], &agent["calm"]["permission"]), (&json!("primary"), &json!({ "edit": "deny" })));
    let wanted = json!({
        "greet": { "template": "Hello", "model": "a/b", "subtask": true },
        "git/log": { "description": "shows", "template": "Show $1" },
    });
    assert_eq!(settings.merged["command"], wanted);
    let odd: Vec<String> = settings.warnings.iter().map(ToString::to_string).collect();
    assert!(odd.len() == 1 && odd[0].contains("odd.md") && odd[0].contains("left out"), "{odd:?}");

    assert!(!settings.seen.is_stale());
    world.write("work/sub/.opencode/commands/new.md", "new");
    assert!(settings.seen.is_stale(), "a new file is noticed");
}

#[test]
fn a_wrong_agent_file_is_named_with_its_line() {
    let world = World::new();
    world.write("work/.opencode/agent/rev.md", "---\ndescription: x\nmode: subagnt\n---\nYou review.\n");
    let error = world.load().expect_err("broken").error.to_string();
    assert!(error.ends_with(r#"rev.md:3: mode: Expected "subagent" | "primary" | "all", got "subagnt""#), "{error}");
}

#[test]
fn unknown_keys_are_reported_with_file_line_and_a_hint() {
    let world = World::new();
    world.write("work/opencode.json", "{\n  \"troupe\": {\n    \"retry\": { \"max_atempts\": 1 }\n  }\n}");
    let settings = world.load().expect("settings");
    let told = settings.warnings[0].to_string();
    assert!(
        told.ends_with(
            r#"opencode.json:3: troupe.retry.max_atempts: unknown setting, it is ignored; did you mean "max_attempts"?"#
        ),
        "{told}"
    );
}

#[test]
fn what_is_filled_in_and_secret_is_known_and_never_printed() {
    let world = World::new().with("MY_TOKEN", "hush-hush");
    world.write("work/opencode.json", r#"{"instructions":["https://h/{env:MY_TOKEN}/x"]}"#);
    let settings = world.load().expect("settings");
    let mut shown = settings.merged.clone();
    settings.secrets.hide_in(&mut shown, "***");
    assert_eq!(shown["instructions"], json!(["https://h/***/x"]));
    world.write("work/opencode.json", r#"{"share":"{env:MY_TOKEN}"}"#);
    let error = world.load().expect_err("broken").error.to_string();
    assert!(error.contains("{env:MY_TOKEN}") && !error.contains("hush"), "{error}");
}

#[test]
fn a_file_reference_to_nothing_is_an_error_and_a_change_of_the_file_is_noticed() {
    let world = World::new();
    world.write("work/opencode.json", "{\n\"username\": \"{file:name.txt}\"}");
    let error = world.load().expect_err("broken").error.to_string();
    assert!(
        error.contains("opencode.json:2: username: bad file reference") && error.contains("does not exist"),
        "{error}"
    );
    world.write("work/name.txt", "ada");
    let settings = world.load().expect("settings");
    assert_eq!(settings.config.username.as_deref(), Some("ada"));
    world.write("work/name.txt", "grace");
    assert!(settings.seen.is_stale());
}

#[test]
fn the_environments_rules_come_last() {
    let world = World::new().with("OPENCODE_PERMISSION", r#"{"bash":"deny"}"#);
    world.write("work/opencode.json", r#"{"permission":{"bash":"allow"}}"#);
    let rules = world.load().expect("settings").config.permission.expect("rules").rules();
    assert_eq!(rules, [protocol::Rule::new("bash", "*", protocol::Action::Deny)]);
}

#[test]
fn a_wrong_value_is_named_with_its_file_line_and_keys() {
    let world = World::new();
    world.write("work/opencode.json", "{\n  \"model\": \"a/b\",\n  \"share\": \"zzz\"\n}");
    let error = world.load().expect_err("broken").error;
    let ConfigError::Invalid { path, issues } = error else { panic!("{error}") };
    assert!(path.ends_with("work/opencode.json"));
    assert_eq!((issues[0].path.as_slice(), issues[0].line), (["share".to_owned()].as_slice(), Some(3)));
    assert!(issues[0].message.contains("zzz"), "{}", issues[0].message);
}

#[test]
fn broken_json_is_named_with_its_place_and_heals_when_it_is_mended() {
    let world = World::new();
    world.write("work/opencode.json", "{\n  \"model\": ]\n}");
    let broken = world.load().expect_err("broken");
    assert!(matches!(&broken.error, ConfigError::Json { line: 2.., .. }), "{}", broken.error);
    assert!(!broken.seen.is_stale());
    world.write("work/opencode.json", "{ \"model\": \"a/b\" }");
    assert!(broken.seen.is_stale());
    assert_eq!(world.load().expect("settings").config.model.as_deref(), Some("a/b"));
}

#[test]
fn env_and_file_references_are_filled_in() {
    let world = World::new().with("KEY", "k1");
    world.write("work/key.txt", "k2\n").write(
        "work/opencode.json",
        r#"{"provider":{"x":{"options":{"apiKey":"{env:KEY}"}},"y":{"options":{"apiKey":"{file:key.txt}","baseURL":"{other}"}}}}"#,
    );
    let config = world.load().expect("settings").config;
    assert_eq!(config.provider["x"].options.api_key.as_deref(), Some("k1"));
    assert_eq!(config.provider["y"].options.api_key.as_deref(), Some("k2"));
    assert_eq!(config.provider["y"].options.base_url.as_deref(), Some("{other}"));
}

#[test]
fn nesting_without_end_is_refused() {
    let world = World::new();
    for before in ["", "// don't\n", "/* isn't */", "{\"a\": "] {
        world.write("work/opencode.json", &format!("{before}{}", "[".repeat(100_000)));
        assert!(matches!(world.load().expect_err("broken").error, ConfigError::Unreadable { .. }), "{before}");
    }
}

proptest! {
    #[test]
    fn any_text_gives_settings_or_an_error(text in ".{0,300}") {
        let environment = Environment::default();
        let _ = file::parse(Path::new("x.json"), &text, &environment);
    }

    #[test]
    fn merging_keeps_all_keys_of_both(a in "[a-d]{1,3}", b in "[a-d]{1,3}") {
        let mut into = json!({ a.clone(): { "x": 1 } });
        merge(&mut into, json!({ b.clone(): { "y": 2 } }));
        prop_assert!(into[&a]["x"] == 1 && into[&b]["y"] == 2);
    }
}
