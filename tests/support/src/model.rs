//! A model vendor on a loopback port that speaks OpenAI chat completions and answers what the test wrote. Other
//! formats are the test's own affair: see [`ScriptedModel::post`].
//!
//! It runs on a thread of its own, so a test that blocks or pauses tokio's clock doesn't stop it.

mod gate;
mod http;
mod inline;
pub mod legal;
mod request;
mod script;
mod step;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

pub use gate::Gate;
pub use request::{Outcome, Request};
pub use step::{At, Call, Piece, Step, Usage, call};

use crate::PATIENCE;
use script::Scripts;

/// A scripted model. Dropping it stops it, and fails the test if a request was illegal and nobody has looked.
///
/// Which script answers a request is told by a *needle*, a text in the newest user message that holds one, so many
/// sessions can use one model side by side. Step k of the script answers the request that has k assistant messages
/// after that user message, the last step all later ones too: a request that is tried again gets the same step. A
/// prompt may also carry its steps itself, as `SCRIPT:[{"text":"hi"}]`. Requests without tools (titles, summaries)
/// get a fixed short text, others without a script a greeting.
#[derive(Debug)]
pub struct ScriptedModel {
    address: std::net::SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    scripts: Scripts,
    pages: HashMap<String, Step>,
    posts: HashMap<String, Posts>,
    requests: Vec<Request>,
    faults: Vec<String>,
    most_open: usize,
}

/// What is posted to a path of another vendor's.
#[derive(Debug)]
struct Posts {
    steps: Vec<Step>,
    requests: Vec<Request>,
}

impl ScriptedModel {
    /// Starts a model on a free port of 127.0.0.1.
    pub async fn start() -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a non-blocking socket");
        let address = listener.local_addr().expect("the socket's address");
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let served = shared.clone();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, served) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("scripted-model".into()).spawn(run).expect("a thread");
        let model = Self { address, shared, stop: Some(stop), thread: Some(thread) };
        let html = "<html><head><title>T</title></head><body><h1>Hi</h1>\
                    <p>para <b>bold</b> <a href='/x'>link</a></p></body></html>";
        model.page("/page", Step::raw([html]).header("content-type", "text/html; charset=utf-8"));
        model.page("/page.json", Step::raw([r#"{"a":1}"#]).header("content-type", "application/json"));
        let list = r#"{"object":"list","data":[{"id":"mock","object":"model"}]}"#;
        model.page("/v1/models", Step::raw([list]).header("content-type", "application/json"));
        model
    }

    /// Returns the vendor's base url, `http://127.0.0.1:PORT/v1`.
    pub fn base_url(&self) -> String {
        self.url("/v1")
    }

    /// Returns the url of a path on this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Answers prompts that hold `needle` with these steps. The same needle again replaces its script.
    pub fn script(&self, needle: impl Into<String>, steps: impl IntoIterator<Item = Step>) -> &Self {
        self.shared.lock().scripts.add_turn(needle.into(), steps.into_iter().collect());
        self
    }

    /// Answers requests without tools (titles, summaries of a compaction) that hold `needle` anywhere: the first gets
    /// the first step, and so on; the last step answers all later ones.
    pub fn script_side(&self, needle: impl Into<String>, steps: impl IntoIterator<Item = Step>) -> &Self {
        self.shared.lock().scripts.add_side(needle.into(), steps.into_iter().collect());
        self
    }

    /// Answers other requests for this path (`/page`, `/page.json` are there already; what isn't is 404).
    pub fn page(&self, path: impl Into<String>, step: Step) -> &Self {
        self.shared.lock().pages.insert(path.into(), step);
        self
    }

    /// Answers what is posted to this path, in another vendor's format, with these raw steps: one each, the last one all
    /// later ones too. Which step it is goes by the number of the request alone, and nothing is checked of it.
    pub fn post(&self, path: impl Into<String>, steps: impl IntoIterator<Item = Step>) -> &Self {
        let posts = Posts { steps: steps.into_iter().collect(), requests: Vec::new() };
        self.shared.lock().posts.insert(path.into(), posts);
        self
    }

    /// Returns what was posted to such a path so far.
    pub fn posted(&self, path: &str) -> Vec<Request> {
        self.shared.lock().posts.get(path).map(|posts| posts.requests.clone()).unwrap_or_default()
    }

    /// Waits for the `count`-th request to such a path.
    pub async fn wait_for_posts(&self, path: &str, count: usize) {
        let posted = |state: &State| state.posts.get(path).map_or(0, |posts| posts.requests.len());
        self.wait(&format!("{count} posts to {path}"), |state| (posted(state) >= count).then_some(())).await;
    }

    /// Returns the requests of turns (they offer tools) so far, in the order they came.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.iter().filter(|request| request.has_tools()).cloned().collect()
    }

    /// Returns the requests of turns that the script of this needle answered.
    pub fn requests_for(&self, needle: &str) -> Vec<Request> {
        let named = |request: &Request| request.step.as_ref().is_some_and(|(name, _)| name == needle);
        self.requests().into_iter().filter(named).collect()
    }

    /// Returns the requests without tools (titles, summaries) so far.
    pub fn side_requests(&self) -> Vec<Request> {
        self.shared.lock().requests.iter().filter(|request| !request.has_tools()).cloned().collect()
    }

    /// Returns how many requests are being answered.
    pub fn open_requests(&self) -> usize {
        open(&self.shared.lock().requests)
    }

    /// Returns how many requests were being answered at once at most.
    pub fn most_open_requests(&self) -> usize {
        self.shared.lock().most_open
    }

    /// Waits for the `count`-th request of a turn, and returns all so far.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<Request> {
        self.wait(&format!("{count} requests"), |state| {
            let turns: Vec<_> = state.requests.iter().filter(|request| request.has_tools()).collect();
            (turns.len() >= count).then(|| turns.into_iter().cloned().collect())
        })
        .await
    }

    /// Waits for the `count`-th request without tools, and returns all so far.
    pub async fn wait_for_side_requests(&self, count: usize) -> Vec<Request> {
        self.wait(&format!("{count} requests without tools"), |state| {
            let sides: Vec<_> = state.requests.iter().filter(|request| !request.has_tools()).collect();
            (sides.len() >= count).then(|| sides.into_iter().cloned().collect())
        })
        .await
    }

    /// Waits until the client has gone away from `count` answers before their end.
    pub async fn wait_for_dropped(&self, count: usize) {
        self.wait(&format!("{count} dropped answers"), |state| {
            let dropped = state.requests.iter().filter(|request| request.outcome == Outcome::Dropped).count();
            (dropped >= count).then_some(())
        })
        .await;
    }

    /// Fails if a request so far was illegal (see [`legal`]).
    pub fn assert_legal(&self) {
        let faults = self.take_faults();
        assert!(faults.is_empty(), "the model got illegal requests:\n{}", faults.join("\n"));
    }

    /// Returns what was illegal so far, and forgets it: for tests that are about just that.
    pub fn take_faults(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().faults)
    }

    async fn wait<T>(&self, what: &str, ready: impl Fn(&State) -> Option<T>) -> T {
        let mut changed = self.shared.changed.subscribe();
        let waiting = async {
            loop {
                if let Some(value) = ready(&self.shared.lock()) {
                    return value;
                }
                // The sender lives in `self`, so the channel can't close.
                let _ = changed.changed().await;
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(value) => value,
            Err(_) => panic!("waited {PATIENCE:?} for {what}; the model has seen:\n{}", self.seen()),
        }
    }

    /// Returns a line for each request.
    fn seen(&self) -> String {
        let state = self.shared.lock();
        let line = |(i, request): (usize, &Request)| {
            let kind = if request.has_tools() { "turn" } else { "side" };
            let step = request.step.as_ref().map(|(needle, number)| format!("step {number} of {needle:?}"));
            let last = request.messages().last().map(|message| shortened(&message.to_string()));
            format!(
                "  {i}: {kind}, {:?}, {}, last message {}",
                request.outcome,
                step.unwrap_or_default(),
                last.unwrap_or_default()
            )
        };
        state.requests.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the scripted model's thread panicked");
        }
        if !std::thread::panicking() {
            self.assert_legal();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half-done by a panic of a test that held it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request and returns the step that answers it, with the request's number.
    fn take(&self, mut request: Request) -> (Step, usize) {
        let mut state = self.lock();
        let number = state.requests.len();
        let choice = state.scripts.choose(&request);
        let faults = legal::faults(&request.body).into_iter().chain(choice.fault);
        state.faults.extend(faults.map(|fault| format!("  request {number}: {fault}")));
        request.step = choice.name;
        state.requests.push(request);
        state.most_open = state.most_open.max(open(&state.requests));
        drop(state);
        self.changed.send_replace(());
        (choice.step, number)
    }

    fn settle(&self, number: usize, outcome: Outcome) {
        if let Some(request) = self.lock().requests.get_mut(number) {
            request.outcome = outcome;
        }
        self.changed.send_replace(());
    }

    /// Records a request in another vendor's format and returns the step that answers it; none if nobody speaks it.
    fn posted(&self, path: &str, request: Request) -> Option<Step> {
        let mut state = self.lock();
        let posts = state.posts.get_mut(path)?;
        let step = posts.steps.get(posts.requests.len()).or(posts.steps.last()).cloned();
        posts.requests.push(request);
        drop(state);
        self.changed.send_replace(());
        step
    }

    fn page(&self, path: &str) -> Option<Step> {
        self.lock().pages.get(path).cloned()
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("a socket tokio can use");
    // Dropped with this future, and all open connections with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((socket, _)) = accepted {
                    connections.spawn(http::serve(socket, shared.clone()));
                }
            }
            Some(ended) = connections.join_next() => {
                // A broken socket is the client's affair, a panic is ours.
                if let Err(panic) = ended {
                    std::panic::resume_unwind(panic.into_panic());
                }
            }
        }
    }
}

fn open(requests: &[Request]) -> usize {
    requests.iter().filter(|request| request.outcome == Outcome::Open).count()
}

/// Returns a number that is new in this process, so that ids are unique across the models of a test.
fn serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the beginning of a text.
pub(crate) fn shortened(text: &str) -> String {
    const LONGEST: usize = 200;
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", text.split_at(at).0),
        None => text.to_owned(),
    }
}
