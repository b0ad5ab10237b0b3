//! Other models: when a request fails for good before its model said anything, the step goes on with the next model of
//! `troupe.fallback`. Each is tried once a step; the turn stays with the one that answers.

use actix::prelude::*;
use protocol::message::ModelRef;
use protocol::{AssistantMessage, Message, PartKind, SessionStatus};
use storage::Change;

use super::Session;
use super::step::{Step, StepKind};
use crate::processor::StepEnd;
use crate::workspace::{Answerer, Wish};

/// Who answers a turn in place of the model that was asked.
#[derive(Debug, Default)]
pub(super) struct StandIn {
    /// The model that was asked, and the one that answers.
    stands: Option<(ModelRef, ModelRef)>,
    /// Models that failed in this step.
    failed: Vec<ModelRef>,
}

impl StandIn {
    /// A step is done: each model may be tried again.
    pub(super) fn step_done(&mut self) {
        self.failed.clear();
    }

    /// Returns the models to try, best first: what was asked, then the configured ones, without those that failed.
    fn candidates(&self, asked: &ModelRef, configured: &[String]) -> Vec<ModelRef> {
        let configured = configured.iter().filter_map(|name| ModelRef::parse(name));
        let mut left: Vec<ModelRef> = Vec::new();
        for model in std::iter::once(asked.clone()).chain(configured) {
            if !self.failed.iter().chain(&left).any(|other| is_same(other, &model)) {
                left.push(model);
            }
        }
        left
    }
}

fn is_same(one: &ModelRef, other: &ModelRef) -> bool {
    one.provider_id == other.provider_id && one.model_id == other.model_id
}

impl Session {
    /// Returns the model that answers where this one is asked.
    pub(super) fn answering_for(&self, asked: &ModelRef) -> ModelRef {
        let stands = self.state.turn.as_ref().and_then(|turn| turn.stand_in.stands.as_ref());
        stands.filter(|(of, _)| is_same(of, asked)).map_or_else(|| asked.clone(), |(_, model)| model.clone())
    }

    /// Notes that the step's model failed. Returns who answers instead; none where nobody can, or where something was
    /// said already.
    pub(super) fn stand_in(&mut self, step: &Step) -> Option<Answerer> {
        let Some(StepEnd::Failed { may_go_elsewhere: true, .. }) = &step.end else { return None };
        let entry = self.state.history.get(&step.message_id)?;
        let is_said = |kind: &PartKind| match kind {
            PartKind::Text(text) => !text.text.is_empty(),
            PartKind::Reasoning(thought) => !thought.text.is_empty(),
            kind => matches!(kind, PartKind::Tool(_)),
        };
        if entry.parts.iter().any(|part| is_said(&part.kind)) {
            return None;
        }
        let parent = entry.info.as_assistant()?.parent_id.clone();
        let asked = self.state.history.get(&parent)?.info.as_user()?.model.clone();
        let turn = self.state.turn.as_mut()?;
        turn.stand_in.failed.push(step.answerer.model_ref.clone());
        let configured = &step.setup.config().troupe.fallback;
        for model in turn.stand_in.candidates(&asked, configured) {
            let (agent, wished) = (Some(step.answerer.agent.name.clone()), Some(model.clone()));
            match step.setup.answerer(&Wish { agent, model: wished, ..Wish::default() }) {
                Ok(answerer) => {
                    turn.stand_in.stands = Some((asked, answerer.model_ref.clone()));
                    return Some(answerer);
                }
                Err(error) => {
                    tracing::warn!(%error, session.id = %self.id, "a model of troupe.fallback can't be used");
                    turn.stand_in.failed.push(model);
                }
            }
        }
        None
    }

    /// The step goes on with another model; its message says who answers.
    pub(super) fn fall_back(
        &mut self,
        step: Step,
        mut message: AssistantMessage,
        answerer: Answerer,
        ctx: &mut Context<Self>,
    ) {
        let user = self.state.history.get(&message.parent_id).and_then(|entry| entry.info.as_user().cloned());
        let Some(user) = user else { return self.close_turn(Vec::new(), None, ctx) };
        message.model_id.clone_from(&answerer.model_ref.model_id);
        message.provider_id.clone_from(&answerer.model_ref.provider_id);
        message.variant.clone_from(&answerer.model_ref.variant);
        let changes = vec![self.put_message(Message::Assistant(message)), self.told_of_change(&step, &answerer)];
        self.record(changes).detach();
        let request = self.request_of(&step.setup, &answerer, &user);
        let Step { setup, message_id, start_part, snapshot, .. } = step;
        self.start_step(setup, answerer, message_id, StepKind::Answer, request, ctx);
        self.keep_start(start_part, snapshot);
    }

    /// What clients are told of it.
    pub(super) fn told_of_change(&self, step: &Step, next: &Answerer) -> Change {
        let failure = match &step.end {
            Some(StepEnd::Failed { error, .. }) => error.message().to_owned(),
            _ => String::new(),
        };
        let name = |answerer: &Answerer| {
            let model = &answerer.model_ref;
            format!("{}/{}", model.provider_id, model.model_id)
        };
        let failed = self.state.turn.as_ref().map_or(0, |turn| turn.stand_in.failed.len());
        self.set_status(SessionStatus::Retry {
            attempt: u32::try_from(failed).unwrap_or(u32::MAX),
            message: format!("{} failed ({failure}); going on with {}", name(&step.answerer), name(next)),
            next: self.now(),
        })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn each_model_is_tried_once_what_was_asked_first() {
        let model = |name: &str| ModelRef::parse(name).expect("a name");
        let configured = ["a/one", "b/two", "no name", "b/two", "c/three"].map(str::to_owned);
        let mut stand_in = StandIn { failed: vec![model("a/one")], ..StandIn::default() };
        assert_eq!(stand_in.candidates(&model("a/one"), &configured), [model("b/two"), model("c/three")]);
        assert_eq!(stand_in.candidates(&model("a/asked"), &configured)[0], model("a/asked"));
        stand_in.step_done();
        assert_eq!(stand_in.candidates(&model("a/one"), &configured)[0], model("a/one"));
    }
}
