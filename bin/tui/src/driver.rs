//! Brings terminal, events, effects and state together. Draws when something changed, and waits for nothing but that.

use std::collections::VecDeque;
use std::future::Future;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, ClientError, Events};
use futures::StreamExt;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use protocol::{Clock, SessionId, SystemClock};
use tokio::time::{Instant, sleep_until};

use crate::app::{App, Start};
use crate::effect::{Effect, Outcome, perform};
use crate::keyboard::Keyboard;
use crate::terminal::Screen;
use crate::view::View;

/// The shortest time between two drawings.
const FRAME: Duration = Duration::from_millis(33);
/// How fast something moves that moves by itself.
const TICK: Duration = Duration::from_millis(120);
/// How long is waited before a stream that can't be opened is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// What the client stands on: whoever provides the server.
pub trait Host {
    /// There is no connection to the server. Where it can be brought back, it is. Errors with a text for the person
    /// where it can't.
    fn lost(&mut self) -> impl Future<Output = Result<(), String>>;

    /// A session is shown from now on: its open turns may go on.
    fn opened(&mut self, session: &SessionId) -> impl Future<Output = ()>;
}

/// Why the client can't run.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// The server refuses, or isn't there.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The terminal can't be used.
    #[error("the terminal can't be used: {0}")]
    Terminal(#[from] std::io::Error),
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The session that was shown last.
    pub session: Option<SessionId>,
    /// Its turn runs still.
    pub is_busy: bool,
}

/// Runs the client until the person leaves or the terminal goes away; dropping it gives the terminal back too. The
/// client names the directory of new sessions.
pub async fn run(client: Client, directory: String, start: Start, mut host: impl Host) -> Result<End, TuiError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    // What the server says to a first request is told on the plain terminal.
    let events = client.events().await?;
    let mut screen = Screen::take()?;
    let mut driver = Driver {
        app: App::new(directory, start, clock.clone()),
        view: View::default(),
        clock,
        client,
        events: Some(events),
        running: FuturesUnordered::new(),
        is_listening_anew: false,
    };
    let ended = driver.run(&mut screen, &mut host).await;
    drop(screen);
    ended?;
    let is_busy = driver.app.is_busy();
    Ok(End { session: driver.app.session.map(|session| session.id), is_busy })
}

struct Driver {
    app: App,
    view: View,
    clock: Arc<dyn Clock>,
    client: Client,
    /// None while there is no stream.
    events: Option<Events>,
    running: FuturesUnordered<LocalBoxFuture<'static, Outcome>>,
    /// A new stream is being opened.
    is_listening_anew: bool,
}

impl Driver {
    async fn run(&mut self, screen: &mut Screen, host: &mut impl Host) -> std::io::Result<()> {
        let mut keyboard = Keyboard::read()?;
        let mut drawn = Instant::now() - FRAME;
        let mut ticked = Instant::now();
        loop {
            let mut effects: VecDeque<Effect> = self.app.take_effects().into();
            while let Some(effect) = effects.pop_front() {
                if effect == Effect::Quit {
                    return Ok(());
                }
                self.begin(effect);
            }
            if self.app.is_dirty && drawn.elapsed() >= FRAME {
                self.app.is_dirty = false;
                let now = self.clock.now_ms();
                screen.terminal.draw(|frame| self.view.draw(frame, &self.app, now))?;
                drawn = Instant::now();
            }
            tokio::select! {
                event = keyboard.next() => match event {
                    Some(event) => self.app.terminal(&event),
                    None => return Err(std::io::Error::new(ErrorKind::BrokenPipe, "it is gone")),
                },
                event = next(&mut self.events) => match event {
                    Some(Ok(frame)) => self.app.event(&frame.event),
                    Some(Err(error)) => self.lost(&error, host).await,
                    None => {
                        self.events = None;
                        self.listen_later();
                    }
                },
                Some(outcome) = self.running.next() => self.end(outcome, host).await,
                () = sleep_until(drawn + FRAME), if self.app.is_dirty => {}
                () = sleep_until(ticked + TICK), if self.app.is_animated() => {
                    ticked = Instant::now();
                    self.app.advance();
                }
            }
        }
    }

    fn begin(&mut self, effect: Effect) {
        if effect == Effect::Listen {
            if self.is_listening_anew {
                return;
            }
            self.is_listening_anew = true;
        }
        self.running.push(Box::pin(perform(self.client.clone(), effect)));
    }

    async fn end(&mut self, outcome: Outcome, host: &mut impl Host) {
        match outcome {
            Outcome::Listening(events) => {
                self.is_listening_anew = false;
                self.events = Some(events);
            }
            Outcome::NotListening(error) => {
                self.is_listening_anew = false;
                self.lost(&error, host).await;
                if self.events.is_none() {
                    self.listen_later();
                }
            }
            outcome => {
                let shown = match &outcome {
                    Outcome::Opened(session, _) => Some(session.id.clone()),
                    _ => None,
                };
                self.app.outcome(outcome);
                if let Some(id) = shown {
                    host.opened(&id).await;
                }
            }
        }
    }

    async fn lost(&mut self, error: &ClientError, host: &mut impl Host) {
        tracing::debug!(%error, "the event stream was lost");
        let reason = match host.lost().await {
            Ok(()) => error.to_string(),
            Err(reason) => reason,
        };
        self.app.lost(reason);
    }

    fn listen_later(&mut self) {
        if std::mem::replace(&mut self.is_listening_anew, true) {
            return;
        }
        let client = self.client.clone();
        self.running.push(Box::pin(async move {
            tokio::time::sleep(AGAIN).await;
            perform(client, Effect::Listen).await
        }));
    }
}

async fn next(events: &mut Option<Events>) -> Option<Result<protocol::EventFrame, ClientError>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}
