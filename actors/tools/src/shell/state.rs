//! What a line of shell has changed by the time a command runs: where it is, and what is set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;

use super::word::ANY;

/// Most directories, or values of a variable, followed at once.
const MOST: usize = 16;

/// The shell's state. Where branches meet it holds all that is possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Where it may be, as the shell itself names it (links not followed). Empty: nobody knows.
    pub cwds: BTreeSet<PathBuf>,
    /// Where it was before (`cd -`).
    pub before: BTreeSet<PathBuf>,
    /// What `popd` goes back to; none when branches disagree.
    pub stack: Option<Vec<BTreeSet<PathBuf>>>,
    /// Directories the line has made.
    pub made: BTreeSet<PathBuf>,
    /// What the line has perhaps removed or renamed.
    pub removed: BTreeSet<PathBuf>,
    /// Values of what the line has set, with placeholders.
    pub variables: BTreeMap<String, BTreeSet<String>>,
    /// Bodies of functions it has defined.
    pub functions: BTreeMap<String, BTreeSet<Rc<str>>>,
    /// Texts of aliases.
    pub aliases: BTreeMap<String, BTreeSet<Rc<str>>>,
}

impl State {
    /// Returns the state at the start of a line.
    pub(super) fn at(directory: PathBuf) -> Self {
        Self {
            cwds: BTreeSet::from([directory]),
            before: BTreeSet::new(),
            stack: Some(Vec::new()),
            made: BTreeSet::new(),
            removed: BTreeSet::new(),
            variables: BTreeMap::new(),
            functions: BTreeMap::new(),
            aliases: BTreeMap::new(),
        }
    }

    /// Forgets where it is.
    pub(super) fn lose(&mut self) {
        self.cwds.clear();
    }

    /// Moves to one of `to`.
    pub(super) fn go(&mut self, to: BTreeSet<PathBuf>) {
        self.before = std::mem::replace(&mut self.cwds, to);
        if self.cwds.len() > MOST {
            self.lose();
        }
    }

    /// Sets a variable to one of `values`.
    pub(super) fn set(&mut self, name: &str, values: BTreeSet<String>) {
        let values = if values.len() > MOST { unknown() } else { values };
        self.variables.insert(name.to_owned(), values);
    }

    /// Sets a variable to something nobody knows.
    pub(super) fn scramble(&mut self, name: &str) {
        self.variables.insert(name.to_owned(), unknown());
    }

    /// Adds what is possible in `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        if self == other {
            return;
        }
        if self.cwds.is_empty() || other.cwds.is_empty() {
            self.lose();
        } else {
            self.cwds.extend(other.cwds.iter().cloned());
            if self.cwds.len() > MOST {
                self.lose();
            }
        }
        self.before.extend(other.before.iter().cloned());
        if self.stack != other.stack {
            self.stack = None;
        }
        // Made on one way only: it may be missing.
        self.made.retain(|made| other.made.contains(made));
        self.removed.extend(other.removed.iter().cloned());
        for (name, values) in &mut self.variables {
            match other.variables.get(name) {
                Some(others) => values.extend(others.iter().cloned()),
                None => values.extend(unknown()),
            }
        }
        for (name, values) in &other.variables {
            self.variables.entry(name.clone()).or_insert_with(|| values.union(&unknown()).cloned().collect());
        }
        for values in self.variables.values_mut().filter(|values| values.len() > MOST) {
            *values = unknown();
        }
        for (name, bodies) in &other.functions {
            self.functions.entry(name.clone()).or_default().extend(bodies.iter().cloned());
        }
        for (name, texts) in &other.aliases {
            self.aliases.entry(name.clone()).or_default().extend(texts.iter().cloned());
        }
    }

    /// Makes unknown what still changed between two rounds of a loop; returns whether the directory did.
    pub(super) fn blur(&mut self, round_before: &Self) -> bool {
        for (name, values) in &mut self.variables {
            if round_before.variables.get(name) != Some(values) {
                *values = unknown();
            }
        }
        let moved = self.cwds != round_before.cwds;
        if moved {
            self.lose();
        }
        moved
    }
}

fn unknown() -> BTreeSet<String> {
    BTreeSet::from([ANY.to_string()])
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn meeting_branches_keep_all_that_is_possible() {
        let mut one = State::at("/a".into());
        let mut other = one.clone();
        one.set("x", BTreeSet::from(["1".into()]));
        one.made.insert("/a/new".into());
        other.go(BTreeSet::from(["/b".into()]));
        other.set("y", BTreeSet::from(["2".into()]));
        one.merge(&other);
        assert_eq!(one.cwds, BTreeSet::from(["/a".into(), "/b".into()]));
        assert_eq!(one.variables["x"], BTreeSet::from(["1".into(), ANY.to_string()]));
        assert_eq!(one.variables["y"], BTreeSet::from(["2".into(), ANY.to_string()]));
        assert_eq!(one.made, BTreeSet::new());
        other.lose();
        one.merge(&other);
        assert_eq!(one.cwds, BTreeSet::new());
    }
}
