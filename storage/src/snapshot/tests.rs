use pretty_assertions::assert_eq;

use std::time::{Duration, SystemTime};

use super::*;

fn limits() -> SnapshotConfig {
    SnapshotConfig { max_file_bytes: 100, min_free_bytes: 0 }
}

async fn world() -> (tempfile::TempDir, PathBuf, Snapshots) {
    let root = tempfile::tempdir().expect("a directory");
    let work = root.path().join("work");
    std::fs::create_dir(&work).expect("made");
    Git::new(&work, "init").arg("-q").stdout().await.expect("git init");
    std::fs::write(work.join("kept.txt"), "one\n").expect("written");
    std::fs::write(work.join(".gitignore"), "ignored/\n").expect("written");
    let snapshots =
        Snapshots::of(&root.path().join("snap"), "p", &work, Path::new("/nobody"), limits()).expect("snapshots");
    (root, work, snapshots)
}

#[tokio::test]
async fn a_change_is_seen_between_two_snapshots_and_can_be_undone() {
    let (_root, work, snapshots) = world().await;
    let before = snapshots.take().await.expect("a tree");
    std::fs::write(work.join("kept.txt"), "two\n").expect("written");
    std::fs::write(work.join("new file.txt"), "x\n").expect("written");
    let after = snapshots.take().await.expect("a tree");
    let text = |bytes: &Option<Vec<u8>>| bytes.clone().map(|b| String::from_utf8(b).expect("text"));
    let changed = snapshots.contents(&before, &after).await.expect("contents");
    let seen: Vec<_> = changed.iter().map(|c| (c.file.as_str(), text(&c.before), text(&c.after))).collect();
    assert_eq!(
        seen,
        [
            ("kept.txt", Some("one\n".to_owned()), Some("two\n".to_owned())),
            ("new file.txt", None, Some("x\n".to_owned())),
        ]
    );
    let files = snapshots.changed(&before, &after).await.expect("names");
    snapshots.restore(&before, &files).await.expect("restored");
    assert_eq!(std::fs::read_to_string(work.join("kept.txt")).expect("read"), "one\n");
    assert!(!work.join("new file.txt").exists());
    assert_eq!(snapshots.take().await.expect("a tree"), before);
}

#[tokio::test]
async fn ignored_and_large_files_stay_out_and_the_projects_own_repository_is_untouched() {
    let (_root, work, snapshots) = world().await;
    let before = snapshots.take().await.expect("a tree");
    std::fs::create_dir(work.join("ignored")).expect("made");
    std::fs::write(work.join("ignored/a"), "x").expect("written");
    std::fs::write(work.join("large"), "x".repeat(101)).expect("written");
    assert_eq!(snapshots.take().await.expect("a tree"), before);
    let status = Git::new(&work, "status").arg("--porcelain").line().await.expect("status");
    assert!(status.contains("?? kept.txt"), "{status}");
}

#[cfg(unix)]
#[tokio::test]
async fn ignore_and_attribute_files_without_an_end_hold_up_no_snapshot() {
    let (_root, work, snapshots) = world().await;
    let before = snapshots.take().await.expect("a tree");
    let fifo = |path: &str| {
        nix::unistd::mkfifo(&work.join(path), nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
    };
    std::fs::create_dir_all(work.join("deep/er")).expect("made");
    std::fs::write(work.join("deep/er/a.txt"), "alpha\n").expect("written");
    for path in [".gitattributes", "deep/.gitignore", "deep/er/.gitignore", "deep/er/.gitattributes"] {
        fifo(path);
    }
    let after =
        tokio::time::timeout(Duration::from_secs(30), snapshots.take()).await.expect("in time").expect("a tree");
    assert_eq!(snapshots.changed(&before, &after).await.expect("names"), ["deep/er/a.txt"]);
}

#[tokio::test]
async fn a_home_and_the_root_have_no_snapshots() {
    let (root, work, _) = world().await;
    let of = |worktree: &Path, home: &Path| Snapshots::of(root.path(), "p", worktree, home, limits()).err();
    assert_eq!(of(&work, &work), Some(Unfit::Home));
    assert_eq!(of(Path::new("/"), Path::new("/nobody")), Some(Unfit::Root));
    assert_eq!(of(Path::new("/"), Path::new("/")), Some(Unfit::Root));
    assert_eq!(of(&work.join("not there"), Path::new("/nobody")), Some(Unfit::Missing));
    assert_eq!(of(&work, root.path()), None, "a project in the home");
    #[cfg(unix)]
    {
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&work, &link).expect("a link");
        assert_eq!(of(&work, &link), Some(Unfit::Home));
    }
}

#[tokio::test]
async fn a_disk_that_is_nearly_full_takes_no_snapshots() {
    let (_root, _work, mut snapshots) = world().await;
    snapshots.limits.min_free_bytes = u64::MAX;
    let error = snapshots.take().await.expect_err("no room");
    assert!(matches!(error, StorageError::LowDisk { wanted: u64::MAX, .. }), "{error}");
}

#[tokio::test]
async fn a_snapshot_that_is_gone_removes_no_files() {
    let (_root, work, snapshots) = world().await;
    snapshots.take().await.expect("a tree");
    let gone = "0123456789012345678901234567890123456789";
    assert!(snapshots.restore(gone, &["kept.txt".to_owned()]).await.is_err());
    assert_eq!(std::fs::read_to_string(work.join("kept.txt")).expect("read"), "one\n");
}

#[tokio::test]
async fn an_index_that_a_kill_left_broken_is_made_anew() {
    let (_root, _work, snapshots) = world().await;
    let before = snapshots.take().await.expect("a tree");
    for broken in ["", "DIRC", "no index at all, but long enough to be taken for one at first sight"] {
        std::fs::write(snapshots.repository.join("index"), broken).expect("written");
        assert_eq!(snapshots.take().await.expect("a tree"), before, "{broken:?}");
    }
    std::fs::write(snapshots.repository.join("index.lock"), "").expect("written");
    assert_eq!(snapshots.take().await.expect("a tree"), before);
}

fn age(path: &Path, by: Duration) {
    let time = std::fs::metadata(path).expect("there").modified().expect("a time") - by;
    std::fs::File::options().read(true).open(path).expect("open").set_modified(time).expect("set");
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test]
async fn what_killed_runs_left_is_swept_and_what_is_being_written_is_not() {
    let (_root, _work, snapshots) = world().await;
    let tree = snapshots.take().await.expect("a tree");
    let objects = snapshots.repository.join("objects");
    let left = [objects.join("ab/tmp_obj_aaaaaa"), objects.join("pack/tmp_pack_bbbbbb"), objects.join("tmp_obj_cc")];
    let fresh = objects.join("ab/tmp_obj_new");
    std::fs::create_dir_all(objects.join("ab")).expect("made");
    for path in left.iter().chain([&fresh]) {
        std::fs::write(path, "x").expect("written");
    }
    // Seconds before the service began: a killed run's, which had no time to grow old.
    let began = std::fs::metadata(&fresh).and_then(|fresh| fresh.modified()).expect("a time");
    left.iter().for_each(|path| age(path, Duration::from_secs(2)));
    sweep(snapshots.repository.parent().and_then(Path::parent).expect("the root"), began).await;
    assert_eq!(left.map(|path| path.exists()), [false; 3]);
    assert!(fresh.exists());
    assert_eq!(snapshots.take().await.expect("a tree"), tree);
}

#[tokio::test]
async fn snapshots_of_last_week_go_and_the_newest_stays() {
    let (_root, work, snapshots) = world().await;
    let root = snapshots.repository.parent().and_then(Path::parent).expect("the root").to_owned();
    let old = snapshots.take().await.expect("a tree");
    std::fs::write(work.join("kept.txt"), "two\n").expect("written");
    let newest = snapshots.take().await.expect("a tree");
    let mut found = Vec::new();
    for folder in std::fs::read_dir(snapshots.repository.join("objects")).expect("read").flatten() {
        found.extend(std::fs::read_dir(folder.path()).expect("read").flatten().map(|file| file.path()));
    }
    found.iter().for_each(|path| age(path, 8 * DAY));
    sweep(&root, SystemTime::UNIX_EPOCH).await;
    assert!(snapshots.changed(&newest, &old).await.is_err(), "the old one is gone");
    assert_eq!(snapshots.take().await.expect("a tree"), newest);
    assert_eq!(snapshots.changed(&newest, &newest).await.expect("the same"), [""; 0]);
}
