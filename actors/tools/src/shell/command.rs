//! Simple commands: what is listed for the rules, what they run in turn, and what they do to the shell itself.

use std::path::PathBuf;

use super::names::{GIT_VALUES, arity, full_arity, without_options};
use super::parse::UNCLEAR;
use super::paths::{base_name, is_changer, is_program};
use super::printed::TEMPORARY;
use super::state::State;
use super::word::Word;
use super::wrappers::{FOREIGN_SHELLS, Gives, SHELL_BY_DEFAULT, SHELLS, Wrapper, wrapper};
use super::{Judge, Simple};

/// Where a command's input comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// `/dev/null`, as for the whole line.
    Empty,
    /// This text.
    Text(String),
    /// Another command, a file, a text made while it runs.
    Unknown,
}

/// How a command is run.
#[derive(Clone, Debug)]
pub(super) struct How {
    pub input: Input,
    /// By this shell itself, so that `cd` has an effect.
    pub stays: bool,
    /// Its words were looked at for paths already, as another command's.
    pub looked: bool,
}

/// Words that are no command's name.
const RESERVED: &[&str] = &[
    "!", "{", "}", "[[", "]]", "if", "then", "elif", "else", "fi", "while", "until", "for", "select", "do", "done",
    "case", "esac", "function", "in",
];

impl Judge<'_> {
    /// Judges a simple command. Afterwards `state` is what holds if it succeeds; returned is what holds if it fails,
    /// where that differs.
    pub(super) fn run(&mut self, words: &[Word], state: &mut State, how: &How) -> Option<State> {
        if !self.enter() {
            return None;
        }
        let failed = self.run_entered(words, state, how);
        self.leave();
        failed
    }

    fn run_entered(&mut self, words: &[Word], state: &mut State, how: &How) -> Option<State> {
        let (first, arguments) = words.split_first()?;
        let Some(path) = first.exact() else {
            self.list(words);
            self.paths(words, state, true);
            self.ask("the command's name is made while it runs");
            return None;
        };
        if first.expands {
            self.ask("the command's name is made while it runs");
        }
        if RESERVED.contains(&&*first.raw) {
            // The grammar took the shell's own word for a name (`! { …`).
            self.ask(UNCLEAR);
            return self.run(arguments, state, how);
        }
        let name = base_name(path);
        if how.stays && moves(name) && !state.functions.contains_key(name) {
            return self.move_by(name, arguments, state);
        }
        self.list(words);
        if !how.looked {
            self.paths(words, state, is_changer(name));
        }
        let how = How { looked: true, ..how.clone() };
        if moves(name) && state.functions.contains_key(name) {
            self.ask("a function stands for the shell's own command");
        }
        self.defined(path, arguments, state);
        if let Some(wrapper) = wrapper(name) {
            return self.unwrap(wrapper, words, state, &how);
        }
        if SHELLS.contains(&name) {
            self.shell(name, arguments, state, &how.input);
            return None;
        }
        if FOREIGN_SHELLS.contains(&name) && (!arguments.is_empty() || how.input != Input::Empty) {
            self.ask("a shell of another language runs a text");
            return None;
        }
        self.runs(name, arguments, state, &how);
        match name {
            "eval" => self.text(&joined(behind_dashes(arguments)), state),
            "source" | "." => self.source(behind_dashes(arguments), state, &how.input),
            "trap" => {
                let action = arguments.iter().find(|a| !matches!(a.exact(), Some("--" | "-p" | "-l")));
                if let Some(action) = action.filter(|a| !matches!(a.exact(), Some("-" | ""))) {
                    self.text(&action.exact().map(str::to_owned), &mut state.clone());
                }
            }
            "alias" => self.alias(arguments, state),
            "find" | "gfind" => self.executed(arguments, &["-exec", "-execdir", "-ok", "-okdir"], state, &how),
            "fd" | "fdfind" => {
                self.executed(arguments, &["-x", "--exec", "-X", "--exec-batch"], state, &how);
                self.found_by_fd(arguments, state, &how);
            }
            "at" | "batch" => match &how.input {
                Input::Text(text) => self.script(&text.clone(), &mut state.clone()),
                Input::Empty => {}
                Input::Unknown => self.ask("commands come from the input"),
            },
            "tmux" | "screen" if !looks_at_terminals(arguments) => self.ask("a command is given to another terminal"),
            "su" | "runuser" | "sg" | "script" | "flock" => self.behind_c(name, arguments, state, &how),
            "git" => self.git(arguments, state),
            "hash" if arguments.iter().any(|a| a.exact() == Some("-p")) => {
                self.ask("a command's name is given to another")
            }
            "enable" if arguments.iter().any(|a| a.exact() == Some("-f")) => self.ask("code is loaded into the shell"),
            "enable" if arguments.iter().any(|a| a.exact() == Some("-n")) => {
                self.ask("a command of the shell's own is switched off")
            }
            "set" if arguments.iter().any(|a| matches!(a.exact(), Some("-P" | "physical"))) => {
                self.ask("the shell is told to follow links")
            }
            "compgen" | "complete" | "bind" => self.ask("the shell is given a command to run later"),
            "mkdir" => {
                let made = self.named_by(arguments, state);
                state.made.extend(made);
            }
            "rm" | "rmdir" | "mv" => {
                let removed = self.named_by(arguments, state);
                state.made.retain(|made| !removed.iter().any(|gone| made.starts_with(gone)));
                state.removed.extend(removed);
            }
            "ln" => self.linked(arguments, state),
            "mktemp" => {
                let is_here = |word: &Word| !word.raw.starts_with('-') || word.raw.contains(['/', '=']);
                let in_tmp = arguments.iter().any(|a| matches!(a.exact(), Some("-t" | "--tmpdir")));
                if in_tmp || !arguments.iter().any(is_here) {
                    self.look(TEMPORARY.as_ref(), true);
                }
            }
            "read" | "mapfile" | "readarray" | "getopts" | "let" | "printf" | "test" | "[" => {
                self.sets(name, arguments, state)
            }
            _ => {}
        }
        None
    }

    /// Lists a command for the rules: as it is written, with one blank between words. Where it could be written with
    /// fewer quotes, or by the mere name of a program of the system, it is listed so too.
    pub(super) fn list(&mut self, words: &[Word]) {
        let raw: Vec<&str> = words.iter().map(|word| &*word.raw).filter(|raw| !raw.is_empty()).collect();
        let always = always(words, &raw);
        let is_wide = always.iter().all(|pattern| pattern.ends_with(" *"));
        if words.iter().any(|word| is_made_option(&word.raw)) {
            self.ask("an option is made while the command runs");
        }
        let named = arity(&words.iter().map(|word| word.exact().unwrap_or_default()).collect::<Vec<_>>());
        if has_made_subcommand(words) {
            self.ask("what the command does is made while it runs");
        }
        let plain = |(at, word): (usize, &Word)| match word.exact().filter(|value| !value.is_empty()) {
            Some(value) if at == 0 && is_program(value.as_ref()) => base_name(value).to_owned(),
            Some(value) if at < named || needs_no_quotes(value) => value.to_owned(),
            _ => word.raw.clone(),
        };
        let plainly: Vec<String> = words.iter().enumerate().map(plain).filter(|text| !text.is_empty()).collect();
        // Quotes in the command's name, or where it lies, are another way to write it.
        let is_known = words.iter().take(named).all(|word| !word.expands);
        let other_name = is_known && raw.iter().take(named).ne(plainly.iter().take(named));
        let outer = self.aside;
        self.aside |= other_name || is_silent(words);
        self.push(raw.join(" "), always);
        self.aside = outer;
        if plainly != raw {
            let text = plainly.join(" ");
            let always = if is_wide { Vec::new() } else { vec![text.clone()] };
            self.push(text, always);
        }
        // `git -C x push`: a rule that speaks of `git push` means it too.
        let plainly: Vec<&str> = plainly.iter().map(String::as_str).collect();
        for named in without_options(&plainly) {
            let text = named.join(" ");
            self.push(text.clone(), vec![text]);
        }
    }

    /// Returns where the operands of a command lead, as far as they are known.
    fn named_by(&self, arguments: &[Word], state: &State) -> Vec<PathBuf> {
        let operands = arguments.iter().filter_map(Word::exact).filter(|operand| !operand.starts_with('-'));
        operands.flat_map(|operand| state.cwds.iter().filter_map(move |cwd| self.destination(operand, cwd))).collect()
    }

    /// Looks where a link leads that the line makes, and may use: its target counts from where the link is.
    fn linked(&mut self, arguments: &[Word], state: &State) {
        let operands: Vec<&str> =
            arguments.iter().filter_map(Word::exact).filter(|operand| !operand.starts_with('-')).collect();
        let [target, link] = operands.as_slice() else { return };
        for cwd in &state.cwds {
            let Some(link) = self.destination(link, cwd) else { continue };
            let is_directory = (self.surroundings.look)(&link).is_directory;
            let from = if is_directory { Some(&*link) } else { link.parent() };
            if let Some(to) = from.and_then(|from| self.destination(target, from)) {
                self.look(&to, false);
            }
        }
    }

    fn push(&mut self, text: String, always: Vec<String>) {
        if text.is_empty() {
            return;
        }
        if let Some(known) = self.listed.get(&text).and_then(|at| self.verdict.commands.get_mut(*at)) {
            known.aside &= self.aside;
            return;
        }
        let Some(room) = self.room.checked_sub(text.len()) else { return self.refuse() };
        self.room = room;
        self.listed.insert(text.clone(), self.verdict.commands.len());
        self.verdict.commands.push(Simple { text, always, aside: self.aside });
    }

    /// Judges the bodies of functions and aliases of this name.
    fn defined(&mut self, name: &str, arguments: &[Word], state: &mut State) {
        let bodies = state.functions.get(name).cloned().unwrap_or_default();
        for body in bodies {
            let mut after = state.clone();
            self.script(&body, &mut after);
            state.merge(&after);
        }
        let rest: Vec<&str> = arguments.iter().map(|word| &*word.raw).collect();
        // An alias that names itself is not expanded again.
        let texts = state.aliases.remove(name).unwrap_or_default();
        for text in &texts {
            self.script(&format!("{text} {}", rest.join(" ")), state);
        }
        if !texts.is_empty() {
            state.aliases.insert(name.to_owned(), texts);
        }
    }

    fn unwrap(&mut self, wrapper: &Wrapper, words: &[Word], state: &mut State, how: &How) -> Option<State> {
        let front = wrapper.front(words);
        if front.unsure {
            self.ask("an option of a command that runs another is not known");
        }
        for at in &front.assignments {
            if let Some((name, value)) = words.get(*at).and_then(|word| word.exact()?.split_once('=')) {
                self.assigned(name, Some(value));
            }
        }
        let inner = words.get(front.at..).unwrap_or_default();
        if inner.is_empty() {
            // `parallel` and `exec` without a command: the one takes them from its input, the other only redirects.
            let name = words.first().and_then(Word::exact).map(base_name).unwrap_or_default();
            let runs_a_shell = SHELL_BY_DEFAULT.contains(&name) && how.input != Input::Empty;
            if wrapper.gives == Gives::Text && wrapper.adds || runs_a_shell {
                self.ask("commands come from the input");
            }
            self.redirected_for_good |= how.stays && how.input != Input::Empty;
            return None;
        }
        let raised = wrapper.raises.then_some(self.verdict.commands.len());
        let failed = match wrapper.gives {
            Gives::Text => {
                let end = inner.iter().position(|w| w.raw.starts_with(":::")).unwrap_or(inner.len());
                let mut text = joined(inner.get(..end).unwrap_or_default());
                if wrapper.adds {
                    if end == inner.len() && text.as_ref().is_some_and(|text| text.contains("{}")) {
                        self.ask("the input becomes part of a text that a shell runs");
                    }
                    text = text.map(|text| text.replace("{}", "_"));
                }
                self.text(&text, &mut state.clone());
                None
            }
            Gives::Words => {
                let mut inner = inner.to_vec();
                if wrapper.adds {
                    let mark = mark(words);
                    if inner.first().is_some_and(|name| name.raw.contains(mark)) {
                        self.ask("the command's name comes from the input");
                    }
                    self.filled_in(&inner, mark);
                    inner.push(Word::unknown());
                    self.paths(&inner, state, inner.first().and_then(Word::exact).is_some_and(is_changer));
                }
                let stays = how.stays && wrapper.stays;
                if stays {
                    self.run(&inner, state, &How { stays, ..how.clone() })
                } else {
                    self.run(&inner, &mut state.clone(), &How { stays, ..how.clone() });
                    None
                }
            }
        };
        self.raise(words, front.at, raised);
        failed
    }

    /// Makes what `always` allows of a raised command name the inner command as well.
    fn raise(&mut self, words: &[Word], at: usize, listed: Option<usize>) {
        let Some(inner) = listed.and_then(|listed| self.verdict.commands.get(listed)) else { return };
        let front: Vec<&str> = words.iter().take(at).map(|word| &*word.raw).collect();
        let always = inner.always.iter().map(|inner| format!("{} {inner}", front.join(" "))).collect();
        let text = words.iter().map(|word| &*word.raw).collect::<Vec<_>>().join(" ");
        if let Some(outer) = self.verdict.commands.iter_mut().find(|command| command.text == text) {
            outer.always = always;
        }
    }
}

/// Returns whether a command of the shell's own changes its directory.
pub(super) fn moves(name: &str) -> bool {
    matches!(name, "cd" | "pushd" | "popd" | "chdir")
}

/// Returns whether a word that names the command, such as the one behind `git`, isn't known: a rule may speak of it.
fn has_made_subcommand(words: &[Word]) -> bool {
    let Some(name) = words.first().and_then(Word::exact).map(base_name) else { return false };
    let mut named = vec![name];
    let mut before = "";
    for word in words.iter().skip(1) {
        if named.len() >= full_arity(&named) {
            return false;
        }
        let Some(text) = word.exact().filter(|_| !word.may_be_several()) else {
            // The value of an option, or an option.
            let is_value = if name == "git" { GIT_VALUES.contains(&before) } else { before.starts_with('-') };
            if is_value || word.raw.starts_with('-') {
                before = "";
                continue;
            }
            return true;
        };
        let is_value = name == "git" && GIT_VALUES.contains(&before);
        if !text.starts_with('-') && !is_value {
            named.push(text);
        }
        before = text;
    }
    false
}

/// Returns whether a command only tells the shell how to go on, or asks it something.
fn is_silent(words: &[Word]) -> bool {
    let Some((name, arguments)) = words.split_first() else { return false };
    let all = |is: fn(&str) -> bool| arguments.iter().all(|word| word.literal().is_some_and(is));
    match name.raw.as_str() {
        "true" | "false" | ":" | "test" => true,
        "exit" | "return" | "break" | "continue" => all(|text| text.bytes().all(|b| b.is_ascii_digit())),
        "set" => all(|text| {
            let letters = text.strip_prefix(['-', '+']);
            letters.map_or(["pipefail", "errexit", "nounset"].contains(&text), |letters| {
                !letters.is_empty() && letters.bytes().all(|b| b"euxo".contains(&b))
            })
        }),
        _ => false,
    }
}

/// Returns whether the shell makes an option of files it finds, or of braces: `-r*f`.
fn is_made_option(raw: &str) -> bool {
    let name = raw.split('=').next().unwrap_or_default();
    name.starts_with('-') && name.contains(['*', '?', '[', '{']) && !name.contains(['\'', '"', '$', '\\'])
}

/// Returns whether `tmux` or `screen` only look at what they have, or end it.
fn looks_at_terminals(arguments: &[Word]) -> bool {
    let harmless = ["ls", "-ls", "-list", "info", "display", "capture-pane", "detach", "-V", "-v", "--version"];
    let starts = ["list-", "has", "kill-", "show", "display-"];
    let first = arguments.first().and_then(Word::exact).unwrap_or_default();
    harmless.contains(&first) || starts.iter().any(|start| first.starts_with(start))
}

/// Returns whether a word means the same without quotes.
fn needs_no_quotes(value: &str) -> bool {
    value.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c))
}

/// Returns the words behind a `--`.
fn behind_dashes(words: &[Word]) -> &[Word] {
    match words.split_first() {
        Some((first, rest)) if first.exact() == Some("--") => rest,
        _ => words,
    }
}

/// Returns what `xargs` replaces by its input.
fn mark(words: &[Word]) -> &str {
    let named = words.iter().enumerate().find_map(|(at, word)| match word.exact()?.strip_prefix("-I")? {
        "" => words.get(at + 1)?.exact(),
        attached => Some(attached),
    });
    named.filter(|mark| !mark.is_empty()).unwrap_or("{}")
}

/// Returns what `always` allows: the words that name the command and anything behind them; only the very command
/// where an option stands among those words, or the name isn't plain.
fn always(words: &[Word], raw: &[&str]) -> Vec<String> {
    let named = raw.get(..arity(raw)).unwrap_or_default();
    let plain = words.first().is_some_and(|name| name.literal() == Some(&name.raw));
    let has_option = named.iter().skip(1).any(|word| word.starts_with('-') && *word != "-m");
    let star = named.iter().any(|word| word.contains(['*', '?', '$', '`', '"', '\'', '\\']));
    if named.is_empty() || !plain || has_option || star {
        return vec![raw.join(" ")];
    }
    vec![format!("{} *", named.join(" "))]
}

/// Returns the words' values with blanks between them, if all are known.
pub(super) fn joined(words: &[Word]) -> Option<String> {
    let texts: Option<Vec<&str>> = words.iter().map(Word::exact).collect();
    texts.map(|texts| texts.join(" "))
}
