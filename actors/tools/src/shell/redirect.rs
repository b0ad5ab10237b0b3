//! Redirections and here-documents.

use tree_sitter::Node;

use super::Judge;
use super::command::Input;
use super::parse::{self, UNCLEAR};
use super::state::State;
use super::substitution::unescape_backticks;
use super::walk::{Given, children, named};
use super::word::Word;

/// What redirections do to a command.
#[derive(Default)]
pub(super) struct Redirected {
    /// Words the grammar took for targets and bash takes for arguments.
    pub words: Vec<Word>,
    /// What it reads instead.
    pub input: Option<Input>,
}

impl Judge<'_> {
    /// Applies redirections to a statement that is no simple command; returns what its commands read.
    pub(super) fn around<'t>(&mut self, source: &str, given: &Given<'t>, state: &mut State) -> Given<'t> {
        let mut done = Redirected::default();
        for redirect in &given.redirects {
            self.redirect(source, *redirect, state, &mut done);
        }
        if !done.words.is_empty() {
            self.ask(UNCLEAR);
        }
        let input = if done.input.is_some() { Input::Unknown } else { given.input.clone() };
        Given::input(input)
    }

    pub(super) fn redirect(&mut self, source: &str, node: Node, state: &mut State, done: &mut Redirected) {
        match node.kind() {
            "file_redirect" => self.file_redirect(source, node, state, done),
            "herestring_redirect" => {
                self.substitutions(source, node, state);
                let text = node
                    .named_child(node.named_child_count().saturating_sub(1) as u32)
                    .map(|n| self.word(source, n, state));
                let known = text.as_ref().and_then(Word::exact).map(|text| Input::Text(text.to_owned()));
                done.input = Some(known.unwrap_or(Input::Unknown));
            }
            "heredoc_redirect" => self.heredoc(source, node, state, done),
            _ => self.substitutions(source, node, state),
        }
    }

    fn file_redirect(&mut self, source: &str, node: Node, state: &mut State, done: &mut Redirected) {
        self.substitutions(source, node, state);
        let operator = children(node).into_iter().find(|child| !child.is_named()).map_or("", |child| child.kind());
        let mut cursor = node.walk();
        let mut targets = node.children_by_field_name("destination", &mut cursor);
        if let Some(target) = targets.next() {
            let word = self.word(source, target, state);
            let is_descriptor = matches!(operator, ">&" | "<&")
                && word.literal().is_some_and(|text| text.chars().all(|c| c.is_ascii_digit() || c == '-'));
            if matches!(operator, ">&-" | "<&-") {
                done.words.push(word);
            } else if !is_descriptor {
                self.target(&word, state);
            }
            if operator.starts_with('<') {
                done.input = Some(Input::Unknown);
            }
        }
        for word in targets {
            done.words.push(self.word(source, word, state));
        }
    }

    fn heredoc(&mut self, source: &str, node: Node, state: &mut State, done: &mut Redirected) {
        let text = |node: &Node| source.get(node.byte_range()).unwrap_or_default();
        if has_lost_dash(source, node) {
            done.words.push(Word::plain("-"));
        }
        let mut start = "";
        let mut tabs = false;
        let mut input = None;
        for child in children(node) {
            match child.kind() {
                "<<-" => tabs = true,
                "heredoc_start" => start = text(&child),
                "heredoc_body" => {
                    let quoted = start.contains(['\'', '"', '\\']);
                    let body = text(&child);
                    if ends_early(body, start, tabs) {
                        self.ask(UNCLEAR);
                    }
                    if !quoted {
                        self.heredoc_body(source, child, state);
                    }
                    let exact = quoted || !body.contains(['$', '`', '\\']);
                    input = exact.then(|| Input::Text(body.to_owned()));
                }
                "file_redirect" | "herestring_redirect" => self.redirect(source, child, state, done),
                "pipeline" | "heredoc_end" | "file_descriptor" | "comment" => {}
                // The next part of a list: laid out in `sequence.rs`.
                _ if child.is_named() && Some(child) == node.child_by_field_name("right") => {}
                _ if child.is_named() => {
                    self.substitutions(source, child, state);
                    done.words.push(self.word(source, child, state));
                }
                _ => {}
            }
        }
        done.input = Some(input.unwrap_or(Input::Unknown));
    }

    /// Judges the substitutions of a here-document. The grammar finds those with `$( )`; backticks, and what stands
    /// before the first of them, it leaves out.
    fn heredoc_body(&mut self, source: &str, body: Node, state: &mut State) {
        self.substitutions(source, body, state);
        let seen: Vec<Node> = named(body).into_iter().filter(|child| child.kind() != "heredoc_content").collect();
        let mut at = body.start_byte();
        while let Some(rest) = source.get(at..body.end_byte()) {
            let Some(found) = parse::substitution(rest, false).map(|offset| at + offset) else { return };
            if let Some(node) = seen.iter().find(|node| node.start_byte() <= found && found < node.end_byte()) {
                at = node.end_byte();
                continue;
            }
            let inner = source.get(found + 1..body.end_byte()).unwrap_or_default();
            let is_backtick = source.get(found..).is_some_and(|text| text.starts_with('`'));
            let end = if is_backtick { closing_backtick(inner) } else { closing_bracket(inner) };
            if !is_backtick || end.is_none() {
                self.ask(UNCLEAR);
            }
            let end = end.unwrap_or(inner.len());
            let script = inner.get(..end).unwrap_or_default();
            if is_backtick {
                self.script(&unescape_backticks(script, false), &mut state.clone());
            } else {
                self.script(script.trim_start_matches('('), &mut state.clone());
            }
            at = found + 1 + end + 1;
        }
    }
}

/// Returns whether a lone dash stands before a here-document that is in no token.
fn has_lost_dash(source: &str, node: Node) -> bool {
    let before = source.get(..node.start_byte()).unwrap_or_default().trim_end_matches([' ', '\t']);
    let Some(rest) = before.strip_suffix('-').filter(|rest| rest.ends_with([' ', '\t'])) else { return false };
    let mut root = node;
    while let Some(parent) = root.parent() {
        root = parent;
    }
    root.descendant_for_byte_range(rest.len(), rest.len() + 1).is_none_or(|token| token.child_count() > 0)
}

/// Returns whether a line of the body already ends the here-document in bash.
fn ends_early(body: &str, start: &str, tabs: bool) -> bool {
    let end: String = start.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    body.lines().any(|line| (if tabs { line.trim_start_matches('\t') } else { line }) == end)
}

/// Returns where a backtick that is not escaped stands.
fn closing_backtick(text: &str) -> Option<usize> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '`' => return Some(at),
            _ => {}
        }
    }
    None
}

/// Returns where the bracket that `text` begins with is closed, quotes not counted.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth <= 1 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}
