//! Packages from npm that tests run against, installed once as a lock file names them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the directory `tests/NAME`, with what its `package-lock.json` names installed. Blocks.
pub fn installed(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    let dir = dir.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
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
        let args = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
        let ran = Command::new("npm").args(args).current_dir(&dir).output().expect("npm");
        assert!(ran.status.success(), "npm ci: {}", String::from_utf8_lossy(&ran.stderr));
    }
    dir
}
