//! Finding, listing and reading files, for clients.

use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::get;
use crate::world::World;

fn names(list: &Value, key: &str) -> Vec<String> {
    let list = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    list.iter().map(|node| node[key].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn lines_and_files_are_found() {
    let world = World::start().await;
    world.project.write(".gitignore", "ignored.txt\n");
    world.project.write("src/needle.rs", "fn pin() {}\n// a pin\n");
    world.project.write("ignored.txt", "pin\n");
    let lines = get(&world, "/find?pattern=pin%5Cb").await;
    assert_eq!(lines.as_array().expect("a list").len(), 2, "{lines}");
    assert_eq!(lines[0]["path"]["text"], "src/needle.rs");
    assert_eq!((&lines[0]["line_number"], &lines[0]["lines"]["text"]), (&json!(1), &json!("fn pin() {}\n")));
    assert_eq!(lines[0]["submatches"][0], json!({ "match": { "text": "pin" }, "start": 3, "end": 6 }));
    assert_eq!(get(&world, "/find/file?query=ndl").await, json!(["src/needle.rs"]));
    assert_eq!(get(&world, "/find/file?query=src&type=directory").await, json!(["src/"]));
    assert_eq!(get(&world, "/find/file?query=zzzz").await, json!([]));
}

#[tokio::test]
async fn a_directory_is_listed_directories_first_and_ignored_entries_marked() {
    let world = World::start().await;
    world.project.write(".gitignore", "out/\n");
    world.project.write("src/a.rs", "x");
    world.project.write("out/b", "x");
    let list = get(&world, "/file?path=").await;
    assert_eq!(
        names(&list, "name").iter().filter(|name| !name.starts_with('.')).collect::<Vec<_>>(),
        ["out", "src", "opencode.json"]
    );
    let node = |name: &str| {
        list.as_array().expect("a list").iter().find(|node| node["name"] == name).cloned().expect("the entry")
    };
    assert_eq!((node("out")["ignored"].clone(), node("src")["ignored"].clone()), (json!(true), json!(false)));
    let path = world.project.path("src/a.rs");
    let expected = json!([{ "name": "a.rs", "path": "src/a.rs", "absolute": path, "type": "file", "ignored": false }]);
    assert_eq!(get(&world, "/file?path=src").await, expected);
}

#[tokio::test]
async fn a_file_is_text_or_base64_and_what_is_outside_is_not_read() {
    let world = World::start().await;
    world.project.write("a.txt", "text\n");
    world.project.write("a.bin", b"\0\x01\x02");
    let file = get(&world, "/file/content?path=a.txt").await;
    assert_eq!((&file["type"], &file["content"]), (&json!("text"), &json!("text\n")));
    let file = get(&world, "/file/content?path=a.bin").await;
    assert_eq!(
        (&file["type"], &file["encoding"], &file["content"]),
        (&json!("binary"), &json!("base64"), &json!("AAEC"))
    );
    symlink("/etc", world.project.path("etc")).expect("a link");
    for (path, status) in [
        ("/file/content?path=../../../etc/passwd", 403),
        ("/file/content?path=/etc/passwd", 403),
        ("/file/content?path=etc/passwd", 403),
        ("/file?path=..", 403),
        ("/file?path=etc", 403),
        ("/file/content?path=absent.txt", 404),
        ("/file?path=absent", 404),
        ("/file?path=a.txt", 400),
        ("/file/content?path=a.txt%00", 404),
        ("/find?pattern=(", 400),
        ("/find", 400),
    ] {
        let (got, body) = world.wire.get(path).await;
        assert_eq!(got, status, "{path}: {body}");
        assert!(!body.to_string().contains("root:"), "{path}");
    }
}

#[tokio::test]
async fn what_git_knows_of_the_files_is_told() {
    let world = World::start().await;
    world.project.write("new.txt", "a\nb\n");
    world.project.write("opencode.json", world.project.read("opencode.json") + "\n");
    let changed = get(&world, "/file/status").await;
    let new =
        changed.as_array().expect("a list").iter().find(|file| file["path"] == "new.txt").cloned().expect("the file");
    assert_eq!(new, json!({ "path": "new.txt", "added": 2, "removed": 0, "status": "added" }));
    assert_eq!(get(&world, "/vcs").await["branch"], "master");
}
