//! Budgets: what a turn, a session, its tree and a day may cost. Looked at before each step; a turn that has used one up
//! ends there and says so, and goes on with the next prompt once the budget was raised.

use std::sync::Arc;

use actix::prelude::*;
use protocol::SessionError;
use protocol::config::{Budget, BudgetConfig};
use protocol::message::PromptSettings;
use storage::store::{Spender, Spent};
use tokio::sync::oneshot;

use super::Session;
use crate::workspace::Setup;

/// A day, in ms.
const DAY: u64 = 24 * 60 * 60 * 1000;

impl Session {
    /// Returns what the running turn may cost: by the config, and by its prompts where they say something else.
    fn budget(&self, setup: &Setup) -> BudgetConfig {
        let config = setup.config().troupe.budget;
        self.given().map_or(config, |given| config.with(&given.budget))
    }

    /// Returns what the turn's prompts say of it: its subagents are told the same.
    pub(super) fn given(&self) -> Option<Box<PromptSettings>> {
        let asked = self.state.turn.iter().flat_map(|turn| &turn.answering);
        let given = asked.filter_map(|id| self.state.history.get(id)?.info.as_user()?.troupe.clone());
        given.reduce(|one, next| Box::new(PromptSettings { budget: one.budget.with(&next.budget) }))
    }

    /// Calls `go` when no budget is used up; else ends the turn.
    pub(super) fn within_budget(
        &mut self,
        setup: Arc<Setup>,
        ctx: &mut Context<Self>,
        go: impl FnOnce(&mut Self, Arc<Setup>, &mut Context<Self>) + 'static,
    ) {
        let budget = self.budget(&setup);
        if budget == BudgetConfig::default() {
            return go(self, setup, ctx);
        }
        if let Some(used_up) = used_up("turn", &budget.turn, &self.spent_by_turn()) {
            return self.fail_turn(SessionError::unknown(used_up), ctx);
        }
        let root = self.state.ancestors.last().unwrap_or(&self.id).clone();
        let today = self.now() / DAY * DAY;
        let shared = [
            ("session", budget.session, Spender::Session(self.id.clone())),
            ("tree", budget.tree, Spender::Tree(root)),
            ("day", budget.day, Spender::Since(today)),
        ];
        // What the last step cost must be stored before it is counted.
        let (stored, store) = (self.record(Vec::new()), self.deps.store.clone());
        let (tell, told) = oneshot::channel();
        self.deps.io.spawn(async move {
            let _ = stored.await;
            let mut found = None;
            for (name, budget, spender) in shared.iter().filter(|(_, budget, _)| *budget != Budget::default()) {
                match store.spent(spender).await {
                    Ok(spent) => found = found.or_else(|| used_up(name, budget, &spent)),
                    Err(error) => tracing::error!(%error, "a budget can't be looked at; the turn goes on without"),
                }
            }
            let _ = tell.send(found);
        });
        let fence = self.state.fence.clone();
        ctx.spawn(told.into_actor(self).map(move |found, session, ctx| {
            if session.state.fence != fence {
                return;
            }
            match found.ok().flatten() {
                Some(used_up) => session.fail_turn(SessionError::unknown(used_up), ctx),
                None => go(session, setup, ctx),
            }
        }));
    }

    /// What the answers to the turn's prompts have cost.
    fn spent_by_turn(&self) -> Spent {
        let Some(turn) = &self.state.turn else { return Spent::default() };
        let answers = self.state.history.entries().iter().filter_map(|entry| entry.info.as_assistant());
        let mut spent = Spent::default();
        for answer in answers.filter(|answer| turn.answering.contains(&answer.parent_id)) {
            spent.tokens += answer.tokens.all();
            spent.cost += answer.cost;
            let finished = u64::from(answer.finish.is_some());
            spent.requests += finished;
            spent.steps += finished * u64::from(!answer.summary);
            spent.wall_ms += answer.time.completed.unwrap_or_default().saturating_sub(answer.time.created);
        }
        spent
    }
}

/// Says which limit is reached.
fn used_up(name: &str, budget: &Budget, spent: &Spent) -> Option<String> {
    let counts = [
        ("tokens", budget.tokens, spent.tokens),
        ("requests", budget.requests, spent.requests),
        ("steps", budget.steps, spent.steps),
        ("wall_ms", budget.wall_ms, spent.wall_ms),
    ];
    let count = counts.into_iter().find_map(|(what, limit, spent)| {
        limit.filter(|limit| spent >= *limit).map(|limit| (what, format!("{spent} of {limit}")))
    });
    let cost = || {
        let limit = budget.cost.filter(|limit| spent.cost >= *limit)?;
        Some(("cost", format!("{:.4} of {limit} US dollars", spent.cost)))
    };
    let (what, used) = count.or_else(cost)?;
    Some(format!(
        "The budget is used up: {used} ({what}) of this {name}. Raise troupe.budget.{name}.{what} in the config, or give \
         it with the next prompt, and go on."
    ))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_limit_that_is_reached_is_named_with_what_was_spent() {
        let budget = Budget { tokens: Some(100), cost: Some(0.5), ..Budget::default() };
        let spent = Spent { tokens: 99, cost: 0.4, ..Spent::default() };
        assert_eq!(used_up("day", &budget, &spent), None);
        let told = |spent: Spent| used_up("day", &budget, &spent).unwrap_or_default();
        assert!(told(Spent { tokens: 100, ..spent }).contains("100 of 100 (tokens) of this day"));
        assert!(told(Spent { cost: 0.5, ..spent }).contains("troupe.budget.day.cost"));
    }

    #[test]
    fn what_a_prompt_says_goes_before_the_config() {
        let config = BudgetConfig {
            turn: Budget { tokens: Some(1), steps: Some(2), ..Budget::default() },
            ..BudgetConfig::default()
        };
        let given = BudgetConfig { turn: Budget { tokens: Some(5), ..Budget::default() }, ..BudgetConfig::default() };
        assert_eq!(config.with(&given).turn, Budget { tokens: Some(5), steps: Some(2), ..Budget::default() });
    }
}
