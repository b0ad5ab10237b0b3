//! Properties: no piece of a line escapes the judge, however it is nested, and no line makes it panic.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::tests::judged;
use super::*;

const DENIED: &str = "rm -rf y";

/// Returns whether the denied piece would meet a rule against it, or a person.
fn is_seen(line: &str) -> bool {
    let verdict = judged(line);
    verdict.floor == Action::Ask || verdict.commands.iter().any(|command| command.text.starts_with(DENIED))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Lines made of allowed and denied pieces, one inside the other.
fn lines() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        2 => Just("git status".to_owned()),
        1 => Just(DENIED.to_owned()),
        1 => Just("echo 'a b' \"c $d\"".to_owned()),
        1 => Just("cat f > g 2>&1".to_owned()),
    ];
    piece.prop_recursive(5, 24, 3, |inner| {
        (inner.clone(), inner.clone(), 0..41_usize).prop_map(|(a, b, form)| match form {
            0 => format!("{a}; {b}"),
            1 => format!("{a} && {b}"),
            2 => format!("{a} || {b}"),
            3 => format!("{a} | {b}"),
            4 => format!("( {a} ); {b}"),
            5 => format!("{{ {a}; }}; {b}"),
            6 => format!("if {a}; then {b}; fi"),
            7 => format!("if ls; then {a}; elif ls; then ls; else {b}; fi"),
            8 => format!("while {a}; do {b}; done"),
            9 => format!("for i in 1 2; do {a}; {b}; done"),
            10 => format!("case x in a) {a};; *) {b};; esac"),
            11 => format!("f() {{ {a}; }}; {b}"),
            12 => format!("echo \"x $({a}) y\"; {b}"),
            13 => format!("X=$({a}) git $({b})"),
            14 => format!("git <({a}) > >({b})"),
            15 => format!("sh -c {}; {b}", quoted(&a)),
            16 => format!("eval {} && {b}", quoted(&a)),
            17 => format!("cat <<EOF\n$({a})\nEOF\n{b}"),
            18 => format!("echo $(( $({a}) + 1 )); {b}"),
            19 => format!("echo `{}`; {b}", a.replace('\\', "\\\\").replace('`', "\\`")),
            20 => format!("{a}\n{b}"),
            21 => format!("{a} & {b}"),
            22 => format!("! {{ {a}; }} && {b}"),
            23 => format!("{{ {a}; {b}; }} > out 2> /dev/null"),
            24 => format!("timeout 5 sh -c {} | {b}", quoted(&a)),
            25 => format!("bash <<'END'\n{a}\nEND\n{b}"),
            26 => format!("[[ -n $({a}) ]] && {b}"),
            27 => format!("a=(5 sh -c {}); timeout \"${{a[@]}}\"; {b}", quoted(&a)),
            28 => format!("f() {{ timeout \"$@\"; }}; f 5 sh -c {}; {b}", quoted(&a)),
            29 => format!("timeout {{5,sh,-c,{}}}; {b}", quoted(&a)),
            30 => format!("env 1=1 sh -c {}; {b}", quoted(&a)),
            31 => format!("bash -euoc pipefail {}; {b}", quoted(&a)),
            32 => format!("bash +c {}; {b}", quoted(&a)),
            33 => format!("flock -w 5 l sh -c {}; {b}", quoted(&a)),
            34 => format!("flock l -c {}; {b}", quoted(&a)),
            35 => format!("find a -maxdepth 0 -exec sh -c {} \\;; {b}", quoted(&a)),
            36 => format!("a=(-maxdepth 0 -exec sh -c {} \\;); find a \"${{a[@]}}\"; {b}", quoted(&a)),
            37 => format!("sort --compress-program={} f; true && {b}", quoted(&a)),
            38 => format!("for d in */; do (cd \"$d\" && {a}); done; {b}"),
            39 => format!("{a}\n\\{b}"),
            _ => format!("cd a && {a} || ( cd .. ; {b} )"),
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_denied_piece_is_listed_however_it_is_nested(line in lines()) {
        prop_assume!(line.contains(DENIED));
        prop_assert!(is_seen(&line), "{line}\n{:?}", judged(&line));
    }

    #[test]
    fn any_text_gives_a_pattern_and_no_panic(line in any::<String>()) {
        prop_assert!(!judged(&line).commands.is_empty());
    }

    #[test]
    fn any_bytes_give_a_pattern_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(!judged(&String::from_utf8_lossy(&bytes)).commands.is_empty());
    }

    #[test]
    fn any_text_of_shell_tokens_gives_a_pattern_and_no_panic(tokens in prop::collection::vec(0..TOKENS.len(), 0..40)) {
        let line: String = tokens.into_iter().map(|token| TOKENS[token]).collect();
        let verdict = judged(&line);
        prop_assert!(!verdict.commands.is_empty());
        prop_assert!(verdict.commands.iter().all(|command| !command.text.is_empty()) || line.is_empty());
    }
}

#[test]
fn most_nested_lines_are_judged_with_certainty() {
    let mut runner = TestRunner::deterministic();
    let all = 300;
    let sure = (0..all).filter(|_| judged(&lines().new_tree(&mut runner).unwrap().current()).floor == Action::Allow);
    let sure = sure.count();
    assert!(sure * 10 > all * 6, "{sure} of {all}");
}

/// What shell is made of.
const TOKENS: &[&str] = &[
    " ",
    " ",
    " ",
    " ",
    "\n",
    ";",
    "; ",
    " && ",
    " || ",
    " | ",
    " & ",
    "(",
    ")",
    "$(",
    "`",
    "\"",
    "'",
    "\\",
    "\\\n",
    "\n\\",
    "$",
    "{ ",
    " }",
    "{",
    "}",
    ",",
    "#",
    " #",
    "<<EOF\n",
    "\nEOF\n",
    "<<'EOF'\n",
    "<<-EOF\n\t",
    "<<<",
    ">",
    " > f ",
    " < f ",
    "2>&1",
    ">&",
    "<(",
    "${x:-",
    "${",
    "$((",
    "))",
    "((",
    "[[ ",
    " ]]",
    "[ ",
    " ]",
    "if ",
    "; then ",
    "; fi",
    "else ",
    "while ",
    "; do ",
    "; done",
    "for i in ",
    "case x in ",
    ") ",
    ";;",
    " esac",
    "! ",
    "f() ",
    "function g ",
    "eval ",
    "sh -c ",
    "env ",
    "X=",
    "x=1 ",
    "$x",
    "=",
    "rm -rf y",
    "rm -rf y",
    "rm -rf y",
    "git ",
    "echo ",
    "cat ",
    "time ",
    "exec ",
    "command ",
    "a",
    "$'",
    "$\"",
    "~",
    "*",
    "?",
    "[",
    "]",
    "!",
    "+=",
    "\t",
    "-",
    "--",
    "coproc ",
    "timeout ",
    "5 ",
    "nice ",
    "-n ",
    "xargs ",
    "find . -exec ",
    "\"$@\"",
    "\"${a[@]}\"",
    "a=(",
    "select i in ",
    "until ",
    "<> f",
    " - ",
    "in ",
    "do ",
    "then ",
    "fi ",
    "done ",
    "{a,b}",
    "@(",
    "&>",
    "|&",
    ";&",
    "%",
    "^",
    "..",
    "1",
    "\u{65e5}",
    "\u{31860}",
    "\u{10fffd}",
];

/// Runs lines in a real bash, where `rm` only says that it ran: whenever it did, the judge must have seen it. A few
/// that are always the same; `FUZZ=20000` runs so many random ones.
#[test]
fn what_a_real_bash_runs_is_seen() {
    let wanted: Option<u32> = std::env::var("FUZZ").ok().and_then(|n| n.parse().ok());
    let (mut runner, rounds) = match wanted {
        Some(rounds) => (TestRunner::new(ProptestConfig::default()), rounds),
        None => (TestRunner::deterministic(), 200),
    };
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    let stub = |name, text| support::write_program(bin.join(name), &format!("#!/bin/bash\n{text}\n"));
    stub("rm", "[ $# = 2 ] && [ \"$1\" = -rf ] && [ \"$2\" = y ] && echo >> \"$RAN\"; echo x");
    for name in ["git", "cat", "ls"] {
        stub(name, "echo x");
    }
    std::os::unix::fs::symlink("/bin/bash", bin.join("sh")).unwrap();
    for name in ["env", "timeout", "flock", "find", "xargs", "nice"] {
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(name), bin.join(name)).unwrap();
    }
    let tokens = prop::collection::vec(0..TOKENS.len(), 1..14).prop_map(|t| t.into_iter().map(|t| TOKENS[t]).collect());
    let mixed =
        (lines(), any::<prop::sample::Index>(), 0..TOKENS.len(), any::<bool>()).prop_map(|(line, at, token, cut)| {
            // A line that makes sense, with something put in or a character taken out.
            let at = line.char_indices().map(|(at, _)| at).nth(at.index(line.chars().count())).unwrap_or(0);
            let rest = line[at..].chars().next().map_or(0, |c| if cut { c.len_utf8() } else { 0 });
            format!("{}{}{}", &line[..at], if cut { "" } else { TOKENS[token] }, &line[at + rest..])
        });
    let any_line = prop_oneof![tokens, mixed];
    let (mut ran, mut sure) = (0, 0);
    for round in 0..rounds {
        let line: String = any_line.new_tree(&mut runner).unwrap().current();
        if !line.contains("rm") || line.contains('\0') {
            continue;
        }
        let log = dir.path().join(format!("ran{round}"));
        let work = dir.path().join("work");
        // What one line leaves must not be found by another's glob.
        let _ = std::fs::remove_dir_all(&work);
        std::fs::create_dir_all(work.join("a")).unwrap();
        let mut shell = Command::new("/usr/bin/timeout")
            .args(["-s", "KILL", "1", "/bin/bash", "--norc", "-c", &line])
            .current_dir(&work)
            .env_clear()
            .env("PATH", &bin)
            .env("RAN", &log)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        shell.wait().unwrap();
        // Loops in the background would go on for ever.
        let group = nix::unistd::Pid::from_raw(shell.id() as i32);
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        if log.exists() {
            ran += 1;
            sure += usize::from(judged(&line).floor == Action::Allow);
            assert!(is_seen(&line), "{line:?}\n{line}\n{:?}", judged(&line));
            std::fs::remove_file(&log).unwrap();
        }
    }
    println!("{ran} of {rounds} lines ran it, {sure} of them judged with certainty");
    assert!(ran > 0, "no line ran it, so nothing was tried");
}
