//! Lets model requests through: no more at once than the config allows, and than each account is known to bear. One
//! for the process.
//! Told by: the tasks of model requests, on the I/O runtime. Talks to: nobody.
//!
//! - First come, first served, over all sessions. One that can't go yet, because of its account or its tree, lets those
//!   behind it pass.
//! - How much an account bears is found out: the [`window`] grows while nothing is refused, and closes to what was
//!   running when something is. A refused request comes back to the place in the line that its age gives it.
//! - Nobody asks a model while its vendor wants a pause: who comes waits, and is told why and how long; who would have
//!   to wait longer than its config allows is refused as the one that was.
//! - A [`Place`] is held while a request runs: not over a wait for the next try, a tool, a person or a subagent.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use protocol::SessionId;
use protocol::config::LimitsConfig;
use providers::ProviderError;
use tokio::sync::{oneshot, watch};

mod window;

use window::{Pause, Refusal, Window};

/// A request that wasn't refused by then is one the account bears: vendors refuse at once, and answer late.
const TACIT: Duration = Duration::from_millis(150);
/// How often those in the line are told their position. Nobody is told of shorter pauses.
const TELL: Duration = Duration::from_secs(1);
/// Most accounts that are remembered without a request.
const REMEMBERED: usize = 64;

/// Who asks, and for what.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// The provider's key.
    pub provider: Arc<str>,
    /// What its vendor counts together: provider, address and key.
    pub account: Arc<str>,
    /// The model that is asked.
    pub model: Arc<str>,
    /// The topmost session above the one that asks.
    pub tree: SessionId,
    /// Most at once, by its config.
    pub limits: LimitsConfig,
    /// The longest it waits where the vendor wants a pause.
    pub longest: Duration,
    /// When it asked for the first time.
    pub since: Instant,
}

/// Why a visitor waits.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// For its turn: its position in the line, from 1.
    Turn(usize),
    /// For the end of a pause that the vendor wants.
    Pause {
        /// What the vendor said to the one it refused.
        reason: String,
        /// When it is over.
        until: Instant,
    },
}

/// The way to the gate.
#[derive(Clone)]
pub struct Gate(Addr<ProviderGate>);

impl Gate {
    /// Returns the way to a gate.
    pub fn new(gate: Addr<ProviderGate>) -> Self {
        Self(gate)
    }

    /// Waits for a place. `told` hears why, when the wait is long. An error is another's refusal, which holds for this
    /// visitor too: its vendor wants a pause that is longer than it waits.
    pub async fn enter(&self, visitor: Visitor, mut told: impl FnMut(Wait)) -> Result<Place, ProviderError> {
        loop {
            let (grant, mut place) = oneshot::channel();
            let (teller, mut wait) = watch::channel(None);
            let enter = Enter { visitor: visitor.clone(), grant, wait: teller };
            if self.0.send(enter).await.is_err() {
                continue;
            }
            let place = loop {
                tokio::select! {
                    place = &mut place => break place,
                    Ok(()) = wait.changed() => {
                        let wait = wait.borrow_and_update().clone();
                        wait.into_iter().for_each(&mut told);
                    }
                }
            };
            // A gate that fell has forgotten the line.
            if let Ok(place) = place {
                return place;
            }
        }
    }
}

/// Leave to run one request. Given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    gate: Addr<ProviderGate>,
    life: u64,
    visitor: Visitor,
    is_borne: bool,
    refused: Option<Refusal>,
}

impl Place {
    /// Waits for the first of the answer, and notes whether the account bore the request.
    pub async fn hear<T>(
        &mut self,
        next: impl Future<Output = Option<Result<T, ProviderError>>>,
    ) -> Option<Result<T, ProviderError>> {
        tokio::pin!(next);
        let item = if self.is_borne {
            next.await
        } else {
            match tokio::time::timeout(TACIT, &mut next).await {
                Ok(item) => item,
                Err(_) => {
                    self.borne();
                    next.await
                }
            }
        };
        match &item {
            Some(Ok(_)) => self.borne(),
            Some(Err(error)) if is_refusal(error) => {
                self.refused = Some(Refusal { error: error.clone(), after: error.retry_after() });
            }
            _ => {}
        }
        item
    }

    #[expect(clippy::disallowed_methods, reason = "bounded: once a place")]
    fn borne(&mut self) {
        if !self.is_borne {
            self.is_borne = true;
            let (account, model) = (self.visitor.account.clone(), self.visitor.model.clone());
            self.gate.do_send(Borne { life: self.life, account, model });
        }
    }
}

impl Drop for Place {
    #[expect(clippy::disallowed_methods, reason = "bounded: once a place")]
    fn drop(&mut self) {
        self.gate.do_send(Left { life: self.life, visitor: self.visitor.clone(), refused: self.refused.take() });
    }
}

/// Whether the vendor says that it was too much at once, or in too short a time.
fn is_refusal(error: &ProviderError) -> bool {
    error.is_retryable()
        && match error.status() {
            Some(429 | 529) => true,
            Some(503) => error.retry_after().is_some(),
            _ => false,
        }
}

/// Give a place, when there is one.
#[derive(Message)]
#[rtype(result = "()")]
struct Enter {
    visitor: Visitor,
    grant: oneshot::Sender<Result<Place, ProviderError>>,
    wait: watch::Sender<Option<Wait>>,
}

impl Enter {
    /// Waits for the end of a pause, or is refused.
    fn wait_for(self, pause: &Pause, now: Instant) -> Option<Self> {
        if pause.is_longer_than(self.visitor.longest, now) {
            let _ = self.grant.send(Err(pause.error().clone()));
            return None;
        }
        if pause.until() - now > TELL {
            self.tell(Wait::Pause { reason: pause.error().status_text().to_owned(), until: pause.until() });
        }
        Some(self)
    }

    fn tell(&self, wait: Wait) {
        let wait = Some(wait);
        self.wait.send_if_modified(|known| {
            *known != wait && {
                *known = wait;
                true
            }
        });
    }
}

/// A request was not refused.
#[derive(Message)]
#[rtype(result = "()")]
struct Borne {
    life: u64,
    account: Arc<str>,
    model: Arc<str>,
}

/// A request is over.
#[derive(Message)]
#[rtype(result = "()")]
struct Left {
    life: u64,
    visitor: Visitor,
    refused: Option<Refusal>,
}

/// The gate.
#[derive(Default)]
pub struct ProviderGate {
    /// Places of a life before this one count no more.
    life: u64,
    /// The oldest first.
    line: VecDeque<Enter>,
    accounts: HashMap<Arc<str>, Window>,
    running: u32,
    by_provider: HashMap<Arc<str>, u32>,
    by_tree: HashMap<SessionId, u32>,
    /// The line is told its positions, later.
    tells: bool,
    /// When a paused model is looked at again.
    opens: Option<Instant>,
}

impl ProviderGate {
    fn may_go(&mut self, visitor: &Visitor, now: Instant) -> bool {
        let limits = visitor.limits;
        let fits = |limit: u32, running: u32| limit == 0 || running < limit;
        fits(limits.requests, self.running)
            && fits(limits.requests_per_provider, count(&self.by_provider, &visitor.provider))
            && fits(limits.requests_per_tree, count(&self.by_tree, &visitor.tree))
            && self.accounts.entry(visitor.account.clone()).or_default().has_room(&visitor.model, now)
    }

    /// The pause that someone has to wait for.
    fn pause(&self, visitor: &Visitor, now: Instant) -> Option<&Pause> {
        self.accounts.get(&visitor.account)?.pause(&visitor.model, now)
    }

    /// Lets through whoever may go now.
    fn serve(&mut self, ctx: &mut Context<Self>) {
        let now = Instant::now();
        let mut kept = VecDeque::with_capacity(self.line.len());
        while let Some(enter) = self.line.pop_front() {
            if enter.grant.is_closed() {
                continue;
            }
            if let Some(pause) = self.pause(&enter.visitor, now) {
                kept.extend(enter.wait_for(pause, now));
                continue;
            }
            if !self.may_go(&enter.visitor, now) {
                kept.push_back(enter);
                continue;
            }
            self.running += 1;
            *self.by_provider.entry(enter.visitor.provider.clone()).or_default() += 1;
            *self.by_tree.entry(enter.visitor.tree.clone()).or_default() += 1;
            self.accounts.entry(enter.visitor.account.clone()).or_default().enter();
            let place =
                Place { gate: ctx.address(), life: self.life, visitor: enter.visitor, is_borne: false, refused: None };
            // Who has gone meanwhile gives it back by dropping it.
            let _ = enter.grant.send(Ok(place));
        }
        self.line = kept;
        self.look_again(now, ctx);
    }

    /// Sees to it that the line is looked at when a pause is over, and that those who wait know where they are.
    fn look_again(&mut self, now: Instant, ctx: &mut Context<Self>) {
        if self.line.is_empty() {
            return;
        }
        let opens = self.line.iter().filter_map(|enter| Some(self.pause(&enter.visitor, now)?.until())).min();
        if let Some(opens) = opens
            && self.opens.is_none_or(|known| opens < known || known <= now)
        {
            self.opens = Some(opens);
            ctx.run_later(opens - now, |gate, ctx| gate.serve(ctx));
        }
        if !std::mem::replace(&mut self.tells, true) {
            ctx.run_later(TELL, |gate, ctx| gate.tell(ctx));
        }
    }

    fn tell(&mut self, ctx: &mut Context<Self>) {
        self.tells = false;
        let now = Instant::now();
        for (at, enter) in self.line.iter().enumerate() {
            if self.pause(&enter.visitor, now).is_none() {
                enter.tell(Wait::Turn(at + 1));
            }
        }
        self.serve(ctx);
    }

    /// Forgets accounts that have long had nothing to do.
    fn forget(&mut self) {
        if self.accounts.len() > REMEMBERED {
            let idle = self.accounts.iter().filter(|(_, window)| window.is_idle());
            let oldest = idle.min_by_key(|(_, window)| window.used()).map(|(account, _)| account.clone());
            oldest.and_then(|account| self.accounts.remove(&account));
        }
    }
}

fn count<K: std::hash::Hash + Eq>(counts: &HashMap<K, u32>, key: &K) -> u32 {
    counts.get(key).copied().unwrap_or_default()
}

fn take<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
    if let Some(left) = counts.get_mut(key) {
        *left = left.saturating_sub(1);
        if *left == 0 {
            counts.remove(key);
        }
    }
}

impl Actor for ProviderGate {
    type Context = Context<Self>;
}

impl Supervised for ProviderGate {
    fn restarting(&mut self, _: &mut Self::Context) {
        *self = Self { life: self.life + 1, ..Self::default() };
    }
}

impl Handler<Enter> for ProviderGate {
    type Result = ();

    fn handle(&mut self, enter: Enter, ctx: &mut Self::Context) {
        let since = enter.visitor.since;
        let at = self.line.partition_point(|other| other.visitor.since <= since);
        self.line.insert(at, enter);
        self.forget();
        self.serve(ctx);
    }
}

impl Handler<Borne> for ProviderGate {
    type Result = ();

    fn handle(&mut self, Borne { life, account, model }: Borne, ctx: &mut Self::Context) {
        if life == self.life
            && let Some(window) = self.accounts.get_mut(&account)
        {
            window.borne(&model, Instant::now());
            self.serve(ctx);
        }
    }
}

impl Handler<Left> for ProviderGate {
    type Result = ();

    fn handle(&mut self, Left { life, visitor, refused }: Left, ctx: &mut Self::Context) {
        if life != self.life {
            return;
        }
        self.running = self.running.saturating_sub(1);
        take(&mut self.by_provider, &visitor.provider);
        take(&mut self.by_tree, &visitor.tree);
        if let Some(window) = self.accounts.get_mut(&visitor.account) {
            match refused {
                Some(refusal) => window.refused(&visitor.model, refusal, visitor.longest, Instant::now()),
                None => window.left(Instant::now()),
            }
        }
        self.serve(ctx);
    }
}

#[cfg(test)]
mod tests;
