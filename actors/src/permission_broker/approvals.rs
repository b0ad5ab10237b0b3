//! What people allowed for good: made by replies, looked at by each ask, listed and taken back.

use std::sync::Arc;

use actix::prelude::*;
use protocol::SessionId;
use protocol::permission::{Action, Rule, Scope};
use storage::journal::{Approval, AskRow};
use storage::{Change, JournalError, Origin};

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

impl PermissionBroker {
    pub(super) fn is_approved(&self, asker: &Asker, permission: &str, pattern: &str) -> bool {
        self.approvals.iter().any(|approval| {
            let in_scope = match approval.scope {
                Scope::Project => approval.project_id == asker.origin.project,
                Scope::Session => {
                    approval.session_id == asker.fence.session_id || asker.ancestors.contains(&approval.session_id)
                }
            };
            in_scope
                && approval.agent == asker.agent
                && ruleset::matches(&approval.rule.permission, permission)
                && ruleset::matches(&approval.rule.pattern, pattern)
        })
    }

    /// The approvals a reply `always` makes.
    pub(super) fn approvals_of(&self, held: &Held, scope: Scope) -> Vec<Approval> {
        let AskRow::Permission { request, by, .. } = &held.row else { return Vec::new() };
        let numbered = request.always.iter().enumerate();
        numbered
            .map(|(number, pattern)| Approval {
                id: format!("{}_{number}", request.id),
                scope,
                project_id: held.origin.project.clone(),
                session_id: request.session_id.clone(),
                agent: by.agent.clone(),
                rule: Rule::new(&request.permission, pattern, Action::Allow),
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
