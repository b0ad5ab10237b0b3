//! Assignments, declarations, tests.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::Judge;
use super::state::State;
use super::walk::named;

impl Judge<'_> {
    /// Judges assignments below a node: their substitutions, their names; sets them in the state.
    pub(super) fn assignments(&mut self, source: &str, node: Node, state: &mut State) {
        let all = if node.kind() == "variable_assignment" { vec![node] } else { named(node) };
        for node in all.into_iter().filter(|node| node.kind() == "variable_assignment") {
            self.substitutions(source, node, state);
            let name =
                node.child_by_field_name("name").and_then(|name| source.get(name.byte_range())).unwrap_or_default();
            let value = node.child_by_field_name("value");
            let word = value.map(|value| self.word(source, value, state));
            if value.is_some_and(|value| value.kind() != "array" && value.kind() != "command_substitution") {
                self.evaluated_quoted(source, node);
            }
            self.assigned(name, word.as_ref().map_or(Some(""), |word| word.exact()));
            if let Some(word) = word.as_ref().filter(|_| name == "TMPDIR") {
                self.argument(word, state, true, false);
            }
            let plain = !name.contains('[') && !node.children(&mut node.walk()).any(|child| child.kind() == "+=");
            match word {
                Some(word) if plain && value.is_some_and(|value| value.kind() != "array") => {
                    state.set(name, word.values)
                }
                None if plain => state.set(name, BTreeSet::from([String::new()])),
                _ => state.scramble(name.split('[').next().unwrap_or(name)),
            }
        }
    }

    /// Asks where a quoted text may be evaluated as arithmetic: a subscript in it may run commands
    /// (`let 'a[$(rm x)]'`).
    pub(super) fn evaluated(&mut self, source: &str) {
        let subscript = source.split_once('[').map_or("", |(_, subscript)| subscript);
        if subscript.contains("$(") || subscript.contains('`') {
            self.ask("a quoted text may be evaluated");
        }
    }

    /// The same for all texts in single quotes below a node.
    pub(super) fn evaluated_quoted(&mut self, source: &str, node: Node) {
        let mut todo = vec![node];
        while let Some(node) = todo.pop() {
            match node.kind() {
                "raw_string" | "ansi_c_string" => self.evaluated(source.get(node.byte_range()).unwrap_or_default()),
                "command_substitution" | "process_substitution" => {}
                _ => todo.extend(named(node)),
            }
        }
    }

    /// Looks at a word of `declare`, `export` and their like that sets nothing the grammar sees.
    pub(super) fn declared(&mut self, source: &str, node: Node, state: &mut State) {
        self.substitutions(source, node, state);
        let word = self.word(source, node, state);
        self.evaluated(&word.raw);
        match word.exact() {
            Some(text) => {
                // `export "PATH=/x"`: an assignment in quotes.
                if let Some((name, value)) = text.split_once('=') {
                    self.assigned(name, Some(value));
                    state.scramble(name);
                }
            }
            None => self.ask("a variable's name is made while the command runs"),
        }
    }

    /// Looks at the files that `[ -f x ]` and its like ask for.
    pub(super) fn tested(&mut self, source: &str, node: Node, state: &mut State) {
        self.evaluated_quoted(source, node);
        let mut todo = vec![node];
        while let Some(node) = todo.pop() {
            let operator = node.child_by_field_name("operator").and_then(|o| source.get(o.byte_range()));
            if node.kind() == "unary_expression"
                && operator.is_some_and(|o| o.starts_with('-') && !matches!(o, "-n" | "-z" | "-v" | "-o"))
            {
                if let Some(file) = node.named_child(node.named_child_count().saturating_sub(1) as u32) {
                    let word = self.word(source, file, state);
                    self.argument(&word, state, false, false);
                }
            } else {
                todo.extend(named(node));
            }
        }
    }
}
