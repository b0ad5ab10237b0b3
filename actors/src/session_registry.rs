//! Knows which sessions are live and where; starts them on the least loaded arbiter, puts idle ones away, takes note
//! of crashes. Also knows the workspaces in use.
//! Asked by: the HTTP edge. Told by: sessions, supervisors. Talks to: sessions.
//!
//! - The edge reads [`Directory`] without asking; only the registry writes it.
//! - One live actor an id: a session leaves by the registry alone, which takes it out of the directory first; a
//!   successor starts only after it has exited or was given up.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use actix::prelude::*;
use protocol::{Session as Info, SessionId, SessionStatus};
use storage::{Change, Record, Store};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::Instant;

mod directory;
mod recover;
mod report;
mod sweep;
mod turn;

pub use directory::{Directory, SessionHandle};
pub use recover::Recover;
pub use report::{ActorReport, Crash, GetReport, Report};
pub use sweep::{Leave, Quiet};
pub use turn::{AwaitTurn, LastWords, Until, last_words};

use crate::session::{
    Abort, CommandError, Delete, RegistryLine, Session, SessionDeps, Start, StopReason, TakeIn, TellOpenParts,
};
use crate::supervisor::{self, Fate, FateKind, FateLine, Intensity, Name};
use crate::workspace::{InUse, Workspace, WorkspaceDeps};

/// Most commands that wait for one session; the edge gives out the places.
pub const PLACES: usize = 64;
/// Most messages in a session's mailbox: the edge's, and those of its own unit.
const MAILBOX: usize = 1024;
/// Where is this session? Started where it isn't live; it must be stored.
#[derive(Message)]
#[rtype(result = "Result<SessionHandle, CommandError>")]
pub struct Locate(pub SessionId);

/// Where is the workspace of this directory? Started where it isn't in use.
#[derive(Message)]
#[rtype(result = "Addr<Workspace>")]
pub struct LocateWorkspace(pub PathBuf);

/// Make this session.
#[derive(Message)]
#[rtype(result = "Result<SessionHandle, CommandError>")]
pub struct Create(pub Box<Info>);

/// Take a session out, its subagents' before it.
#[derive(Message)]
#[rtype(result = "Result<(), CommandError>")]
pub struct DeleteSession(pub SessionId);

/// Stop a session's turn, and those of its subagents.
#[derive(Message)]
#[rtype(result = "Result<(), CommandError>")]
pub struct AbortSession {
    /// The session.
    pub session_id: SessionId,
    /// Why its own is stopped.
    pub reason: StopReason,
}

/// A client came in the middle: busy sessions tell their open parts whole.
#[derive(Message)]
#[rtype(result = "()")]
pub struct TellOpenPartsOfAll;

/// What the registry starts sessions with.
#[derive(Clone)]
pub struct RegistryDeps {
    /// For each session; its workspace and its registry are filled in.
    pub session: SessionTemplate,
    /// For each workspace.
    pub workspace: WorkspaceDeps,
    /// Where actors live.
    pub arbiters: Arc<Vec<ArbiterHandle>>,
    /// Where waits run.
    pub io: Handle,
    /// Where the fate of what is started is told.
    pub fates: FateLine,
}

/// Makes a session's dependencies of its workspace and the ways to its registry.
pub type SessionTemplate = Arc<dyn Fn(Addr<Workspace>, RegistryLine) -> SessionDeps + Send + Sync>;

/// Knows which sessions are live.
pub struct SessionRegistry {
    deps: RegistryDeps,
    store: Store,
    directory: Directory,
    /// Sessions that were asked to go and have not said that they have, and who waits for them.
    leaving: HashMap<SessionId, Vec<oneshot::Sender<()>>>,
    /// Sessions that have nothing to do, and since when.
    quiet: VecDeque<(Instant, SessionId)>,
    /// Workspaces, when they were last looked up here, and how they are used.
    used: HashMap<PathBuf, (Instant, watch::Receiver<InUse>)>,
    next_arbiter: usize,
    report: Report,
    counts: HashMap<String, (u64, bool)>,
    is_sweeping: bool,
}

impl SessionRegistry {
    /// Returns a registry without sessions. `directory` is what the edge reads.
    pub fn new(deps: RegistryDeps, store: Store, directory: Directory) -> Self {
        Self {
            deps,
            store,
            directory,
            leaving: HashMap::new(),
            quiet: VecDeque::new(),
            used: HashMap::new(),
            next_arbiter: 0,
            report: Report::default(),
            counts: HashMap::new(),
            is_sweeping: false,
        }
    }

    fn line(&self, ctx: &mut Context<Self>) -> RegistryLine {
        let address = ctx.address();
        RegistryLine {
            quiet: address.clone().recipient(),
            leave: address.clone().recipient(),
            wait: address.clone().recipient(),
            stop: address.clone().recipient(),
            notify: address.recipient(),
        }
    }

    fn arbiter(&mut self) -> ArbiterHandle {
        self.next_arbiter = self.next_arbiter.wrapping_add(1);
        let arbiters = &self.deps.arbiters;
        arbiters[self.next_arbiter % arbiters.len().max(1)].clone()
    }

    fn start(&mut self, id: &SessionId, directory: &str, start: Start, ctx: &mut Context<Self>) -> SessionHandle {
        let workspace = self.workspace(PathBuf::from(directory), ctx);
        let deps = (self.deps.session)(workspace, self.line(ctx));
        let (status, seen) = watch::channel(SessionStatus::idle());
        let arbiter = self.arbiter();
        let own = id.clone();
        let address = supervisor::start(
            &arbiter,
            Name::Session(id.clone()),
            Intensity::default(),
            &self.deps.fates,
            MAILBOX,
            move |lifeline| Session::new(own, deps, lifeline, status, start),
        );
        let handle = SessionHandle {
            address,
            places: Arc::new(Semaphore::new(PLACES)),
            status: seen,
            directory: directory.into(),
        };
        self.directory.sessions.insert(id.clone(), handle.clone());
        handle
    }

    fn workspace(&mut self, directory: PathBuf, ctx: &mut Context<Self>) -> Addr<Workspace> {
        if let Some(workspace) = self.directory.workspace(&directory) {
            if let Some((last, _)) = self.used.get_mut(&directory) {
                *last = Instant::now();
            }
            return workspace;
        }
        let (in_use, seen) = watch::channel(InUse::now());
        self.used.insert(directory.clone(), (Instant::now(), seen));
        let deps = self.deps.workspace.clone();
        let own = directory.clone();
        let arbiter = self.arbiter();
        let workspace = supervisor::start(
            &arbiter,
            Name::Workspace(directory.to_string_lossy().into_owned()),
            Intensity::default(),
            &self.deps.fates,
            MAILBOX,
            move |_| Workspace::new(own, deps, in_use),
        );
        self.directory.workspaces.insert(directory, workspace.clone());
        self.sweep_later(ctx);
        workspace
    }

    /// The live session, started where it isn't. `directory` is where it works.
    fn live(&mut self, id: &SessionId, directory: &str, start: Start, ctx: &mut Context<Self>) -> SessionHandle {
        match self.directory.session(id) {
            Some(handle) => handle,
            None => self.start(id, directory, start, ctx),
        }
    }

    /// A session was given up: it is parked until somebody asks for it, and says so.
    fn park(&mut self, id: &SessionId, reason: &str) {
        if let Some((_, handle)) = self.directory.sessions.remove(id) {
            let error = protocol::SessionError::unknown(format!(
                "The session crashed again and again ({reason}) and was stopped; the next prompt starts it afresh."
            ));
            let status = protocol::Event::SessionStatus { session_id: id.clone(), status: SessionStatus::idle() };
            let events = [
                protocol::Event::SessionError { session_id: Some(id.clone()), error },
                status,
                protocol::Event::SessionIdle { session_id: id.clone() },
            ];
            let origin = storage::Origin { directory: handle.directory.to_string(), project: "global".into() };
            let changes = events.into_iter().map(Change::Notice).collect();
            let record = Record { fence: None, origin: Arc::new(origin), changes, room: None };
            self.deps.workspace.journal.record(record).detach();
        }
    }
}

impl Actor for SessionRegistry {
    type Context = Context<Self>;
}

impl Supervised for SessionRegistry {
    fn restarting(&mut self, _: &mut Self::Context) {
        // The directory is only an index: sessions live on, and are found again by it.
        self.quiet.clear();
        self.is_sweeping = false;
    }
}

impl Handler<Fate> for SessionRegistry {
    type Result = ();

    fn handle(&mut self, Fate { name, kind }: Fate, _: &mut Self::Context) {
        self.note(&name, &kind);
        match (&name, &kind) {
            (Name::Session(id), FateKind::Exited | FateKind::GaveUp { .. }) => {
                if let FateKind::GaveUp { reason } = &kind {
                    self.park(id, reason);
                }
                for waiting in self.leaving.remove(id).unwrap_or_default() {
                    let _ = waiting.send(());
                }
            }
            (Name::Workspace(directory), FateKind::GaveUp { .. }) => {
                self.directory.workspaces.remove(std::path::Path::new(directory));
            }
            _ => {}
        }
    }
}

impl Handler<Locate> for SessionRegistry {
    type Result = ResponseActFuture<Self, Result<SessionHandle, CommandError>>;

    fn handle(&mut self, Locate(id): Locate, _: &mut Self::Context) -> Self::Result {
        if let Some(handle) = self.directory.session(&id) {
            return Box::pin(fut::ready(Ok(handle)));
        }
        let gone = self.leaving.get_mut(&id).map(|waiting| {
            let (left, gone) = oneshot::channel();
            waiting.push(left);
            gone
        });
        let store = self.store.clone();
        let wanted = id.clone();
        let find = async move {
            if let Some(gone) = gone {
                let _ = gone.await;
            }
            store.session(&wanted).await.map_err(|error| CommandError::Broken(error.to_string()))
        };
        Box::pin(find.into_actor(self).map(move |found, registry, ctx| match found? {
            Some(info) => Ok(registry.live(&id, &info.directory, Start::Stored, ctx)),
            None => Err(CommandError::NotFound(id)),
        }))
    }
}

impl Handler<LocateWorkspace> for SessionRegistry {
    type Result = MessageResult<LocateWorkspace>;

    fn handle(&mut self, LocateWorkspace(directory): LocateWorkspace, ctx: &mut Self::Context) -> Self::Result {
        MessageResult(self.workspace(directory, ctx))
    }
}

impl Handler<Create> for SessionRegistry {
    type Result = Result<SessionHandle, CommandError>;

    fn handle(&mut self, Create(info): Create, ctx: &mut Self::Context) -> Self::Result {
        let (id, directory) = (info.id.clone(), info.directory.clone());
        Ok(self.start(&id, &directory, Start::New(info), ctx))
    }
}

/// Finds a live session from outside of the registry's handlers, starting it where needed.
async fn locate(registry: &Addr<SessionRegistry>, id: &SessionId) -> Result<SessionHandle, CommandError> {
    registry.send(Locate(id.clone())).await.map_err(|_| CommandError::Unknown)?
}

impl Handler<DeleteSession> for SessionRegistry {
    type Result = ResponseFuture<Result<(), CommandError>>;

    fn handle(&mut self, DeleteSession(id): DeleteSession, ctx: &mut Self::Context) -> Self::Result {
        let (registry, store) = (ctx.address(), self.store.clone());
        let task = self.deps.io.spawn(async move {
            let broken = |error: storage::StorageError| CommandError::Broken(error.to_string());
            let mut below = store.descendants(&id).await.map_err(broken)?;
            below.reverse();
            for child in below {
                match locate(&registry, &child).await {
                    Ok(handle) => handle.address.send(Delete).await.map_err(|_| CommandError::Unknown)??,
                    Err(CommandError::NotFound(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            let handle = locate(&registry, &id).await?;
            handle.address.send(Delete).await.map_err(|_| CommandError::Unknown)?
        });
        Box::pin(async move { task.await.unwrap_or(Err(CommandError::Unknown)) })
    }
}

impl Handler<AbortSession> for SessionRegistry {
    type Result = ResponseFuture<Result<(), CommandError>>;

    fn handle(&mut self, AbortSession { session_id: id, reason }: AbortSession, _: &mut Self::Context) -> Self::Result {
        // One that isn't live runs nothing. Subagents that a call waits for are stopped by it, those in the background
        // here.
        let own = self.directory.session(&id).map(|handle| handle.address.send(Abort(reason)));
        let (store, directory) = (self.store.clone(), self.directory.clone());
        let below = self.deps.io.spawn(async move {
            let below = store.descendants(&id).await.unwrap_or_else(|error| {
                tracing::error!(%error, session.id = %id, "its subagents can't be found to be stopped");
                Vec::new()
            });
            let live = below.iter().filter_map(|id| directory.session(id));
            futures::future::join_all(live.map(|handle| handle.address.send(Abort(StopReason::Asked)))).await;
        });
        Box::pin(async move {
            let stopped = match own {
                Some(own) => own.await.map_err(|_| CommandError::Unknown)?,
                None => Ok(()),
            };
            let _ = below.await;
            stopped
        })
    }
}

impl Handler<TakeIn> for SessionRegistry {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, told: TakeIn, ctx: &mut Self::Context) -> Self::Result {
        let registry = ctx.address();
        Box::pin(async move {
            // One that isn't live is started, and finds it stored.
            if let Ok(handle) = locate(&registry, &told.session_id).await {
                let _ = handle.address.send(told).await;
            }
        })
    }
}

impl Handler<TellOpenPartsOfAll> for SessionRegistry {
    type Result = ();

    fn handle(&mut self, _: TellOpenPartsOfAll, _: &mut Self::Context) {
        for entry in self.directory.sessions.iter() {
            if *entry.status.borrow() != SessionStatus::idle() {
                // A session whose mailbox is full has more to tell than this.
                let _ = entry.address.try_send(TellOpenParts);
            }
        }
    }
}
