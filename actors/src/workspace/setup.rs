//! Everything a directory's sessions need to know of it, read at once and never changed: a change of a file makes a
//! new one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;
use plugins::Plugins;
use protocol::agent::Agent;
use protocol::command::Command;
use protocol::config::Config;
use protocol::message::ModelRef;
use protocol::session::SessionModel;
use storage::Origin;
use storage::config::{ConfigError, Settings};
use storage::places::{Environment, Places};
use storage::project::Identity;
use storage::stamps::Stamps;
use tools::skill::{Skill, SkillPlaces};
use tools::{AnyTool, Place};

use super::Http;
use super::agents::{Surroundings, agents};
use super::catalogue::{Catalogue, Chosen, ModelError};
use super::commands::commands;
use super::extensions;
use super::flags::Flags;
use super::instructions::{self, Instruction};
use super::toolbox::toolbox;
use crate::plugin_host::Wanted;

/// The agent of prompts where nobody chose one.
const DEFAULT_AGENT: &str = "build";

/// What is known of a directory.
#[derive(Clone)]
pub struct Setup {
    /// The directory.
    pub directory: PathBuf,
    /// Its project.
    pub identity: Identity,
    /// Where its events happen.
    pub origin: Arc<Origin>,
    /// The settings.
    pub settings: Settings,
    /// What tools are told of it.
    pub place: Arc<Place>,
    /// All agents, by name.
    pub agents: IndexMap<String, Arc<Agent>>,
    /// Providers and models.
    pub catalogue: Catalogue,
    /// All commands.
    pub commands: Vec<Command>,
    /// All skills.
    pub skills: Arc<Vec<Skill>>,
    /// Files of instructions.
    pub instructions: Vec<Instruction>,
    /// All tools; which are offered is decided at each step.
    pub tools: Vec<Arc<dyn AnyTool>>,
    /// Its plugins: their hooks and tools.
    pub plugins: Plugins,
    /// Which plugins and custom tools there are to load.
    pub(super) wanted: Option<Arc<Wanted>>,
    /// They were set.
    pub(super) has_plugins: bool,
    seen: Stamps,
}

/// Who answers a prompt.
#[derive(Clone)]
pub struct Answerer {
    /// The agent.
    pub agent: Arc<Agent>,
    /// The model's name.
    pub model_ref: ModelRef,
    /// The model.
    pub chosen: Chosen,
}

/// Why a prompt can't be answered as it was asked to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// There is no such agent.
    #[error("agent {agent:?} is not known; there are: {}", known.join(", "))]
    NoAgent {
        /// The one asked for.
        agent: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// The model can't be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// No provider has a model.
    #[error("no provider in the config has a model; add one under `provider`")]
    NoModel,
}

/// What a prompt says of who shall answer it.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// The agent it names.
    pub agent: Option<String>,
    /// The model it names.
    pub model: Option<ModelRef>,
    /// The variant it names.
    pub variant: Option<String>,
    /// The agent of the session's last prompt.
    pub last_agent: Option<String>,
    /// The model of the session's last prompt.
    pub last_model: Option<SessionModel>,
}

impl Setup {
    /// Reads all that is known of a directory. Blocks.
    pub fn read(
        directory: &Path,
        identity: &Identity,
        places: &Places,
        environment: &Environment,
        http: &Http,
    ) -> Result<Self, Box<storage::config::Broken>> {
        let settings = storage::config::load(directory, &identity.worktree, places, environment)?;
        let config = Arc::new(settings.config.clone());
        let top = if identity.is_repository { identity.worktree.as_path() } else { directory };
        let found = SkillPlaces {
            directory: directory.to_owned(),
            worktree: top.to_owned(),
            config_home: Some(places.config.clone()),
            home: Some(places.home.clone()),
            extra: config.skills.as_ref().map(|s| s.paths.iter().map(PathBuf::from).collect()).unwrap_or_default(),
        };
        let found = found.discover();
        for warning in &found.warnings {
            tracing::warn!(%warning, directory = %directory.display(), "a skill is left out");
        }
        let skills = Arc::new(found.skills);
        let around = Surroundings {
            tool_output: places.tool_output(),
            skills: skills.iter().filter_map(|skill| Some(Path::new(&skill.location).parent()?.to_owned())).collect(),
            home: places.home.clone(),
        };
        let agents = agents(&config, &around);
        let instructions = instructions::read(directory, top, &places.config, &places.home, &config);
        let mut seen = settings.seen.clone();
        seen.extend(instructions::candidates(directory, top, &places.config, &config));
        let (wanted, watched) = extensions::wanted(directory, identity, &settings, places, environment);
        seen.extend(watched);
        let place = Place {
            directory: directory.to_owned(),
            worktree: identity.worktree.clone(),
            is_repository: identity.is_repository,
            spill: places.tool_output(),
            config: config.clone(),
        };
        Ok(Self {
            directory: directory.to_owned(),
            origin: Arc::new(Origin {
                directory: directory.to_string_lossy().into_owned(),
                project: identity.project_id.clone(),
            }),
            identity: identity.clone(),
            place: Arc::new(place),
            tools: toolbox(&agents, &skills, &Flags::of(&config, environment, places)),
            agents,
            catalogue: Catalogue::new(&config, environment, &http.client()),
            commands: commands(&config),
            skills,
            instructions,
            plugins: Plugins::none(),
            wanted,
            has_plugins: false,
            settings,
            seen,
        })
    }

    /// Returns whether a file that was read differs now. Blocks.
    pub fn is_stale(&self) -> bool {
        self.seen.is_stale()
    }

    /// Returns the settings.
    pub fn config(&self) -> &Config {
        &self.settings.config
    }

    /// Returns an agent.
    pub fn agent(&self, name: &str) -> Result<&Arc<Agent>, ChoiceError> {
        self.agents.get(name).ok_or_else(|| ChoiceError::NoAgent {
            agent: name.to_owned(),
            known: self.agents.values().filter(|a| !a.hidden).map(|a| a.name.clone()).collect(),
        })
    }

    /// Returns who answers a prompt: what it names, else the session's last, the agent's, the config's, the first.
    /// What only the session remembers and the config has no more is passed over.
    pub fn answerer(&self, wish: &Wish) -> Result<Answerer, ChoiceError> {
        let agent = self.agent(&self.agent_name(wish))?.clone();
        let config_model = || {
            let name = self.config().model.as_deref()?;
            Some(ModelRef::parse(name).ok_or_else(|| ModelError::BadName(name.to_owned())))
        };
        let remembered = wish
            .last_model
            .as_ref()
            .map(|last| ModelRef { provider_id: last.provider_id.clone(), model_id: last.id.clone(), variant: None })
            .filter(|model| self.catalogue.has(model));
        let mut model_ref = match wish.model.clone().or(remembered).or_else(|| agent.model.clone()) {
            Some(model) => model,
            None => match config_model() {
                Some(named) => named?,
                None => self.catalogue.default_model().ok_or(ChoiceError::NoModel)?,
            },
        };
        if let Some(variant) = wish.variant.clone().or_else(|| agent.variant.clone()) {
            model_ref.variant = Some(variant);
        }
        let chosen = self.catalogue.choose(&model_ref)?;
        Ok(Answerer { agent, model_ref, chosen })
    }

    /// Returns the model of titles and the like: the config's small one, else that of the prompt.
    pub fn small_model(&self, of_prompt: &ModelRef) -> Result<Chosen, ChoiceError> {
        let small = self.config().small_model.as_deref().and_then(ModelRef::parse);
        if let Some(chosen) = small.and_then(|small| self.catalogue.choose(&small).ok()) {
            return Ok(chosen);
        }
        Ok(self.catalogue.choose(of_prompt)?)
    }

    fn agent_name(&self, wish: &Wish) -> String {
        let remembered = wish.last_agent.as_ref().filter(|name| self.agents.contains_key(*name));
        let named = wish.agent.as_ref().or(remembered).or(self.config().default_agent.as_ref());
        named.cloned().unwrap_or_else(|| DEFAULT_AGENT.to_owned())
    }
}

/// Why nothing is known of a directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct SetupError(#[from] pub ConfigError);
