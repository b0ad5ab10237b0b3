//! From one agent to another within a turn: a call stores a message that the next step answers with the other agent.

use std::path::PathBuf;

use actix::prelude::*;
use protocol::part::PartKind;
use protocol::prompt::{PartInput, PartInputKind, PromptBody};
use protocol::{JsonMap, MessageId, Session as Info};
use tools::ToolError;

use super::Session;
use super::command::{Prompt, Ticket};
use super::history::Entry;
use crate::tool_executor::HandOver;
use crate::workspace::Setup;

/// Returns where a session's plan is written: in the project where it is a repository, else with our own data. Source:
/// OpenCode `Session.plan`.
pub(super) fn plan_of(setup: &Setup, info: &Info) -> PathBuf {
    let plans = if setup.identity.is_repository {
        setup.identity.worktree.join(".opencode/plans")
    } else {
        setup.place.spill.with_file_name("plans")
    };
    plans.join(format!("{}-{}.md", info.time.created, info.slug))
}

/// What marks the message of a hand-over, so that the running turn takes it in although it speaks to another agent.
const MARK: &str = "handOver";

/// Returns whether a message is the one by which a call gave the next step to another agent.
pub(super) fn is_hand_over(entry: &Entry) -> bool {
    entry.parts.iter().any(|part| match &part.kind {
        PartKind::Text(text) => text.synthetic && text.metadata.as_ref().is_some_and(|data| data.contains_key(MARK)),
        _ => false,
    })
}

impl Handler<HandOver> for Session {
    type Result = ResponseActFuture<Self, Result<(), ToolError>>;

    fn handle(&mut self, HandOver { part_id, agent, message }: HandOver, ctx: &mut Self::Context) -> Self::Result {
        // The call's own number makes the message's, so that a call that runs again after a crash makes no second one.
        let number = part_id.as_str().split_once('_').map_or("", |(_, number)| number);
        let message_id = match MessageId::parse(&format!("msg_{number}")) {
            Ok(id) => id,
            Err(_) => self.deps.ids.message(),
        };
        let mark = JsonMap::from_iter([(MARK.to_owned(), true.into())]);
        let text = PartInputKind::Text {
            text: message,
            synthetic: Some(true),
            ignored: None,
            time: None,
            metadata: Some(mark),
        };
        let body = PromptBody {
            message_id: Some(message_id),
            agent: Some(agent),
            parts: vec![PartInput { id: None, kind: text }],
            ..PromptBody::default()
        };
        let prompt = Prompt { body, ticket: Ticket::internal(), room: None };
        let accepted = <Self as Handler<Prompt>>::handle(self, prompt, ctx);
        Box::pin(accepted.map(|accepted, _, _| match accepted {
            Ok(_) => Ok(()),
            Err(error) => Err(ToolError::failed(format!("the other agent could not take over: {error}"))),
        }))
    }
}
