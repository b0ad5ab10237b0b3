//! Skills: instructions for one kind of task under a name, which a model loads when it needs them.

use serde::{Deserialize, Serialize};

/// Stands for the path of a skill that comes with the program.
pub const BUILT_IN: &str = "<built-in>";

/// A skill, as `GET /skill` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// What the model calls it by.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its `SKILL.md`, absolute; [`BUILT_IN`] for one that comes with the program.
    pub location: String,
    /// Its text, without the front matter.
    pub content: String,
}

impl Skill {
    /// Returns the directory its relative paths count from; none for one that comes with the program.
    pub fn directory(&self) -> Option<&std::path::Path> {
        if self.location == BUILT_IN { None } else { std::path::Path::new(&self.location).parent() }
    }
}
