//! Substitutions: commands inside words, texts, arithmetic.

use tree_sitter::Node;

use super::Judge;
use super::command::Input;
use super::redirect::Redirected;
use super::state::State;
use super::walk::{Given, children, named};

impl Judge<'_> {
    /// Judges the substitutions below a node.
    pub(super) fn substitutions_below(&mut self, source: &str, node: Node, state: &mut State) {
        for child in children(node) {
            self.substitutions(source, child, state);
        }
    }

    /// Judges all substitutions in a node, each in a copy of the state.
    pub(super) fn substitutions(&mut self, source: &str, node: Node, state: &mut State) {
        let mut todo = vec![node];
        while let Some(node) = todo.pop() {
            match node.kind() {
                "command_substitution" => self.substituted(source, node, state),
                "process_substitution" => self.block(source, node, &mut state.clone(), &Given::input(Input::Unknown)),
                // Statements where the grammar lets them stand: in subscripts, and where there is an error.
                "command"
                | "list"
                | "pipeline"
                | "subshell"
                | "redirected_statement"
                | "if_statement"
                | "for_statement"
                | "while_statement"
                | "case_statement"
                | "function_definition"
                | "declaration_command"
                | "negated_command"
                | "test_command"
                | "c_style_for_statement" => {
                    self.statement(source, node, &mut state.clone(), &Given::input(Input::Unknown));
                }
                kind => {
                    if kind == "expansion" {
                        self.expansion_of(source, node, state);
                    }
                    todo.extend(children(node).into_iter().rev());
                }
            }
        }
    }

    fn substituted(&mut self, source: &str, node: Node, state: &mut State) {
        let text = source.get(node.byte_range()).unwrap_or_default();
        let inner = text.strip_prefix('`').and_then(|text| text.strip_suffix('`'));
        match inner.filter(|inner| inner.contains('\\')) {
            // Bash takes backslashes off before it reads the text.
            Some(inner) => {
                let quoted = node.parent().is_some_and(|parent| parent.kind() == "string");
                self.script(&unescape_backticks(inner, quoted), &mut state.clone());
            }
            None => {
                let mut inner = state.clone();
                for child in named(node) {
                    if child.kind() == "file_redirect" {
                        self.redirect(source, child, &mut inner, &mut Redirected::default());
                    } else {
                        self.step(source, child, &mut inner, &Given::input(Input::Unknown));
                    }
                }
            }
        }
    }

    /// Looks for expansions that run or set something.
    fn expansion_of(&mut self, source: &str, node: Node, state: &mut State) {
        let text = source.get(node.byte_range()).unwrap_or_default();
        if text.ends_with("@P}") {
            self.ask("a value is run as a prompt");
        }
        let name = named(node).into_iter().find(|child| child.kind() == "variable_name");
        let name = name.and_then(|name| source.get(name.byte_range())).unwrap_or_default();
        if text.contains(&format!("{name}=")) || text.contains(&format!("{name}:=")) {
            self.assigned(name, None);
            state.scramble(name);
        }
    }
}

/// Takes off the backslashes that bash takes off between backticks.
pub(super) fn unescape_backticks(text: &str, quoted: bool) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('\\' | '$' | '`')) => out.extend(chars.next()),
            ('\\', Some('"')) if quoted => out.extend(chars.next()),
            _ => out.push(c),
        }
    }
    out
}
