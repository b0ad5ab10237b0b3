//! The judge: what a line of shell would run and where it would reach, told before it runs.
//!
//! Pure: the line is parsed (tree-sitter-bash) and followed with a model of the shell's state; the disk is seen only
//! through [`Surroundings::look`]. Where the judge is not certain it says so: the floor becomes `ask`.
//!
//! | in the line | what becomes of it |
//! |---|---|
//! | lists, pipelines, `( )`, `{ }`, `if`, loops, `case`, functions | every simple command in them is listed alone |
//! | `$( )`, backticks, `<( )`, `>( )`; also in strings, arithmetic, here-documents, assignments | the same |
//! | `A=1 cmd`, `export A=1` | split off; a name that changes what runs (`PATH`, `LD_*`, `GIT_*`, editors, pagers…) asks |
//! | `env timeout xargs nice nohup ionice setsid stdbuf time command builtin exec sudo doas` and more | the inner command is listed too |
//! | `sh -c TEXT` and other shells, `eval`, `trap`, `watch`, `parallel`, `su -c`, a here-document for a shell | the text is judged as a line |
//! | `find -exec…`, `fd -x`, `git bisect run`, `git submodule foreach`, `git rebase -x`, options of `tar`, `rsync`, `sort`… that name a program | the inner command is listed too |
//! | `uv run`, `npm exec`, `bundle exec`…; `docker exec`, `docker run`, `kubectl exec`, `ssh` | the inner command is listed aside: only rules that speak of it count; of those that run elsewhere nothing else matters |
//! | `true`, `:`, `test`, `set -e`, `exit` | listed aside |
//! | a word that may become several, in front of an inner command, in `find`, `git`, a shell, or where a subcommand stands | asks |
//! | aliases and functions of the line | their bodies are judged where they stand and where they are called |
//! | `cd pushd popd` | not listed; followed, with subshells, branches and failures, into directories that a glob finds too; outside it is a directory to ask for |
//! | `mktemp` | looks into `/tmp` |
//! | redirections | the target is a path; devices without content and `2>&1` are none |
//! | words of commands | paths: looked up from where the shell may be, links followed |
//! | `$X`, `$(pwd)`, `$(date +%F)`, `$(mktemp)` and a few more | its value, if the line has set it or it is `HOME`, `PWD`, `OLDPWD`; else unknown |
//! | a command's name, a `cd`, a redirection, a path of `rm` and its like that is unknown | asks |
//! | words that need no quotes but have some (`r\m`, `"git" push`), `/bin/rm` | listed plainly too; another way to write the command's name is listed aside |
//! | an option made by a glob or braces, `@P`, a quoted text that is evaluated (`let 'a[$(x)]'`), `git -c` that runs programs | asks |
//! | a shell that reads commands from a pipe or an unknown text; `nu`, `pwsh` and their like; `tmux new`, `at` | asks |
//! | options before a subcommand (`git -C x push`) | listed without them too |
//! | a glob that may climb (`*/../..`, `.*`) | asks |
//! | comments only, nothing, a parse error, odd blanks, too long, too deep | asks, with the whole line as a pattern |
//!
//! What it does not see: what programs do by themselves (`make`, `python -c`, a script), and links that a glob finds.

mod assign;
mod branches;
mod builtin;
mod command;
mod git;
mod names;
mod parse;
mod paths;
mod printed;
mod redirect;
mod runners;
mod sequence;
mod state;
mod substitution;
mod walk;
mod word;
mod wrappers;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use protocol::permission::Action;

use state::State;

/// Longest line that is judged, in bytes.
const LONGEST: usize = 128 * 1024;

/// How deep statements, texts and wrappers may stand in each other.
const DEEPEST: usize = 48;

/// Most statements followed, those of functions and loops counted each time.
const MOST: usize = 20_000;

/// Most bytes of all listed commands together: each is listed with what stands in it.
const LISTED: usize = 2 * 1024 * 1024;

/// Most texts parsed: the line, those given to shells, bodies of functions at each call.
const SCRIPTS: usize = 300;

/// What a line is judged in.
pub struct Surroundings<'a> {
    /// Where it runs, absolute.
    pub directory: PathBuf,
    /// The top of the repository, if there is one: what `git rev-parse --show-toplevel` prints.
    pub worktree: Option<PathBuf>,
    /// Real paths of directories that are inside.
    pub inside: Vec<PathBuf>,
    /// The person's home.
    pub home: Option<PathBuf>,
    /// Returns what is at an absolute path, links followed and `..` taken as the kernel does.
    pub look: &'a dyn Fn(&Path) -> Seen,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its real path; what doesn't exist stays as named.
    pub path: PathBuf,
    /// There is a directory.
    pub is_directory: bool,
}

/// What a line would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The simple commands in it, each once, in order; never empty.
    pub commands: Vec<Simple>,
    /// Real directories outside that it reaches into.
    pub directories: Vec<PathBuf>,
    /// [`Action::Ask`] where the judge is not certain, [`Action::Deny`] where it can't list all commands; else
    /// [`Action::Allow`].
    pub floor: Action,
    /// Why the floor is raised.
    pub reasons: Vec<String>,
}

/// A simple command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simple {
    /// Its words as written, one blank between them, without assignments and redirections.
    pub text: String,
    /// Patterns that a reply `always` allows: `git status *`.
    pub always: Vec<String>,
    /// Another reading of a listed command, or one that belongs to it: only rules that speak of it count, none that
    /// speaks of all.
    pub aside: bool,
}

/// Judges a line. Never panics, whatever the line is.
pub fn judge(line: &str, surroundings: &Surroundings) -> Verdict {
    let verdict = Verdict { commands: Vec::new(), directories: Vec::new(), floor: Action::Allow, reasons: Vec::new() };
    let mut judge = Judge {
        surroundings,
        verdict,
        budget: MOST,
        depth: 0,
        looks: paths::LOOKS,
        scripts: SCRIPTS,
        listed: HashMap::new(),
        aside: false,
        room: LISTED,
        redirected_for_good: false,
        did_something: false,
    };
    judge.script(line, &mut State::at(surroundings.directory.clone()));
    judge.finish(line)
}

/// A judgement under way.
struct Judge<'a> {
    surroundings: &'a Surroundings<'a>,
    verdict: Verdict,
    /// Statements it may still follow.
    budget: usize,
    depth: usize,
    /// Paths it may still look up.
    looks: usize,
    /// Scripts it may still parse.
    scripts: usize,
    /// Texts that are listed, and where.
    listed: HashMap<String, usize>,
    /// What is listed now is listed aside.
    aside: bool,
    /// Bytes that may still be listed.
    room: usize,
    /// `exec < f`: what later commands read is not known.
    redirected_for_good: bool,
    /// The line has a part that is harmless and not listed: `cd`, a test, an assignment.
    did_something: bool,
}

impl Judge<'_> {
    /// Raises the floor.
    fn ask(&mut self, reason: &str) {
        if self.verdict.floor == Action::Allow {
            self.verdict.floor = Action::Ask;
        }
        self.because(reason);
    }

    /// Gives up on a line whose commands are too many to be listed: a rule may deny one that nobody would see.
    fn refuse(&mut self) {
        self.verdict.floor = Action::Deny;
        self.because("its commands stand in each other too often to be looked at; write it simpler, or as a script");
    }

    fn because(&mut self, reason: &str) {
        if !self.verdict.reasons.iter().any(|known| known == reason) {
            self.verdict.reasons.push(reason.to_owned());
        }
    }

    /// Goes one deeper; false where that is too deep, or too much.
    fn enter(&mut self) -> bool {
        if self.depth >= DEEPEST || self.budget == 0 {
            self.ask("the command is too deep or too long to be judged");
            return false;
        }
        self.depth += 1;
        self.budget -= 1;
        true
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    fn did_something(&mut self) {
        self.did_something = true;
    }

    fn finish(mut self, line: &str) -> Verdict {
        if self.verdict.commands.is_empty() && !self.did_something {
            self.ask("there is no command in it");
        }
        let unparsed = self.verdict.reasons.iter().any(|reason| reason == parse::UNCLEAR);
        if self.verdict.commands.is_empty() || unparsed {
            let text = line.to_owned();
            if !self.verdict.commands.iter().any(|known| known.text == text) {
                self.verdict.commands.push(Simple { always: vec![text.clone()], text, aside: false });
            }
        }
        if self.verdict.commands.iter().all(|command| command.aside) {
            self.verdict.commands.iter_mut().for_each(|command| command.aside = false);
        }
        self.verdict
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
