//! The tools: each is a few requests to the runtime, and what is known afterwards. They keep nothing themselves.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client::{Client, ClientError, Events, SessionsQuery, Tree};
use futures::StreamExt;
use mcp::serve::Toolset;
use protocol::message::ModelRef;
use protocol::model::ToolSpec;
use protocol::permission::ReplyBody;
use protocol::prompt::{PartInput, PartInputKind, PromptBody};
use protocol::question::QuestionRequest;
use protocol::session::{CreateSession, SessionModel};
use protocol::{Event, Ids, JsonMap, PermissionId, PermissionRequest, QuestionId, Session, SessionId, SystemClock};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Keeper;
use super::inputs::{self as input, wait};
use super::view::{self, Known, State};

/// What agents are told about all tools.
const INSTRUCTIONS: &str = "Troupe runs coding-agent sessions: each reads, edits and runs things in one directory, \
    keeps its history, and works on while you do something else. Make a session with create_session, give it work \
    with prompt. A result's `state` says how it stands: `idle`: done, see `answer` or `error`; `working`: call status \
    with wait_seconds to wait on; `waiting`: decide what it lists under `permissions` and `questions` with \
    answer_permission and answer_question, else it waits for ever. Several sessions may work at once.";
/// Newest messages that are read to tell what a prompt was answered.
const RECENT: u32 = 30;
/// How often what could not be sent is sent again, and the wait in between.
const TRIES: u32 = 40;
const AGAIN: Duration = Duration::from_millis(250);

/// May a request be sent again if it is unknown whether it arrived?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// It changes nothing, or carries the id of what it makes.
    Harmless,
    /// It would be done twice.
    Never,
}

/// Sessions as tools.
pub struct Sessions {
    client: Client,
    /// Where sessions are made and listed; none: where the server says.
    directory: Option<PathBuf>,
    keeper: Keeper,
    ids: Ids,
    /// Nobody waits any more.
    closing: CancellationToken,
}

/// A session somebody works with.
struct Opened {
    session: Session,
    /// For its directory.
    client: Client,
}

impl Sessions {
    /// Returns the tools.
    pub fn new(client: Client, directory: Option<PathBuf>, keeper: Keeper, closing: CancellationToken) -> Self {
        let client = match &directory {
            Some(directory) => client.directory(directory),
            None => client,
        };
        Self { client, directory, keeper, ids: Ids::new(Arc::new(SystemClock), 0), closing }
    }

    async fn create(&self, input: input::CreateSession) -> Result<Value, String> {
        let client = self.client_for(input.directory.as_deref())?;
        let model = input.model.as_deref().map(model).transpose()?;
        let body = CreateSession {
            title: input.title,
            agent: input.agent,
            model: model.map(|model| SessionModel {
                id: model.model_id,
                provider_id: model.provider_id,
                variant: None,
            }),
            ..CreateSession::default()
        };
        let session = self.ask(Repeat::Never, || client.create_session(&body)).await?;
        Ok(json!({ "session_id": session.id, "title": session.title, "directory": session.directory }))
    }

    async fn prompt(&self, input: input::Prompt, cancel: &CancellationToken) -> Result<Value, String> {
        let opened = self.open(&input.session_id).await?;
        let kind = PartInputKind::Text { text: input.text, synthetic: None, ignored: None, time: None, metadata: None };
        let body = PromptBody {
            message_id: Some(self.ids.message()),
            agent: input.agent,
            model: input.model.as_deref().map(model).transpose()?,
            parts: vec![PartInput { id: None, kind }],
            ..PromptBody::default()
        };
        self.ask(Repeat::Harmless, || opened.client.prompt_async(&opened.session.id, &body)).await?;
        self.settled(&opened, wait(input.wait_seconds), cancel).await
    }

    async fn status(&self, input: input::Status, cancel: &CancellationToken) -> Result<Value, String> {
        let opened = self.open(&input.session_id).await?;
        self.settled(&opened, wait(Some(input.wait_seconds.unwrap_or_default())), cancel).await
    }

    async fn read(&self, input: input::ReadMessages) -> Result<Value, String> {
        let opened = self.open(&input.session_id).await?;
        let limit = input.limit.unwrap_or(10).clamp(1, 100);
        let messages = self.ask(Repeat::Harmless, || opened.client.messages(&opened.session.id, Some(limit))).await?;
        Ok(json!({ "session_id": opened.session.id, "messages": view::messages(&messages) }))
    }

    async fn answer_permission(
        &self,
        input: input::AnswerPermission,
        cancel: &CancellationToken,
    ) -> Result<Value, String> {
        let opened = self.open(&input.session_id).await?;
        let waiting = self.permissions(&opened).await?;
        let id = PermissionId::parse(&input.permission_id).ok();
        let Some(id) = id.filter(|id| waiting.iter().any(|request| request.id == *id)) else {
            let waiting = waiting.iter().map(|request| request.id.as_str());
            return Err(unknown("permission request", &input.permission_id, waiting));
        };
        let body = ReplyBody { reply: input.reply, message: input.message, scope: None };
        self.ask(Repeat::Never, || opened.client.reply_permission(&id, &body)).await?;
        self.settled(&opened, wait(input.wait_seconds), cancel).await
    }

    async fn answer_question(&self, input: input::AnswerQuestion, cancel: &CancellationToken) -> Result<Value, String> {
        let opened = self.open(&input.session_id).await?;
        let waiting = self.questions(&opened).await?;
        let id = QuestionId::parse(&input.question_id).ok();
        let Some(id) = id.filter(|id| waiting.iter().any(|request| request.id == *id)) else {
            let waiting = waiting.iter().map(|request| request.id.as_str());
            return Err(unknown("question", &input.question_id, waiting));
        };
        match &input.answers {
            Some(answers) => self.ask(Repeat::Never, || opened.client.reply_question(&id, answers)).await?,
            None => self.ask(Repeat::Never, || opened.client.reject_question(&id)).await?,
        }
        self.settled(&opened, wait(input.wait_seconds), cancel).await
    }

    async fn abort(&self, input: input::Abort) -> Result<Value, String> {
        let opened = self.open(&input.session_id).await?;
        self.ask(Repeat::Harmless, || opened.client.abort(&opened.session.id)).await?;
        Ok(self.look(&opened).await?.1)
    }

    async fn list(&self, input: input::ListSessions) -> Result<Value, String> {
        let client = self.client_for(input.directory.as_deref())?;
        let limit = input.limit.unwrap_or(20).clamp(1, 100);
        let query =
            SessionsQuery { is_roots: true, search: input.search, limit: Some(limit), ..SessionsQuery::default() };
        let statuses = self.ask(Repeat::Harmless, || client.statuses()).await?;
        let sessions = self.ask(Repeat::Harmless, || client.sessions(&query)).await?;
        let listed: Vec<Value> =
            sessions.iter().map(|session| view::listed(session, statuses.get(&session.id))).collect();
        Ok(json!({ "sessions": listed }))
    }

    /// Returns the client for a directory; a relative one lies below our own.
    fn client_for(&self, named: Option<&str>) -> Result<Client, String> {
        let Some(named) = named.filter(|named| !named.is_empty()) else { return Ok(self.client.clone()) };
        let Some(own) = &self.directory else { return Ok(self.client.clone().directory(Path::new(named))) };
        let path = own.join(named);
        match path.canonicalize() {
            Ok(found) if found.is_dir() => Ok(self.client.clone().directory(found)),
            Ok(_) => Err(format!("{} is no directory", path.display())),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    async fn open(&self, id: &str) -> Result<Opened, String> {
        let Ok(id) = SessionId::parse(id) else {
            return Err(format!("{id:?} is no session's id; list_sessions names those there are"));
        };
        let session = self.ask(Repeat::Harmless, || self.client.session(&id)).await?;
        self.keeper.used(session.id.clone()).await;
        Ok(Opened { client: self.client.clone().directory(&session.directory), session })
    }

    /// Waits until nothing of a session runs, or something waits for an answer, or the time is over.
    async fn settled(&self, opened: &Opened, limit: Duration, cancel: &CancellationToken) -> Result<Value, String> {
        let end = Instant::now() + limit;
        if limit.is_zero() {
            return Ok(self.look(opened).await?.1);
        }
        // What happens from here on is seen, so nothing is missed between a look and the next event.
        let mut events = self.ask(Repeat::Harmless, || opened.client.events()).await?;
        loop {
            let (state, told) = self.look(opened).await?;
            if state != State::Working || Instant::now() >= end {
                return Ok(told);
            }
            tokio::select! {
                () = cancel.cancelled() => return Err("nobody waits any more; the session works on".into()),
                () = self.closing.cancelled() => return Err("troupe is ending".into()),
                () = sleep_until(end) => {}
                news = self.news(opened, &mut events) => news?,
            }
        }
    }

    /// Waits for an event after which a session may stand otherwise.
    async fn news(&self, opened: &Opened, events: &mut Events) -> Result<(), String> {
        loop {
            match events.next().await {
                Some(Ok(frame)) => match &frame.event {
                    // Whose it is turns out at the look: it may be a subagent's.
                    Event::PermissionAsked(_) | Event::QuestionAsked(_) => return Ok(()),
                    Event::SessionIdle { session_id }
                    | Event::SessionStatus { session_id, .. }
                    | Event::SessionDeleted { session_id, .. }
                        if *session_id == opened.session.id =>
                    {
                        return Ok(());
                    }
                    event if Events::is_break(event) => return Ok(()),
                    _ => {}
                },
                Some(Err(error)) if error.is_gone() => return self.keeper.renew().await,
                Some(Err(error)) => return Err(error.to_string()),
                None => return Err("the event stream ended".into()),
            }
        }
    }

    /// Reads how a session stands.
    async fn look(&self, opened: &Opened) -> Result<(State, Value), String> {
        let id = &opened.session.id;
        // In this order: a turn that ends in between is then seen at work, and its end comes as an event.
        let statuses = self.ask(Repeat::Harmless, || opened.client.statuses()).await?;
        let permissions = self.permissions(opened).await?;
        let questions = self.questions(opened).await?;
        let messages = self.ask(Repeat::Harmless, || opened.client.messages(id, Some(RECENT))).await?;
        // It has a title meanwhile.
        let session = self.ask(Repeat::Harmless, || opened.client.session(id)).await?;
        let known = Known {
            session: &session,
            status: statuses.get(id),
            messages: &messages,
            permissions: &permissions,
            questions: &questions,
        };
        Ok((known.state(), known.told()))
    }

    async fn permissions(&self, opened: &Opened) -> Result<Vec<PermissionRequest>, String> {
        let all = self.ask(Repeat::Harmless, || opened.client.permissions()).await?;
        self.below(opened, all, |request| &request.session_id).await
    }

    async fn questions(&self, opened: &Opened) -> Result<Vec<QuestionRequest>, String> {
        let all = self.ask(Repeat::Harmless, || opened.client.questions()).await?;
        self.below(opened, all, |request| &request.session_id).await
    }

    /// Keeps what a session or one of its subagents asks.
    async fn below<T>(
        &self,
        opened: &Opened,
        asked: Vec<T>,
        session: impl Fn(&T) -> &SessionId + Send,
    ) -> Result<Vec<T>, String>
    where
        T: Send + Sync,
    {
        let mut tree = Tree::default();
        tree.add(&opened.session);
        let mut kept = Vec::new();
        for request in asked {
            let asking = session(&request).clone();
            if tree.find(&opened.client, &asking, &opened.session.id).await.map_err(|error| error.to_string())? {
                kept.push(request);
            }
        }
        Ok(kept)
    }

    /// Asks the runtime; where it is gone, waits for its successor, which may be this process.
    async fn ask<T, F>(&self, repeat: Repeat, request: impl Fn() -> F + Send) -> Result<T, String>
    where
        T: Send,
        F: Future<Output = Result<T, ClientError>> + Send,
    {
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match request().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let is_undone = matches!(error, ClientError::Unreachable { .. }) || error.status() == Some(503);
            if tries >= TRIES || !(is_undone || error.is_gone() && repeat == Repeat::Harmless) {
                return Err(error.to_string());
            }
            if error.is_gone() {
                self.keeper.renew().await?;
            }
            sleep(AGAIN).await;
        }
    }
}

impl Toolset for Sessions {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![
            tool::<input::CreateSession>(
                "create_session",
                "Makes a session: a coding agent with a history of its own, at work in one directory.",
            ),
            tool::<input::Prompt>(
                "prompt",
                "Gives a session work and waits for the end of its turn, or until it needs a decision, or until the \
                time is over. A session that works already takes the prompt up at its next step.",
            ),
            tool::<input::Status>(
                "status",
                "Tells how a session stands: idle, working or waiting for a decision, what it waits for, and what the \
                newest prompt was answered so far.",
            ),
            tool::<input::ReadMessages>(
                "read_messages",
                "Reads the newest messages of a session, with its tool calls and what came of them, shortened.",
            ),
            tool::<input::AnswerPermission>(
                "answer_permission",
                "Decides a permission request of a session or its subagents, and waits for what comes of it.",
            ),
            tool::<input::AnswerQuestion>(
                "answer_question",
                "Answers a question of a session or its subagents, and waits for what comes of it.",
            ),
            tool::<input::Abort>("abort", "Stops what a session does, its subagents with it. The session stays."),
            tool::<input::ListSessions>("list_sessions", "Lists the sessions of a directory, the last prompted first."),
        ]
    }

    fn instructions(&self) -> &str {
        INSTRUCTIONS
    }

    async fn call(&self, tool: &str, arguments: JsonMap, cancel: CancellationToken) -> Result<Value, String> {
        match tool {
            "create_session" => self.create(read(tool, arguments)?).await,
            "prompt" => self.prompt(read(tool, arguments)?, &cancel).await,
            "status" => self.status(read(tool, arguments)?, &cancel).await,
            "read_messages" => self.read(read(tool, arguments)?).await,
            "answer_permission" => self.answer_permission(read(tool, arguments)?, &cancel).await,
            "answer_question" => self.answer_question(read(tool, arguments)?, &cancel).await,
            "abort" => self.abort(read(tool, arguments)?).await,
            "list_sessions" => self.list(read(tool, arguments)?).await,
            _ => Err(format!("there is no tool {tool:?}")),
        }
    }
}

fn tool<T: JsonSchema>(name: &str, description: &str) -> ToolSpec {
    ToolSpec { name: name.into(), description: description.into(), parameters: tools::tool::schema::<T>() }
}

fn read<T: DeserializeOwned>(tool: &str, arguments: JsonMap) -> Result<T, String> {
    tools::tool::arguments(tool, Value::Object(arguments)).map_err(|error| error.to_string())
}

fn model(name: &str) -> Result<ModelRef, String> {
    ModelRef::parse(name).ok_or_else(|| format!("{name:?} is no model: name it as PROVIDER/MODEL"))
}

fn unknown<'a>(what: &str, named: &str, waiting: impl Iterator<Item = &'a str>) -> String {
    let waiting: Vec<&str> = waiting.collect();
    match waiting.is_empty() {
        true => format!("no {what} of this session waits (any more): {named:?} is answered, or was never asked"),
        false => format!("no {what} {named:?} waits; these do: {}", waiting.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> Sessions {
        let client = Client::tcp("http://127.0.0.1:1").expect("a client");
        let (sender, _) = tokio::sync::mpsc::channel(1);
        Sessions::new(client, Some("/".into()), Keeper(sender), CancellationToken::new())
    }

    #[test]
    fn each_tool_says_what_it_takes() {
        for spec in sessions().tools() {
            assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
            for (name, property) in spec.parameters["properties"].as_object().expect("properties") {
                let about = property["description"].as_str().unwrap_or_default();
                assert!(!about.is_empty() && property["type"].is_string(), "{}.{name}: {property}", spec.name);
            }
        }
    }

    #[tokio::test]
    async fn wrong_arguments_are_told() {
        let sessions = sessions();
        let call = async |tool: &str, arguments: Value| {
            let Value::Object(arguments) = arguments else { unreachable!() };
            sessions.call(tool, arguments, CancellationToken::new()).await.expect_err("wrong")
        };
        let said = call("prompt", json!({ "session_id": "ses_1" })).await;
        assert!(said.contains("text"), "{said}");
        let said = call("prompt", json!({ "session_id": "../x", "text": "hi" })).await;
        assert!(said.contains("list_sessions"), "{said}");
        let said = call("status", json!({ "session": "ses_1" })).await;
        assert!(said.contains("session"), "{said}");
        let said = call("create_session", json!({ "directory": "no/such" })).await;
        assert!(said.contains("/no/such"), "{said}");
        let said = call("create_session", json!({ "model": "gpt" })).await;
        assert!(said.contains("PROVIDER/MODEL"), "{said}");
    }
}
