use std::path::PathBuf;
use std::time::Instant;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use protocol::file::{FileContent, FileNode, FoundLine, Submatch, Text};

use super::*;

fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for (file, text) in files {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    (dir, root)
}

#[tokio::test]
async fn found_lines_are_ripgreps_json() {
    let (_keep, root) = tree(&[("a.txt", "alpha\nbeta\n"), ("sub/b.txt", "no\n")]);
    let found = find_lines(&root, "b(e)ta", 10).await.unwrap();
    let text = |text: &str| Text { text: text.into() };
    let want = FoundLine {
        path: text("a.txt"),
        lines: text("beta\n"),
        line_number: 2,
        absolute_offset: 6,
        submatches: vec![Submatch { matched: text("beta"), start: 0, end: 4 }],
    };
    assert_eq!(found, vec![want]);
    assert!(matches!(find_lines(&root, "([", 10).await, Err(SearchError::Pattern(_))));
}

#[tokio::test]
async fn files_are_found_by_a_few_letters() {
    let (_keep, root) = tree(&[("src/session.rs", ""), ("src/permission.rs", ""), ("docs/a.md", ""), (".git/x", "")]);
    let find = |query: &'static str, entries| {
        let root = root.clone();
        async move { find_files(&root, query, entries, 10).await.unwrap() }
    };
    assert_eq!(find("sess", Entries::Files).await[0], "src/session.rs");
    assert_eq!(find("amd", Entries::Files).await, ["docs/a.md"]);
    assert_eq!(find("ssn.rs", Entries::Files).await[0], "src/session.rs");
    assert_eq!(find("", Entries::Directories).await, ["docs/", "src/"]);
    assert_eq!(find("", Entries::Both).await.len(), 5);
}

#[test]
fn directories_come_first_and_ignored_entries_are_marked() {
    let (_keep, root) = tree(&[
        ("a.txt", ""),
        ("README.md", ""),
        ("AGENTS.md", ""),
        (".git/x", ""),
        ("src/m.ts", ""),
        ("dist/deep/o.js", ""),
        (".gitignore", "dist/\n"),
    ]);
    let list = |path: &str| list_directory(&root, path).unwrap();
    let names = |nodes: &[FileNode]| nodes.iter().map(|n| (n.path.clone(), n.ignored)).collect::<Vec<_>>();
    let entry = |path: &str, ignored| (path.to_owned(), ignored);
    assert_eq!(
        names(&list(".")),
        [
            entry(".git/", false),
            entry("dist/", true),
            entry("src/", false),
            entry(".gitignore", false),
            entry("a.txt", false),
            entry("AGENTS.md", false),
            entry("README.md", false),
        ]
    );
    assert_eq!(names(&list("dist/deep")), [entry("dist/deep/o.js", true)]);
    let node = FileNode {
        name: "m.ts".into(),
        path: "src/m.ts".into(),
        absolute: root.join("src/m.ts").display().to_string(),
        kind: "file".into(),
        ignored: false,
    };
    assert_eq!(list("src"), vec![node]);
    assert!(matches!(list_directory(&root, "no"), Err(SearchError::NotFound(_))));
    assert!(matches!(list_directory(&root, ".."), Err(SearchError::Outside(_))));
}

#[test]
fn contents_are_text_or_base64() {
    let (_keep, root) = tree(&[("a.txt", "alpha\nbeta\n"), ("b.bin", "a\0b")]);
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
    let text = FileContent { kind: "text".into(), content: "alpha\nbeta\n".into(), encoding: None, mime_type: None };
    assert_eq!(file_content(&root, "a.txt").unwrap(), Some(text));
    let binary = file_content(&root, "b.bin").unwrap().unwrap();
    assert_eq!((&*binary.kind, &*binary.content, binary.encoding.as_deref()), ("binary", "YQBi", Some("base64")));
    assert_eq!(file_content(&root, "missing").unwrap(), None);
    assert!(matches!(file_content(&root, "link"), Err(SearchError::Outside(_))));
    assert!(file_content(&root, ".").is_err());
}

#[tokio::test]
async fn an_ignore_file_without_an_end_holds_up_no_search() {
    for at in ["", "sub"] {
        for name in [".gitignore", ".ignore", ".git/info/exclude"] {
            for odd_as in ["fifo", "endless", "large"] {
                let (_keep, root) = tree(&[(".git/x", ""), ("a.txt", "needle\n"), ("sub/b.txt", "needle\n")]);
                let odd = root.join(at).join(name);
                std::fs::create_dir_all(odd.parent().unwrap()).unwrap();
                match odd_as {
                    "fifo" => nix::unistd::mkfifo(&odd, nix::sys::stat::Mode::S_IRWXU).unwrap(),
                    "endless" => std::os::unix::fs::symlink("/dev/zero", &odd).unwrap(),
                    _ => std::fs::write(&odd, "pattern*of?many\n".repeat(70_000)).unwrap(),
                }
                let found = find_lines(&root, "needle", 10).await.unwrap();
                let files: Vec<&str> = found.iter().map(|line| line.path.text.as_str()).collect();
                // A directory whose own rules can't be read is left out; of the root all is searched.
                let want: &[&str] = if at.is_empty() { &["a.txt", "sub/b.txt"] } else { &["a.txt"] };
                assert_eq!(files, want, "{}", odd.display());
                list_directory(&root, "sub").unwrap();
            }
        }
    }
}

#[test]
fn a_search_out_of_time_says_so() {
    let (_keep, root) = tree(&[("a", ""), ("b/c", "")]);
    let bounds = Bounds::new(CancellationToken::new(), Duration::ZERO);
    walk(&root, None, &bounds, || |_: &DirEntry, _: &Path| panic!("out of time"));
    assert!(bounds.was_late() && !bounds.is_cancelled());
}

#[test]
fn an_endless_file_ends_with_its_bounds() {
    let matcher = lines::matcher("needle").unwrap();
    let began = Instant::now();
    let bounds = Bounds::new(CancellationToken::new(), Duration::from_millis(50));
    let (found, _) = lines::search(&lines::Ground::File(Path::new("/dev/zero")), &matcher, 10, &bounds, |_, _| ());
    assert_eq!(found.len(), 0);
    assert!(began.elapsed() < Duration::from_secs(10));
}

proptest! {
    #[test]
    fn the_best_are_the_first_whatever_the_order(
        mut offers in proptest::collection::btree_map("[a-c](/[a-c]){0,2}", 1..4usize, 0..20),
        limit in 1..8usize,
        seed in any::<u64>(),
    ) {
        let all: Vec<(PathBuf, usize)> = {
            let mut all: Vec<_> = std::mem::take(&mut offers).into_iter().map(|(p, n)| (PathBuf::from(p), n)).collect();
            all.sort();
            all
        };
        let mut shuffled = all.clone();
        shuffled.sort_by_key(|(path, _)| {
            use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
            BuildHasherDefault::<DefaultHasher>::default().hash_one((path, seed))
        });
        let best = Best::new(limit);
        for (path, count) in &shuffled {
            match best.interest(path) {
                Interest::All => best.offer(path, vec![(); *count]),
                Interest::Any => best.offer(path, vec![()]),
                Interest::None => {}
            }
        }
        let flat = |list: &[(PathBuf, usize)]| -> Vec<PathBuf> {
            list.iter().flat_map(|(p, n)| std::iter::repeat_n(p.clone(), *n)).collect()
        };
        let (found, is_more) = best.take();
        let found: Vec<(PathBuf, usize)> = found.into_iter().map(|(p, f)| (p, f.len())).collect();
        let mut want = flat(&all);
        prop_assert_eq!(is_more, want.len() > limit);
        want.truncate(limit);
        prop_assert_eq!(flat(&found), want);
    }
}
