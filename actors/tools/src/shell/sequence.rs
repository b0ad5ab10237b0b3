//! Lists and pipelines.
//!
//! The grammar nests them otherwise than bash once there is a redirection (`a && b 2>&1 | c` becomes a pipeline of a
//! list), so they are laid out flat, in the order of the text, and put together again by bash's rules.

use tree_sitter::Node;

use super::Judge;
use super::command::{How, Input};
use super::redirect::Redirected;
use super::state::State;
use super::walk::{Given, children, named};

/// One part of a list or pipeline.
#[derive(Clone, Debug, Default)]
struct Part<'t> {
    /// None for redirections without a command.
    node: Option<Node<'t>>,
    redirects: Vec<Node<'t>>,
}

/// How a part is tied to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tie {
    And,
    Or,
    Pipe,
}

impl Tie {
    fn of(token: &str) -> Option<Self> {
        match token {
            "&&" => Some(Self::And),
            "||" => Some(Self::Or),
            "|" | "|&" => Some(Self::Pipe),
            _ => None,
        }
    }
}

/// Pipelines, and whether each runs when what is before it succeeded.
type Pipelines<'t> = Vec<(bool, Vec<Part<'t>>)>;

impl Judge<'_> {
    /// Judges a list, a pipeline, or a statement with redirections. See [`Judge::statement`] for what it returns.
    pub(super) fn sequence(&mut self, source: &str, node: Node, state: &mut State, input: &Input) -> Option<State> {
        let mut pipelines = flat(node).into_iter();
        let (_, first) = pipelines.next()?;
        let mut failed = self.pipeline(source, &first, state, input);
        for (and, pipeline) in pipelines {
            // It starts from where the ones before succeeded, or from where they failed.
            let before = if and { state.clone() } else { failed.clone().unwrap_or_else(|| state.clone()) };
            let mut after = before.clone();
            let fails = self.pipeline(source, &pipeline, &mut after, input).unwrap_or_else(|| after.clone());
            if and {
                failed = Some(either(failed.unwrap_or(before), &fails));
                *state = after;
            } else {
                *state = either(state.clone(), &after);
                failed = Some(fails);
            }
        }
        failed.filter(|failed| failed != state)
    }

    fn pipeline(&mut self, source: &str, parts: &[Part], state: &mut State, input: &Input) -> Option<State> {
        if let [part] = parts {
            return self.part(source, part, state, input);
        }
        for (at, part) in parts.iter().enumerate() {
            // Each runs in a shell of its own.
            let input = if at == 0 { input } else { &Input::Unknown };
            self.part(source, part, &mut state.clone(), input);
        }
        None
    }

    fn part(&mut self, source: &str, part: &Part, state: &mut State, input: &Input) -> Option<State> {
        if let Some(node) = part.node {
            return self.statement(
                source,
                node,
                state,
                &Given { input: input.clone(), redirects: part.redirects.clone() },
            );
        }
        self.did_something();
        let mut done = Redirected::default();
        for redirect in &part.redirects {
            self.redirect(source, *redirect, state, &mut done);
        }
        // `> f cmd`: what the grammar takes for more targets.
        let how = How { input: done.input.unwrap_or_else(|| input.clone()), stays: true, looked: false };
        if done.words.is_empty() { None } else { self.run(&done.words, state, &how) }
    }
}

fn either(mut a: State, b: &State) -> State {
    a.merge(b);
    a
}

enum Item<'t> {
    Node(Node<'t>),
    Redirect(Node<'t>),
    Tie(Tie),
}

/// Lays a statement out: without recursion, since the grammar nests long lists as deep as they are long.
fn flat(node: Node) -> Pipelines {
    let mut pipelines: Pipelines = vec![(true, Vec::new())];
    let mut todo = vec![Item::Node(node)];
    while let Some(item) = todo.pop() {
        let last = pipelines.last_mut().map(|(_, parts)| parts);
        match item {
            Item::Tie(Tie::Pipe) => {}
            Item::Tie(tie) => pipelines.push((tie == Tie::And, Vec::new())),
            Item::Redirect(redirect) => {
                if let Some(parts) = last {
                    match parts.last_mut() {
                        Some(part) => part.redirects.push(redirect),
                        None => parts.push(Part { node: None, redirects: vec![redirect] }),
                    }
                }
                // What stands in the line behind a here-document's start follows.
                if redirect.kind() == "heredoc_redirect" {
                    let right = redirect.child_by_field_name("right");
                    for child in children(redirect).into_iter().rev() {
                        if child.kind() == "pipeline" || Some(child) == right {
                            todo.push(Item::Node(child));
                        } else if let Some(tie) = Tie::of(child.kind()) {
                            todo.push(Item::Tie(tie));
                        }
                    }
                }
            }
            Item::Node(node) => match node.kind() {
                "list" | "pipeline" => {
                    for child in children(node).into_iter().rev() {
                        match Tie::of(child.kind()) {
                            Some(tie) => todo.push(Item::Tie(tie)),
                            None if child.is_named() && child.kind() != "comment" => todo.push(Item::Node(child)),
                            None => {}
                        }
                    }
                }
                "redirected_statement" => {
                    let body = node.child_by_field_name("body");
                    todo.extend(named(node).into_iter().filter(|c| Some(*c) != body).rev().map(Item::Redirect));
                    match body {
                        Some(body) => todo.push(Item::Node(body)),
                        None => last.into_iter().for_each(|parts| parts.push(Part::default())),
                    }
                }
                _ => last.into_iter().for_each(|parts| parts.push(Part { node: Some(node), redirects: Vec::new() })),
            },
        }
    }
    pipelines
}
