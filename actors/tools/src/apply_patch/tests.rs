use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use pretty_assertions::assert_eq;
use protocol::{Action, Rule};

use super::*;
use crate::context::Refusal;
use crate::testing::{FakeDesk, Noted, assert_schema, context};
use crate::tool::AnyTool;

struct World {
    _keep: tempfile::TempDir,
    root: PathBuf,
    cx: ToolContext,
    desk: Arc<FakeDesk>,
}

impl World {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (name, content) in files {
            std::fs::write(root.join(name), content).unwrap();
        }
        let (cx, desk) = context(&root);
        Self { _keep: dir, root, cx, desk }
    }

    async fn patch(&self, body: &str) -> Result<ToolOutput, ToolError> {
        let text = format!("*** Begin Patch\n{body}\n*** End Patch");
        let Value::Object(input) = json!({ "patchText": text }) else { unreachable!() };
        AnyTool::run(&ApplyPatch, input, &self.cx).await
    }

    async fn error(&self, body: &str) -> String {
        let before = self.all();
        let error = self.patch(body).await.unwrap_err().to_string();
        assert_eq!(self.all(), before, "nothing is written");
        error
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.root.join(name)).unwrap()
    }

    fn all(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = std::fs::read_dir(&self.root).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<_> =
            entries.filter(|path| path.is_file()).map(|p| (p.clone(), std::fs::read(p).unwrap())).collect();
        all.sort();
        all
    }
}

#[tokio::test]
async fn one_call_adds_changes_and_deletes_and_asks_once() {
    let world = World::new(&[("u.txt", "one\ntwo\n"), ("del.txt", "x\n")]);
    let body =
        "*** Add File: added.txt\n+hello\n*** Update File: u.txt\n@@\n one\n-two\n+TWO\n*** Delete File: del.txt";
    let output = world.patch(body).await.unwrap();
    assert_eq!(output.output, "Success. Updated the following files:\nA added.txt\nM u.txt\nD del.txt");
    assert_eq!(output.title, output.output);
    assert_eq!((world.read("added.txt"), world.read("u.txt")), ("hello\n".into(), "one\nTWO\n".into()));
    assert!(!world.root.join("del.txt").exists());

    let path = |name: &str| world.root.join(name).display().to_string();
    let diff = |name: &str, old: &str, new: &str| crate::diff::FileDiff::of(&path(name), old, new).patch;
    let diffs =
        [diff("added.txt", "", "hello\n"), diff("u.txt", "one\ntwo\n", "one\nTWO\n"), diff("del.txt", "x\n", "")];
    let file = |name: &str, kind: &str, patch: &str, additions: u64, deletions: u64| json!({"filePath": path(name), "relativePath": name, "type": kind, "patch": patch, "additions": additions, "deletions": deletions});
    let files = json!([
        file("added.txt", "add", &diffs[0], 1, 0),
        file("u.txt", "update", &diffs[1], 1, 1),
        file("del.txt", "delete", &diffs[2], 0, 2),
    ]);
    let all: String = diffs.iter().map(|diff| format!("{diff}\n")).collect();
    assert_eq!(Value::Object(output.metadata), json!({"diff": all, "files": files, "diagnostics": {}}));

    let asked = world.desk.asks();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].patterns, ["added.txt", "u.txt", "del.txt"]);
    assert_eq!(asked[0].metadata["filepath"], "added.txt, u.txt, del.txt");
    assert_eq!((&asked[0].metadata["diff"], &asked[0].metadata["files"]), (&json!(all), &files));
    let edited: Vec<PathBuf> = world
        .desk
        .noted()
        .into_iter()
        .filter_map(|n| if let Noted::Edited(path) = n { Some(path) } else { None })
        .collect();
    assert_eq!(edited, [world.root.join("added.txt"), world.root.join("u.txt")]);
}

#[tokio::test]
async fn a_moved_file_keeps_its_mode() {
    let world = World::new(&[("a.sh", "echo a\n")]);
    std::fs::set_permissions(world.root.join("a.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    let output = world.patch("*** Update File: a.sh\n*** Move to: bin/b.sh\n@@\n-echo a\n+echo b").await.unwrap();
    assert_eq!(output.output, "Success. Updated the following files:\nM bin/b.sh");
    let file = &output.metadata["files"][0];
    let target = world.root.join("bin/b.sh").display().to_string();
    assert_eq!((&file["type"], &file["movePath"]), (&json!("move"), &json!(target)));
    assert_eq!(world.read("bin/b.sh"), "echo b\n");
    assert_eq!(std::fs::metadata(world.root.join("bin/b.sh")).unwrap().permissions().mode() & 0o777, 0o755);
    assert!(!world.root.join("a.sh").exists());
    assert_eq!(world.desk.asks()[0].patterns, ["a.sh", "bin/b.sh"]);
    world.patch("*** Update File: bin/b.sh\n*** Move to: c").await.unwrap();
    assert_eq!(world.read("c"), "echo b\n");
}

#[tokio::test]
async fn sections_see_what_those_before_them_did() {
    let world = World::new(&[("a", "1\n2\n3\n")]);
    let body =
        "*** Update File: a\n@@\n-3\n+III\n*** Update File: a\n@@\n-1\n+I\n*** Delete File: a\n*** Add File: a\n+new";
    world.patch(body).await.unwrap();
    assert_eq!(world.read("a"), "new\n");
}

#[tokio::test]
async fn a_patch_that_fits_only_in_part_changes_nothing_and_asks_nothing() {
    let world = World::new(&[("a", "1\n"), ("b", "1\n")]);
    let error =
        world.error("*** Update File: a\n@@\n-1\n+2\n*** Update File: b\n@@\n-9\n+2\n*** Add File: c\n+x").await;
    assert!(error.starts_with("apply_patch verification failed: in ") && error.contains("not found"), "{error}");
    assert_eq!(world.desk.noted(), []);
    for (body, said) in [
        ("*** Update File: no\n@@\n-1\n+2", "there is no file"),
        ("*** Delete File: no", "there is no file"),
        ("*** Add File: a\n+x", "exists"),
        ("*** Update File: a\n*** Move to: b", "already"),
        ("*** Delete File: .", "directory"),
    ] {
        let error = world.error(body).await;
        assert!(error.contains(said), "{error}");
    }
    let Value::Object(garbage) = json!({ "patchText": "garbage" }) else { unreachable!() };
    let error = AnyTool::run(&ApplyPatch, garbage, &world.cx).await.unwrap_err().to_string();
    assert!(error.starts_with("apply_patch verification failed: Error: Invalid patch format"), "{error}");
}

#[tokio::test]
async fn the_byte_order_mark_stays_and_stays_hidden() {
    let world = World::new(&[("f.js", "\u{FEFF}const v = 1;\r\n")]);
    let output = world.patch("*** Update File: f.js\n@@\n-const v = 1;\n+const v = 2;").await.unwrap();
    assert_eq!(world.read("f.js"), "\u{FEFF}const v = 2;\r\n");
    assert!(!serde_json::to_string(&output.metadata).unwrap().contains('\u{FEFF}'));
}

#[tokio::test]
async fn what_changed_since_the_model_saw_it_is_not_patched() {
    let world = World::new(&[]);
    world.patch("*** Add File: a\n+1").await.unwrap();
    std::fs::write(world.root.join("a"), "1\nmine\n").unwrap();
    assert!(world.error("*** Update File: a\n@@\n-1\n+2").await.contains("Read it again"));
    // What changes while the person thinks is patched as it is then, if the patch still fits.
    let world = World::new(&[("a", "1\n2\n"), ("b", "1\n")]);
    let other = world.root.join("a");
    world.desk.judge(move |_| {
        std::fs::write(&other, "0\n1\n2\n").unwrap();
        Ok(())
    });
    world.patch("*** Update File: a\n@@\n-1\n+I").await.unwrap();
    assert_eq!(world.read("a"), "0\nI\n2\n");
}

#[tokio::test]
async fn a_write_that_fails_takes_back_those_before_it() {
    // `z` is a file, so nothing can be below it.
    let world = World::new(&[("a", "1\n"), ("z", "file\n")]);
    let error = world.error("*** Update File: a\n@@\n-1\n+2\n*** Add File: new\n+x\n*** Add File: z/below\n+x").await;
    assert!(error.contains("Nothing of the patch was applied"), "{error}");
}

#[tokio::test]
async fn a_link_out_of_the_project_is_asked_for_before_anything_else() {
    let world = World::new(&[]);
    let outside = tempfile::tempdir().unwrap();
    let real = outside.path().canonicalize().unwrap();
    std::fs::write(real.join("f"), "secret\n").unwrap();
    symlink(&real, world.root.join("vendor")).unwrap();
    symlink(real.join("f"), world.root.join("link")).unwrap();
    world.desk.judge(|ask| match ask.permission.as_str() {
        "external_directory" => Err(Refusal::Denied {
            permission: ask.permission.clone(),
            pattern: ask.patterns[0].clone(),
            rules: vec![Rule::new("external_directory", "*", Action::Deny)],
        }),
        _ => Ok(()),
    });
    for body in ["*** Update File: vendor/f\n@@\n-guess\n+x", "*** Add File: vendor/n\n+x", "*** Delete File: link"] {
        let error = world.error(body).await;
        assert!(error.contains(&real.display().to_string()), "{error}");
    }
    assert_eq!(world.desk.begun(), 0);
    world.desk.judge(|_| Ok(()));
    assert!(world.error("*** Delete File: link").await.contains("symbolic link"));
}

#[test]
fn the_schema_is_opencodes() {
    let wanted = json!({
        "type": "object", "properties": { "patchText": { "type": "string" } }, "required": ["patchText"]
    });
    assert_schema(&AnyTool::spec(&ApplyPatch).parameters, &wanted);
}

#[tokio::test]
async fn a_patch_that_changes_nothing_is_refused() {
    let world = World::new(&[("a", "x\ny\n")]);
    for body in ["@@\n-x\n+x", "@@\n x\n-y\n+y", "@@\n x\n y"] {
        let error = world.error(&format!("*** Update File: a\n{body}")).await;
        assert!(error.contains("change nothing"), "{body}: {error}");
    }
    world.patch("*** Update File: a\n*** Move to: b\n@@\n-x\n+x").await.unwrap();
    assert_eq!(world.read("b"), "x\ny\n");
}
