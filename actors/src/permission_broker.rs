//! Decides whether a tool call may run, asking a person where no rule decides; questions use the same desk.
//! Asked by: the tool executor. Answered by: people, over the HTTP edge. Talks to: the journal.
//!
//! - A request ends only by a person's reply or by [`Withdraw`] from its session. It never times out. An asker that
//!   is gone is loss, not an answer: whoever resumes the call asks again and finds the request, or the reply that
//!   came meanwhile, under the same id.
//! - A reply is stored before it is acknowledged, and before the asker hears of it.
//! - An approval never beats a deny, and holds for the agent it was given to. What could not be judged with certainty
//!   is approved for its very text and place alone.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use actix::prelude::*;
use plugins::{Hook, Plugins};
use protocol::permission::{Action, PermissionRequest, Rule, ToolRef};
use protocol::question::{Answers, Question, QuestionRequest};
use protocol::{CallId, Clock, Ids, MessageId, SessionId};
use storage::journal::{Approval, AskRow, AskedBy};
use storage::{Change, Fence, Journal, Origin, Record, Store};
use tokio::sync::oneshot;
use tools::Refusal;

mod approvals;
mod opinion;
mod reply;
pub mod ruleset;

pub use approvals::{DropApprovals, ListApprovals, RemoveApproval};
use opinion::opinion;
use reply::verdict;
pub use reply::{ReplyError, ReplyPermission, ReplyQuestions};

/// Answered requests that are remembered, so that a second reply is told that it comes too late.
const ANSWERED: usize = 1024;

/// Who asks.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The session and its epoch.
    pub fence: Fence,
    /// Where it works.
    pub origin: Arc<Origin>,
    /// The sessions above it, the nearest first.
    pub ancestors: Arc<[SessionId]>,
    /// The agent that calls.
    pub agent: String,
    /// Its rules: defaults, agent, config, environment, session, from weak to strong.
    pub rules: Arc<[Rule]>,
    /// The message that holds the call.
    pub message_id: MessageId,
    /// The call.
    pub call_id: CallId,
    /// The directory's plugins, which may decide in a person's place.
    pub plugins: Plugins,
}

impl Asker {
    fn call(&self) -> ToolRef {
        ToolRef { message_id: self.message_id.clone(), call_id: self.call_id.clone() }
    }

    fn by(&self) -> AskedBy {
        AskedBy { call: self.call(), agent: self.agent.clone() }
    }
}

/// May this call run? `answer` hears of it: at once where a rule decides, else when a person replies. A dropped
/// `answer` means that nobody decided.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Ask {
    /// Who asks.
    pub asker: Asker,
    /// What for.
    pub ask: tools::Ask,
    /// Whether the request names the call (all but `doom_loop` do).
    pub names_call: bool,
    /// Made by the asker.
    pub answer: oneshot::Sender<Result<(), Refusal>>,
}

/// What does the person say? As with [`Ask`].
#[derive(Message)]
#[rtype(result = "()")]
pub struct AskQuestions {
    /// Who asks.
    pub asker: Asker,
    /// What.
    pub questions: Vec<Question>,
    /// Made by the asker.
    pub answer: oneshot::Sender<Result<Answers, Refusal>>,
}

/// The session was aborted or deleted: its requests end. Returns what the session has to store with that.
#[derive(Message)]
#[rtype(result = "Vec<Change>")]
pub struct Withdraw(pub SessionId);

/// A call has its result: what it asked needn't be remembered.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Forget(pub SessionId, pub CallId);

/// What waits for a person.
#[derive(Message)]
#[rtype(result = "Waiting")]
pub struct ListWaiting;

/// What waits for a person, oldest first, each with where its session works.
#[derive(Clone, Debug, Default, MessageResponse)]
pub struct Waiting {
    /// Permission requests.
    pub permissions: Vec<(Arc<PermissionRequest>, Arc<Origin>)>,
    /// Questions.
    pub questions: Vec<(Arc<QuestionRequest>, Arc<Origin>)>,
}

/// The desk.
pub struct PermissionBroker {
    journal: Journal,
    store: Store,
    ids: Arc<Ids>,
    clock: Arc<dyn Clock>,
    /// What waits, and what was answered for a call that has no result yet, by id.
    held: HashMap<String, Held>,
    /// The order in which requests came.
    order: VecDeque<String>,
    approvals: Vec<Approval>,
    answered: VecDeque<String>,
    /// How many requests were given to the journal, and which of them it has not answered.
    asked: u64,
    storing: BTreeSet<u64>,
    /// Lists that wait until all up to a request is stored.
    lists: Vec<(u64, oneshot::Sender<()>)>,
}

struct Held {
    origin: Arc<Origin>,
    row: AskRow,
    /// Who waits; none after a restart until the call asks again.
    waiter: Option<Waiter>,
}

enum Waiter {
    Permission { asker: Box<Asker>, ask: Box<tools::Ask>, answer: oneshot::Sender<Result<(), Refusal>> },
    Question { answer: oneshot::Sender<Result<Answers, Refusal>> },
}

impl Held {
    fn is_open(&self) -> bool {
        match &self.row {
            AskRow::Permission { reply, .. } => reply.is_none(),
            AskRow::Question { reply, .. } => reply.is_none(),
        }
    }
}

impl PermissionBroker {
    /// Returns an empty desk; what is stored is loaded when it starts.
    pub fn new(journal: Journal, store: Store, ids: Arc<Ids>, clock: Arc<dyn Clock>) -> Self {
        Self {
            journal,
            store,
            ids,
            clock,
            held: HashMap::new(),
            order: VecDeque::new(),
            approvals: Vec::new(),
            answered: VecDeque::new(),
            asked: 0,
            storing: BTreeSet::new(),
            lists: Vec::new(),
        }
    }

    fn hold(&mut self, id: &str, held: Held) {
        if self.held.insert(id.to_owned(), held).is_none() {
            self.order.push_back(id.to_owned());
        }
    }

    fn release(&mut self, id: &str) -> Option<Held> {
        let held = self.held.remove(id)?;
        self.order.retain(|other| other != id);
        Some(held)
    }

    fn was_answered(&mut self, id: &str) {
        if self.answered.len() == ANSWERED {
            self.answered.pop_front();
        }
        self.answered.push_back(id.to_owned());
    }

    fn record(&self, origin: &Arc<Origin>, fence: Option<Fence>, changes: Vec<Change>) -> storage::Ack {
        self.journal.record(Record { fence, origin: origin.clone(), changes, room: None })
    }

    /// Holds a request and stores it; when that fails its asker hears that nobody decided.
    fn store_ask(&mut self, ctx: &mut Context<Self>, id: String, fence: Fence, change: Change, held: Held) {
        let stored = self.record(&held.origin, Some(fence), vec![change]);
        self.hold(&id, held);
        self.asked += 1;
        let number = self.asked;
        self.storing.insert(number);
        ctx.spawn(stored.into_actor(self).map(move |stored, desk, _| {
            if stored.is_err() {
                desk.release(&id);
            }
            desk.storing.remove(&number);
            let first = desk.storing.first().copied().unwrap_or(u64::MAX);
            for (_, list) in desk.lists.extract_if(.., |(upto, _)| *upto < first) {
                let _ = list.send(());
            }
        }));
    }

    /// What rules and approvals say of a request.
    fn judge(&self, asker: &Asker, ask: &tools::Ask) -> Judgement {
        let mut asks = ask.floor == Action::Ask && !self.is_approved_exactly(asker, ask);
        let all = ask.patterns.iter().map(|pattern| (pattern, false)).chain(ask.aside.iter().map(|text| (text, true)));
        for (pattern, aside) in all {
            let rule = ruleset::deciding(&asker.rules, &ask.permission, pattern);
            if aside && rule.is_none_or(|rule| rule.pattern == "*") {
                continue;
            }
            match rule {
                Some(rule) if rule.action == Action::Deny => {
                    return Judgement::Denied(Refusal::Denied {
                        permission: ask.permission.clone(),
                        pattern: pattern.clone(),
                        rules: ruleset::about(&asker.rules, &ask.permission),
                    });
                }
                Some(rule) if rule.action == Action::Allow => {}
                _ => asks |= !self.is_approved(asker, &ask.permission, pattern),
            }
        }
        if asks { Judgement::Ask } else { Judgement::Allowed }
    }

    /// What a call asked in an earlier life: the same permission for the same patterns.
    fn earlier(&self, asker: &Asker, ask: &tools::Ask) -> Option<String> {
        let same = |held: &Held| match &held.row {
            AskRow::Permission { request, by, .. } => {
                request.session_id == asker.fence.session_id
                    && by.call == asker.call()
                    && request.permission == ask.permission
                    && request.patterns == ask.patterns
            }
            AskRow::Question { .. } => false,
        };
        self.order.iter().find(|id| self.held.get(*id).is_some_and(same)).cloned()
    }

    fn earlier_question(&self, asker: &Asker, questions: &[Question]) -> Option<String> {
        let same = |held: &Held| match &held.row {
            AskRow::Question { request, .. } => {
                request.session_id == asker.fence.session_id
                    && request.tool.as_ref() == Some(&asker.call())
                    && request.questions == questions
            }
            AskRow::Permission { .. } => false,
        };
        self.order.iter().find(|id| self.held.get(*id).is_some_and(same)).cloned()
    }
}

enum Judgement {
    Allowed,
    Denied(Refusal),
    Ask,
}

impl Actor for PermissionBroker {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let store = self.store.clone();
        let load = async move { Ok::<_, storage::StorageError>((store.asks().await?, store.approvals().await?)) };
        ctx.wait(load.into_actor(self).map(|loaded, desk, _| match loaded {
            Ok((asks, approvals)) => {
                desk.approvals = approvals;
                for (row, origin) in asks {
                    let id = match &row {
                        AskRow::Permission { request, .. } => request.id.to_string(),
                        AskRow::Question { request, .. } => request.id.to_string(),
                    };
                    desk.hold(&id, Held { origin: Arc::new(origin), row, waiter: None });
                }
            }
            Err(error) => tracing::error!(%error, "what waits for a person could not be read; calls ask anew"),
        }));
    }
}

impl Supervised for PermissionBroker {
    fn restarting(&mut self, _: &mut Self::Context) {
        // Dropping the senders tells all askers that nobody decided; they ask again.
        self.held.clear();
        self.order.clear();
        self.approvals.clear();
        self.storing.clear();
        self.lists.clear();
    }
}

impl Handler<Ask> for PermissionBroker {
    type Result = ();

    fn handle(&mut self, Ask { asker, ask, names_call, answer }: Ask, ctx: &mut Self::Context) {
        let earlier = self.earlier(&asker, &ask);
        if let Some(Held { row: AskRow::Permission { reply: Some(reply), .. }, .. }) =
            earlier.as_ref().and_then(|id| self.held.get(id))
        {
            let _ = answer.send(verdict(reply));
            return;
        }
        match self.judge(&asker, &ask) {
            Judgement::Allowed => drop(answer.send(Ok(()))),
            Judgement::Denied(refusal) => drop(answer.send(Err(refusal))),
            Judgement::Ask if earlier.is_none() && asker.plugins.has(Hook::PermissionAsk) => {
                let request = self.request_of(&asker, &ask, names_call, None);
                let opinion = opinion(asker.plugins.clone(), request);
                ctx.spawn(opinion.into_actor(self).map(move |opinion, desk, ctx| match opinion {
                    Action::Allow => drop(answer.send(Ok(()))),
                    Action::Deny => {
                        let (permission, patterns) = (ask.permission, ask.patterns);
                        drop(answer.send(Err(Refusal::ByPlugin { permission, patterns })));
                    }
                    // Nobody waits any more for one that was aborted meanwhile.
                    Action::Ask if answer.is_closed() => {}
                    Action::Ask => {
                        let request = desk.request_of(&asker, &ask, names_call, None);
                        desk.put_to_person(request, asker, ask, answer, ctx);
                    }
                }));
            }
            Judgement::Ask => {
                let id = earlier.and_then(|id| protocol::PermissionId::parse(&id).ok());
                let request = self.request_of(&asker, &ask, names_call, id);
                self.put_to_person(request, asker, ask, answer, ctx);
            }
        }
    }
}

impl PermissionBroker {
    fn request_of(
        &self,
        asker: &Asker,
        ask: &tools::Ask,
        names_call: bool,
        id: Option<protocol::PermissionId>,
    ) -> Arc<PermissionRequest> {
        Arc::new(PermissionRequest {
            id: id.unwrap_or_else(|| self.ids.permission()),
            session_id: asker.fence.session_id.clone(),
            permission: ask.permission.clone(),
            patterns: ask.patterns.clone(),
            metadata: ask.metadata.clone(),
            always: ask.always.clone(),
            tool: names_call.then(|| asker.call()),
        })
    }

    /// Holds a request until a person answers it.
    fn put_to_person(
        &mut self,
        request: Arc<PermissionRequest>,
        asker: Asker,
        ask: tools::Ask,
        answer: oneshot::Sender<Result<(), Refusal>>,
        ctx: &mut Context<Self>,
    ) {
        let (by, fence, origin) = (asker.by(), asker.fence.clone(), asker.origin.clone());
        let change = Change::PermissionAsked { request: request.clone(), by: by.clone() };
        let id = request.id.to_string();
        let row = AskRow::Permission { request, by, reply: None };
        let waiter = Some(Waiter::Permission { asker: Box::new(asker), ask: Box::new(ask), answer });
        self.store_ask(ctx, id, fence, change, Held { origin, row, waiter });
    }
}

impl Handler<AskQuestions> for PermissionBroker {
    type Result = ();

    fn handle(&mut self, AskQuestions { asker, questions, answer }: AskQuestions, ctx: &mut Self::Context) {
        let earlier = self.earlier_question(&asker, &questions);
        if let Some(Held { row: AskRow::Question { reply: Some(reply), .. }, .. }) =
            earlier.as_ref().and_then(|id| self.held.get(id))
        {
            let _ = answer.send(reply.clone().ok_or(Refusal::Dismissed));
            return;
        }
        let id = earlier.and_then(|id| protocol::QuestionId::parse(&id).ok());
        let request = Arc::new(QuestionRequest {
            id: id.unwrap_or_else(|| self.ids.question()),
            session_id: asker.fence.session_id.clone(),
            questions,
            tool: Some(asker.call()),
        });
        let change = Change::QuestionAsked(request.clone());
        let id = request.id.to_string();
        let row = AskRow::Question { request, reply: None };
        let held = Held { origin: asker.origin, row, waiter: Some(Waiter::Question { answer }) };
        self.store_ask(ctx, id, asker.fence, change, held);
    }
}

impl Handler<Withdraw> for PermissionBroker {
    type Result = MessageResult<Withdraw>;

    fn handle(&mut self, Withdraw(session): Withdraw, _: &mut Self::Context) -> Self::Result {
        let mine = |held: &Held| *held.row.session_id() == session;
        let ids: Vec<String> = self.order.iter().filter(|id| self.held.get(*id).is_some_and(mine)).cloned().collect();
        let mut changes = Vec::new();
        for id in ids {
            let Some(held) = self.release(&id) else { continue };
            self.was_answered(&id);
            match &held.row {
                AskRow::Permission { request, reply: None, .. } => {
                    changes.push(Change::PermissionWithdrawn(session.clone(), request.id.clone()));
                }
                AskRow::Question { request, reply: None } => {
                    changes.push(Change::QuestionWithdrawn(session.clone(), request.id.clone()));
                }
                _ => {
                    if let Some(call) = held.row.call_id() {
                        changes.push(Change::AsksForgotten(session.clone(), call.clone()));
                    }
                }
            }
        }
        MessageResult(changes)
    }
}

impl Handler<Forget> for PermissionBroker {
    type Result = ();

    fn handle(&mut self, Forget(session, call): Forget, _: &mut Self::Context) {
        let settled =
            |held: &Held| *held.row.session_id() == session && held.row.call_id() == Some(&call) && !held.is_open();
        let ids: Vec<String> =
            self.order.iter().filter(|id| self.held.get(*id).is_some_and(settled)).cloned().collect();
        for id in ids {
            self.release(&id);
        }
    }
}

impl Handler<ListWaiting> for PermissionBroker {
    type Result = ResponseActFuture<Self, Waiting>;

    /// What is shown is stored, so that it is there after a crash too.
    fn handle(&mut self, _: ListWaiting, _: &mut Self::Context) -> Self::Result {
        if self.storing.is_empty() {
            return Box::pin(fut::ready(self.waiting(&self.order)));
        }
        let (all_stored, stored) = oneshot::channel();
        self.lists.push((self.asked, all_stored));
        let order = self.order.clone();
        Box::pin(stored.into_actor(self).map(move |_, desk, _| desk.waiting(&order)))
    }
}

impl PermissionBroker {
    fn waiting(&self, order: &VecDeque<String>) -> Waiting {
        let mut waiting = Waiting::default();
        for held in order.iter().filter_map(|id| self.held.get(id)).filter(|held| held.is_open()) {
            match &held.row {
                AskRow::Permission { request, .. } => {
                    waiting.permissions.push((request.clone(), held.origin.clone()));
                }
                AskRow::Question { request, .. } => waiting.questions.push((request.clone(), held.origin.clone())),
            }
        }
        waiting
    }
}

#[cfg(test)]
mod tests;
