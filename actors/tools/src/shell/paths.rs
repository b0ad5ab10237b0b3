//! Paths: which words of a command are some, and where they lead.

use std::path::{Component, Path, PathBuf};

use super::Judge;
use super::runners::subcommand;
use super::state::State;
use super::word::{ANY, GLOB, Word};
use crate::path::normalize;

/// Most paths looked up on disk for one line.
pub(super) const LOOKS: usize = 600;

/// Files that are nobody's: devices without content, and the command's own pipes.
const NOBODYS: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
];

/// Where the system keeps programs: running one of these is no look outside.
const PROGRAMS: [&str; 7] =
    ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"];

/// Commands whose arguments are never opened.
const SPEAKERS: &[&str] = &[
    "echo", "printf", "true", "false", ":", "expr", "seq", "sleep", "kill", "basename", "dirname", "tr", "exit",
    "return",
];

/// Commands whose first argument is a text (a pattern, a program), unless an option has given it.
const TEXT_FIRST: &[&str] =
    &["grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "sed", "gsed", "awk", "gawk", "mawk", "nawk", "jq", "yq"];

/// Commands that change the files they name.
const CHANGERS: &[&str] = &[
    "chgrp", "chmod", "chown", "cp", "dd", "install", "ln", "mkdir", "mkfifo", "mknod", "mv", "rm", "rmdir", "rsync",
    "shred", "tee", "touch", "truncate", "unlink",
];

/// Commands whose options with a value stand alone: `-Isrc/include` is one.
const ONE_LETTER: &[&str] = &[
    "bazel", "c++", "cargo", "cc", "clang", "clang++", "cmake", "emcc", "ffmpeg", "g++", "gcc", "gfortran", "ghc",
    "go", "java", "javac", "ld", "meson", "mvn", "node", "nvcc", "protoc", "rustc", "swiftc", "tsc",
];

/// Options whose next word is a text, by command.
const TEXT_OPTIONS: &[(&[&str], &[&str])] = &[
    (TEXT_FIRST, &["-e", "--regexp", "--expression", "-v", "--arg", "--argjson", "-F", "--field-separator"]),
    (&["rg"], &["-g", "--glob", "--iglob", "-t", "--type", "-r", "--replace"]),
    (
        &["git", "gh", "hg", "jj", "glab"],
        &["-m", "--message", "-b", "--body", "-t", "--title", "--grep", "--author", "--format", "--pretty", "-S", "-G"],
    ),
    (&["python", "python3", "bash", "sh", "zsh", "dash", "ksh"], &["-c"]),
    (&["perl", "ruby", "node", "bun", "deno", "osascript"], &["-e", "-E", "-ne", "-pe", "-p", "--eval", "--print"]),
    (&["php"], &["-r"]),
    (&["curl", "wget"], &["-H", "--header", "-A", "--user-agent", "-w", "--write-out", "-e", "--referer"]),
    (&["cut", "sort", "paste", "xargs"], &["-d", "-t", "-s", "--delimiter", "--delimiters", "--separator"]),
    (&["column"], &["-s", "-o", "--separator", "--output-separator"]),
    (CONTAINERS, &["-e", "--env", "-w", "--workdir", "--entrypoint"]),
    (&["go"], &["-run", "-bench", "-skip", "-ldflags", "-tags"]),
    (&["openssl"], &["-subj", "-addext"]),
    (&["vite", "ng", "npm", "npx", "pnpm", "yarn", "bun"], &["--base", "--base-href", "--public-path", "--public-url"]),
    (&["configure"], &["--prefix", "--exec-prefix", "--sysconfdir", "--localstatedir", "--libdir", "--mandir"]),
    (&["cmake"], &["-DCMAKE_INSTALL_PREFIX", "-DCMAKE_INSTALL_SYSCONFDIR", "-DCMAKE_INSTALL_LIBDIR"]),
    (&["meson"], &["--prefix"]),
];

/// Commands with separators that may stand right behind an option: `cut -d/`, `awk -F/`, `sort -t/`.
const SEPARATORS: &[&str] = &["cut", "sort", "column", "paste", "xargs", "awk", "gawk", "mawk", "nawk"];

/// Commands whose paths are followed by others of another machine: `docker run -v .:/app`.
const CONTAINERS: &[&str] = &["docker", "podman", "nerdctl", "buildah"];

/// Where a value leads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// To one path, absolute or to be joined to the working directory.
    At(PathBuf),
    /// Somewhere below this one.
    Below(PathBuf),
    /// Perhaps out of a directory that is found while the command runs: `*/../..`, `.*`.
    Climbs,
    /// Nobody knows.
    Unknown,
    /// To no file.
    Nowhere,
}

/// Returns whether the command changes the files it names.
pub(super) fn is_changer(name: &str) -> bool {
    CHANGERS.contains(&name)
}

/// Returns whether the program lies where the system keeps programs.
pub(super) fn is_program(path: &Path) -> bool {
    let path = if path.is_absolute() { normalize(path) } else { return false };
    path.parent().is_some_and(|parent| PROGRAMS.iter().any(|programs| parent == Path::new(programs)))
}

impl Judge<'_> {
    /// Looks at all words of a simple command. `changes`: unknown paths are a reason to ask.
    pub(super) fn paths(&mut self, words: &[Word], state: &State, changes: bool) {
        let Some((first, rest)) = words.split_first() else { return };
        let name = first.exact().map(base_name).unwrap_or_default();
        if let Some(program) = first.exact().filter(|p| p.contains('/') && !is_program(Path::new(p))) {
            self.value(program, state, false);
        }
        if SPEAKERS.contains(&name) {
            return;
        }
        let texts: Vec<&str> = TEXT_OPTIONS
            .iter()
            .filter(|(names, _)| names.contains(&name))
            .flat_map(|(_, o)| o.iter().copied())
            .collect();
        let bundles = !ONE_LETTER.contains(&name);
        let is_container = CONTAINERS.contains(&name);
        let mut text_first = TEXT_FIRST.contains(&name);
        let mut text_next = false;
        let mut after_option = false;
        for word in here(name, rest) {
            let literal = word.literal().unwrap_or_default();
            if changes && word.raw.starts_with('-') && word.exact().is_none() {
                self.ask("an option is made while the command runs");
            }
            let may_be_value = std::mem::replace(&mut after_option, literal.starts_with('-'));
            if std::mem::take(&mut text_next) {
                continue;
            }
            // `grep -A 3 TEXT`: a number behind an option is its value.
            if text_first && may_be_value && !literal.is_empty() && literal.bytes().all(|b| b.is_ascii_digit()) {
                continue;
            }
            if literal.starts_with('-') && literal.len() > 1 {
                text_next = texts.contains(&literal);
                let gives = ["-e", "-f", "--regexp", "--expression", "--file", "--from-file"];
                if gives.iter().any(|option| literal.starts_with(option)) {
                    text_first = false;
                }
                let option = literal.split_once('=').map_or(literal, |(option, _)| option);
                if literal != option && texts.contains(&option) {
                    continue;
                }
                if SEPARATORS.contains(&name) && literal.len() <= 4 && !literal.starts_with("--") {
                    continue;
                }
            } else if std::mem::take(&mut text_first) {
                continue;
            }
            if is_container {
                self.argument(&before_colon(word), state, changes, bundles);
            } else {
                self.argument(word, state, changes, bundles);
            }
        }
    }

    /// Looks at one argument: the word itself, the value of an option in it, a file behind an `@`.
    pub(super) fn argument(&mut self, word: &Word, state: &State, changes: bool, bundles: bool) {
        if word.climbs {
            self.ask("braces make paths that are not known");
        }
        for value in &word.values {
            let pieces: Vec<&str> = if word.splits { value.split_whitespace().collect() } else { vec![value] };
            for piece in pieces {
                for candidate in candidates(piece, bundles) {
                    self.value(candidate, state, changes);
                }
            }
        }
    }

    /// Looks at the target of a redirection.
    pub(super) fn target(&mut self, word: &Word, state: &State) {
        if word.climbs {
            self.ask("braces make paths that are not known");
        }
        for value in &word.values {
            self.value(value, state, true);
        }
    }

    /// Looks where a value leads, from everywhere the shell may be.
    fn value(&mut self, value: &str, state: &State, must_be_known: bool) {
        let (path, below) = match place(value) {
            Place::At(path) => (path, false),
            Place::Below(path) => (path, true),
            Place::Nowhere => return,
            Place::Climbs => return self.ask("a path may lead out of what a glob finds"),
            Place::Unknown if value.starts_with('~') => return self.ask("a path leads to another person's home"),
            Place::Unknown if must_be_known => return self.ask("a path is made while the command runs"),
            Place::Unknown => return,
        };
        if path.is_absolute() {
            self.look(&path, below);
        } else {
            let climbs = path.components().any(|name| name == Component::ParentDir);
            for cwd in state.cwds.clone() {
                if climbs && has_glob(&cwd) {
                    self.ask("a path may lead out of what a glob finds");
                }
                self.look(&cwd.join(&path), below);
            }
        }
    }

    /// Looks a path up and notes its directory if it is outside.
    pub(super) fn look(&mut self, path: &Path, is_directory: bool) {
        if NOBODYS.iter().any(|device| path == Path::new(device)) || is_own_pipe(path) {
            return;
        }
        if self.looks == 0 {
            return self.ask("the command names too many paths");
        }
        self.looks -= 1;
        // Of what a glob finds it is known where that lies.
        let known: PathBuf = path.components().take_while(|name| !has_glob(name.as_ref())).collect();
        let is_directory = is_directory || known != path;
        let path = &known;
        let seen = (self.surroundings.look)(path);
        if self.surroundings.inside.iter().any(|root| seen.path.starts_with(root)) {
            return;
        }
        let directory = if seen.is_directory || is_directory { Some(&*seen.path) } else { seen.path.parent() };
        let directory = directory.unwrap_or(&seen.path).to_owned();
        if !self.verdict.directories.contains(&directory) {
            self.verdict.directories.push(directory);
        }
    }

    /// Returns where `cd` to a value leads from a directory, as the shell names it; none when nobody knows.
    pub(super) fn destination(&self, value: &str, from: &Path) -> Option<PathBuf> {
        match place(value) {
            Place::At(path) => Some(normalize(&from.join(path))),
            // A directory that a glob finds: as deep as it is written, and surely no option.
            Place::Below(_)
                if value.contains('/') && !value.starts_with('-') && !value.contains([ANY, '*', '?', '[']) =>
            {
                let path = Path::new(value);
                let is_one = |name: Component| name.as_os_str().to_string_lossy().matches(GLOB).count() <= 1;
                path.components().all(is_one).then(|| normalize(&from.join(path)))
            }
            Place::Below(_) | Place::Climbs | Place::Unknown | Place::Nowhere => None,
        }
    }
}

/// Returns the words of a command that speak of this machine: not what is run on another, or in a container, and not
/// what a service calls a path.
fn here<'w>(name: &str, words: &'w [Word]) -> Vec<&'w Word> {
    let found = |names: &[&str]| subcommand(words, names, true);
    let is_container = CONTAINERS.contains(&name);
    let end = match name {
        "ssh" => words.iter().position(|word| !word.raw.starts_with('-') && !word.raw.contains('/')).map(|at| at + 1),
        "kubectl" | "oc" => found(&["exec"]).map(|at| at + 1),
        _ if is_container && found(&["exec"]).is_some() => found(&["exec"]).map(|at| at + 1),
        _ if is_container => found(&["run"]).and_then(|run| Some(run + 1 + image(words.get(run + 1..)?)? + 1)),
        _ => None,
    };
    let has_names = match name {
        "gh" => found(&["api"]).is_some(),
        "aws" => found(&["logs", "ssm", "secretsmanager", "iam"]).is_some(),
        _ => false,
    };
    let mut before = "";
    let is_path = |word: &&'w Word| {
        let is_file = std::mem::replace(&mut before, &*word.raw) == "--input";
        is_file || !has_names || !word.raw.starts_with('/')
    };
    words.get(..end.unwrap_or(words.len())).unwrap_or(words).iter().filter(is_path).collect()
}

/// Returns where the image stands behind `docker run`: the first word that is no option's value.
fn image(words: &[Word]) -> Option<usize> {
    let alone =
        ["--rm", "--init", "--privileged", "--tty", "--interactive", "--detach", "--read-only", "--publish-all"];
    let mut is_value = false;
    words.iter().position(|word| {
        let text = &word.raw;
        if std::mem::take(&mut is_value) {
            return false;
        }
        let letters = |text: &str| text.bytes().all(|b| b"itdP".contains(&b));
        let is_option = text.starts_with('-');
        let takes_none = text.contains('=') || alone.contains(&&**text) || text.strip_prefix('-').is_some_and(letters);
        is_value = is_option && !takes_none;
        !is_option
    })
}

/// Returns whether a path goes through something that a glob finds.
pub(super) fn has_glob(path: &Path) -> bool {
    path.to_string_lossy().contains(GLOB)
}

/// Returns whether a path is that of a file the command has open.
fn is_own_pipe(path: &Path) -> bool {
    let is_number = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
    path.parent().is_some_and(|parent| ["/dev/fd", "/proc/self/fd"].iter().any(|pipes| parent == Path::new(pipes)))
        && path.file_name().is_some_and(is_number)
}

/// Returns a word up to the first colon in it.
fn before_colon(word: &Word) -> Word {
    let before = |value: &String| value.split(':').next().unwrap_or_default().to_owned();
    Word { values: word.values.iter().map(before).collect(), ..word.clone() }
}

/// Returns the last name in a command's path.
pub(super) fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Returns the parts of an argument that may be paths. `bundles`: the command takes several letters in one word.
fn candidates(value: &str, bundles: bool) -> Vec<&str> {
    let mut found = Vec::new();
    let starts_a_path = |text: &str| text.starts_with(['/', '~']) || text.starts_with("..");
    if let Some(option) = value.strip_prefix('-') {
        // `-I/usr/include`, `-C../x`, `-cf/tmp/x.tar`: letters, then the path.
        let letters = match bundles {
            true => option.find(|c: char| !c.is_ascii_alphanumeric() && c != ',').filter(|letters| *letters > 0),
            false => option.chars().next().filter(char::is_ascii_alphabetic).map(char::len_utf8),
        };
        found.extend(letters.and_then(|at| option.get(at..)).filter(|rest| starts_a_path(rest)));
        found.extend(option.split_once('=').map(|(_, value)| value));
    } else {
        found.push(value);
        found.extend(value.split_once('=').map(|(_, value)| value).filter(|value| starts_a_path(value)));
        found.extend(value.strip_prefix('@').or_else(|| Some(value.split_once("=@")?.1)));
    }
    found.extend(["@", "=<"].iter().filter_map(|mark| Some(value.split_once(mark)?.1)).filter(|v| starts_a_path(v)));
    // `type=bind,source=/etc,target=/x`
    let parts = value.split([',', '=']).collect::<Vec<_>>();
    let sources = parts.windows(2).filter(|pair| matches!(pair.first(), Some(&"source" | &"src")));
    found.extend(sources.filter_map(|pair| pair.get(1)));
    let mut seen = std::collections::HashSet::new();
    found.retain(|candidate| seen.insert(*candidate));
    found
}

fn place(value: &str) -> Place {
    if value.is_empty() || value.starts_with(ANY) {
        return if value.is_empty() { Place::Nowhere } else { Place::Unknown };
    }
    let value = match value.split_once("://") {
        Some((scheme, path)) if ["file", "fileb"].iter().any(|file| scheme.eq_ignore_ascii_case(file)) => path,
        Some(_) => return Place::Nowhere,
        None => match value.split_once(":/") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => value.get(scheme.len() + 1..).unwrap_or(value),
            _ => value,
        },
    };
    // Another person's home, or where the shell was before.
    if value.starts_with('~') && value.len() > 1 {
        return Place::Unknown;
    }
    let mut known = PathBuf::new();
    let mut below = false;
    for component in Path::new(value).components() {
        if may_climb(&component.as_os_str().to_string_lossy()) {
            return Place::Climbs;
        }
        if below {
            if component == Component::ParentDir {
                return if value.contains(ANY) { Place::Unknown } else { Place::Climbs };
            }
        } else if component.as_os_str().to_string_lossy().contains([GLOB, ANY]) {
            below = true;
        } else {
            known.push(component);
        }
    }
    if below { Place::Below(known) } else { Place::At(known) }
}

/// Returns whether a glob may be the parent's name: `.*` is, to some shells. One that begins with a glob is not: that
/// finds no dot in front. Braces, which stand as two, may put one there.
fn may_climb(name: &str) -> bool {
    let begins_with_glob = name.strip_prefix(GLOB).is_some_and(|rest| !rest.starts_with(GLOB));
    name.contains(GLOB) && !begins_with_glob && matches!(&*name.replace(GLOB, ""), "." | "..")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_value_leads_to_a_path_below_one_or_nowhere_known() {
        let glob = |text: &str| text.replace('*', &GLOB.to_string()).replace('$', &ANY.to_string());
        assert_eq!(place("a/../b"), Place::At("a/../b".into()));
        assert_eq!(place(&glob("/etc/*.conf")), Place::Below("/etc".into()));
        assert_eq!(place(&glob("*")), Place::Below("".into()));
        assert_eq!(place(&glob("build/$/x")), Place::Below("build".into()));
        assert_eq!(place(&glob("$/x")), Place::Unknown);
        assert_eq!(place(&glob("*/../../x")), Place::Climbs);
        assert_eq!(place(&glob("a/.*/x")), Place::Climbs);
        assert_eq!(place(&glob("a/.*rc")), Place::Below("a".into()));
        assert_eq!(place("https://example.org/x"), Place::Nowhere);
        assert_eq!(place("file:///etc/passwd"), Place::At("/etc/passwd".into()));
        assert_eq!(place("~root/x"), Place::Unknown);
        assert_eq!(place("~-"), Place::Unknown);
        assert_eq!(place("file~"), Place::At("file~".into()));
    }

    #[test]
    fn options_may_hold_paths() {
        assert_eq!(candidates("-I/usr/include", true), ["/usr/include"]);
        assert_eq!(candidates("-C../x", true), ["../x"]);
        assert_eq!(candidates("-Isrc/include", false), [""; 0]);
        assert_eq!(candidates("-I/usr/include", false), ["/usr/include"]);
        assert_eq!(candidates("-k1o/tmp/x", true), ["/tmp/x"]);
        assert_eq!(candidates("-Fx=@../f", true), ["@../f", "../f"]);
        assert_eq!(candidates("--mount=type=bind,src=/etc,target=/x", true)[1..], ["/etc"]);
        assert_eq!(candidates("--file=/etc/x", true), ["/etc/x"]);
        assert_eq!(candidates("-rf", true), [""; 0]);
        assert_eq!(candidates("of=/dev/sda", true), ["of=/dev/sda", "/dev/sda"]);
        assert_eq!(candidates("@/etc/x", true), ["@/etc/x", "/etc/x"]);
        assert_eq!(candidates("file=@/etc/x", true), ["file=@/etc/x", "/etc/x"]);
    }
}
