//! What makes git and other programs run commands that their words name.

use super::Judge;
use super::builtin::value_of;
use super::command::joined;
use super::names::{GIT_VALUES, is_dangerous_git_setting};
use super::state::State;
use super::word::Word;

/// Options before a subcommand, or of some, that name a program.
const RUN_PROGRAMS: [&str; 4] = ["--config-env", "--exec-path=", "--upload-pack", "--receive-pack"];

/// Options of `tar` and `rsync` whose value is a command: the letter, and the long name.
const RUNNERS: [(&str, &[(&str, &str)]); 3] = [
    ("tar", &[("I", "use-compress-program"), ("F", "info-script"), ("F", "new-volume-script")]),
    ("bsdtar", &[("\0", "use-compress-program")]),
    ("rsync", &[("e", "rsh"), ("\0", "rsync-path")]),
];

/// Options that give a command in a form of their own.
const ODD: [(&str, &[&str]); 4] = [
    ("tar", &["--checkpoint-action", "--to-command", "--rmt-command", "--rsh-command"]),
    ("make", &["--eval"]),
    ("gmake", &["--eval"]),
    ("ssh", &["-oProxyCommand", "-oLocalCommand", "-oKnownHostsCommand"]),
];

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
        if begins(&RUN_PROGRAMS) || subcommand == "clone" && begins(&["-u"]) {
            self.ask("an option makes git run a program");
        }
        match subcommand {
            "submodule" | "bisect" => {
                let Some(run) = is_at(&["foreach", "run"]) else { return };
                let rest = arguments.get(run + 1..).unwrap_or_default();
                let rest: Vec<Word> = rest.iter().skip_while(|w| w.raw.starts_with("--")).cloned().collect();
                self.text(&joined(&rest), &mut state.clone());
            }
            "rebase" => {
                if let Some(text) = value_of(arguments, "x", "exec") {
                    self.text(&text, &mut state.clone());
                }
            }
            "config" => {
                let mut words = arguments.iter().filter_map(Word::exact).filter(|text| !text.starts_with('-'));
                let setting = words.by_ref().find(|text| text.contains('.'));
                let value = words.next();
                if value.is_some() && begins(&["--global", "--system"]) {
                    self.ask("git's settings of all projects are changed");
                }
                if let (Some(name), Some(value)) = (setting, value)
                    && is_dangerous_git_setting(&format!("{name}={value}"))
                {
                    self.ask("a setting makes git run a program");
                }
            }
            "grep" if begins(&["-O", "--open-files-in-pager"]) => self.ask("an option makes git run a program"),
            "difftool" if begins(&["-x", "--extcmd"]) => self.ask("an option makes git run a program"),
            "filter-branch" => self.ask("git runs a text that is given to it"),
            _ => {}
        }
        if arguments.iter().any(Word::may_be_several)
            && matches!(subcommand, "rebase" | "config" | "submodule" | "bisect")
        {
            self.ask("what git does is made while the command runs");
        }
    }

    /// Judges commands that options of other programs give.
    pub(super) fn given_by_options(&mut self, name: &str, arguments: &[Word], state: &State) {
        for (_, options) in RUNNERS.iter().filter(|(known, _)| *known == name) {
            for (letter, long) in *options {
                if let Some(text) = value_of(arguments, letter, long) {
                    self.text(&text, &mut state.clone());
                }
            }
        }
        let is_odd = |word: &Word, option: &&str| {
            let text = word.exact().unwrap_or(&word.raw);
            text.starts_with(option) || Some(text) == option.strip_prefix("-o")
        };
        let mut odd = ODD.iter().filter(|(known, _)| *known == name).flat_map(|(_, options)| *options);
        if odd.any(|option| arguments.iter().any(|word| is_odd(word, option))) {
            self.ask("an option makes it run a command");
        }
    }
}
