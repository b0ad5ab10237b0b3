//! What people allowed for good: made by replies, looked at by each ask, listed and taken back.

use std::sync::Arc;

use actix::prelude::*;
use protocol::permission::{Action, Rule, Scope};
use protocol::{JsonMap, SessionId};
use storage::journal::{Approval, AskRow};
use storage::{Change, JournalError, Origin};
use tools::EXACTLY;

use super::{Asker, Held, PermissionBroker, ruleset};

/// The session is deleted: what was allowed in it alone is allowed no more. Its rows went with the session's.
#[derive(Message)]
#[rtype(result = "()")]
pub struct DropApprovals(pub SessionId);

/// What people allowed for good.
#[derive(Message)]
#[rtype(result = "Vec<Approval>")]
pub struct ListApprovals;

/// Take an approval back. Returns whether it was there.
#[derive(Message)]
#[rtype(result = "Result<bool, JournalError>")]
pub struct RemoveApproval(pub String);

/// Returns the rule that quiets the floor of a request: for this very thing alone, and under a permission of its own,
/// so that it allows none of the patterns. None where nothing does.
fn exact_rule(permission: &str, metadata: &JsonMap) -> Option<Rule> {
    let exactly = metadata.get(EXACTLY)?.as_str()?;
    Some(Rule::new(format!("{permission}, exactly"), exactly, Action::Allow))
}

impl PermissionBroker {
    /// The rules that people's approvals give to an asker.
    fn approved<'a>(&'a self, asker: &'a Asker) -> impl Iterator<Item = &'a Rule> {
        let holds = |approval: &&Approval| {
            let in_scope = match approval.scope {
                Scope::Project => approval.project_id == asker.origin.project,
                Scope::Session => {
                    approval.session_id == asker.fence.session_id || asker.ancestors.contains(&approval.session_id)
                }
            };
            in_scope && approval.agent == asker.agent
        };
        self.approvals.iter().filter(holds).map(|approval| &approval.rule)
    }

    pub(super) fn is_approved(&self, asker: &Asker, permission: &str, pattern: &str) -> bool {
        self.approved(asker)
            .any(|rule| ruleset::matches(&rule.permission, permission) && ruleset::matches(&rule.pattern, pattern))
    }

    /// Returns whether a person has allowed for good exactly what is asked for, doubts and all.
    pub(super) fn is_approved_exactly(&self, asker: &Asker, ask: &tools::Ask) -> bool {
        exact_rule(&ask.permission, &ask.metadata).is_some_and(|exact| self.approved(asker).any(|rule| *rule == exact))
    }

    /// The approvals a reply `always` makes.
    pub(super) fn approvals_of(&self, held: &Held, scope: Scope) -> Vec<Approval> {
        let AskRow::Permission { request, by, .. } = &held.row else { return Vec::new() };
        let rules = request.always.iter().map(|pattern| Rule::new(&request.permission, pattern, Action::Allow));
        let rules = rules.chain(exact_rule(&request.permission, &request.metadata));
        rules
            .enumerate()
            .map(|(number, rule)| Approval {
                id: format!("{}_{number}", request.id),
                scope,
                project_id: held.origin.project.clone(),
                session_id: request.session_id.clone(),
                agent: by.agent.clone(),
                rule,
                time: self.clock.now_ms(),
            })
            .collect()
    }
}

impl Handler<DropApprovals> for PermissionBroker {
    type Result = ();

    fn handle(&mut self, DropApprovals(session): DropApprovals, _: &mut Self::Context) {
        self.approvals.retain(|approval| approval.scope != Scope::Session || approval.session_id != session);
    }
}

impl Handler<ListApprovals> for PermissionBroker {
    type Result = MessageResult<ListApprovals>;

    fn handle(&mut self, _: ListApprovals, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.approvals.clone())
    }
}

impl Handler<RemoveApproval> for PermissionBroker {
    type Result = ResponseActFuture<Self, Result<bool, JournalError>>;

    fn handle(&mut self, RemoveApproval(id): RemoveApproval, _: &mut Self::Context) -> Self::Result {
        let before = self.approvals.len();
        self.approvals.retain(|approval| approval.id != id);
        if self.approvals.len() == before {
            return Box::pin(fut::ready(Ok(false)));
        }
        let origin = Arc::new(Origin { directory: "global".into(), project: "global".into() });
        let removed = self.record(&origin, None, vec![Change::ApprovalRemoved(id)]);
        Box::pin(removed.into_actor(self).map(|removed, _, _| removed.map(|()| true)))
    }
}
