//! Reading and searching where files are not what one expects: pipes, devices, links in circles, huge ones.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{World, completed, failed};

fn output(part: &Value) -> &str {
    completed(part)["output"].as_str().expect("an output")
}

/// Returns the paths among the lines of an output, below the project, in order.
fn found(world: &World, part: &Value) -> Vec<String> {
    let top = format!("{}/", world.project.dir().display());
    output(part).lines().filter_map(|line| line.strip_prefix(&top)).map(str::to_owned).collect()
}

fn make_pipe(world: &World, file: &str) {
    let made = std::process::Command::new("mkfifo").arg(world.project.path(file)).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo {file}");
}

#[tokio::test]
async fn what_is_no_regular_file_is_not_read_and_keeps_nobody_waiting() {
    let world = World::start().await;
    make_pipe(&world, "pipe");
    symlink("pipe", world.project.path("link-to-pipe")).expect("a link");
    let _socket = UnixListener::bind(world.project.path("socket")).expect("a socket");
    symlink("circle", world.project.path("circle")).expect("a link");
    for (path, named) in [
        ("pipe", "pipe"),
        ("link-to-pipe", "pipe"),
        ("socket", "socket"),
        ("/dev/zero", "device"),
        ("/dev/tty", "device"),
        ("circle", "circle"),
        ("absent", "not found"),
    ] {
        let part = world.call("read", json!({ "filePath": path })).await;
        assert!(failed(&part).contains(named), "{path}: {}", failed(&part));
        assert!(failed(&part).contains(path.trim_start_matches("link-to-")), "{path}: {}", failed(&part));
    }
    // Nor are they written to.
    let part = world.call("write", json!({ "filePath": "pipe", "content": "x" })).await;
    assert!(failed(&part).contains("pipe"));
}

#[tokio::test]
async fn a_search_passes_pipes_binaries_and_sockets_by() {
    let world = World::start().await;
    world.project.write("d/f.txt", "needle here\n");
    world.project.write("d/binary", b"needle\0\x01");
    make_pipe(&world, "d/pipe");
    let _socket = UnixListener::bind(world.project.path("d/socket")).expect("a socket");
    let part = world.call("grep", json!({ "pattern": "needle", "path": "d" })).await;
    let path = world.project.path("d/f.txt");
    assert_eq!(output(&part), format!("Found 1 matches\n{}:\n  Line 1: needle here\n", path.display()));
    assert_eq!(completed(&part)["metadata"]["matches"], 1);
}

#[tokio::test]
async fn a_long_line_of_wide_characters_is_cut_between_two_of_them_and_says_so() {
    let world = World::start().await;
    world.project.write("wide.txt", "中".repeat(5000));
    let part = world.call("read", json!({ "filePath": "wide.txt" })).await;
    let text = output(&part);
    assert!(text.contains(&"中".repeat(2000)) && !text.contains(&"中".repeat(2001)), "cut after 2000 characters");
    assert!(text.contains("(line truncated to 2000 chars)"));
    assert!(!text.contains('\u{FFFD}'));
}

#[tokio::test]
async fn a_file_larger_than_any_disk_shows_its_beginning() {
    let world = World::start().await;
    let path = world.project.write("huge.log", "first line\n".repeat(200_000));
    std::fs::File::options().write(true).open(&path).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
    // Not part of the project's snapshots.
    world.project.write(".git/info/exclude", "huge.log\n");
    let part = world.call("read", json!({ "filePath": "huge.log", "offset": 100_000, "limit": 2 })).await;
    assert!(output(&part).contains("\n100000: first line\n100001: first line\n\n"), "{}", output(&part));
    assert!(output(&part).contains("of more than") && output(&part).contains("Use offset=100002 to continue."));
}

#[tokio::test]
async fn links_are_not_followed_into_circles_or_out_of_the_tree() {
    let world = World::start().await;
    symlink(".", world.project.path("loop")).expect("a link");
    symlink("/", world.project.path("slash")).expect("a link");
    for file in ["a-needle.txt", "t/d/my-needle-7.txt", "t/needle"] {
        world.project.write(file, "pin\n");
    }
    let part = world.call("glob", json!({ "pattern": "**/*needle*" })).await;
    let mut paths = found(&world, &part);
    paths.sort();
    assert_eq!(paths, ["a-needle.txt", "t/d/my-needle-7.txt", "t/needle"]);
    let part = world.call("grep", json!({ "pattern": "^pin$" })).await;
    assert!(output(&part).starts_with("Found 3 matches"), "{}", output(&part));
}

#[tokio::test]
async fn ignored_files_are_left_out_unless_they_are_named() {
    let world = World::start().await;
    world.project.write(".ignore", "dist/\n*.log\n");
    world.project.write(".gitignore", "target/\n");
    // A repository in the repository has rules of its own.
    world.project.write("nested/.git/HEAD", "ref: refs/heads/master\n");
    world.project.write("nested/.gitignore", "secret.txt\n");
    for file in ["dist/a.js", "x.log", "src/a.js", "target/b.js", "nested/secret.txt", "nested/open.txt", ".hidden.txt"]
    {
        world.project.write(file, "text\n");
    }
    let all = world.call("glob", json!({ "pattern": "**/*" })).await;
    let mut paths = found(&world, &all);
    paths.retain(|path| !path.contains("/.") && !path.starts_with('.') && path != "opencode.json");
    paths.sort();
    assert_eq!(paths, ["nested/open.txt", "src/a.js"]);
    let named = world.call("glob", json!({ "pattern": "dist/a.js" })).await;
    assert_eq!(found(&world, &named), ["dist/a.js"]);
    let grep = world.call("grep", json!({ "pattern": "text", "include": "*.{js,txt}" })).await;
    for (file, is_found) in [("src/a.js", true), ("nested/open.txt", true), ("dist/a.js", false), ("secret.txt", false)]
    {
        assert_eq!(output(&grep).contains(file), is_found, "{file}: {}", output(&grep));
    }
}

#[tokio::test]
async fn many_results_are_cut_and_none_are_said_to_be_none() {
    let world = World::start().await;
    for n in 0..150 {
        world.project.write(format!("d/f{n}.txt"), "same\n");
    }
    let part = world.call("glob", json!({ "pattern": "d/*.txt" })).await;
    assert_eq!(found(&world, &part).len(), 100);
    assert!(output(&part).contains("truncated"));
    assert_eq!(completed(&part)["metadata"], json!({ "count": 100, "truncated": true }));
    let part = world.call("grep", json!({ "pattern": "same", "path": "d" })).await;
    assert!(output(&part).starts_with("Found 100 matches (more matches available)"), "{}", output(&part));
    for (tool, args) in [("glob", json!({ "pattern": "*.none" })), ("grep", json!({ "pattern": "no such text" }))] {
        assert_eq!(output(&world.call(tool, args).await), "No files found");
    }
    let part = world.call("grep", json!({ "pattern": "(unclosed" })).await;
    assert!(failed(&part).contains("unclosed"), "{}", failed(&part));
    let part = world.call("glob", json!({ "pattern": "*", "path": "no/such/dir" })).await;
    assert!(failed(&part).contains("no/such/dir"));
}

#[tokio::test]
async fn a_directory_is_read_as_its_entries_and_a_wrong_name_brings_near_ones() {
    let world = World::start().await;
    world.project.write("src/main.rs", "fn main() {}\n");
    world.project.write("src/sub/x.rs", "");
    let part = world.call("read", json!({ "filePath": "src" })).await;
    assert!(output(&part).contains("<type>directory</type>\n<entries>\nmain.rs\nsub/\n"), "{}", output(&part));
    let part = world.call("read", json!({ "filePath": "src/mian.rs" })).await;
    assert!(failed(&part).starts_with("File not found: "), "{}", failed(&part));
    let part = world.call("read", json!({ "filePath": "src/main" })).await;
    assert!(failed(&part).contains("src/main.rs"), "{}", failed(&part));
}
