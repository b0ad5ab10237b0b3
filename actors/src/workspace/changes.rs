//! What changed between two snapshots, as clients draw it. Pure.

use protocol::session::{FileDiff, FileStatus};
use storage::snapshot::Changed;

/// Returns the difference of each file.
pub fn diffs(changed: Vec<Changed>) -> Vec<FileDiff> {
    changed.into_iter().map(diff).collect()
}

fn diff(Changed { file, before, after }: Changed) -> FileDiff {
    let status = match (&before, &after) {
        (None, Some(_)) => FileStatus::Added,
        (Some(_), None) => FileStatus::Deleted,
        _ => FileStatus::Modified,
    };
    let diff = match (text(before), text(after)) {
        (Some(before), Some(after)) => tools::diff::FileDiff::of(&file, &before, &after),
        _ => tools::diff::FileDiff::binary(&file),
    };
    // Here, other than in the tools' diffs, a tab stands where a time could.
    let patch = diff.patch.replacen(&format!("--- {file}\n+++ {file}\n"), &format!("--- {file}\t\n+++ {file}\t\n"), 1);
    FileDiff {
        file: Some(file),
        patch: Some(patch),
        additions: diff.additions,
        deletions: diff.deletions,
        status: Some(status),
    }
}

/// A missing file is empty text; a binary one is none.
fn text(bytes: Option<Vec<u8>>) -> Option<String> {
    let bytes = bytes.unwrap_or_default();
    (!bytes.contains(&0)).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_new_file_is_all_additions_and_a_binary_one_has_no_lines() {
        let diffs = diffs(vec![
            Changed { file: "w.txt".into(), before: None, after: Some(b"x\n".to_vec()) },
            Changed { file: "b.bin".into(), before: Some(vec![0]), after: None },
        ]);
        let rule = "=".repeat(67);
        let patch = format!("Index: w.txt\n{rule}\n--- w.txt\t\n+++ w.txt\t\n@@ -0,0 +1,1 @@\n+x\n");
        assert_eq!(
            (diffs[0].patch.as_ref(), diffs[0].additions, diffs[0].status),
            (Some(&patch), 1, Some(FileStatus::Added))
        );
        assert_eq!((diffs[1].additions, diffs[1].status), (0, Some(FileStatus::Deleted)));
    }
}
