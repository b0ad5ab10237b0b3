//! Edits and writes: what they change on disk, what they leave alone, and what they say of it.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::Step;

use crate::world::{World, calling, completed, failed, said};

async fn edit(world: &World, file: &str, old: &str, new: &str) -> Value {
    world.call("edit", edit_args(world, file, old, new)).await
}

fn edit_args(world: &World, file: &str, old: &str, new: &str) -> Value {
    json!({ "filePath": world.project.path(file), "oldString": old, "newString": new })
}

fn bytes(world: &World, file: &str) -> Vec<u8> {
    std::fs::read(world.project.path(file)).expect("the file")
}

#[tokio::test]
async fn an_edit_keeps_what_it_is_not_about_and_reports_the_real_bytes() {
    let world = World::start().await;
    let path = world.project.write("f.txt", b"\xEF\xBB\xBFone\r\ntwo\r\nthree\r\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).expect("a mode");
    let mut events = world.events().await;

    let part = edit(&world, "f.txt", "one\ntwo", "ONE\nTWO\nX").await;

    let state = completed(&part);
    assert_eq!(bytes(&world, "f.txt"), b"\xEF\xBB\xBFONE\r\nTWO\r\nX\r\nthree\r\n");
    assert_eq!(path.metadata().expect("the file").permissions().mode() & 0o777, 0o750);
    assert_eq!((&state["title"], &state["output"]), (&json!("f.txt"), &json!("Edit applied successfully.")));
    let diff = &state["metadata"]["filediff"];
    assert_eq!((&diff["additions"], &diff["deletions"]), (&json!(3), &json!(2)));
    let lines: Vec<_> = state["metadata"]["diff"].as_str().expect("a diff").lines().skip(5).collect();
    assert_eq!(
        lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>(),
        ["-one", "-two", "+ONE", "+TWO", "+X", " three"]
    );
    assert_eq!(events.wait_for("file.edited").await["properties"]["file"], json!(path));
    let leftover = std::fs::read_dir(world.project.dir()).expect("the directory").count();
    assert_eq!(leftover, 3, "the file, opencode.json and .git, and nothing the write left");
}

#[tokio::test]
async fn new_text_is_taken_as_it_is() {
    let world = World::start().await;
    let before = "// “quoted”, it’s here\nlog(\"done\");\nconst re = /x/;\n";
    let changes = [
        ("log(\"done\");", "log(\"$& $1 \\1 ok\");"),
        ("/x/", "/^[\"'(]+/"),
        ("“quoted”", "\"plain\" ‘and’ not"),
        ("it’s", "tab\there"),
    ];
    for (old, new) in changes {
        world.project.write("f.js", before);
        completed(&edit(&world, "f.js", old, new).await);
        assert_eq!(world.project.read("f.js"), before.replace(old, new));
    }
}

/// A file, an edit of it that must fail, and what its error names.
struct Refused(&'static str, &'static str, &'static str, &'static [&'static str]);

const CREATE: &str = "fn create_user() {\n  open();\n  save();\n}\nfn create_admin() {\n  open();\n  save();\n}\n";
const GO: &str = "func a() {\n\tx := 1\n\ty := 2\n\treturn\n}\n";
const TWO: &str = "func f() {\n\tif x {\n\t\ty()\n\t}\n}\nfunc g() {\n\tif x {\n\t\ty()\n\t}\n}\n";

const REFUSED: &[Refused] = &[
    Refused("a\r\nb", "a\r\nb", "a\nb", &["the same", "line ends"]),
    Refused("a\nb", "a\nb", "a\r\nb", &["the same", "line ends"]),
    Refused("a\n", "a", "a", &["the same"]),
    Refused(
        "fn a() {\n    one();\n    two();\n}\nfn b() {\n    three();\n}\n",
        "fn a() {\n    alpha();\n    beta();\n    gamma();\n}",
        "fn a() {}",
        &["not found"],
    ),
    Refused(GO, "func a() {\n\tx := 1\n\ty := 99\n\treturn\n}\n", "func a() {\n\treturn\n}", &["y := 2", "line 3"]),
    Refused("keep me\n", "", "x\n", &["oldString is empty", "write"]),
    Refused("She said, “Hello.”\n", "\"Hello.\"", "\"Hi.\"", &["U+201C"]),
    Refused(CREATE, "  open();\n  save();", "  open();\n  check();\n  save();", &["2 places", "lines 2 and 6"]),
    Refused(TWO, "    if x {\n        y()\n    }", "    if x {\n        z()\n    }", &["lines 2 and 7", "→"]),
    Refused("one\n", "absent", "x", &["not found"]),
];

#[tokio::test]
async fn an_edit_that_is_not_certain_touches_nothing_and_says_what_to_do() {
    let world = World::start().await;
    let events = world.events().await;
    let session = world.wire.create_session().await;
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (n, Refused(before, old, new, named)) in REFUSED.iter().enumerate() {
        // A file each: the session would see that this test wrote it again.
        let file = format!("f{n}");
        let path = world.project.write(&file, before);
        std::fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(long_ago)).expect("a time");

        let part = world.call_in(&session, "edit", edit_args(&world, &file, old, new)).await;

        let said = failed(&part);
        for name in *named {
            assert!(said.contains(name), "{name:?} is not in {said:?}, the error for {old:?}");
        }
        assert_eq!(bytes(&world, &file), before.as_bytes());
        assert_eq!(path.metadata().expect("the file").modified().expect("a time"), long_ago, "{old:?}");
    }
    assert!(events.all().iter().all(|event| event["type"] != "file.edited"));
    // The model was told each time, and the session goes on.
    let asked = world.model.requests();
    let last = asked.last().expect("a request").body["messages"].to_string();
    assert!(last.contains("lines 2 and 6") && last.contains("U+201C"), "{last}");
    world.model.script("go on", [Step::text("gone on")]);
    assert_eq!(said(&world.wire.prompt(&session, "go on").await), "gone on");
}

#[tokio::test]
async fn indentation_that_was_quoted_wrongly_becomes_the_files_or_nothing_is_changed() {
    let world = World::start().await;
    let python = "class A:\n    def f(self):\n        x = 1\n        return x\n";
    world.project.write("f.py", python);
    let part = edit(&world, "f.py", "x = 1\nreturn x", "y = 2\nreturn y").await;
    let state = completed(&part);
    assert_eq!(world.project.read("f.py"), "class A:\n    def f(self):\n        y = 2\n        return y\n");
    let diff = state["metadata"]["diff"].as_str().expect("a diff");
    for line in ["-        x = 1", "-        return x", "+        y = 2", "+        return y"] {
        assert!(diff.lines().any(|other| other == line), "{line:?} is not in {diff}");
    }

    let go = "func f() {\n\tif x {\n\t\ty()\n\t}\n}\n";
    world.project.write("f.go", go);
    completed(&edit(&world, "f.go", "    if x {\n        y()\n    }", "    if x {\n        z()\n    }").await);
    assert_eq!(world.project.read("f.go"), go.replace("y()", "z()"));
}

#[tokio::test]
async fn an_empty_old_text_makes_a_file_that_was_not_there() {
    let world = World::start().await;
    completed(&edit(&world, "new/dir/f.txt", "", "x\n").await);
    assert_eq!(world.project.read("new/dir/f.txt"), "x\n");
    let again = edit(&world, "new/dir/f.txt", "", "y\n").await;
    assert!(failed(&again).contains("oldString is empty"));
    assert_eq!(world.project.read("new/dir/f.txt"), "x\n");
    let missing = edit(&world, "absent.txt", "x", "y").await;
    assert!(failed(&missing).contains("absent.txt"));
    assert!(!world.project.exists("absent.txt"));
}

#[tokio::test]
async fn edits_of_one_file_in_one_message_all_land_in_order() {
    let world = World::start().await;
    let lines = |changed: &[(usize, &str)]| -> String {
        let line =
            |n: usize| changed.iter().find(|(at, _)| *at == n).map_or(n.to_string(), |(_, text)| text.to_string());
        (1..=100).map(|n| line(n) + "\n").collect()
    };
    for round in 0..3 {
        let file = format!("f{round}.txt");
        world.project.write(&file, lines(&[]));
        let session = world.wire.create_session().await;
        // The last one finds its text only right after the second.
        let calls = [
            ("edit", edit_args(&world, &file, "\n50\n", "\nFIFTY\n")),
            ("edit", edit_args(&world, &file, "\n75\n", "\nSEVENTY-FIVE\n")),
            ("edit", edit_args(&world, &file, "SEVENTY-FIVE", "seventy-five")),
        ];
        world.wire.prompt(&session, &calling(calls)).await;
        for part in world.tool_parts(&session).await {
            completed(&part);
        }
        assert_eq!(world.project.read(&file), lines(&[(50, "FIFTY"), (75, "seventy-five")]));
    }
}

#[tokio::test]
async fn edits_of_one_file_by_several_sessions_lose_nothing() {
    let world = World::start().await;
    world.project.write("shared.txt", (0..8).map(|n| format!("line {n}.\n")).collect::<String>());
    let turns = (0..8).map(|n| {
        let prompt = calling([("edit", edit_args(&world, "shared.txt", &format!("line {n}."), &format!("done {n}.")))]);
        let wire = world.wire.clone();
        tokio::spawn(async move {
            let session = wire.create_session().await;
            wire.prompt(&session, &prompt).await;
        })
    });
    for turn in turns.collect::<Vec<_>>() {
        turn.await.expect("a turn");
    }
    assert_eq!(world.project.read("shared.txt"), (0..8).map(|n| format!("done {n}.\n")).collect::<String>());
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_written_over_until_it_is_read_again() {
    let world = World::start().await;
    for (tool, args) in
        [("write", json!({ "content": "v3\n" })), ("edit", json!({ "oldString": "keep", "newString": "kept" }))]
    {
        let session = world.wire.create_session().await;
        let path = world.project.write("f.txt", "v1\nkeep\n");
        let modified = path.metadata().expect("the file").modified().expect("a time");
        completed(&world.call_in(&session, "read", json!({ "filePath": path })).await);
        world.project.write("f.txt", "v2\nkeep\n");
        // The content counts, not the time: a change in the same instant is one too.
        std::fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(modified)).expect("a time");
        let mut args = args;
        args["filePath"] = json!(path);

        let part = world.call_in(&session, tool, args.clone()).await;

        assert!(failed(&part).contains("Read it again"), "{tool}: {}", failed(&part));
        assert_eq!(world.project.read("f.txt"), "v2\nkeep\n", "{tool}");
        completed(&world.call_in(&session, "read", json!({ "filePath": path })).await);
        completed(&world.call_in(&session, tool, args).await);
        assert!(world.project.read("f.txt").contains(if tool == "write" { "v3" } else { "kept" }));
    }
}

#[tokio::test]
async fn a_touch_and_ones_own_edits_are_no_change_from_outside() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    let path = world.project.write("f.txt", "one\ntwo\n");
    completed(&world.call_in(&session, "read", json!({ "filePath": path })).await);
    std::fs::File::options()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH))
        .expect("a time");
    completed(&world.call_in(&session, "edit", edit_args(&world, "f.txt", "one", "1")).await);
    completed(&world.call_in(&session, "edit", edit_args(&world, "f.txt", "two", "2")).await);
    completed(&world.call_in(&session, "write", json!({ "filePath": path, "content": "all new\n" })).await);
    assert_eq!(world.project.read("f.txt"), "all new\n");
}

#[tokio::test]
async fn what_another_session_changed_is_a_change_from_outside_too() {
    let world = World::start().await;
    let path = world.project.write("f.txt", "v1\n");
    let session = world.wire.create_session().await;
    completed(&world.call_in(&session, "read", json!({ "filePath": path })).await);
    completed(&edit(&world, "f.txt", "v1", "v2").await);
    let part = world.call_in(&session, "write", json!({ "filePath": path, "content": "v3\n" })).await;
    assert!(failed(&part).contains("Read it again"));
    assert_eq!(world.project.read("f.txt"), "v2\n");
}

#[tokio::test]
async fn a_file_in_an_old_encoding_keeps_every_byte_that_is_not_changed() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    let path = world.project.write("gbk.txt", b"\xd6\xd0\xce\xc4\nx=1\n");
    let shown = world.call_in(&session, "read", json!({ "filePath": path })).await;
    let output = completed(&shown)["output"].as_str().expect("an output");
    assert!(output.to_lowercase().contains("gb") || output.to_lowercase().contains("utf-8"), "{output}");
    completed(&world.call_in(&session, "edit", edit_args(&world, "gbk.txt", "x=1", "x=2")).await);
    assert_eq!(bytes(&world, "gbk.txt"), b"\xd6\xd0\xce\xc4\nx=2\n");
}

#[tokio::test]
async fn a_write_goes_through_a_link_and_reports_whether_the_file_was_there() {
    let world = World::start().await;
    world.project.write("real.txt", "old\n");
    symlink("real.txt", world.project.path("link.txt")).expect("a link");
    let part = world.call("write", json!({ "filePath": world.project.path("link.txt"), "content": "new\n" })).await;
    let state = completed(&part);
    assert_eq!((&state["output"], &state["metadata"]["exists"]), (&json!("Wrote file successfully."), &json!(true)));
    assert_eq!(world.project.read("real.txt"), "new\n");
    assert!(world.project.path("link.txt").is_symlink());
    let made = world.call("write", json!({ "filePath": "sub/made.txt", "content": "x" })).await;
    assert_eq!(completed(&made)["metadata"]["exists"], false);
    assert_eq!(world.project.read("sub/made.txt"), "x");
}

#[tokio::test]
async fn the_diff_of_a_prompt_is_what_its_edits_changed() {
    let world = World::start().await;
    world.project.write("f.txt", "one\n");
    world.project.git(&["add", "--all"]);
    let session = world.wire.create_session().await;
    let mut events = world.events().await;
    world.call_in(&session, "edit", edit_args(&world, "f.txt", "one", "1\n2")).await;
    let patch = |part: &Value| part["type"] == "patch";
    let parts = world.wire.parts(&session).await;
    let patch = parts.iter().find(|part| patch(part)).expect("a patch part");
    assert_eq!(patch["files"], json!([world.project.path("f.txt")]));
    // The summary may come behind the turn's end.
    let summed =
        |event: &Value| event["properties"]["info"]["summary"]["diffs"].as_array().is_some_and(|d| !d.is_empty());
    let summary = events.wait(summed).await;
    let prompt = summary["properties"]["info"]["id"].as_str().expect("an id").to_owned();
    let (_, diff) = world.wire.get(&format!("/session/{session}/diff?messageID={prompt}")).await;
    assert_eq!(
        (&diff[0]["file"], &diff[0]["additions"], &diff[0]["deletions"]),
        (&json!("f.txt"), &json!(2), &json!(1))
    );
}

#[tokio::test]
async fn what_was_seen_of_a_file_is_known_after_a_restart_and_in_a_fork() {
    let mut world = World::start().await;
    let session = world.wire.create_session().await;
    let path = world.project.write("f.txt", "one\ntwo\n");
    let other = world.project.write("g.txt", "alpha\n");
    completed(&world.call_in(&session, "read", json!({ "filePath": path })).await);
    completed(&world.call_in(&session, "edit", edit_args(&world, "g.txt", "alpha", "beta")).await);
    world.service.kill9().await;
    world.service.restart().await;
    world.wire = world.service.wire(world.project.dir());
    world.project.write("f.txt", "changed\ntwo\n");
    let refused = world.call_in(&session, "edit", edit_args(&world, "f.txt", "two", "2")).await;
    assert!(failed(&refused).contains("Read it again"), "{}", failed(&refused));
    completed(&world.call_in(&session, "edit", edit_args(&world, "g.txt", "beta", "gamma")).await);
    let fork = world.wire.post(&format!("/session/{session}/fork"), json!({})).await.1;
    let fork = fork["id"].as_str().expect("an id").to_owned();
    let refused = world.call_in(&fork, "write", json!({ "filePath": path, "content": "x\n" })).await;
    assert!(failed(&refused).contains("Read it again"), "{}", failed(&refused));
    assert_eq!(world.project.read("f.txt"), "changed\ntwo\n");
    std::fs::remove_file(other).expect("a file");
}

#[tokio::test]
async fn what_was_edited_is_formatted_where_config_says_so() {
    let own = json!({ "command": ["sed", "-i", "s/ *$//", "$FILE"], "extensions": [".txt"] });
    let config = json!({ "permission": { "*": "allow" }, "formatter": { "trim": own, "gofmt": { "disabled": true } } });
    let world = World::with_config(config).await;
    world.project.write("f.txt", "one\ntwo\n");
    world.project.write("f.md", "one\n");
    let mut events = world.events().await;
    let part = edit(&world, "f.txt", "one", "1   ").await;
    assert_eq!(world.project.read("f.txt"), "1\ntwo\n");
    let state = completed(&part);
    assert!(state["output"].as_str().expect("an output").contains("trim formatted the file"), "{state}");
    assert!(state["metadata"]["diff"].as_str().expect("a diff").contains("-one\n+1\n two\n"), "{state}");
    assert_eq!(state["metadata"]["filediff"]["patch"], state["metadata"]["diff"]);
    let edited = events.wait(|event| event["type"] == "file.edited").await;
    assert_eq!(edited["properties"]["file"], json!(world.project.path("f.txt")));
    completed(&edit(&world, "f.md", "one", "1   ").await);
    assert_eq!(world.project.read("f.md"), "1   \n");
    let listed = world.wire.get("/formatter").await.1;
    let listed = listed.as_array().expect("a list");
    let named = |name: &str| listed.iter().find(|one| one["name"] == name);
    assert_eq!(named("trim"), Some(&json!({ "name": "trim", "extensions": [".txt"], "enabled": true })));
    assert_eq!(named("gofmt"), None);
}
