//! What substitutions print, where that is known without running them.

use std::collections::BTreeSet;

use super::Judge;
use super::state::State;
use super::word::{ANY, GLOB};

/// Where `mktemp` makes files.
pub(super) const TEMPORARY: &str = "/tmp";

impl Judge<'_> {
    /// Returns what a substitution prints, for the few whose output is known.
    pub(super) fn printed(&self, text: &str, state: &State) -> BTreeSet<String> {
        let inner = text.trim_start_matches("$(").trim_start_matches('`').trim_end_matches([')', '`']).trim();
        let words: Vec<&str> = inner.split_ascii_whitespace().collect();
        if words.first().is_some_and(|name| state.functions.contains_key(*name) || state.aliases.contains_key(*name)) {
            return BTreeSet::from([ANY.to_string()]);
        }
        let top = self.surroundings.worktree.as_deref().filter(|_| state.cwds.len() == 1);
        match (words.as_slice(), top) {
            (["echo", words @ ..] | ["printf", words @ ..], _)
                if words.iter().all(|word| is_plain(word)) && (inner.starts_with("echo") || words.len() == 1) =>
            {
                BTreeSet::from([words.join(" ")])
            }
            // Numbers and names.
            (
                ["id", "-u" | "-g" | "-un" | "-gn"] | ["whoami" | "nproc" | "arch"] | ["uname", "-s" | "-m" | "-r"],
                _,
            ) => BTreeSet::from([GLOB.to_string()]),
            (["date", format], _) if is_plain_date(format) => BTreeSet::from([GLOB.to_string()]),
            (["mktemp", options @ ..], _)
                if options.iter().all(|option| *option == "-d") && !state.variables.contains_key("TMPDIR") =>
            {
                BTreeSet::from([format!("{TEMPORARY}/{GLOB}")])
            }
            (["dirname", "$PWD" | "\"$PWD\""], _) => above(self.variable("PWD", state)),
            (["pwd"], _) => self.variable("PWD", state),
            (["git", "rev-parse", "--show-toplevel"], Some(top)) if state.cwds.iter().all(|c| c.starts_with(top)) => {
                BTreeSet::from([top.to_string_lossy().into_owned()])
            }
            _ => BTreeSet::from([ANY.to_string()]),
        }
    }
}

/// Returns whether a word stands for itself, whoever reads it.
fn is_plain(word: &str) -> bool {
    !word.starts_with('-') && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
}

/// Returns the directories above.
pub(super) fn above(paths: BTreeSet<String>) -> BTreeSet<String> {
    paths.iter().map(|path| path.rsplit_once('/').map_or(ANY.to_string(), |(above, _)| above.to_owned())).collect()
}

/// Returns whether `date` prints a name without blanks and slashes for this format.
fn is_plain_date(format: &str) -> bool {
    let Some(format) = format.strip_prefix('+') else { return false };
    let mut parts = format.split('%');
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    parts.next().is_some_and(plain)
        && parts.all(|part| part.starts_with(|c| "YymdHMSsFNjuV".contains(c)) && plain(part))
}
