//! What a session changed as a whole: the changes of its turns, put together file by file.

use indexmap::IndexMap;
use protocol::session::{FileDiff, FileStatus};

/// Puts the changes of turns together, oldest first. Lines are counted as often as they were changed; the patches of
/// one file follow each other. A file that came and went again is left out.
pub fn merge(turns: impl IntoIterator<Item = Vec<FileDiff>>) -> Vec<FileDiff> {
    let mut files: IndexMap<Option<String>, FileDiff> = IndexMap::new();
    let mut last: Vec<FileDiff> = Vec::new();
    for turn in turns {
        // Prompts that were answered together are each given what that turn changed.
        if turn.is_empty() || turn == last {
            continue;
        }
        for change in &turn {
            let Some(file) = files.get_mut(&change.file) else {
                files.insert(change.file.clone(), change.clone());
                continue;
            };
            if (file.status, change.status) == (Some(FileStatus::Added), Some(FileStatus::Deleted)) {
                files.shift_remove(&change.file);
                continue;
            }
            file.status = together(file.status, change.status);
            file.additions += change.additions;
            file.deletions += change.deletions;
            file.patch = joined(file.patch.take(), change.patch.as_deref());
        }
        last = turn;
    }
    files.into_values().collect()
}

fn together(before: Option<FileStatus>, after: Option<FileStatus>) -> Option<FileStatus> {
    use FileStatus::{Added, Deleted, Modified};
    match (before, after) {
        (Some(Added), Some(Modified)) => Some(Added),
        (Some(Deleted), Some(Added)) => Some(Modified),
        (before, after) => after.or(before),
    }
}

fn joined(before: Option<String>, after: Option<&str>) -> Option<String> {
    match (before, after) {
        (Some(mut before), Some(after)) => {
            if !before.is_empty() && !before.ends_with('\n') {
                before.push('\n');
            }
            before.push_str(after);
            Some(before)
        }
        (before, after) => before.or_else(|| after.map(str::to_owned)),
    }
}

#[cfg(test)]
mod tests {
    use FileStatus::{Added, Deleted, Modified};
    use pretty_assertions::assert_eq;

    use super::*;

    fn change(file: &str, status: FileStatus, additions: u64, deletions: u64) -> FileDiff {
        let patch = Some(format!("{file} +{additions} -{deletions}"));
        FileDiff { file: Some(file.into()), patch, additions, deletions, status: Some(status) }
    }

    #[test]
    fn changes_of_one_file_are_one_entry() {
        let merged = merge([
            vec![change("a", Added, 3, 0), change("b", Modified, 1, 1)],
            vec![],
            vec![change("a", Modified, 1, 2), change("b", Deleted, 0, 5)],
        ]);
        let a = FileDiff { patch: Some("a +3 -0\na +1 -2".into()), ..change("a", Added, 4, 2) };
        let b = FileDiff { patch: Some("b +1 -1\nb +0 -5".into()), ..change("b", Deleted, 1, 6) };
        assert_eq!(merged, [a, b]);
    }

    #[test]
    fn what_came_and_went_is_no_change_and_what_came_back_is_one() {
        let turns =
            [vec![change("a", Added, 1, 0)], vec![change("a", Deleted, 0, 1)], vec![change("c", Deleted, 0, 2)]];
        assert_eq!(merge(turns.clone()), [change("c", Deleted, 0, 2)]);
        let back = turns.into_iter().chain([vec![change("c", Added, 3, 0)]]);
        assert_eq!(merge(back)[0].status, Some(Modified));
    }

    #[test]
    fn a_turn_that_answered_two_prompts_counts_once() {
        let turn = vec![change("a", Modified, 1, 1)];
        assert_eq!(merge([turn.clone(), turn.clone()]), turn);
    }
}
