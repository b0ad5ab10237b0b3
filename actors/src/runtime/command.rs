//! Commands: from a name and arguments to a prompt. Source of the rules: OpenCode `session/prompt.ts`, `command`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plugins::Hook;
use protocol::agent::AgentMode;
use protocol::command::Command;
use protocol::message::ModelRef;
use protocol::part::{FilePart, SubtaskPart};
use protocol::prompt::{CommandBody, PartInput, PartInputKind, PromptBody};
use protocol::{Event, JsonMap, MessageId, SessionError, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tools::AnyTool;
use tools::bash::PersonsBash;
use tools::files::{FileLocks, Files};

use super::Runtime;
use crate::mcp_host::prompt::FillPrompt;
use crate::session::{CommandError, TurnEnd, WaitTurn, persons_desk};
use crate::workspace::catalogue::ModelError;
use crate::workspace::commands::template::{self, Piece};
use crate::workspace::commands::{reference, with_offered};
use crate::workspace::{ChoiceError, GetMcpHost, GetTools, Patience, Setup, Wish};

/// How long a line of shell in a template may take.
const SHELL_LIMIT: Duration = Duration::from_secs(120);

/// A command made to a prompt, as plugins see it.
#[derive(Serialize, Deserialize)]
struct Filled {
    parts: Vec<PartInput>,
}

/// What became of a command.
#[derive(Debug)]
pub struct Called {
    /// The prompt it was made to.
    pub prompt: MessageId,
    /// Hears of the turn's end.
    pub end: oneshot::Receiver<TurnEnd>,
    /// Whether it had been given before under its id: then nothing ran again.
    pub is_known: bool,
}

impl Runtime {
    /// Makes a command to a prompt and gives it to a session. Returns when that is stored. What the command's lines of
    /// shell print is fetched before. What is wrong with the command is told as `session.error`, too.
    pub async fn command(&self, id: &SessionId, body: CommandBody) -> Result<Called, CommandError> {
        if let Some(message_id) = &body.message_id
            && let Some(end) = self.given_before(id, message_id).await?
        {
            return Ok(Called { prompt: message_id.clone(), end, is_known: true });
        }
        let handle = self.session(id).await?;
        let setup = self.setup(Path::new(&*handle.directory)).await?;
        let info = self.store.session(id).await.map_err(|error| CommandError::Broken(error.to_string()))?;
        let wish = Wish { last_agent: info.and_then(|info| info.agent), ..Wish::default() };
        let made = self.make(id, &setup, body, wish).await;
        match made {
            Ok(prompt) => {
                let accepted = self.prompt(id, prompt).await?;
                let prompt = accepted.message.info.id().clone();
                let end = accepted.end.ok_or(CommandError::Unknown)?;
                Ok(Called { prompt, end, is_known: false })
            }
            Err(error) => {
                if matches!(error, CommandError::Choice(_) | CommandError::Invalid(_)) {
                    let error = SessionError::unknown(error.to_string());
                    self.tell(setup.origin.clone(), Event::SessionError { session_id: Some(id.clone()), error });
                }
                Err(error)
            }
        }
    }

    /// Tells that a command's turn has ended, with the message that is its answer.
    pub async fn command_executed(&self, id: &SessionId, name: String, arguments: String, message_id: MessageId) {
        let Ok(handle) = self.session(id).await else { return };
        if let Ok(setup) = self.setup(Path::new(&*handle.directory)).await {
            self.tell(
                setup.origin.clone(),
                Event::CommandExecuted { name, session_id: id.clone(), arguments, message_id },
            );
        }
    }

    /// Hears of the end of the turn that a command of this id began, if one did.
    async fn given_before(
        &self,
        id: &SessionId,
        message_id: &MessageId,
    ) -> Result<Option<oneshot::Receiver<TurnEnd>>, CommandError> {
        let broken = |error: storage::StorageError| CommandError::Broken(error.to_string());
        let Some(message) = self.store.message(id, message_id).await.map_err(broken)? else { return Ok(None) };
        let info: Value = serde_json::from_str(message.info.get()).unwrap_or_default();
        if info["role"] != "user" {
            return Err(CommandError::Taken(message_id.clone()));
        }
        let handle = self.session(id).await?;
        Ok(Some(handle.address.send(WaitTurn(message_id.clone())).await.map_err(|_| CommandError::Unknown)??))
    }

    async fn make(
        &self,
        id: &SessionId,
        setup: &Arc<Setup>,
        body: CommandBody,
        wish: Wish,
    ) -> Result<PromptBody, CommandError> {
        let command = &self.find(setup, &body.command).await?;
        let chosen = choose(setup, command, &body, &wish)?;
        let message_id = body.message_id.clone().unwrap_or_else(|| self.ids.message());
        let mut said = match command.source.as_deref() {
            Some("mcp") => self.ask_server(setup, command, &body.arguments).await?,
            _ => self.fill(id, &message_id, setup, command, &body.arguments).await,
        };
        let text = said.text.trim().to_owned();
        let parts = match chosen.subtask_model {
            Some(model) => vec![PartInputKind::Subtask(SubtaskPart {
                prompt: text,
                description: command.description.clone().unwrap_or_default(),
                agent: chosen.agent.clone(),
                model,
                command: Some(command.name.clone()),
            })]
            .into_iter()
            .map(|kind| PartInput { id: None, kind })
            .collect(),
            None => {
                let (setup, typed, home) = (setup.clone(), body.arguments.clone(), self.places.home.clone());
                let named = self.io.spawn_blocking(move || reference::parts(&said.own, &typed, &setup, &home));
                let named = named.await.map_err(|_| CommandError::Unknown)?;
                let kind = PartInputKind::Text { text, synthetic: None, ignored: None, time: None, metadata: None };
                let files = said.files.drain(..).map(|file| PartInput { id: None, kind: PartInputKind::File(file) });
                [PartInput { id: None, kind }].into_iter().chain(named).chain(files).chain(body.parts).collect()
            }
        };
        let input = json!({ "command": command.name, "sessionID": id, "arguments": body.arguments });
        let Filled { parts } = setup.plugins.change(Hook::CommandBefore, input, Filled { parts }).await;
        Ok(PromptBody {
            message_id: Some(message_id),
            model: chosen.model,
            agent: Some(chosen.answering),
            no_reply: None,
            tools: None,
            troupe: None,
            format: None,
            system: None,
            variant: body.variant.or_else(|| command.variant.clone()),
            parts,
        })
    }

    /// The command of a name: of the settings, of the skills, or of a server.
    async fn find(&self, setup: &Arc<Setup>, name: &str) -> Result<Command, CommandError> {
        if let Some(command) = setup.commands.iter().find(|command| command.name == name) {
            return Ok(command.clone());
        }
        let workspace = self.workspace(&setup.directory).await?;
        let tools = GetTools { patience: Patience::Step };
        let toolkit = workspace.send(tools).await.map_err(|_| CommandError::Unknown)?;
        let all = with_offered(&setup.commands, &toolkit.commands);
        let known = all.iter().map(|command| command.name.clone()).collect();
        let found = all.into_iter().find(|command| command.name == name);
        Ok(found.ok_or_else(|| ChoiceError::NoCommand { command: name.to_owned(), known })?)
    }

    /// What a server makes of one of its prompts. It runs nothing here and names no files: its words are a stranger's.
    async fn ask_server(&self, setup: &Setup, command: &Command, arguments: &str) -> Result<Said, CommandError> {
        let workspace = self.workspace(&setup.directory).await?;
        let host = workspace.send(GetMcpHost).await.map_err(|_| CommandError::Unknown)?;
        let fill = FillPrompt { command: command.name.clone(), words: template::words(arguments) };
        let filled = host.send(fill).await.map_err(|_| CommandError::Unknown)?;
        let filled = filled.map_err(|error| CommandError::Invalid(error.to_string()))?;
        Ok(Said { text: filled.text, own: String::new(), files: filled.files })
    }

    /// Fills a template in, and puts in what its lines of shell print.
    async fn fill(
        &self,
        id: &SessionId,
        message_id: &MessageId,
        setup: &Arc<Setup>,
        command: &Command,
        arguments: &str,
    ) -> Said {
        let mut said = Said::default();
        for piece in template::fill(&command.template, arguments) {
            match piece {
                Piece::Text(piece) => {
                    said.text.push_str(&piece);
                    said.own.push_str(&piece);
                }
                Piece::Shell(line) => {
                    said.text.push_str(&self.shell_output(id, message_id, setup, line).await);
                    said.own.push(' ');
                }
            }
        }
        said
    }

    /// Runs a line of shell of a template. What goes wrong with it is told in place of its output.
    async fn shell_output(&self, id: &SessionId, message_id: &MessageId, setup: &Arc<Setup>, line: String) -> String {
        let (id, message_id, place) = (id.clone(), message_id.clone(), setup.place.clone());
        let files = Files::of_session(&FileLocks::new());
        let http = self.http.client();
        let cx = persons_desk::context(id, message_id, place, files, self.processes.clone(), http);
        let cancel = cx.cancel.clone();
        let input = JsonMap::from_iter([("command".to_owned(), Value::from(line))]);
        let run = self.io.spawn(async move { AnyTool::run(&PersonsBash, input, &cx).await });
        tokio::pin!(run);
        let ended = tokio::select! {
            ended = &mut run => ended,
            () = tokio::time::sleep(SHELL_LIMIT) => {
                cancel.cancel();
                run.await
            }
        };
        match ended {
            Ok(Ok(output)) => output.metadata.get("output").and_then(Value::as_str).unwrap_or_default().to_owned(),
            Ok(Err(error)) => format!("Error executing command: {error}"),
            Err(_) => "Error executing command: it was given up".to_owned(),
        }
    }
}

/// What a command says.
#[derive(Default)]
struct Said {
    /// All of it.
    text: String,
    /// What of it may name files and agents: what shell prints and what servers say may be anybody's words.
    own: String,
    /// What comes with it.
    files: Vec<FilePart>,
}

/// Who does what a command asks for.
struct Choice {
    /// The command's agent.
    agent: String,
    /// The agent that answers the prompt: another one where the command is given to a subagent.
    answering: String,
    /// The model of the prompt, where somebody named one.
    model: Option<ModelRef>,
    /// Given to a subagent, and with which model.
    subtask_model: Option<Option<ModelRef>>,
}

fn choose(setup: &Setup, command: &Command, body: &CommandBody, wish: &Wish) -> Result<Choice, ChoiceError> {
    let of_command = command.agent.clone().flatten();
    let given = |agent: Option<String>| setup.agent_name(&Wish { agent, ..wish.clone() });
    let agent_name = given(of_command.clone().or_else(|| body.agent.clone()))?;
    let agent = setup.agent(&agent_name)?;
    let parse = |name: &String| ModelRef::parse(name).ok_or_else(|| ModelError::BadName(name.clone()));
    let asked = body.model.as_ref().map(parse).transpose()?;
    let own = command.model.as_ref().and_then(Option::as_ref).map(parse).transpose()?;
    let of_agent = of_command.as_ref().and_then(|_| agent.model.clone());
    let model = own.or(of_agent).or(asked.clone());
    if let Some(model) = &model {
        setup.catalogue.choose(model)?;
    }
    let subtask = command.subtask.flatten();
    if subtask == Some(true) || agent.mode == AgentMode::Subagent && subtask != Some(false) {
        let answering = given(body.agent.clone())?;
        return Ok(Choice { agent: agent_name, answering, model: asked, subtask_model: Some(model) });
    }
    Ok(Choice { answering: agent_name.clone(), agent: agent_name, model, subtask_model: None })
}
