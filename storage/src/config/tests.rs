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
fn plugins_named_by_a_path_count_from_the_file_that_names_them() {
    let world = World::new();
    world
        .write("work/opencode.json", r#"{"plugin":["./p.js","name@1",["../q",{"x":1}]]}"#)
        .write("work/sub/.opencode/opencode.json", r#"{"plugin":["./p.js"]}"#);
    let merged = world.load().expect("settings").merged;
    let at = |path: &str| world.root.path().join(path).to_string_lossy().into_owned();
    let wanted = json!([at("work/./p.js"), "name@1", [at("work/../q"), { "x": 1 }], at("work/sub/.opencode/./p.js")]);
    let normal = |text: String| text.replace("/./", "/");
    assert_eq!(normal(merged["plugin"].to_string()), normal(wanted.to_string()));
}

#[test]
fn nesting_without_end_is_refused() {
    let world = World::new();
    world.write("work/opencode.json", &"[".repeat(100_000));
    assert!(matches!(world.load().expect_err("broken").error, ConfigError::Unreadable { .. }));
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
