//! Statements: which commands run, in which order, and what the shell's state is when they do.

use protocol::permission::Action;
use tree_sitter::Node;

use super::command::{How, Input, moves};
use super::parse::{UNCLEAR, parse};
use super::redirect::Redirected;
use super::state::State;
use super::word::Word;
use super::{Judge, LONGEST};

/// What comes to a statement from outside it.
#[derive(Clone)]
pub(super) struct Given<'t> {
    pub input: Input,
    pub redirects: Vec<Node<'t>>,
}

impl Given<'_> {
    pub(super) fn input(input: Input) -> Self {
        Self { input, redirects: Vec::new() }
    }
}

impl Judge<'_> {
    /// Judges a script: the line itself, or a text that some command gives to a shell.
    pub(super) fn script(&mut self, script: &str, state: &mut State) {
        let Some(left) = self.scripts.checked_sub(1).filter(|_| script.len() <= LONGEST) else {
            return self.ask(UNCLEAR);
        };
        self.scripts = left;
        if !self.enter() {
            return;
        }
        match parse(script) {
            Some(parsed) => {
                if !parsed.is_clear {
                    self.ask(UNCLEAR);
                }
                self.block(&parsed.source, parsed.tree.root_node(), state, &Given::input(Input::Empty));
            }
            None => self.ask(UNCLEAR),
        }
        self.leave();
    }

    /// Judges the statements among a node's children, one after the other.
    pub(super) fn block(&mut self, source: &str, node: Node, state: &mut State, given: &Given) {
        for child in children(node) {
            if child.is_named() {
                self.step(source, child, state, given);
            }
        }
    }

    /// Judges one statement of a block: what comes next runs whether it succeeds or not.
    pub(super) fn step(&mut self, source: &str, node: Node, state: &mut State, given: &Given) {
        if node.next_sibling().is_some_and(|next| next.kind() == "&") {
            self.statement(source, node, &mut state.clone(), given);
            return;
        }
        if let Some(failed) = self.statement(source, node, state, given) {
            state.merge(&failed);
        }
    }

    /// Judges a statement. Afterwards `state` is what holds if it succeeds; returned is what holds if it fails, where
    /// that differs.
    pub(super) fn statement(&mut self, source: &str, node: Node, state: &mut State, given: &Given) -> Option<State> {
        if !self.enter() {
            self.list_all(source, node);
            return None;
        }
        let failed = self.statement_entered(source, node, state, given);
        self.leave();
        failed
    }

    fn statement_entered(&mut self, source: &str, node: Node, state: &mut State, given: &Given) -> Option<State> {
        match node.kind() {
            "comment" => None,
            "command" => self.command(source, node, state, given),
            "list" | "pipeline" | "redirected_statement" => self.sequence(source, node, state, &given.input),
            "negated_command" => {
                let inner = node.named_child(0)?;
                let failed = self.statement(source, inner, state, given)?;
                Some(std::mem::replace(state, failed))
            }
            "subshell" => {
                let given = self.around(source, given, state);
                self.block(source, node, &mut state.clone(), &given);
                None
            }
            "compound_statement" if node.child(0).is_some_and(|open| open.kind() == "{") => {
                let given = self.around(source, given, state);
                self.block(source, node, state, &given);
                None
            }
            "if_statement" => {
                let given = self.around(source, given, state);
                self.branches(source, node, state, &given);
                None
            }
            "while_statement" => {
                let given = self.around(source, given, state);
                self.repeat(state, |judge, state| judge.round(source, node, state, &given));
                None
            }
            "for_statement" => {
                let given = self.around(source, given, state);
                self.for_each(source, node, state, &given);
                None
            }
            "c_style_for_statement" => {
                let given = self.around(source, given, state);
                self.did_something();
                let body = node.child_by_field_name("body");
                for child in children(node).into_iter().filter(|child| Some(*child) != body) {
                    self.substitutions(source, child, state);
                }
                self.repeat(state, |judge, state| {
                    if let Some(body) = body {
                        judge.block(source, body, state, &given);
                    }
                });
                None
            }
            "case_statement" => {
                let given = self.around(source, given, state);
                self.case(source, node, state, &given);
                None
            }
            "function_definition" => {
                self.function(source, node, state);
                None
            }
            "variable_assignment" | "variable_assignments" => {
                self.around(source, given, state);
                self.did_something();
                self.assignments(source, node, state);
                None
            }
            "declaration_command" | "unset_command" => {
                self.around(source, given, state);
                self.did_something();
                self.assignments(source, node, state);
                for name in named(node).into_iter().filter(|child| child.kind() != "variable_assignment") {
                    self.declared(source, name, state);
                }
                None
            }
            "test_command" => {
                self.around(source, given, state);
                self.did_something();
                self.substitutions_below(source, node, state);
                self.tested(source, node, state);
                None
            }
            // Arithmetic, an error, or what the grammar puts where no statement should be.
            _ => {
                self.around(source, given, state);
                self.did_something |= node.kind() == "compound_statement";
                self.evaluated_quoted(source, node);
                self.substitutions_below(source, node, state);
                None
            }
        }
    }

    fn command(&mut self, source: &str, node: Node, state: &mut State, given: &Given) -> Option<State> {
        let mut words = Vec::new();
        let mut done = Redirected::default();
        let mut assigned = Vec::new();
        for child in children(node) {
            match child.kind() {
                "variable_assignment" => assigned.push(child),
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                    self.redirect(source, child, state, &mut done);
                }
                "subshell" => drop(self.statement(source, child, &mut state.clone(), &Given::input(Input::Unknown))),
                _ => {
                    self.substitutions(source, child, state);
                    words.push(self.word(source, child, state));
                }
            }
        }
        for redirect in &given.redirects {
            self.redirect(source, *redirect, state, &mut done);
        }
        words.append(&mut done.words);
        // `IFS= read -r line` is how lines are read.
        let reads = words.first().and_then(Word::literal) == Some("read");
        for assignment in assigned {
            let is_separator =
                assignment.child_by_field_name("name").is_some_and(|n| source.get(n.byte_range()) == Some("IFS"));
            if reads && is_separator {
                self.substitutions(source, assignment, state);
            } else {
                self.assignments(source, assignment, &mut state.clone());
            }
        }
        let input = done.input.take().unwrap_or_else(|| given.input.clone());
        // Where a redirection fails the command does not run: the shell stays where it is.
        let is_redirected = !given.redirects.is_empty() || children(node).iter().any(|c| c.kind() == "file_redirect");
        let before = (is_redirected && words.first().and_then(Word::exact).is_some_and(moves)).then(|| state.clone());
        let failed = self.run(&words, state, &How { input, stays: true, looked: false });
        failed.or(before)
    }

    /// Lists all commands below a node that is not followed any deeper.
    fn list_all(&mut self, source: &str, node: Node) {
        let mut todo = vec![node];
        while let Some(node) = todo.pop()
            && self.verdict.floor != Action::Deny
        {
            if node.kind() == "command" {
                let parts = named(node)
                    .into_iter()
                    .filter(|c| !c.kind().ends_with("_redirect") && c.kind() != "variable_assignment");
                let words: Vec<Word> =
                    parts.map(|part| Word::plain(source.get(part.byte_range()).unwrap_or_default())).collect();
                self.list(&words);
            }
            todo.extend(children(node));
        }
    }
}

pub(super) fn children(node: Node) -> Vec<Node> {
    node.children(&mut node.walk()).collect()
}

pub(super) fn named(node: Node) -> Vec<Node> {
    node.named_children(&mut node.walk()).filter(|child| child.kind() != "comment").collect()
}
