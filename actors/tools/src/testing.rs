//! A stand-in for what is above the tools: it writes down what a tool asks for and answers by a closure.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use protocol::question::{Answers, Question};
use protocol::{CallId, MessageId, SessionId, Todo};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::context::{Ask, Delegated, Delegation, Desk, Effects, Place, Progress, Refusal, ToolContext};
use crate::diagnostics::Diagnosed;
use crate::error::ToolError;
use crate::files::Files;
use crate::lsp::LanguageQuestion;
use crate::process::{ProcessGroup, Processes};

/// What happened at the desk, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Noted {
    Asked(Ask),
    Questioned(Vec<Question>),
    Began,
    Progressed(Progress),
    Todos(Vec<Todo>),
    Edited(PathBuf),
    Gave(Delegation),
    HandedOver(String, String),
    Started(ProcessGroup),
    Ended(ProcessGroup),
}

type Verdict = Box<dyn Fn(&Ask) -> Result<(), Refusal> + Send + Sync>;

/// A desk that allows everything unless told otherwise.
pub(crate) struct FakeDesk {
    noted: Mutex<Vec<Noted>>,
    verdict: Mutex<Verdict>,
    answers: Mutex<Result<Answers, Refusal>>,
    diagnosed: Mutex<Diagnosed>,
    questions: Mutex<Vec<LanguageQuestion>>,
}

impl FakeDesk {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            noted: Mutex::default(),
            verdict: Mutex::new(Box::new(|_| Ok(()))),
            answers: Mutex::new(Err(Refusal::Dismissed)),
            diagnosed: Mutex::default(),
            questions: Mutex::default(),
        })
    }

    /// Answers asks from now on.
    pub(crate) fn judge(&self, verdict: impl Fn(&Ask) -> Result<(), Refusal> + Send + Sync + 'static) {
        *lock(&self.verdict) = Box::new(verdict);
    }

    /// Answers questions from now on.
    pub(crate) fn answer(&self, answers: Result<Answers, Refusal>) {
        *lock(&self.answers) = answers;
    }

    /// Has language servers say this of whatever is written from now on.
    pub(crate) fn say(&self, diagnosed: Diagnosed) {
        *lock(&self.diagnosed) = diagnosed;
    }

    /// Returns the questions to language servers so far.
    pub(crate) fn questions(&self) -> Vec<LanguageQuestion> {
        lock(&self.questions).clone()
    }

    /// Returns what happened so far.
    pub(crate) fn noted(&self) -> Vec<Noted> {
        lock(&self.noted).clone()
    }

    /// Returns the asks so far.
    pub(crate) fn asks(&self) -> Vec<Ask> {
        self.noted().into_iter().filter_map(|n| if let Noted::Asked(ask) = n { Some(ask) } else { None }).collect()
    }

    /// Returns how often effects began.
    pub(crate) fn begun(&self) -> usize {
        self.noted().iter().filter(|n| matches!(n, Noted::Began)).count()
    }

    fn note(&self, what: Noted) {
        lock(&self.noted).push(what);
    }
}

impl Desk for FakeDesk {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<(), Refusal>> {
        let verdict = (lock(&self.verdict))(&ask);
        self.note(Noted::Asked(ask));
        Box::pin(async { verdict })
    }

    fn question(&self, questions: Vec<Question>) -> BoxFuture<'_, Result<Answers, Refusal>> {
        self.note(Noted::Questioned(questions));
        let answers = lock(&self.answers).clone();
        Box::pin(async { answers })
    }

    fn begin(&self) -> BoxFuture<'_, Result<Effects, ToolError>> {
        self.note(Noted::Began);
        Box::pin(async { Ok(Effects::stored()) })
    }

    fn progress(&self, progress: Progress) {
        self.note(Noted::Progressed(progress));
    }

    fn todos(&self, todos: Vec<Todo>) -> BoxFuture<'_, Result<(), ToolError>> {
        self.note(Noted::Todos(todos));
        Box::pin(async { Ok(()) })
    }

    fn todo_list(&self) -> BoxFuture<'_, Result<Vec<Todo>, ToolError>> {
        let last =
            self.noted().into_iter().rev().find_map(|n| if let Noted::Todos(todos) = n { Some(todos) } else { None });
        Box::pin(async { Ok(last.unwrap_or_default()) })
    }

    fn hand_over<'a>(&'a self, agent: &'a str, message: String) -> BoxFuture<'a, Result<(), ToolError>> {
        self.note(Noted::HandedOver(agent.to_owned(), message));
        Box::pin(async { Ok(()) })
    }

    fn file_edited(&self, path: &Path) {
        self.note(Noted::Edited(path.to_owned()));
    }

    fn diagnose(&self, _: Vec<PathBuf>) -> BoxFuture<'_, Diagnosed> {
        let diagnosed = lock(&self.diagnosed).clone();
        Box::pin(async { diagnosed })
    }

    fn ask_language_servers(&self, question: LanguageQuestion) -> BoxFuture<'_, Result<Vec<Value>, ToolError>> {
        lock(&self.questions).push(question);
        Box::pin(async { Ok(Vec::new()) })
    }

    fn delegate(&self, delegation: Delegation) -> BoxFuture<'_, Result<Delegated, ToolError>> {
        let delegated = Delegated {
            session_id: SessionId::parse("ses_child").unwrap(),
            answer: Ok(format!("answer to {}", delegation.prompt)),
        };
        self.note(Noted::Gave(delegation));
        Box::pin(async { Ok(delegated) })
    }

    fn process_started(&self, group: ProcessGroup) {
        self.note(Noted::Started(group));
    }

    fn process_ended(&self, group: ProcessGroup) {
        self.note(Noted::Ended(group));
    }
}

/// Returns a call's context in `directory`, which counts as a repository's top, and its desk.
pub(crate) fn context(directory: &Path) -> (ToolContext, Arc<FakeDesk>) {
    let desk = FakeDesk::new();
    let place = Place {
        directory: directory.to_owned(),
        worktree: directory.to_owned(),
        is_repository: true,
        spill: directory.join(".spill-of-tests"),
        config: Arc::default(),
    };
    // Fails when another test was faster, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cx = ToolContext {
        session_id: SessionId::parse("ses_test").unwrap(),
        message_id: MessageId::parse("msg_test").unwrap(),
        call_id: CallId::new("call_test"),
        agent: "build".to_owned(),
        place: Arc::new(place),
        desk: desk.clone(),
        cancel: CancellationToken::new(),
        files: Files::default(),
        processes: Processes::none(),
        // As the process's own, it follows no redirect to another host.
        http: reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap(),
        plan: directory.join(".opencode/plans/plan.md"),
    };
    (cx, desk)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that a tool's schema says all that `wanted` says, and has no other properties.
#[track_caller]
pub(crate) fn assert_schema(got: &serde_json::Value, wanted: &serde_json::Value) {
    match (got, wanted) {
        (Value::Object(got), Value::Object(wanted)) => {
            for (key, value) in wanted {
                let Some(other) = got.get(key) else { panic!("{key} is missing in {got:?}") };
                if key == "properties" {
                    let names = |value: &Value| {
                        let mut names: Vec<String> =
                            value.as_object().into_iter().flatten().map(|(k, _)| k.clone()).collect();
                        names.sort();
                        names
                    };
                    assert_eq!(names(other), names(value));
                }
                assert_schema(other, value);
            }
        }
        _ => assert_eq!(got, wanted),
    }
}
