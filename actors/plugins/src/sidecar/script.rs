//! The sidecar's own modules, as this program carries them, on disk.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

const MAIN: &str = "main.mjs";

macro_rules! modules {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!($name))),*] };
}

const MODULES: [(&str, &str); 12] = modules![
    "main.mjs",
    "wire.mjs",
    "load.mjs",
    "modules.mjs",
    "loader.mjs",
    "hooks.mjs",
    "tools.mjs",
    "schema.mjs",
    "standin.mjs",
    "shell.mjs",
    "bun.mjs",
    "client.mjs",
];

/// Writes the modules below `home`, where they aren't yet; each version of them has a directory of its own. Returns the
/// one to run. Blocks for a moment.
pub fn write(home: &Path) -> io::Result<PathBuf> {
    let mut hash = Sha256::new();
    for (name, text) in MODULES {
        hash.update(name);
        hash.update(text);
    }
    let name: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let directory = home.join(name);
    let is_there =
        || MODULES.iter().all(|(name, text)| std::fs::read_to_string(directory.join(name)).is_ok_and(|t| t == *text));
    if !is_there() {
        std::fs::create_dir_all(home)?;
        let made = tempfile::tempdir_in(home)?;
        for (name, text) in MODULES {
            std::fs::write(made.path().join(name), text)?;
        }
        // What is there under this name is not whole, or somebody else wrote it just now.
        let _ = std::fs::remove_dir_all(&directory);
        if let Err(error) = std::fs::rename(made.path(), &directory)
            && !is_there()
        {
            return Err(error);
        }
    }
    Ok(directory.join(MAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_are_written_once_and_mended_when_they_were_changed() {
        let home = tempfile::tempdir().expect("a directory");
        let main = write(home.path()).expect("written");
        std::fs::write(&main, "nonsense").expect("spoiled");
        assert_eq!(write(home.path()).expect("written again"), main);
        assert_eq!(std::fs::read_to_string(&main).expect("text"), include_str!("main.mjs"));
        assert_eq!(std::fs::read_dir(home.path()).expect("a listing").count(), 1);
    }
}
