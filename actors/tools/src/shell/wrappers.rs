//! Commands that run another command given in their words.

use super::word::Word;

/// How a command gives the one it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    /// As its last words.
    Words,
    /// As words that are joined and given to a shell.
    Text,
}

/// A command that runs another.
#[derive(Debug)]
pub(super) struct Wrapper {
    pub(super) names: &'static [&'static str],
    /// Options followed by a value in a word of its own.
    pub(super) values: &'static [&'static str],
    /// Options without one. Those in neither list are a reason to ask.
    pub(super) flags: &'static [&'static str],
    /// Options with which it runs nothing.
    pub(super) looks: &'static [&'static str],
    /// Words of its own before the command.
    pub(super) skip: usize,
    /// `NAME=value` before the command sets variables.
    pub(super) assigns: bool,
    pub(super) gives: Gives,
    /// It runs the command within this shell, so that `cd` has an effect.
    pub(super) stays: bool,
    /// It adds words that nobody knows.
    pub(super) adds: bool,
    /// With an approval of it alone, all that is approved elsewhere would run with more rights.
    pub(super) raises: bool,
}

pub(super) const PLAIN: Wrapper = Wrapper {
    names: &[],
    values: &[],
    flags: &[],
    looks: &[],
    skip: 0,
    assigns: false,
    gives: Gives::Words,
    stays: false,
    adds: false,
    raises: false,
};

/// All wrappers whose options follow the common form.
const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &["env"],
        values: &["-u", "--unset"],
        flags: &["-", "-i", "--ignore-environment", "-0", "--null", "-v", "--debug"],
        assigns: true,
        ..PLAIN
    },
    Wrapper {
        names: &["timeout", "gtimeout"],
        values: &["-k", "--kill-after", "-s", "--signal"],
        flags: &["-f", "--foreground", "-p", "--preserve-status", "-v", "--verbose"],
        skip: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["xargs"],
        values: &[
            "-a",
            "-d",
            "-E",
            "-I",
            "-L",
            "-n",
            "-P",
            "-s",
            "-J",
            "-R",
            "--arg-file",
            "--delimiter",
            "--max-lines",
            "--max-args",
            "--max-procs",
            "--max-chars",
            "--process-slot-var",
        ],
        flags: &[
            "-0",
            "--null",
            "-r",
            "--no-run-if-empty",
            "-t",
            "--verbose",
            "-p",
            "--interactive",
            "-o",
            "--open-tty",
            "-x",
            "--exit",
            "-i",
            "--replace",
            "-e",
            "-l",
        ],
        adds: true,
        ..PLAIN
    },
    Wrapper { names: &["nice"], values: &["-n", "--adjustment"], flags: &[], ..PLAIN },
    Wrapper { names: &["nohup", "chronic", "fakeroot", "catchsegv", "proxychains", "torsocks"], ..PLAIN },
    Wrapper {
        names: &["ionice"],
        values: &["-c", "--class", "-n", "--classdata", "-p", "--pid", "-P", "--pgid", "-u", "--uid"],
        flags: &["-t", "--ignore"],
        ..PLAIN
    },
    Wrapper { names: &["chrt"], values: &[], flags: &["-b", "-f", "-i", "-o", "-r", "-a", "-v"], skip: 1, ..PLAIN },
    Wrapper { names: &["taskset"], values: &[], flags: &["-c", "--cpu-list", "-a", "--all-tasks"], skip: 1, ..PLAIN },
    Wrapper { names: &["setsid"], flags: &["-c", "--ctty", "-f", "--fork", "-w", "--wait"], ..PLAIN },
    Wrapper { names: &["stdbuf"], values: &["-i", "--input", "-o", "--output", "-e", "--error"], ..PLAIN },
    Wrapper {
        names: &["time", "gtime"],
        values: &["-f", "--format", "-o", "--output"],
        flags: &["-p", "--portability", "-a", "--append", "-v", "--verbose", "-q", "--quiet", "-l"],
        stays: true,
        ..PLAIN
    },
    Wrapper { names: &["command"], flags: &["-p"], looks: &["-v", "-V", "-pv"], stays: true, ..PLAIN },
    Wrapper { names: &["builtin"], stays: true, ..PLAIN },
    Wrapper { names: &["exec"], values: &["-a"], flags: &["-c", "-l"], stays: true, ..PLAIN },
    Wrapper { names: &["linux32", "linux64", "x86_64", "i386", "i486", "i586", "i686", "uname26"], ..PLAIN },
    Wrapper {
        names: &["perf"],
        values: &["-e", "--event", "-o", "--output", "-p", "--pid", "-F", "--freq", "-C", "--cpu", "-r", "--repeat"],
        flags: &["-a", "-g", "-d", "-v", "-q", "-i", "-n"],
        skip: 1,
        ..PLAIN
    },
    Wrapper { names: &["coproc", "busybox", "toybox", "noglob", "nocorrect"], ..PLAIN },
    Wrapper { names: &["faketime"], values: &["-p", "--pid", "-f"], flags: &["-m"], skip: 1, ..PLAIN },
    Wrapper { names: &["gosu", "su-exec", "setuidgid"], skip: 1, raises: true, ..PLAIN },
    Wrapper { names: &["tini"], values: &["-p"], flags: &["-s", "-v", "-w", "-g"], ..PLAIN },
    // Their options are many and rare: any of them asks.
    Wrapper {
        names: &[
            "bwrap",
            "catatonit",
            "cgexec",
            "chpst",
            "cpulimit",
            "daemonize",
            "dbus-run-session",
            "dtach",
            "dumb-init",
            "entr",
            "firejail",
            "gdbserver",
            "nsenter",
            "numactl",
            "openvt",
            "prlimit",
            "proot",
            "rlwrap",
            "rr",
            "setarch",
            "setpriv",
            "softlimit",
            "ssh-agent",
            "systemd-inhibit",
            "systemd-run",
            "timelimit",
            "trickle",
            "unbuffer",
            "unshare",
            "valgrind",
            "xvfb-run",
        ],
        ..PLAIN
    },
    Wrapper {
        names: &["sudo"],
        values: &[
            "-u",
            "--user",
            "-g",
            "--group",
            "-h",
            "--host",
            "-p",
            "--prompt",
            "-C",
            "--close-from",
            "-r",
            "--role",
            "-t",
            "--type",
            "-T",
            "--command-timeout",
            "-U",
            "--other-user",
        ],
        flags: &[
            "-A",
            "--askpass",
            "-b",
            "--background",
            "-B",
            "--bell",
            "-E",
            "--preserve-env",
            "-H",
            "--set-home",
            "-K",
            "--remove-timestamp",
            "-k",
            "--reset-timestamp",
            "-l",
            "--list",
            "-n",
            "--non-interactive",
            "-P",
            "--preserve-groups",
            "-S",
            "--stdin",
            "-s",
            "--shell",
            "-i",
            "--login",
            "-V",
            "--version",
            "-v",
            "--validate",
        ],
        assigns: true,
        raises: true,
        ..PLAIN
    },
    Wrapper { names: &["doas"], values: &["-u", "-C", "-a"], flags: &["-L", "-n", "-s"], raises: true, ..PLAIN },
    Wrapper { names: &["pkexec"], values: &["--user"], flags: &["--disable-internal-agent"], raises: true, ..PLAIN },
    Wrapper { names: &["chroot"], values: &[], flags: &["--skip-chdir"], skip: 1, raises: true, ..PLAIN },
    Wrapper {
        names: &["strace", "ltrace"],
        values: &["-e", "-o", "-p", "-s", "-u", "-E", "-P", "-I", "-b", "-O", "-S", "-X", "-a"],
        flags: &[
            "-f", "-ff", "-c", "-C", "-d", "-h", "-i", "-k", "-n", "-q", "-qq", "-r", "-t", "-tt", "-T", "-v", "-y",
        ],
        ..PLAIN
    },
    Wrapper { names: &["caffeinate"], values: &["-t", "-w"], flags: &["-d", "-i", "-m", "-s", "-u"], ..PLAIN },
    Wrapper {
        names: &["watch"],
        values: &["-n", "--interval"],
        flags: &[
            "-b",
            "--beep",
            "-c",
            "--color",
            "-d",
            "--differences",
            "-e",
            "--errexit",
            "-g",
            "--chgexit",
            "-p",
            "--precise",
            "-t",
            "--no-title",
            "-w",
            "--no-wrap",
        ],
        gives: Gives::Text,
        ..PLAIN
    },
    Wrapper {
        names: &["hyperfine"],
        values: &["-w", "--warmup", "-r", "--runs", "-m", "--min-runs", "-M", "--max-runs", "--export-json"],
        flags: &["-i", "--ignore-failure", "-N", "--show-output"],
        gives: Gives::Text,
        ..PLAIN
    },
    Wrapper {
        names: &["parallel"],
        values: &["-j", "--jobs", "-a", "--arg-file", "-I", "-n", "--max-args", "-N", "-d", "--delimiter", "--joblog"],
        flags: &[
            "-k",
            "--keep-order",
            "-0",
            "--null",
            "-X",
            "-m",
            "-q",
            "--quote",
            "-u",
            "--ungroup",
            "--bar",
            "--will-cite",
        ],
        gives: Gives::Text,
        adds: true,
        ..PLAIN
    },
];

/// Returns the wrapper of this name.
pub(super) fn wrapper(name: &str) -> Option<&'static Wrapper> {
    WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name))
}

/// Shells: they run the text behind `-c`, a file, or their input.
pub(super) const SHELLS: &[&str] = &[
    "sh", "bash", "zsh", "dash", "ksh", "ksh93", "rksh", "lksh", "pdksh", "oksh", "loksh", "ash", "mksh", "fish",
    "rbash", "rzsh", "yash", "posh", "hush", "osh", "csh", "tcsh",
];

/// Shells whose language is another: what they are given can't be judged.
pub(super) const FOREIGN_SHELLS: &[&str] =
    &["nu", "pwsh", "powershell", "elvish", "xonsh", "ysh", "ion", "rc", "es", "murex", "cmd", "cmd.exe"];

/// Commands that run a shell where none is named.
pub(super) const SHELL_BY_DEFAULT: &[&str] = &[
    "sudo",
    "doas",
    "chroot",
    "unshare",
    "nsenter",
    "bwrap",
    "firejail",
    "proot",
    "setpriv",
    "systemd-run",
    "busybox",
    "gosu",
    "su-exec",
];

/// What was found in front of the wrapped command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Front {
    /// Where the wrapped command begins.
    pub at: usize,
    /// Variables set on the way: the indexes of their words.
    pub assignments: Vec<usize>,
    /// Not sure: an option or an own word isn't known.
    pub unsure: bool,
}

impl Wrapper {
    /// Returns where the command begins in `words` (the wrapper's own name first). Past the end: there is none.
    pub(super) fn front(&self, words: &[Word]) -> Front {
        let mut front = Front { at: 1, ..Front::default() };
        let mut skip = self.skip;
        while let Some(word) = words.get(front.at) {
            front.unsure |= word.may_be_several();
            let Some(text) = word.exact() else {
                // A number of seconds, a list of processors: whatever it is, it is no command.
                if skip == 0 {
                    return front;
                }
                skip -= 1;
                front.at += 1;
                continue;
            };
            if text == "--" {
                front.at += 1 + skip;
                return front;
            }
            if self.looks.contains(&text) {
                front.at = words.len();
                return front;
            }
            if text.starts_with('-') && (text != "-" || self.flags.contains(&"-")) {
                let taken = self.option(text, &mut front.unsure);
                front.unsure |= taken > 1 && words.get(front.at + 1).is_some_and(Word::may_be_several);
                front.at += taken;
            } else if self.assigns && text.contains('=') {
                front.assignments.push(front.at);
                front.at += 1;
            } else if skip > 0 {
                skip -= 1;
                front.at += 1;
            } else {
                return front;
            }
        }
        front
    }

    /// Returns how many words an option takes.
    fn option(&self, text: &str, unsure: &mut bool) -> usize {
        if self.values.contains(&text) {
            return 2;
        }
        if self.flags.contains(&text) || text.strip_prefix('-').is_some_and(|n| n.parse::<i32>().is_ok()) {
            return 1;
        }
        if let Some((name, _)) = text.split_once('=').filter(|_| text.starts_with("--")) {
            *unsure |= !self.values.contains(&name) && !self.flags.contains(&name);
            return 1;
        }
        // Several letters in one word; the first that takes a value takes the rest of it, or the next word.
        let letters = text.get(1..).unwrap_or_default();
        for (at, letter) in letters.char_indices() {
            let option = format!("-{letter}");
            if self.values.contains(&&*option) {
                return if at + letter.len_utf8() == letters.len() { 2 } else { 1 };
            }
            if !self.flags.contains(&&*option) {
                *unsure = true;
                return 1;
            }
            // Letters with an optional value right behind them.
            if self.names.contains(&"xargs") && matches!(letter, 'i' | 'e' | 'l') {
                return 1;
            }
        }
        1
    }
}

/// Returns whether a text can be a variable's name.
pub(super) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn front(line: &str) -> (usize, bool) {
        let words: Vec<Word> = line.split(' ').map(Word::plain).collect();
        let front = wrapper(&words[0].raw).unwrap().front(&words);
        (front.at, front.unsure)
    }

    #[test]
    fn the_wrapped_command_is_found_behind_options_and_own_words() {
        assert_eq!(front("timeout 5 npm test"), (2, false));
        assert_eq!(front("timeout -k 1 --signal=KILL 5 npm"), (5, false));
        assert_eq!(front("timeout -vk 1 5 npm"), (4, false));
        assert_eq!(front("timeout -- 5 npm"), (3, false));
        assert_eq!(front("env -i A=1 B=2 rm"), (4, false));
        assert_eq!(front("env - rm"), (2, false));
        assert_eq!(front("nice -n 5 rm"), (3, false));
        assert_eq!(front("nice -10 rm"), (2, false));
        assert_eq!(front("xargs -0n1 rm"), (2, false));
        assert_eq!(front("xargs -I {} rm {}"), (3, false));
        assert_eq!(front("xargs -I{} rm"), (2, false));
        assert_eq!(front("sudo -u root A=1 rm"), (4, false));
        assert_eq!(front("stdbuf -oL rm"), (2, false));
        assert_eq!(front("time"), (1, false));
        assert_eq!(front("command -v rm"), (3, false));
    }

    #[test]
    fn an_unknown_option_makes_it_unsure() {
        assert_eq!(front("timeout --weird 5 npm"), (3, true));
        assert_eq!(front("nohup -x rm"), (2, true));
        assert_eq!(front("env -S rm"), (2, true));
    }
}
