//! What makes git run commands that its words name.

use super::Judge;
use super::command::joined;
use super::names::{GIT_VALUES, is_dangerous_git_setting};
use super::runners::{abbreviates, values_of};
use super::state::State;
use super::word::Word;

/// Options before a subcommand, or of some, that name a program.
const RUN_PROGRAMS: [&str; 4] = ["--config-env", "--exec-path=", "--upload-pack", "--receive-pack"];

impl Judge<'_> {
    /// Looks for what makes git run programs, and for commands it runs.
    pub(super) fn git(&mut self, arguments: &[Word], state: &State) {
        let mut at = 0;
        while let Some(word) = arguments.get(at) {
            if word.may_be_several() {
                self.ask("what git does is made while the command runs");
            }
            let next = arguments.get(at + 1);
            let Some(text) = word.exact() else { return };
            if !text.starts_with('-') {
                return self.git_runs(text, arguments.get(at + 1..).unwrap_or_default(), state);
            }
            if text == "-c" && next.and_then(Word::exact).is_none_or(is_dangerous_git_setting) {
                self.ask("a setting makes git run a program");
            }
            if RUN_PROGRAMS.iter().any(|option| text.starts_with(option)) {
                self.ask("an option makes git run a program");
            }
            let takes_next = GIT_VALUES.contains(&text);
            if takes_next && next.is_some_and(Word::may_be_several) {
                self.ask("what git does is made while the command runs");
            }
            at += if takes_next { 2 } else { 1 };
        }
    }

    fn git_runs(&mut self, subcommand: &str, arguments: &[Word], state: &State) {
        let is_at = |names: &[&str]| arguments.iter().position(|w| w.exact().is_some_and(|text| names.contains(&text)));
        let begins = |options: &[&str]| {
            arguments.iter().any(|w| w.exact().is_some_and(|text| options.iter().any(|o| text.starts_with(o))))
        };
        let has = |option: &str| arguments.iter().any(|w| w.exact().is_some_and(|text| abbreviates(text, option)));
        if begins(&RUN_PROGRAMS) || has("--upload-pack") || has("--receive-pack") {
            self.ask("an option makes git run a program");
        }
        match subcommand {
            "submodule" | "bisect" => {
                let Some(run) = is_at(&["foreach", "run"]) else { return };
                let rest = arguments.get(run + 1..).unwrap_or_default();
                let rest: Vec<Word> = rest.iter().skip_while(|w| w.raw.starts_with("--")).cloned().collect();
                self.text(&joined(&rest), &mut state.clone());
            }
            "rebase" | "difftool" => {
                let long = if subcommand == "rebase" { "exec" } else { "extcmd" };
                for text in values_of(arguments, "x", long) {
                    self.text(&text, &mut state.clone());
                }
            }
            "clone" => {
                let settings = values_of(arguments, "c", "config");
                if settings.iter().any(|setting| setting.as_deref().is_none_or(is_dangerous_git_setting)) {
                    self.ask("a setting makes git run a program");
                }
                if begins(&["-u"]) {
                    self.ask("an option makes git run a program");
                }
            }
            "archive" | "push" | "fetch" | "ls-remote" if has("--exec") => {
                self.ask("an option makes git run a program")
            }
            "send-email" if arguments.iter().any(|w| w.raw.contains("cmd")) => {
                self.ask("an option makes git run a program");
            }
            "config" => {
                let words: Vec<&str> =
                    arguments.iter().filter_map(Word::exact).filter(|text| !text.starts_with('-')).collect();
                let sets = |pair: &[&str]| is_dangerous_git_setting(&pair.join("="));
                if words.windows(2).any(sets) {
                    self.ask("a setting makes git run a program");
                }
                let is_set = words.windows(2).any(|pair| pair.first().is_some_and(|name| name.contains('.')));
                if is_set && (has("--global") || has("--system")) {
                    self.ask("git's settings of all projects are changed");
                }
            }
            "grep" if has("--open-files-in-pager") || arguments.iter().any(opens_a_pager) => {
                self.ask("an option makes git run a program");
            }
            "filter-branch" => self.ask("git runs a text that is given to it"),
            _ => {}
        }
        if arguments.iter().any(Word::may_be_several)
            && matches!(subcommand, "rebase" | "config" | "submodule" | "bisect")
        {
            self.ask("what git does is made while the command runs");
        }
    }
}

/// Returns whether options in one word hold `-O`, before one that takes the rest as its value.
fn opens_a_pager(word: &Word) -> bool {
    let options = word.exact().and_then(|text| text.strip_prefix('-')).filter(|text| !text.starts_with('-'));
    options
        .and_then(|text| text.find(['O', 'e', 'f', 'A', 'B', 'C', 'm']).and_then(|at| text.get(at..)))
        .is_some_and(|rest| rest.starts_with('O'))
}
