//! Packages from npm that tests run, installed as their lock files name them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a folder of `tests` with what its `package-lock.json` names installed in it.
pub fn installed(folder: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(folder);
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
