//! Which results of old calls are cleared, so that long sessions need a summary later. Pure.
//! Source of the figures: OpenCode `session/compaction.ts`, `prune`.

use std::sync::Arc;

use protocol::{Part, PartKind, ToolState};

use super::view::View;
use super::window::tokens;
use crate::session::history::Entry;

/// The newest turns keep their results.
const TURNS: usize = 2;
/// So many tokens of results before them stay, too.
const KEPT: u64 = 40_000;
/// Less than this isn't worth the vendor's cache.
const WORTH: u64 = 20_000;
/// What it told holds on.
const SKILL: &str = "skill";

/// Returns the calls whose results are cleared.
pub fn prunable(history: &[Entry]) -> Vec<Arc<Part>> {
    let view = View::of(history);
    let seen: Vec<&Entry> = view.tail.into_iter().chain(view.since).collect();
    let prompts = seen.iter().enumerate().rev().filter(|(_, entry)| entry.info.as_user().is_some());
    let Some((old, _)) = prompts.take(TURNS).nth(TURNS - 1) else { return Vec::new() };
    let mut passed = 0;
    let mut cleared = 0;
    let mut parts = Vec::new();
    for part in seen.iter().take(old).rev().flat_map(|entry| entry.parts.iter().rev()) {
        let Some(tool) = part.as_tool().filter(|tool| tool.tool != SKILL) else { continue };
        let ToolState::Completed { output, time, .. } = &tool.state else { continue };
        // What is before it was looked at when it was cleared.
        if time.compacted.is_some() {
            break;
        }
        passed += tokens(output);
        if passed > KEPT {
            cleared += tokens(output);
            parts.push(part.clone());
        }
    }
    if cleared > WORTH { parts } else { Vec::new() }
}

/// Marks a call's result as cleared. It stays stored; models are not told it any more.
pub fn clear(part: &mut Part, now: u64) {
    if let PartKind::Tool(tool) = &mut part.kind
        && let ToolState::Completed { time, .. } = &mut tool.state
    {
        time.compacted = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::session::samples::{assistant, call, done, text, user};

    /// Turns of one call each, whose result has so many tokens.
    fn turns(results: &[usize]) -> Vec<Entry> {
        let turn = |(n, tokens): (usize, &usize)| {
            let result = call("c", done(&"x".repeat(tokens * 4)));
            [user(2 * n, vec![text("go")]), assistant(2 * n + 1, 2 * n, vec![result])]
        };
        results.iter().enumerate().flat_map(turn).collect()
    }

    fn cleared(history: &[Entry]) -> Vec<String> {
        prunable(history).iter().map(|part| part.message_id.to_string()).collect()
    }

    #[test]
    fn results_beyond_the_newest_are_cleared_when_it_is_worth_it() {
        assert_eq!(cleared(&turns(&[30_000, 30_000, 30_000, 50_000, 50_000])), ["msg_3", "msg_1"]);
        assert_eq!(cleared(&turns(&[10_000, 30_000, 10_000, 50_000, 50_000])), [""; 0]);
        assert_eq!(cleared(&turns(&[90_000])), [""; 0]);
        assert_eq!(cleared(&[]), [""; 0]);
    }

    #[test]
    fn what_was_cleared_is_not_looked_at_again() {
        let mut history = turns(&[90_000, 90_000, 1_000, 1_000]);
        for part in prunable(&history) {
            let mut part = Part::clone(&part);
            clear(&mut part, 5);
            let entry = history.iter_mut().find(|entry| *entry.info.id() == part.message_id).expect("an entry");
            entry.parts = vec![Arc::new(part)];
        }
        assert_eq!(cleared(&history), [""; 0]);
    }
}
