//! The official JavaScript client, run against the service. The checks are in `tests/sdk`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::world::World;

/// The directory of the checks, with the client installed as its lock file names it.
fn checks() -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/sdk");
    // Another run of the tests may be at it just now.
    let wanted = dir.join("package-lock.json");
    let lock = File::open(&wanted).expect("the lock file");
    lock.lock().expect("a lock");
    let marker = dir.join("node_modules/.package-lock.json");
    let newer = |a: &Path, b: &Path| {
        let time = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
        time(a) > time(b)
    };
    if !marker.exists() || newer(&wanted, &marker) {
        let ran = Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&dir).output().expect("npm");
        assert!(ran.status.success(), "npm ci: {}", String::from_utf8_lossy(&ran.stderr));
    }
    dir
}

#[tokio::test]
async fn the_official_client_works_with_the_service() {
    let world = World::start().await;
    let (url, project) = (world.service.base_url(), world.project.dir().to_owned());
    let run = move || {
        let dir = checks();
        Command::new("node").arg("check.mjs").arg(url).arg(project).current_dir(dir).output().expect("node")
    };
    let ran = tokio::task::spawn_blocking(run).await.expect("a task");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    // As many lines as there are checks, so that a script that ends early is seen.
    assert!(out.lines().filter(|line| line.starts_with("PASS ")).count() >= 18, "{out}");
}
