//! Logins at servers on the network: begun, ended by hand or by the person's browser, forgotten.

use std::time::Duration;

use actix::prelude::*;
use mcp::Status;
use mcp::auth::{AuthProblem, Authorizer, Begun};
use mcp::config::Remote;
use protocol::Event;
use storage::{Change, Record};
use tokio_util::task::AbortOnDropHandle;

use super::{McpError, McpHost};
use crate::workspace::sources::Patience;

/// How long a program that opens a browser may take before it counts as done.
const OPENING: Duration = Duration::from_secs(2);

/// Begin a login. It ends by [`FinishLogin`], or when the person's browser comes back to this machine.
#[derive(Message)]
#[rtype(result = "Result<Begun, McpError>")]
pub struct BeginLogin(pub String);

/// End a login with the code the person came back with, and connect. Answers with how the server is then.
#[derive(Message)]
#[rtype(result = "Result<Status, McpError>")]
pub struct FinishLogin {
    /// The server.
    pub name: String,
    /// The code.
    pub code: String,
    /// The login it belongs to, where it is known.
    pub state: Option<String>,
}

/// Begin a login, open the person's browser, and wait until it comes back. Answers with how the server is then.
#[derive(Message)]
#[rtype(result = "Result<Status, McpError>")]
pub struct Authenticate(pub String);

/// A person came back from a login.
#[derive(Message)]
#[rtype(result = "()")]
struct LoggedIn(String);

/// Forget a server's login.
#[derive(Message)]
#[rtype(result = "Result<(), McpError>")]
pub struct Forget(pub String);

impl McpHost {
    fn remote(&self, name: &str) -> Result<Remote, McpError> {
        let slot = self.slots.get(name).ok_or_else(|| McpError::NotFound(name.to_owned()))?;
        let remote = slot.config.as_ref().and_then(|config| config.remote());
        remote.filter(|remote| remote.oauth.is_some()).cloned().ok_or_else(|| McpError::NoLogin(name.to_owned()))
    }

    /// Connects with the login there is now. Resolves to how the server is then.
    fn reconnect(&mut self, name: &str) -> impl Future<Output = Status> + use<> {
        self.switched.insert(name.to_owned(), true);
        self.start(name);
        let settled = self.settled(Some(name), Patience::Call);
        let condition = self.slots.get(name).map(|slot| slot.condition.subscribe());
        async move {
            settled.await;
            condition.map_or(Status::Disabled, |condition| condition.borrow().status.clone())
        }
    }

    fn tell_browser(&self, name: &str, url: String) {
        let Some(setup) = &self.setup else { return };
        let event = Event::McpBrowserOpenFailed { mcp_name: name.to_owned(), url };
        let (origin, changes) = (setup.origin.clone(), vec![Change::Notice(event)]);
        self.deps.journal.record(Record { fence: None, origin, changes, room: None }).detach();
    }
}

/// Waits until the person's browser comes back, and ends the login.
async fn come_back(authorizer: Authorizer, name: String, begun: Begun) -> Result<(), AuthProblem> {
    let callback = authorizer.callback(&begun).await?;
    authorizer.finish(&name, &callback.code, Some(&begun.state), callback.issuer.as_deref()).await
}

impl Handler<BeginLogin> for McpHost {
    type Result = ResponseActFuture<Self, Result<Begun, McpError>>;

    fn handle(&mut self, BeginLogin(name): BeginLogin, ctx: &mut Self::Context) -> Self::Result {
        let remote = match self.remote(&name) {
            Ok(remote) => remote,
            Err(error) => return Box::pin(fut::ready(Err(error))),
        };
        let (authorizer, server) = (self.deps.mcp.authorizer.clone(), name.clone());
        let begin = self.deps.io.spawn(async move { authorizer.begin(&server, &remote).await });
        // Whoever waits for a person doesn't keep the directory in use.
        let host = ctx.address().downgrade();
        Box::pin(begin.into_actor(self).map(move |begun, this, _| {
            let begun = begun.map_err(|error| AuthProblem::Refused(error.to_string()))??;
            let (authorizer, server, own) = (this.deps.mcp.authorizer.clone(), name.clone(), begun.clone());
            let waiting = this.deps.io.spawn(async move {
                match come_back(authorizer, server.clone(), own).await {
                    Ok(()) => drop(host.upgrade().map(|host| host.try_send(LoggedIn(server)))),
                    Err(problem) => tracing::info!(server, %problem, "nobody came back from a login to this machine"),
                }
            });
            if let Some(slot) = this.slots.get_mut(&name) {
                slot.login = Some(AbortOnDropHandle::new(waiting));
            }
            Ok(begun)
        }))
    }
}

impl Handler<LoggedIn> for McpHost {
    type Result = ();

    fn handle(&mut self, LoggedIn(name): LoggedIn, _: &mut Self::Context) {
        // One that waits for a login hears of it by itself.
        let is_connected = |slot: &super::Slot| slot.condition.borrow().status == Status::Connected;
        if self.slots.get(&name).is_some_and(is_connected) {
            self.start(&name);
        }
    }
}

impl Handler<FinishLogin> for McpHost {
    type Result = ResponseActFuture<Self, Result<Status, McpError>>;

    fn handle(&mut self, FinishLogin { name, code, state }: FinishLogin, _: &mut Self::Context) -> Self::Result {
        if let Err(error) = self.remote(&name) {
            return Box::pin(fut::ready(Err(error)));
        }
        let (authorizer, server) = (self.deps.mcp.authorizer.clone(), name.clone());
        let finish = self.deps.io.spawn(async move { authorizer.finish(&server, &code, state.as_deref(), None).await });
        let finish = async move {
            finish.await.map_err(|error| AuthProblem::Refused(error.to_string()))??;
            Ok::<_, McpError>(())
        };
        Box::pin(finish.into_actor(self).then(move |finished, host, _| {
            let status = finished.map(|()| {
                if let Some(slot) = host.slots.get_mut(&name) {
                    slot.login = None;
                }
                host.reconnect(&name)
            });
            async move { Ok(status?.await) }.into_actor(host)
        }))
    }
}

impl Handler<Authenticate> for McpHost {
    type Result = ResponseActFuture<Self, Result<Status, McpError>>;

    fn handle(&mut self, Authenticate(name): Authenticate, _: &mut Self::Context) -> Self::Result {
        let remote = match self.remote(&name) {
            Ok(remote) => remote,
            Err(error) => return Box::pin(fut::ready(Err(error))),
        };
        let (authorizer, server) = (self.deps.mcp.authorizer.clone(), name.clone());
        let begin = self.deps.io.spawn(async move {
            let begun = authorizer.begin(&server, &remote).await?;
            let is_open = open_browser(&begun.authorization_url).await;
            Ok::<_, AuthProblem>((begun, is_open))
        });
        let come_back = begin.into_actor(self).then(move |begun, host, _| {
            let begun = begun.map_err(|error| AuthProblem::Refused(error.to_string())).and_then(|begun| begun);
            let waiting = begun.map(|(begun, is_open)| {
                if !is_open {
                    host.tell_browser(&name, begun.authorization_url.clone());
                }
                let (authorizer, server) = (host.deps.mcp.authorizer.clone(), name.clone());
                host.deps.io.spawn(come_back(authorizer, server, begun))
            });
            async move {
                waiting?.await.map_err(|error| AuthProblem::Refused(error.to_string()))??;
                Ok::<_, McpError>(name)
            }
            .into_actor(host)
        });
        Box::pin(come_back.then(|finished, host, _| {
            let status = finished.map(|name| host.reconnect(&name));
            async move { Ok(status?.await) }.into_actor(host)
        }))
    }
}

impl Handler<Forget> for McpHost {
    type Result = ResponseActFuture<Self, Result<(), McpError>>;

    fn handle(&mut self, Forget(name): Forget, _: &mut Self::Context) -> Self::Result {
        let Some(slot) = self.slots.get_mut(&name) else {
            return Box::pin(fut::ready(Err(McpError::NotFound(name))));
        };
        slot.login = None;
        let (authorizer, server) = (self.deps.mcp.authorizer.clone(), name.clone());
        let forget = self.deps.io.spawn(async move { authorizer.forget(&server).await });
        Box::pin(forget.into_actor(self).map(move |forgotten, host, _| {
            forgotten.map_err(|error| AuthProblem::Refused(error.to_string()))??;
            // What is connected with it is not logged in any more.
            let is_on = host.slots.get(&name).is_some_and(|slot| slot.keeper.is_some());
            if is_on {
                host.start(&name);
            }
            Ok(())
        }))
    }
}

/// Opens an address in the person's browser. Returns whether there is one.
async fn open_browser(url: &str) -> bool {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let null = std::process::Stdio::null;
    let started = tokio::process::Command::new(program).arg(url).stdin(null()).stdout(null()).stderr(null()).spawn();
    match started {
        Err(_) => false,
        Ok(mut child) => match tokio::time::timeout(OPENING, child.wait()).await {
            Ok(Ok(status)) => status.success(),
            // Some stay as long as the browser does.
            _ => true,
        },
    }
}
