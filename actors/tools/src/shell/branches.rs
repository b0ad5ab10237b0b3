//! Branches, loops and functions: statements that run some of what is in them, or run it often.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::Judge;
use super::command::Input;
use super::redirect::Redirected;
use super::state::State;
use super::walk::{Given, children, named};
use super::word::ANY;

impl Judge<'_> {
    pub(super) fn branches(&mut self, source: &str, node: Node, state: &mut State, given: &Given) {
        // What holds after one of the branches, and what holds while none was taken.
        let mut ends: Vec<State> = Vec::new();
        let mut none_taken = Some(state.clone());
        let mut taken: Option<State> = None;
        self.branch(source, node, &mut none_taken, &mut taken, &mut ends, given);
        ends.extend(taken);
        ends.extend(none_taken);
        let mut ends = ends.into_iter();
        if let Some(first) = ends.next() {
            *state = first;
        }
        for end in ends {
            state.merge(&end);
        }
    }

    fn branch(
        &mut self,
        source: &str,
        node: Node,
        none_taken: &mut Option<State>,
        taken: &mut Option<State>,
        ends: &mut Vec<State>,
        given: &Given,
    ) {
        let mut failed = None;
        for child in children(node) {
            match child.kind() {
                "then" => {
                    *taken = none_taken.clone();
                    if let (Some(none), Some(failed)) = (none_taken.as_mut(), failed.take()) {
                        *none = failed;
                    }
                }
                "elif_clause" => {
                    ends.extend(taken.take());
                    self.branch(source, child, none_taken, taken, ends, given);
                }
                "else_clause" => {
                    ends.extend(taken.take());
                    if let Some(mut state) = none_taken.take() {
                        self.block(source, child, &mut state, given);
                        ends.push(state);
                    }
                }
                _ if child.is_named() => {
                    if let Some(state) = taken.as_mut() {
                        self.step(source, child, state, given);
                    } else if let Some(state) = none_taken.as_mut() {
                        if let Some(failed) = failed.take() {
                            state.merge(&failed);
                        }
                        failed = self.statement(source, child, state, given);
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn case(&mut self, source: &str, node: Node, state: &mut State, given: &Given) {
        self.did_something();
        let before = state.clone();
        for child in named(node) {
            if child.kind() != "case_item" {
                self.substitutions(source, child, state);
                continue;
            }
            // With `;&` one item runs on into the next; from what holds anywhere all is covered.
            let mut item = before.clone();
            item.merge(state);
            let mut cursor = child.walk();
            let values: Vec<Node> = child.children_by_field_name("value", &mut cursor).collect();
            for part in named(child) {
                if values.contains(&part) {
                    self.substitutions(source, part, state);
                } else {
                    self.step(source, part, &mut item, given);
                }
            }
            state.merge(&item);
        }
    }

    pub(super) fn for_each(&mut self, source: &str, node: Node, state: &mut State, given: &Given) {
        self.did_something();
        let mut cursor = node.walk();
        let values: Vec<Node> = node.children_by_field_name("value", &mut cursor).collect();
        let mut all = BTreeSet::new();
        for value in values {
            self.substitutions(source, value, state);
            let word = self.word(source, value, state);
            if word.climbs {
                all.insert(ANY.to_string());
            }
            match word.splits {
                true => word.values.iter().for_each(|value| all.extend(value.split_whitespace().map(str::to_owned))),
                false => all.extend(word.values),
            }
        }
        if all.is_empty() {
            all.insert(ANY.to_string());
        }
        let name =
            node.child_by_field_name("variable").and_then(|name| source.get(name.byte_range())).unwrap_or_default();
        self.assigned(name, None);
        let body = node.child_by_field_name("body");
        self.repeat(state, |judge, state| {
            state.set(name, all.clone());
            if let Some(body) = body {
                judge.block(source, body, state, given);
            }
        });
    }

    /// Judges one round of a `while`: the condition, then the body.
    pub(super) fn round(&mut self, source: &str, node: Node, state: &mut State, given: &Given) {
        let mut failed = None;
        for child in named(node) {
            if child.kind() == "do_group" {
                let out = failed.take().unwrap_or_else(|| state.clone());
                self.block(source, child, state, given);
                state.merge(&out);
            } else {
                if let Some(failed) = failed.take() {
                    state.merge(&failed);
                }
                failed = self.statement(source, child, state, given);
            }
        }
    }

    /// Judges a loop's body as often as it takes to know what it does to the state.
    pub(super) fn repeat(&mut self, state: &mut State, mut body: impl FnMut(&mut Self, &mut State)) {
        let before = state.clone();
        body(self, state);
        state.merge(&before);
        if *state == before {
            return;
        }
        let once = state.clone();
        body(self, state);
        state.merge(&once);
        if *state == once {
            return;
        }
        if state.blur(&once) {
            self.ask("a loop goes to another directory in each round");
        }
        body(self, &mut state.clone());
    }

    pub(super) fn function(&mut self, source: &str, node: Node, state: &mut State) {
        self.did_something();
        let name = node.child_by_field_name("name").and_then(|name| source.get(name.byte_range())).unwrap_or_default();
        let Some(body) = node.child_by_field_name("body") else { return };
        for redirect in named(node).into_iter().filter(|child| child.kind().ends_with("_redirect")) {
            self.redirect(source, redirect, state, &mut Redirected::default());
        }
        self.statement(source, body, &mut state.clone(), &Given::input(Input::Unknown));
        if let Some(text) = source.get(body.byte_range()) {
            state.functions.entry(name.to_owned()).or_default().insert(text.into());
        }
    }
}
