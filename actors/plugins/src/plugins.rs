//! What the rest of the runtime holds of a directory's plugins: a handle that is cheap to clone, and that costs nothing
//! where there are none.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tools::AnyTool;
use tools::process::Processes;

use crate::hook::{Hook, Outcome, Problem, Refused};
use crate::sidecar::{RequestError, Sidecar, Start, StartError};
use crate::tool::ModuleTool;

/// Problems that wait to be heard of.
const QUEUE: usize = 64;

/// A directory's plugins: their hooks and tools, whichever process runs them just now.
#[derive(Clone, Default)]
pub struct Plugins(Option<Arc<Line>>);

struct Line {
    state: watch::Receiver<State>,
    notices: Notices,
}

/// How a directory's plugins are.
#[derive(Clone, Default)]
pub enum State {
    /// They are being loaded.
    #[default]
    Starting,
    /// They can be used.
    Ready(Loaded),
    /// Their process is gone, and the next one is being started.
    Restarting(Loaded),
    /// Their process is not started again until something changes; why.
    Parked(Loaded, Arc<str>),
}

impl State {
    fn loaded(&self) -> Option<&Loaded> {
        match self {
            Self::Starting => None,
            Self::Ready(loaded) | Self::Restarting(loaded) | Self::Parked(loaded, _) => Some(loaded),
        }
    }
}

/// What was loaded.
#[derive(Clone, Default)]
pub struct Loaded {
    /// All tools: of programs and of modules.
    pub tools: Arc<Vec<Arc<dyn AnyTool>>>,
    /// What runs the modules; none where there are only programs, or no Node and no Bun.
    pub sidecar: Option<Sidecar>,
}

/// Something a person should hear of: a plugin that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The file or plugin.
    pub source: String,
    /// What went wrong.
    pub message: String,
}

/// Where notices go: to whoever logs and shows them. A listener that is far behind loses some.
#[derive(Clone, Debug)]
pub struct Notices(mpsc::Sender<Notice>);

impl Notices {
    /// Returns a line for notices and its other end.
    pub fn new() -> (Self, mpsc::Receiver<Notice>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        (Self(sender), receiver)
    }

    /// Passes a notice on.
    pub fn tell(&self, source: &str, message: impl Into<String>) {
        let notice = Notice { source: source.to_owned(), message: message.into() };
        if let Err(unheard) = self.0.try_send(notice) {
            let Notice { source, message } = unheard.into_inner();
            tracing::debug!(plugin = %source, problem = %message, "a plugin failed, as many do just now");
        }
    }
}

/// Starts a sidecar whose problems are told.
pub async fn start(start: Start, processes: &Processes, notices: &Notices) -> Result<Sidecar, StartError> {
    let (sender, mut problems) = mpsc::channel::<Problem>(QUEUE);
    let notices = notices.clone();
    tokio::spawn({
        let notices = notices.clone();
        async move {
            while let Some(Problem { plugin, message, name }) = problems.recv().await {
                notices.tell(&plugin, format!("its hook {} failed: {message}", name.unwrap_or_default()));
            }
        }
    });
    let sidecar = Sidecar::start(start, processes, sender).await?;
    for failed in &sidecar.contents().failed {
        notices.tell(&failed.source, failed.message.clone());
    }
    Ok(sidecar)
}

impl Plugins {
    /// Returns the handle of a directory without plugins.
    pub fn none() -> Self {
        Self(None)
    }

    /// Returns whether it is the handle of a directory without plugins.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns a handle that follows `state`.
    pub fn new(state: watch::Receiver<State>, notices: Notices) -> Self {
        Self(Some(Arc::new(Line { state, notices })))
    }

    /// Waits until they are loaded, for at most so long.
    pub async fn ready(&self, limit: Duration) {
        let Some(line) = &self.0 else { return };
        let mut state = line.state.clone();
        // One that takes longer is not waited for; it joins when it is there.
        let _ = tokio::time::timeout(limit, state.wait_for(|state| !matches!(state, State::Starting))).await;
    }

    /// Waits for a sidecar that can be used, for at most so long. Errors with why there is none.
    pub(crate) async fn sidecar_within(&self, limit: Duration) -> Result<Sidecar, String> {
        let Some(line) = &self.0 else { return Err("there are no plugins here any more".to_owned()) };
        let mut state = line.state.clone();
        let settled = state.wait_for(|state| matches!(state, State::Ready(_) | State::Parked(..)));
        let settled = tokio::time::timeout(limit, settled).await.map(|state| state.map(|state| state.clone()));
        match settled {
            Ok(Ok(State::Ready(Loaded { sidecar: Some(sidecar), .. }))) => Ok(sidecar.clone()),
            Ok(Ok(State::Parked(_, why))) => Err(why.to_string()),
            Ok(Ok(_)) => Err("nothing runs the modules of this directory any more".to_owned()),
            _ => Err("its process is being started again; call it again in a moment".to_owned()),
        }
    }

    /// Returns all tools there are just now.
    pub fn tools(&self) -> Arc<Vec<Arc<dyn AnyTool>>> {
        let Some(line) = &self.0 else { return Arc::default() };
        line.state.borrow().loaded().map(|loaded| loaded.tools.clone()).unwrap_or_default()
    }

    /// Returns the tools of a sidecar.
    pub fn tools_of(&self, sidecar: &Sidecar) -> Vec<Arc<dyn AnyTool>> {
        let definitions = sidecar.contents().tools.iter().cloned();
        definitions.map(|definition| Arc::new(ModuleTool::new(definition, self.clone())) as Arc<dyn AnyTool>).collect()
    }

    /// Returns whether a plugin has a hook.
    pub fn has(&self, hook: Hook) -> bool {
        self.0.as_ref().is_some_and(|line| match &*line.state.borrow() {
            State::Ready(Loaded { sidecar: Some(sidecar), .. }) => sidecar.count(hook) > 0,
            _ => false,
        })
    }

    /// Returns the running sidecar.
    pub(crate) fn sidecar(&self) -> Option<Sidecar> {
        match &*self.0.as_ref()?.state.borrow() {
            State::Ready(loaded) => loaded.sidecar.clone(),
            _ => None,
        }
    }

    /// Runs a hook; returns its output, which is `output` itself where nothing changes it or where what plugins made of
    /// it makes no sense.
    pub async fn change<T: Serialize + DeserializeOwned>(&self, hook: Hook, input: impl Serialize, output: T) -> T {
        let mut outputs = self.change_each(hook, vec![(input, output)]).await;
        // As many come back as went in.
        outputs.swap_remove(0)
    }

    /// Runs a hook for several outputs, in one go.
    pub async fn change_each<I: Serialize, T: Serialize + DeserializeOwned>(
        &self,
        hook: Hook,
        calls: Vec<(I, T)>,
    ) -> Vec<T> {
        if calls.is_empty() || !self.has(hook) {
            return calls.into_iter().map(|(_, output)| output).collect();
        }
        let values: Result<Vec<(Value, Value)>, _> = calls
            .iter()
            .map(|(input, output)| Ok((serde_json::to_value(input)?, serde_json::to_value(output)?)))
            .collect();
        let originals = calls.into_iter().map(|(_, output)| output);
        let outcome = match values {
            Ok(values) => self.run(hook, &values).await,
            Err(error) => {
                let _: serde_json::Error = error;
                return originals.collect();
            }
        };
        let mut changed = outcome.outputs.into_iter();
        originals
            .map(|original| match changed.next().map(serde_json::from_value) {
                Some(Ok(changed)) => changed,
                Some(Err(error)) => {
                    self.tell(hook.as_str(), format!("what plugins made of it can't be used: {error}"));
                    original
                }
                None => original,
            })
            .collect()
    }

    /// Asks the plugins about a call. Returns its arguments as they want them.
    pub async fn before_call(&self, input: impl Serialize, args: Value) -> Result<Value, Refused> {
        if !self.has(Hook::ToolBefore) {
            return Ok(args);
        }
        let input = serde_json::to_value(input).unwrap_or_default();
        let output = serde_json::json!({ "args": args });
        let mut outcome = self.run(Hook::ToolBefore, &[(input, output)]).await;
        if let Some(refused) = outcome.refused {
            return Err(refused);
        }
        let changed = outcome.outputs.first_mut().and_then(|output| output.get_mut("args")).map(Value::take);
        Ok(changed.filter(Value::is_object).unwrap_or(args))
    }

    /// Tells the plugins of an event.
    pub fn event(&self, event: &Value) {
        if self.has(Hook::Event)
            && let Some(sidecar) = self.sidecar()
        {
            sidecar.event(event);
        }
    }

    async fn run(&self, hook: Hook, calls: &[(Value, Value)]) -> Outcome {
        let Some(sidecar) = self.sidecar() else { return Outcome::default() };
        match sidecar.hook(hook, calls).await {
            Ok(outcome) => {
                for Problem { plugin, message, .. } in &outcome.problems {
                    self.tell(plugin, format!("its hook {} failed: {message}", hook.as_str()));
                }
                outcome
            }
            Err(error) => {
                let source = match &error {
                    RequestError::Ended(ending) => ending.at.as_ref().map(|at| at.plugin.clone()),
                    _ => None,
                };
                let source = source.unwrap_or_else(|| hook.as_str().to_owned());
                self.tell(&source, format!("the hook {} was passed over: {error}", hook.as_str()));
                Outcome::default()
            }
        }
    }

    fn tell(&self, source: &str, message: String) {
        if let Some(line) = &self.0 {
            line.notices.tell(source, message);
        }
    }
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.as_ref().map(|line| match &*line.state.borrow() {
            State::Starting => "starting",
            State::Ready(_) => "ready",
            State::Restarting(_) => "restarting",
            State::Parked(..) => "parked",
        });
        f.debug_tuple("Plugins").field(&state.unwrap_or("none")).finish()
    }
}
