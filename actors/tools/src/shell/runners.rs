//! Commands that run others named behind a subcommand, in an option's value, or on another machine.

use super::Judge;
use super::command::{How, Input, joined};
use super::state::State;
use super::word::Word;
use super::wrappers::{PLAIN, Wrapper};

/// A command that runs the words behind its subcommand.
struct Runner {
    names: &'static [&'static str],
    /// One of these stands before the command; none: it follows at once.
    subcommands: &'static [&'static str],
    /// Words of its own behind that: a container, a directory.
    own: usize,
    /// The command stands behind `--`.
    behind_dashes: bool,
    /// It runs on another machine: its paths and its doubts are no matter here.
    far: bool,
}

const NEAR: Runner = Runner { names: &[], subcommands: &[], own: 0, behind_dashes: false, far: false };

/// Unlike wrappers these are known by their own name: a rule that allows `uv run *` means what it runs.
const RUNNERS: &[Runner] = &[
    Runner { names: &["npx", "pnpx", "bunx", "watchexec"], ..NEAR },
    Runner { names: &["npm"], subcommands: &["exec", "x"], ..NEAR },
    Runner {
        names: &["pnpm", "yarn", "bundle", "bundler", "rbenv", "pyenv", "nodenv", "asdf", "opam"],
        subcommands: &["exec"],
        ..NEAR
    },
    Runner {
        names: &["uv", "poetry", "pipenv", "pdm", "hatch", "rye", "pixi", "conda", "mamba", "micromamba"],
        subcommands: &["run"],
        ..NEAR
    },
    Runner { names: &["direnv"], subcommands: &["exec"], own: 1, ..NEAR },
    Runner { names: &["mise", "rtx"], subcommands: &["exec", "x"], behind_dashes: true, ..NEAR },
    Runner { names: &["nix"], subcommands: &["develop", "shell"], ..NEAR },
    Runner { names: &["docker", "podman", "nerdctl"], subcommands: &["exec", "run"], own: 1, far: true, ..NEAR },
    Runner { names: &["kubectl", "oc"], subcommands: &["exec"], own: 1, far: true, ..NEAR },
    Runner { names: &["ssh"], own: 1, far: true, ..NEAR },
];

/// `flock FILE COMMAND`; with `-c` it takes a text.
const FLOCK: Wrapper = Wrapper {
    values: &["-w", "--wait", "--timeout", "-E", "--conflict-exit-code", "-c", "--command"],
    flags: &[
        "-s",
        "--shared",
        "-x",
        "-e",
        "--exclusive",
        "-u",
        "--unlock",
        "-n",
        "--nb",
        "--nonblock",
        "-o",
        "--close",
        "-F",
        "--no-fork",
        "--verbose",
    ],
    skip: 1,
    ..PLAIN
};

/// `runuser -u USER COMMAND`; without `-u` it is like `su`.
const RUNUSER: Wrapper = Wrapper {
    values: &[
        "-u",
        "--user",
        "-g",
        "--group",
        "-G",
        "--supp-group",
        "-w",
        "--whitelist-environment",
        "-s",
        "--shell",
        "-c",
        "--command",
    ],
    flags: &["-f", "--fast", "-l", "--login", "-m", "-p", "--preserve-environment", "-P", "--pty"],
    ..PLAIN
};

/// `script FILE COMMAND`, as BSD has it, or `script FILE -- COMMAND`; with `-c` it takes a text.
const SCRIPT: Wrapper = Wrapper {
    values: &["-B", "-I", "-O", "-T", "-E", "-m", "-o", "-c", "--command"],
    flags: &["-a", "-e", "-f", "-q", "-r", "-k", "-F", "--append", "--return", "--flush", "--quiet", "--force"],
    skip: 1,
    ..PLAIN
};

/// Something for each of some commands.
type Table<T> = &'static [(&'static [&'static str], &'static [T])];

/// Options of runners that surely take no value. Behind others what follows may be one.
const FLAGS: &[&str] = &[
    "-d",
    "-i",
    "-it",
    "-q",
    "-t",
    "-T",
    "-ti",
    "-v",
    "-y",
    "--active",
    "--detach",
    "--dev",
    "--frozen",
    "--interactive",
    "--isolated",
    "--live-stream",
    "--locked",
    "--no",
    "--no-capture-output",
    "--no-dev",
    "--no-install",
    "--no-project",
    "--no-sync",
    "--quiet",
    "--rm",
    "--silent",
    "--stdin",
    "--tty",
    "--verbose",
    "--yes",
];

/// Options whose value is a command: the letter, and the long name.
const OPTIONS: Table<(&str, &str)> = &[
    (&["tar"], &[("I", "use-compress-program"), ("F", "info-script"), ("F", "new-volume-script")]),
    (&["bsdtar"], &[(NONE, "use-compress-program")]),
    (&["rsync"], &[("e", "rsh"), (NONE, "rsync-path")]),
    (&["npx", "npm"], &[("c", "call")]),
    (&["nix-shell"], &[(NONE, "run"), (NONE, "command")]),
    (&["nodemon"], &[("x", "exec")]),
    (&["sort"], &[(NONE, "compress-program")]),
    (&["split"], &[(NONE, "filter")]),
    (&["rg"], &[(NONE, "pre")]),
    (&["man"], &[("P", "pager")]),
];

/// No letter.
const NONE: &str = "\0";

/// Options and words that give a command in a form of their own, in small letters.
const ODD: Table<&str> = &[
    (&["tar"], &["--checkpoint-action", "--to-command", "--rmt-command", "--rsh-command"]),
    (&["make", "gmake"], &["--eval", "shell=", ".shellflags=", "makeflags="]),
    (&["ssh", "scp", "sftp"], &["proxycommand", "localcommand", "knownhostscommand"]),
    (&["gdb"], &["shell ", "!", "pipe "]),
];

impl Judge<'_> {
    /// Judges what a command runs that is known by its own name: it is listed aside ([`super::Simple::aside`]). `far`:
    /// only what is listed counts.
    fn beside(&mut self, far: bool, judge: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.aside, true);
        let before = (self.verdict.floor, self.verdict.reasons.clone(), self.verdict.directories.clone());
        judge(self);
        self.aside = outer;
        if far && self.budget > 0 && self.verdict.floor != protocol::permission::Action::Deny {
            (self.verdict.floor, self.verdict.reasons, self.verdict.directories) = before;
        }
    }

    /// Judges what is named behind a subcommand or by options.
    pub(super) fn runs(&mut self, name: &str, arguments: &[Word], state: &State, how: &How) {
        self.given_by_options(name, arguments, state);
        let how = &How { stays: false, ..how.clone() };
        if name == "gdb"
            && let Some(at) = arguments.iter().position(|a| matches!(a.exact(), Some("--args" | "-args")))
        {
            self.run(arguments.get(at + 1..).unwrap_or_default(), &mut state.clone(), how);
        }
        let Some(runner) = RUNNERS.iter().find(|runner| runner.names.contains(&name)) else { return };
        let from = match runner.subcommands {
            [] => Some(0),
            names => subcommand(arguments, names, false).map(|at| at + 1),
        };
        let Some(rest) = from.and_then(|from| arguments.get(from..)) else { return };
        let starts = match name {
            "nix" => rest
                .iter()
                .position(|w| matches!(w.exact(), Some("-c" | "--command")))
                .map(|at| at + 1)
                .into_iter()
                .collect(),
            _ => starts(rest, runner),
        };
        let last = starts.last().copied();
        for start in starts {
            let inner = rest.get(start..).unwrap_or_default();
            // What may be an option's value is looked at too, for what is listed.
            self.beside(runner.far || Some(start) != last, |judge| {
                if name == "ssh" {
                    judge.text(&joined(inner), &mut state.clone());
                } else {
                    judge.run(inner, &mut state.clone(), how);
                }
            });
        }
    }

    /// Judges commands that options give.
    fn given_by_options(&mut self, name: &str, arguments: &[Word], state: &State) {
        let mut texts = Vec::new();
        // Behind the program's name they are the program's.
        let own = match name {
            "npx" | "npm" => {
                let is_value = |at: usize| {
                    let before = at.checked_sub(1).and_then(|at| arguments.get(at)?.exact());
                    matches!(before, Some("-p" | "--package" | "-w" | "--workspace"))
                };
                let is_program = |(at, word): (usize, &Word)| {
                    !is_option(word) && !matches!(word.exact(), Some("exec" | "x")) && !is_value(at)
                };
                arguments.iter().enumerate().position(is_program)
            }
            _ => None,
        };
        let own = arguments.get(..own.map_or(arguments.len(), |at| at + 1)).unwrap_or(arguments);
        for (letter, long) in of(OPTIONS, name) {
            texts.extend(values_of(own, letter, long));
        }
        if name == "tar" {
            texts.extend(old_style(arguments));
        }
        for text in texts {
            self.text(&text, &mut state.clone());
        }
        let is_odd = |word: &Word, odd: &str| {
            let text = word.exact().unwrap_or(&word.raw).to_lowercase();
            abbreviates(&text, odd) && text != "--checkpoint" && !text.starts_with("--checkpoint=")
                || !odd.starts_with('-') && text.trim_start_matches("-o").starts_with(odd)
        };
        if of(ODD, name).any(|odd| arguments.iter().any(|word| is_odd(word, odd))) {
            self.ask("an option makes it run a command");
        }
    }

    /// Judges what `fd -x COMMAND` runs: the option may be bundled, and the command attached.
    pub(super) fn found_by_fd(&mut self, arguments: &[Word], state: &State, how: &How) {
        for (at, word) in arguments.iter().enumerate() {
            let Some(text) = word.exact() else { continue };
            let long = ["--exec=", "--exec-batch="].iter().find_map(|option| text.strip_prefix(option));
            let short = || {
                let (flags, command) = text.strip_prefix('-')?.split_once(['x', 'X'])?;
                flags.chars().all(|c| "HIusiaLpFgq0l1".contains(c)).then_some(command)
            };
            if let Some(command) = long.or_else(short) {
                let name = (!command.is_empty()).then(|| Word::plain(command));
                let rest = arguments.get(at + 1..).unwrap_or_default();
                let end = rest.iter().position(|w| w.exact() == Some(";")).unwrap_or(rest.len());
                let inner: Vec<Word> = name.into_iter().chain(rest.iter().take(end).cloned()).collect();
                self.run(&inner, &mut state.clone(), &How { stays: false, input: Input::Empty, ..how.clone() });
            }
        }
    }

    /// Judges what `su -c TEXT` and the like run; some take words too.
    pub(super) fn behind_c(&mut self, name: &str, arguments: &[Word], state: &State, how: &How) {
        let is_user = |word: &Word| word.exact().is_some_and(|t| t.starts_with("-u") || t.starts_with("--user"));
        let front_of = |wrapper: &Wrapper| wrapper.front(&[&[Word::plain(name)], arguments].concat());
        let takes_words = match name {
            "runuser" if arguments.iter().any(is_user) => Some(front_of(&RUNUSER)),
            "flock" => Some(front_of(&FLOCK)),
            "script" => Some(front_of(&SCRIPT)),
            _ => None,
        };
        let end = takes_words.as_ref().map_or(arguments.len(), |front| front.at - 1);
        let (own, inner) = arguments.split_at_checked(end).unwrap_or((arguments, &[]));
        let mut texts = values_of(own, "c", "command");
        texts.extend(values_of(own, NONE, "session-command"));
        if arguments.iter().any(Word::may_be_several) {
            self.ask("options that may run a command are made while this one runs");
        }
        if takes_words.as_ref().is_some_and(|front| front.unsure) {
            self.ask("an option of a command that runs another is not known");
        }
        let runs_a_shell = texts.is_empty() && inner.is_empty() && name != "flock";
        for text in texts {
            self.text(&text, &mut state.clone());
        }
        if !inner.is_empty() {
            self.run(inner, &mut state.clone(), &How { stays: false, ..how.clone() });
        } else if name == "sg" && arguments.len() > 1 {
            self.text(&joined(arguments.get(1..).unwrap_or_default()), &mut state.clone());
        } else if runs_a_shell && how.input != Input::Empty {
            self.ask("a shell reads its commands from its input");
        }
    }
}

fn of<T: Copy>(table: Table<T>, name: &str) -> impl Iterator<Item = T> {
    let entries = table.iter().filter(|(names, _)| names.contains(&name)).flat_map(|(_, entries)| entries.iter());
    entries.copied().collect::<Vec<_>>().into_iter()
}

fn is_option(word: &Word) -> bool {
    word.raw.starts_with('-')
}

/// Returns where one of the subcommands stands: behind options, of which some take a value, and groups. `surely`: it
/// can't be an option's value.
pub(super) fn subcommand(words: &[Word], names: &[&str], surely: bool) -> Option<usize> {
    let mut may_be_value = false;
    for (at, word) in words.iter().enumerate() {
        let text = word.exact().unwrap_or_default();
        let may_have_been = std::mem::take(&mut may_be_value);
        if names.contains(&text) && !(surely && may_have_been) {
            return Some(at);
        }
        if is_option(word) {
            may_be_value = !text.contains('=');
        } else if !may_have_been && !matches!(text, "compose" | "container") {
            return None;
        }
    }
    None
}

/// Returns where the command may begin behind a runner's options, of which it is not known which take a value: all
/// places where it may, the likeliest last.
fn starts(words: &[Word], runner: &Runner) -> Vec<usize> {
    let dashes = words.iter().position(|word| word.exact() == Some("--"));
    if runner.behind_dashes {
        return dashes.map(|at| at + 1).into_iter().collect();
    }
    let (mut found, mut own, mut may_be_value) = (Vec::new(), runner.own, false);
    for (at, word) in words.iter().enumerate() {
        if Some(at) == dashes {
            found.push(at + 1 + own);
            break;
        }
        if is_option(word) {
            may_be_value = !word.raw.contains('=') && !FLAGS.contains(&&*word.raw);
            continue;
        }
        found.push(at);
        if !std::mem::take(&mut may_be_value) {
            if own == 0 {
                break;
            }
            own -= 1;
        }
    }
    found
}

/// Returns whether a text is a long option, or the beginning of one that programs take for it.
pub(super) fn abbreviates(text: &str, option: &str) -> bool {
    let name = text.split('=').next().unwrap_or_default();
    name.len() >= 3 && name.starts_with("--") && option.starts_with(name)
}

/// Returns the values of an option, attached or in a word of its own; none for one that isn't known.
pub(super) fn values_of(arguments: &[Word], letter: &str, long: &str) -> Vec<Option<String>> {
    let long = format!("--{long}");
    let value = |(at, word): (usize, &Word)| {
        let text = word.exact()?;
        let next = || arguments.get(at + 1).and_then(Word::exact).map(str::to_owned);
        if text.starts_with("--") {
            let is_it = abbreviates(text, &long);
            return is_it.then(|| text.split_once('=').map_or_else(next, |(_, value)| Some(value.to_owned())));
        }
        let (_, value) = text.strip_prefix('-')?.split_once(letter)?;
        Some(if value.is_empty() { next() } else { Some(value.to_owned()) })
    };
    arguments.iter().enumerate().filter_map(value).collect()
}

/// Returns the commands in the words behind `tar cIf`: letters without a dash take them in their order.
fn old_style(arguments: &[Word]) -> Vec<Option<String>> {
    let Some((letters, values)) = arguments.split_first().filter(|(first, _)| !is_option(first)) else {
        return Vec::new();
    };
    let takers = letters.exact().unwrap_or_default().chars().filter(|c| "bfCFgHIKLNTVX".contains(*c));
    let pairs = takers.zip(values).filter(|(letter, _)| matches!(letter, 'I' | 'F'));
    pairs.map(|(_, value)| value.exact().map(str::to_owned)).collect()
}
