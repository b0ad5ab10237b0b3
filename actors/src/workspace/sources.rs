//! Tools that come and go while a directory is in use: those of MCP servers and of plugins. The workspace asks for them
//! at each step and puts them beside the built-in ones.

use std::collections::HashSet;
use std::sync::Arc;

use actix::prelude::*;
use protocol::command::Command;
use tools::AnyTool;

use super::Setup;

/// Which tools, beside the built-in ones?
#[derive(Message, Clone)]
#[rtype(result = "Arc<Offered>")]
pub struct OfferTools {
    /// What is known of the directory.
    pub setup: Arc<Setup>,
    /// How long may be waited for what isn't ready yet.
    pub patience: Patience,
}

/// How long may be waited for tools that aren't ready yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all.
    None,
    /// A moment: they come at the next step.
    Step,
    /// As long as the settings say: a call waits for one of them.
    Call,
}

/// What a source offers.
#[derive(Clone, Default)]
pub struct Offered {
    /// Its tools, under names that none of the built-in ones has.
    pub tools: Vec<Arc<dyn AnyTool>>,
    /// What models are told about them.
    pub guides: Vec<Guide>,
    /// Its commands.
    pub commands: Vec<Command>,
}

/// What a model is told about some tools, where one of them is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guide {
    /// Who says it, for the model: `the MCP server NAME`.
    pub from: String,
    /// What.
    pub text: Arc<str>,
    /// The tools, by name.
    pub about: Vec<String>,
}

/// All tools of a directory; which of them a step offers is decided by its rules.
#[derive(Clone, Default)]
pub struct Toolkit {
    /// By name, in order.
    pub tools: Vec<Arc<dyn AnyTool>>,
    /// What models are told about some of them.
    pub guides: Vec<Guide>,
    /// Commands beside those of the settings.
    pub commands: Vec<Command>,
}

impl Toolkit {
    /// Returns the custom tools, the built-in ones, and those of all sources. Of two tools of one name the first counts:
    /// a custom tool stands in for a built-in one.
    pub fn of(setup: &Setup, custom: &[Arc<dyn AnyTool>], offered: &[Arc<Offered>]) -> Self {
        let mut kit = Self::default();
        let mut names = HashSet::new();
        let own = custom.iter().chain(&setup.tools);
        kit.tools.extend(own.filter(|tool| names.insert(tool.id().to_owned())).cloned());
        let mut commands: HashSet<String> = setup.commands.iter().map(|command| command.name.clone()).collect();
        for source in offered {
            kit.tools.extend(source.tools.iter().filter(|tool| names.insert(tool.id().to_owned())).cloned());
            kit.guides.extend(source.guides.iter().cloned());
            let new = source.commands.iter().filter(|command| commands.insert(command.name.clone()));
            kit.commands.extend(new.cloned());
        }
        kit.tools.sort_by(|a, b| a.id().cmp(b.id()));
        kit
    }

    /// Returns a tool.
    pub fn tool(&self, name: &str) -> Option<&Arc<dyn AnyTool>> {
        self.tools.iter().find(|tool| tool.id() == name)
    }
}
