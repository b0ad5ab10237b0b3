//! Commands that mean something to the judge: shells, builtins, `find`, `git`.

use std::collections::BTreeSet;

use super::Judge;
use super::command::{How, Input};
use super::names::is_dangerous;
use super::paths::{base_name, has_glob};
use super::runners::values_of;
use super::state::State;
use super::word::{ANY, Word};
use super::wrappers::{SHELLS, is_name};

impl Judge<'_> {
    /// Judges a call of a shell.
    pub(super) fn shell(&mut self, name: &str, arguments: &[Word], state: &State, input: &Input) {
        if name == "fish" {
            let texts = [("c", "command"), ("C", "init-command")];
            for text in texts.iter().flat_map(|(letter, long)| values_of(arguments, letter, long)) {
                self.text(&text, &mut state.clone());
            }
        }
        let mut takes_text = false;
        let mut takes_input = false;
        let mut words = arguments.iter();
        let mut first = None;
        while let Some(word) = words.next() {
            if word.may_be_several() {
                self.ask("the options of a shell are made while the command runs");
            }
            match word.exact() {
                Some("--" | "-") => {
                    first = words.next();
                    break;
                }
                Some("--rcfile" | "--init-file") => {
                    words.next();
                    self.ask("a shell reads another start file");
                }
                Some(option) if option.starts_with("--") => {}
                Some(option) if option.starts_with(['-', '+']) => {
                    takes_text |= option.contains('c');
                    takes_input |= option.contains('s');
                    for _ in option.matches(['o', 'O']) {
                        words.next();
                    }
                }
                _ => {
                    first = Some(word);
                    break;
                }
            }
        }
        match first {
            Some(text) if takes_text => self.text(&text.exact().map(str::to_owned), &mut state.clone()),
            None if takes_text => self.ask("a shell is given no command"),
            Some(file) if !takes_input && !is_stdin(file) => {
                if file.exact().is_none() || file.is_process {
                    self.ask("a shell runs a script that is made while the command runs");
                }
            }
            _ => match input {
                Input::Empty if !self.redirected_for_good && !first.is_some_and(is_descriptor) => {}
                Input::Text(text) => self.script(text, &mut state.clone()),
                Input::Empty => self.ask("a shell reads its commands from its input"),
                Input::Unknown => self.ask("a shell reads its commands from its input"),
            },
        }
    }

    /// Judges a text given to a shell; none when it isn't known.
    pub(super) fn text(&mut self, text: &Option<String>, state: &mut State) {
        match text {
            Some(text) => self.script(text, state),
            None => self.ask("a shell runs a text that is made while the command runs"),
        }
    }

    pub(super) fn source(&mut self, arguments: &[Word], state: &mut State, input: &Input) {
        match arguments.first() {
            Some(file) if is_stdin(file) => match input {
                Input::Text(text) => self.script(&text.clone(), state),
                _ => self.ask("the shell reads commands from its input"),
            },
            Some(file) if file.exact().is_some() && !file.is_process => {}
            _ => self.ask("the shell reads commands that are made while the command runs"),
        }
        // Whatever the file sets.
        for values in state.variables.values_mut() {
            *values = BTreeSet::from([ANY.to_string()]);
        }
    }

    pub(super) fn alias(&mut self, arguments: &[Word], state: &mut State) {
        for argument in arguments {
            match argument.exact() {
                Some(text) => {
                    if let Some((name, text)) = text.split_once('=') {
                        self.script(text, &mut state.clone());
                        state.aliases.entry(name.to_owned()).or_default().insert(text.into());
                    }
                }
                None => self.ask("an alias is made while the command runs"),
            }
        }
    }

    /// Asks where what a program finds or reads becomes part of a text that a shell runs.
    pub(super) fn filled_in(&mut self, words: &[Word], mark: &str) {
        let has_shell =
            words.iter().any(|w| w.exact().is_some_and(|name| SHELLS.contains(&base_name(name)) || name == "eval"));
        if has_shell
            && words
                .iter()
                .any(|word| word.raw.contains(mark) && word.raw != mark || word.raw == mark && is_text(words, word))
        {
            self.ask("the input becomes part of a text that a shell runs");
        }
    }

    /// Judges the commands behind options such as `-exec`, each up to `;` or `+`.
    pub(super) fn executed(&mut self, arguments: &[Word], options: &[&str], state: &State, how: &How) {
        if arguments.iter().any(Word::may_be_several) {
            self.ask("options that may run a command are made while this one runs");
        }
        let is_option = |word: &Word| word.exact().is_some_and(|text| options.contains(&text));
        for (at, _) in arguments.iter().enumerate().filter(|(_, word)| is_option(word)) {
            let rest = arguments.get(at + 1..).unwrap_or_default();
            let end = rest.iter().position(|w| matches!(w.exact(), Some(";" | "+"))).unwrap_or(rest.len());
            let inner = rest.get(..end).unwrap_or_default();
            self.filled_in(inner, "{}");
            if inner.first().is_some_and(|name| name.raw.contains('{')) {
                self.ask("the command's name comes from the files that are found");
            }
            self.run(inner, &mut state.clone(), &How { stays: false, input: Input::Empty, ..how.clone() });
        }
    }

    /// Notes variables that a builtin sets.
    pub(super) fn sets(&mut self, name: &str, arguments: &[Word], state: &mut State) {
        let into = arguments.iter().position(|word| word.exact() == Some("-v")).map(|at| at + 1);
        for (at, word) in arguments.iter().enumerate() {
            let is_target = if name == "printf" { Some(at) == into } else { true };
            let text = word.exact().unwrap_or_default();
            if matches!(text, "-C") && matches!(name, "mapfile" | "readarray") {
                self.ask("the shell is given a command to run later");
            }
            self.evaluated(&word.raw);
            let variable = text.split(['=', '+', '-', '*', '/']).next().unwrap_or_default();
            if is_target && is_name(variable) {
                self.assigned(variable, None);
                state.scramble(variable);
            }
        }
    }

    /// Asks if setting a variable may change what runs.
    pub(super) fn assigned(&mut self, name: &str, value: Option<&str>) {
        // `PATH[0]=x` sets it too.
        let name = name.split('[').next().unwrap_or(name);
        if is_dangerous(name.trim_end_matches('+'), value) {
            self.ask(&format!("{name} changes what commands do"));
        }
    }

    pub(super) fn move_by(&mut self, name: &str, arguments: &[Word], state: &mut State) -> Option<State> {
        let is_operand = |word: &&Word| !matches!(word.exact(), Some("-P" | "-L" | "-e" | "-@" | "--" | "-n"));
        let target = arguments.iter().find(is_operand);
        let has = |option: &str| arguments.iter().any(|word| word.exact() == Some(option));
        // It fails, or goes nowhere, for all that the directory is there.
        let is_odd = arguments.iter().filter(is_operand).count() > 1 || has("-@") || has("-n") || has("-e");
        let follows_links = has("-P");
        self.did_something();
        if name == "popd" {
            let back = state.stack.as_mut().and_then(Vec::pop).filter(|_| target.is_none());
            match back {
                Some(back) => state.go(back),
                None => self.lost(state, "it is not known where popd goes"),
            }
            return None;
        }
        let destinations: Option<BTreeSet<_>> = match (target.map(|word| (word, word.exact())), &self.surroundings.home)
        {
            (None, Some(home)) if name != "pushd" => Some(BTreeSet::from([home.clone()])),
            (Some((_, Some("-"))), _) if name != "pushd" && !state.before.is_empty() => Some(state.before.clone()),
            (Some((word, value)), _)
                if !word.climbs && !may_be_others(word) && value.is_none_or(|v| !v.starts_with(['-', '+'])) =>
            {
                let from = &state.cwds;
                word.values.iter().flat_map(|value| from.iter().map(|from| self.destination(value, from))).collect()
            }
            _ => None,
        };
        let Some(destinations) = destinations.filter(|to| !to.is_empty()) else {
            self.lost(state, "it is not known where the shell goes");
            return None;
        };
        let mut sure = !is_odd;
        for to in &destinations {
            self.look(to, true);
            let is_there =
                (self.surroundings.look)(to).is_directory && !state.removed.iter().any(|r| to.starts_with(r));
            sure &= !has_glob(to) && (state.made.contains(to) || is_there);
        }
        if follows_links && destinations.iter().any(|to| has_glob(to)) {
            self.ask("it is not known where the shell goes");
        }
        let destinations: BTreeSet<_> = match follows_links {
            true => destinations.iter().map(|to| (self.surroundings.look)(to).path).collect(),
            false => destinations,
        };
        let before = state.clone();
        if name == "pushd"
            && let Some(stack) = &mut state.stack
        {
            stack.push(before.cwds.clone());
        }
        state.go(destinations);
        if state.cwds.is_empty() {
            self.ask("it is not known where the shell goes");
        }
        (!sure).then_some(before)
    }

    fn lost(&mut self, state: &mut State, reason: &str) {
        state.lose();
        self.ask(reason);
    }
}

/// Returns whether an unquoted value may be split, or found among files.
fn may_be_others(word: &Word) -> bool {
    word.splits
        && word.values.iter().any(|value| value.is_empty() || value.contains([' ', '\t', '\n', '*', '?', '[', ANY]))
}

/// Returns whether the mark stands where a shell's text does: behind an option with `c`.
fn is_text(words: &[Word], mark: &Word) -> bool {
    words.windows(2).any(|pair| match pair {
        [option, text] => text.raw == mark.raw && option.raw.starts_with('-') && option.raw.contains('c'),
        _ => false,
    })
}

fn is_descriptor(file: &Word) -> bool {
    file.exact().is_some_and(|path| path.starts_with("/dev/fd/") || path.starts_with("/proc/"))
}

fn is_stdin(file: &Word) -> bool {
    let named = file.exact().is_some_and(|path| path == "-" || path == "/dev/stdin");
    (named || is_descriptor(file)) && !file.is_process
}
