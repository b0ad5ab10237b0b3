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
use protocol::skill::Skill;
use storage::Origin;
use storage::config::change::HIDDEN;
use storage::config::{self, ConfigError, Settings, is_set};
use storage::places::{Environment, Places};
use storage::project::Identity;
use storage::skill::SkillPlaces;
use storage::stamps::Stamps;
use tools::{AnyTool, Place};

use super::agents::{DefaultError, Surroundings, agents, default_agent};
use super::catalogue::{Catalogue, Chosen, ModelError, Vendors};
use super::commands::commands;
use super::extensions;
use super::flags::Flags;
use super::instructions::pages::Pages;
use super::instructions::{self, Instruction};
use super::toolbox::toolbox;
use crate::plugin_host::Wanted;

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
    /// Files of instructions, and then pages.
    pub instructions: Vec<Instruction>,
    /// How many of them are files.
    files: usize,
    /// Addresses of pages of instructions.
    pub addresses: Vec<String>,
    /// What was wrong with what was read; it is used as far as it goes.
    pub warnings: Vec<String>,
    /// Config directories, from weak to strong, whether they are there or not: they hold tools and plugins, too.
    pub config_directories: Vec<PathBuf>,
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
    /// Nobody is there for prompts that name no agent.
    #[error(transparent)]
    Default(#[from] DefaultError),
    /// There is no such command.
    #[error("Command not found: {command:?}. Available commands: {}", known.join(", "))]
    NoCommand {
        /// The one asked for.
        command: String,
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
        vendors: &Vendors,
    ) -> Result<Self, Box<storage::config::Broken>> {
        let settings = config::load(directory, &identity.worktree, places, environment)?;
        let config = Arc::new(settings.config.clone());
        let top = if identity.is_repository { identity.worktree.as_path() } else { directory };
        let config_directories = config::directories(directory, &identity.worktree, places, environment);
        let found_skills = skill_places(directory, top, &config, places, environment, &config_directories).discover();
        let skills = Arc::new(found_skills.skills);
        let around = Surroundings {
            tool_output: places.tool_output(),
            worktree: top.to_owned(),
            scratch: Some(std::env::temp_dir().join("opencode")),
            skills: skills.iter().filter_map(|skill| Some(skill.directory()?.to_owned())).collect(),
            home: places.home.clone(),
        };
        let agents = agents(&config, &around);
        let around = instructions::Around { directory, worktree: top, places, environment };
        let found = instructions::read(&around, &config);
        let mut seen = settings.seen.clone();
        seen.add_all(found.seen);
        seen.add_all(found_skills.seen);
        seen.extend(vendors.files());
        let mut warnings: Vec<String> = settings.warnings.iter().map(ToString::to_string).collect();
        warnings.extend(found_skills.warnings);
        warnings.extend(found.warnings);
        warnings.iter_mut().for_each(|warning| settings.secrets.hide_in_text(warning, HIDDEN));
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
            catalogue: Catalogue::new(&config, environment, vendors),
            commands: commands(&config, &skills),
            skills,
            files: found.instructions.len(),
            instructions: found.instructions,
            addresses: found.addresses,
            warnings,
            config_directories,
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

    /// Returns the same with pages of instructions; none where they are there already.
    pub fn with_pages(&self, pages: &Pages) -> Option<Self> {
        let told = pages.told(&self.addresses);
        if self.instructions.get(self.files..) == Some(told.as_slice()) {
            return None;
        }
        let mut setup = self.clone();
        setup.instructions.truncate(setup.files);
        setup.instructions.extend(told);
        Some(setup)
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
        let agent = self.agent(&self.agent_name(wish)?)?.clone();
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
        let chosen = self.catalogue.choose(&model_ref)?;
        // An agent's variant is that of models that have it.
        let of_agent =
            || agent.variant.clone().filter(|name| chosen.model.variants.iter().any(|v| v.contains_key(name)));
        let named = wish.variant.clone().or(model_ref.variant.take());
        let Some(variant) = named.or_else(of_agent) else { return Ok(Answerer { agent, model_ref, chosen }) };
        model_ref.variant = Some(variant);
        let chosen = self.catalogue.choose(&model_ref)?;
        Ok(Answerer { agent, model_ref, chosen })
    }

    /// Returns the model of titles and the like: the config's small one, else a small one of the same provider, else
    /// that of the prompt.
    pub fn small_model(&self, of_prompt: &ModelRef) -> Result<Chosen, ChoiceError> {
        let configured = self.config().small_model.as_deref().and_then(ModelRef::parse);
        let small = [configured, self.catalogue.small_model(&of_prompt.provider_id)];
        if let Some(chosen) = small.into_iter().flatten().find_map(|small| self.catalogue.choose(&small).ok()) {
            return Ok(chosen);
        }
        Ok(self.catalogue.choose(of_prompt)?)
    }

    /// Returns the agent that answers a prompt: the one it names, else the session's last, else the default.
    pub fn agent_name(&self, wish: &Wish) -> Result<String, ChoiceError> {
        let remembered = wish.last_agent.as_ref().filter(|name| self.agents.contains_key(*name));
        match wish.agent.as_ref().or(remembered) {
            Some(name) => Ok(name.clone()),
            None => Ok(default_agent(self.config(), &self.agents)?),
        }
    }
}

fn skill_places(
    directory: &Path,
    top: &Path,
    config: &Config,
    places: &Places,
    environment: &Environment,
    config_directories: &[PathBuf],
) -> SkillPlaces {
    let extra = config.skills.iter().flat_map(|skills| &skills.paths).map(PathBuf::from).collect();
    let of_others = !is_set(environment, "OPENCODE_DISABLE_EXTERNAL_SKILLS");
    let no_claude = ["OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_CLAUDE_CODE_SKILLS"];
    SkillPlaces {
        directory: directory.to_owned(),
        worktree: top.to_owned(),
        // The project's own are found on the way up.
        config: config_directories
            .iter()
            .filter(|dir| !dir.starts_with(top) || **dir == places.config)
            .cloned()
            .collect(),
        home: Some(places.home.clone()),
        extra,
        claude: of_others && !no_claude.iter().any(|name| is_set(environment, name)),
        agents: of_others,
    }
}

/// Why nothing is known of a directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct SetupError(#[from] pub ConfigError);
