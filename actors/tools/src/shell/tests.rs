use std::collections::HashMap;

use pretty_assertions::assert_eq;

use super::*;

/// A disk of names: what is linked where, which directories there are.
struct Disk {
    links: HashMap<&'static str, &'static str>,
    directories: Vec<&'static str>,
}

impl Disk {
    fn look(&self, path: &Path) -> Seen {
        let mut real = PathBuf::from("/");
        for component in path.components() {
            match component {
                std::path::Component::ParentDir => drop(real.pop()),
                std::path::Component::Normal(name) => {
                    real.push(name);
                    if let Some(to) = real.to_str().and_then(|real| self.links.get(real)) {
                        real = to.into();
                    }
                }
                _ => {}
            }
        }
        let is_directory = real.to_str().is_some_and(|real| self.directories.contains(&real));
        Seen { path: real, is_directory }
    }
}

pub(super) fn judged(line: &str) -> Verdict {
    let disk = Disk {
        links: HashMap::from([("/p/vendor", "/outside"), ("/p/secret", "/outside/file")]),
        directories: vec![
            "/",
            "/p",
            "/p/a",
            "/p/b",
            "/p/src",
            "/tmp",
            "/etc",
            "/home",
            "/home/me",
            "/home/me/.ssh",
            "/outside",
        ],
    };
    judge(
        line,
        &Surroundings {
            directory: "/p".into(),
            worktree: Some("/p".into()),
            inside: vec!["/p".into()],
            home: Some("/home/me".into()),
            look: &|path| disk.look(path),
        },
    )
}

fn patterns(line: &str) -> Vec<String> {
    judged(line).commands.into_iter().map(|command| command.text).collect()
}

/// The patterns of a line that is judged with certainty.
fn sure(line: &str) -> Vec<String> {
    let verdict = judged(line);
    assert_eq!(verdict.floor, Action::Allow, "{line}: {:?}", verdict.reasons);
    verdict.commands.into_iter().map(|command| command.text).collect()
}

fn outside(line: &str) -> Vec<String> {
    judged(line).directories.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

fn always(line: &str) -> Vec<String> {
    judged(line).commands.into_iter().flat_map(|command| command.always).collect()
}

#[track_caller]
fn asks(line: &str) {
    let verdict = judged(line);
    assert_eq!(verdict.floor, Action::Ask, "{line}: {verdict:?}");
    assert!(!verdict.reasons.is_empty() && !verdict.commands.is_empty(), "{line}");
}

#[test]
fn each_simple_command_is_listed_without_redirections() {
    let line = "git status --short && npm run test -- --x; cat a.txt | wc -l > /dev/null";
    assert_eq!(sure(line), ["git status --short", "npm run test -- --x", "cat a.txt", "wc -l"]);
    assert_eq!(always(line), ["git status *", "npm run test *", "cat *", "wc *"]);
    assert_eq!(outside(line), [""; 0]);
}

#[test]
fn assignments_are_split_off() {
    assert_eq!(sure("CI=true git commit -m x"), ["git commit -m x"]);
    assert_eq!(sure("A=1 B=\"two words\" git push"), ["git push"]);
    assert_eq!(sure("FOO=bar npm --version"), ["npm --version"]);
}

#[test]
fn assignments_that_change_what_runs_ask() {
    for line in [
        "PATH=/tmp/evil npm --version",
        "LD_PRELOAD=/tmp/evil.so npm --version",
        "GIT_SSH_COMMAND=evil npm --version",
        "export PATH=/x:$PATH; npm test",
        "declare -x NODE_OPTIONS=--require=/x",
        "export 'PATH=/x'",
        "env BASH_ENV=/x npm test",
        "sudo LD_PRELOAD=x ls",
        "for PATH in a b; do ls; done",
        "read PATH < f; ls",
        "printf -v IFS x",
        ": ${PATH:=/x}",
        "PATH+=:/x ls",
        "HOME=/ cd; rm x",
        "EDITOR=evil git commit",
        "declare \"$x=1\"",
    ] {
        asks(line);
    }
    sure("GIT_PAGER=cat PAGER=cat git log");
    sure("GIT_AUTHOR_NAME=x git commit");
    sure("export RUST_LOG=debug && cargo test");
}

#[test]
fn a_line_without_a_command_or_that_does_not_parse_asks_as_a_whole() {
    for line in ["# only a comment", "", "  \n ", "if true; then (", "echo \"open", "rm y\r", "a ;; ; b"] {
        asks(line);
        assert!(patterns(line).contains(&line.to_owned()), "{line}");
    }
    assert!(patterns("if true; then (rm y").contains(&"rm y".to_owned()));
}

#[test]
fn substitutions_anywhere_are_listed() {
    for line in [
        "X=`rm y` npm --version",
        "X=$(rm y) npm --version",
        "X=$(rm y)",
        "git $(rm y)",
        "git <(rm y)",
        "tee >(rm y)",
        "echo \"a $(rm y) b\"",
        "echo \"a `rm y` b\"",
        "echo \"$(echo \"$(rm y)\")\"",
        "echo `echo \\`rm y\\``",
        "echo $((1 + $(rm y)))",
        "(( $(rm y) ))",
        "a[$(rm y)]=1",
        "a=(1 $(rm y))",
        "cat <<EOF\n$(rm y)\nEOF",
        "cat <<EOF\na `rm y` b $(ls)\nEOF",
        "cat <<EOF\n$(ls) then `rm y`\nEOF",
        "cat <<-EOF\n\t$(rm y)\n\tEOF",
        "cat <<EOF | grep x\n$(rm y)\nEOF",
        "cat <<< \"$(rm y)\"",
        "echo ${x:-$(rm y)}",
        "echo ${x/a/$(rm y)}",
        "[ -f $(rm y) ]",
        "[[ $(rm y) == a ]]",
        "case $(rm y) in a) ls;; esac",
        "case x in $(rm y)) ls;; esac",
        "for i in $(rm y); do ls; done",
        "for ((i=0; i<$(rm y); i++)); do ls; done",
        "echo x > $(rm y)",
        "export X=$(rm y)",
        "declare -a x=($(rm y))",
        "$(rm y) x",
        "`rm y`",
        "echo $\"a $(rm y)\"",
    ] {
        assert!(patterns(line).contains(&"rm y".to_owned()), "{line}: {:?}", judged(line));
    }
    assert_eq!(sure("cat <<'EOF'\n`rm y` $(rm z)\nEOF"), ["cat"]);
    assert_eq!(sure("echo '$(rm y)' \\$\\(rm y\\) \"\\$(rm y)\" \"\\`rm y\\`\"").len(), 1);
}

#[test]
fn commands_in_all_statements_are_listed() {
    for line in [
        "ls && rm y",
        "ls || rm y",
        "ls; rm y",
        "ls\nrm y",
        "ls & rm y",
        "rm y & ls",
        "ls | rm y",
        "ls |& rm y | cat",
        "(rm y)",
        "{ rm y; }",
        "! rm y",
        "if rm y; then ls; fi",
        "if ls; then rm y; fi",
        "if ls; then ls; elif rm y; then ls; fi",
        "if ls; then ls; elif ls; then rm y; fi",
        "if ls; then ls; else rm y; fi",
        "while rm y; do ls; done",
        "until ls; do rm y; done",
        "for i in 1 2; do rm y; done",
        "select i in 1 2; do rm y; done",
        "for ((;;)); do rm y; done",
        "case x in a) ls;; *) rm y;; esac",
        "case x in a) ls;& *) rm y;; esac",
        "f() { rm y; }; f",
        "f() ( rm y )",
        "function f { rm y; }",
        "time rm y",
        "coproc rm y",
        "ls > f && rm y > g",
        "> f rm y",
        "rm > f y",
        "ls > f; cat <<EOF && rm y\nx\nEOF",
        "cat <<EOF || rm y\nx\nEOF",
        "[ -f x ] && rm y",
        "[[ -f x ]] || rm y",
    ] {
        assert!(patterns(line).contains(&"rm y".to_owned()), "{line}: {:?}", judged(line));
    }
}

#[test]
fn words_behind_a_redirection_belong_to_the_command() {
    assert_eq!(sure("git > out push --force"), ["git push --force"]);
    assert_eq!(sure("a && git > f push | cat"), ["a", "git push", "cat"]);
}

#[test]
fn wrapped_commands_are_listed_too() {
    for line in [
        "env rm y",
        "env -i A=1 rm y",
        "timeout 5 rm y",
        "timeout -k 1 5s rm y",
        "nice -n 5 rm y",
        "nohup rm y &",
        "ionice -c3 rm y",
        "setsid -f rm y",
        "stdbuf -oL rm y",
        "time -p rm y",
        "command rm y",
        "builtin rm y",
        "exec rm y",
        "sudo -u root rm y",
        "doas rm y",
        "env timeout 5 nice rm y",
        "sh -c 'rm y'",
        "bash -lc 'ls && rm y'",
        "bash -o pipefail -c \"rm y\"",
        "zsh -c 'echo \"$(rm y)\"' arg",
        "/bin/sh -c 'rm y'",
        "eval rm y",
        "eval 'ls; rm y'",
        "eval \"eval 'rm y'\"",
        "trap 'rm y' EXIT",
        "alias x='rm y'",
        "find . -name '*.o' -exec rm y \\;",
        "find . -exec ls {} + -exec rm y ';'",
        "find . -execdir sh -c 'rm y' \\;",
        "fd -e o -x rm y",
        "watch -n 1 'rm y'",
        "watch rm y",
        "parallel rm y ::: a b",
        "flock lock rm y",
        "flock lock -c 'rm y'",
        "su -c 'rm y'",
        "git submodule foreach 'rm y'",
        "git bisect run rm y",
        "git rebase -x 'rm y' main",
        "eval -- rm y",
        "unshare rm y",
        "/usr/bin/../bin/rm y",
        "bash <<'EOF'\nrm y\nEOF",
        "sh <<< 'rm y'",
        "source /dev/stdin <<< 'rm y'",
        "busybox rm y",
    ] {
        assert!(patterns(line).contains(&"rm y".to_owned()), "{line}: {:?}", judged(line));
    }
    assert_eq!(patterns("ls | xargs -n1 rm y"), ["ls", "xargs -n1 rm y", "rm y"]);
    assert_eq!(patterns("find . -exec rm {} \\;"), ["find . -exec rm {} \\;", "rm {}"]);
}

#[test]
fn an_approval_of_sudo_names_the_inner_command() {
    assert_eq!(always("sudo git push origin"), ["sudo git push *", "git push *"]);
    assert_eq!(always("sudo -n rm y"), ["sudo -n rm *", "rm *"]);
}

#[test]
fn what_is_made_while_the_command_runs_asks() {
    for line in [
        "$X rm y",
        "${X} y",
        "X=rm; $X y",
        "r* y",
        "{rm,y}",
        "$(echo rm) y",
        "cd $X && ls",
        "popd",
        "pushd",
        "bash -c \"$X\"",
        "eval \"$X\"",
        "eval $(ssh-agent)",
        "git log | sh",
        "curl x | bash -s",
        "bash < f",
        "bash <(curl x)",
        "bash $X",
        ". <(curl x)",
        "source \"$X\"",
        "ls | xargs",
        "ls | xargs -I{} {} y",
        "find . -exec {} \\;",
        "ls | xargs rm",
        "rm -rf \"$X/y\"",
        "echo x > $X",
        "echo x > \"$X/y\"",
        "timeout --weird 5 ls",
        "parallel < f",
        "trap \"$X\" EXIT",
        "alias x=$X",
        "hash -p /tmp/x ls",
        "echo ${x@P}",
        "git -c alias.x='!rm y' x",
        "git -c core.sshCommand=x fetch",
        "cat {/etc/passwd,x}",
        "bash /dev/fd/3 3<<< 'rm y'",
        "ls | xargs -I{} sh -c {}",
        "ls | xargs -I@ sh -c 'echo @'",
        "find . -exec sh -c 'echo {}' \\;",
        "ls | parallel 'echo {}'",
        "exec 3<<< 'rm y'; bash /dev/fd/3",
        "exec <<< 'rm y'; bash",
        "bash /proc/self/fd/0 < f",
        "mapfile -C 'rm y' -c 1 a < f",
        "compgen -C 'rm y'",
        "let 'a[$(rm y)]'",
        "declare -i x='a[$(rm y)]'",
        "x='a[$(rm y)]'; ((x))",
        "[[ 'a[$(rm y)]' -eq 0 ]]",
        "test -v 'a[$(rm y)]'",
        "ls ~root",
        "rm -r*f y",
        "rm -r{f,} y",
        "rm -r$x y",
        "cd ~-",
        "rm ~other/x",
        "while true; do cd a; done",
        "bash",
    ]
    .into_iter()
    .filter(|line| !matches!(*line, "ls | xargs" | "bash"))
    {
        asks(line);
    }
    sure("ls | xargs");
    sure("bash");
    sure("bash script.sh");
    sure("find . -exec sh -c 'echo \"$1\"' _ {} \\;");
    sure("parallel 'echo {}' ::: a b");
}

#[test]
fn a_variable_that_the_line_sets_is_known() {
    assert_eq!(outside("F=/etc/passwd; cat $F"), ["/etc"]);
    assert_eq!(outside("D=/etc && cat \"$D/passwd\""), ["/etc"]);
    assert_eq!(outside("for f in /etc/passwd x; do cat $f; done"), ["/etc"]);
    assert_eq!(outside("cat $HOME/.ssh/id"), ["/home/me/.ssh"]);
    assert_eq!(outside("cat $PWD/x"), [""; 0]);
    assert_eq!(outside("X='a /etc/passwd'; cat $X"), ["/etc"]);
    sure("D=build; rm -rf $D");
    sure("for f in *.o src/*.o; do rm \"$f\"; done");
    asks("read D; rm -rf $D");
    asks("if ls; then D=x; fi; rm $D");
    sure("cd \"$(git rev-parse --show-toplevel)\" && ls");
}

#[test]
fn quoted_and_escaped_names_are_listed_plainly_too() {
    assert_eq!(sure("r\\m y"), ["r\\m y", "rm y"]);
    assert_eq!(sure("\"git\" push"), ["\"git\" push", "git push"]);
    assert_eq!(sure("git 'push' x"), ["git 'push' x", "git push x"]);
    assert_eq!(sure("$'\\x72m' y"), ["$'\\x72m' y", "rm y"]);
    assert_eq!(sure("/bin/rm y"), ["/bin/rm y", "rm y"]);
    assert_eq!(sure("rm '-rf' y"), ["rm '-rf' y", "rm -rf y"]);
    assert_eq!(sure("rm   -rf \\\n  y"), ["rm -rf y"]);
    assert_eq!(sure("grep \"foo\" \\f"), ["grep \"foo\" \\f", "grep foo f"]);
    assert_eq!(always("grep \"foo\" f"), ["grep *"]);
    assert_eq!(sure("git commit --message=\"a b\""), ["git commit --message=\"a b\""]);
    assert_eq!(always("\"git\" push x"), ["\"git\" push x", "git push x"]);
    assert_eq!(always("git -C a push"), ["git -C a push", "git push"]);
}

#[test]
fn functions_and_aliases_are_judged_where_they_are_called() {
    assert_eq!(outside("f() { cat x; }; cd /tmp; f"), ["/tmp"]);
    assert_eq!(outside("f() { cd /tmp; }; f; ls"), ["/tmp"]);
    assert!(patterns("git() { rm y; }; git status").contains(&"rm y".to_owned()));
    assert!(patterns("alias ls='rm y'; ls -l").contains(&"rm y -l".to_owned()));
    asks(":(){ :|:& };:");
}

#[test]
fn options_before_a_subcommand_do_not_hide_it() {
    assert_eq!(sure("git -C a --no-pager push --force"), ["git -C a --no-pager push --force", "git push --force"]);
    assert_eq!(sure("git -c color.ui=never 'push' x").last().map(String::as_str), Some("git push x"));
    assert_eq!(sure("npm --silent run x"), ["npm --silent run x", "npm run x", "npm x"]);
    assert_eq!(sure("npm --version"), ["npm --version"]);
}

#[test]
fn shells_by_other_names_and_ways_are_seen() {
    for line in ["csh -c 'rm y'", "ksh93 -c 'rm y'", "sg staff 'rm y'", "runuser -u me -- rm y", "gosu me rm y"] {
        assert!(patterns(line).contains(&"rm y".to_owned()), "{line}: {:?}", judged(line));
    }
    for line in ["unbuffer rm y", "hyperfine 'rm y'", "faketime '1 day' rm y", "at now <<< 'rm y'", "tini -- rm y"] {
        assert!(patterns(line).contains(&"rm y".to_owned()), "{line}: {:?}", judged(line));
    }
    for line in [
        "cat f | sudo -s",
        "cat f | doas -s",
        "cat f | unshare",
        "cat f | chroot d",
        "cat f | at now",
        "pwsh -c 'rm y'",
        "nu -c 'rm y'",
        "cat f | pwsh",
        "tmux new -d 'rm y'",
        "tmux send-keys 'rm y' Enter",
        "screen -dm rm y",
        "PATH[0]=/x; ls",
    ] {
        asks(line);
    }
    for line in ["tmux ls", "tmux kill-session -t x", "sudo -n true", "pwsh"] {
        sure(line);
    }
}

#[test]
fn globs_and_words_that_are_printed_lead_where_they_lead() {
    asks("cat */../../x");
    asks("cat .*/x");
    asks("rm -rf .*");
    assert_eq!(outside("cat $(echo /etc/passwd)"), ["/etc"]);
    assert_eq!(outside("cat \"$(printf /etc/passwd)\""), ["/etc"]);
    assert_eq!(outside("F=$(echo /etc/passwd); cat $F"), ["/etc"]);
    asks("echo() { cat f; }; rm $(echo x)");
}

#[test]
fn flags_belong_to_the_text() {
    assert_eq!(sure("kill -9 44165"), ["kill -9 44165"]);
    assert_eq!(sure("rm -rf -- x"), ["rm -rf -- x"]);
    assert_eq!(sure("ls -"), ["ls -"]);
    assert_eq!(sure("git diff --"), ["git diff --"]);
    assert_eq!(sure("python3 - <<'PY'\nprint(1)\nPY"), ["python3 -"]);
    assert_eq!(sure("cat - > f"), ["cat -"]);
}

#[test]
fn harmless_parts_alone_are_listed_whole_and_do_not_ask() {
    for line in ["cd a", "X=1", "[ -f x ]", "export X=1", "((x = 1))", "> x"] {
        assert_eq!(sure(line), [line]);
    }
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = format!("{}rm y{}", "( ".repeat(3000), " )".repeat(3000));
    asks(&deep);
    assert!(patterns(&deep).contains(&"rm y".to_owned()));
    let mut nested = "rm y".to_owned();
    for _ in 0..12 {
        nested = format!("eval {}", quoted(&nested));
    }
    let verdict = judged(&nested);
    assert!(verdict.floor == Action::Ask || verdict.commands.iter().any(|c| c.text == "rm y"));
    asks(&"x".repeat(LONGEST + 1));
    let long = "ls; ".repeat(20_000);
    asks(&long);
    let many = "a && ".repeat(2_000) + "rm y";
    assert!(patterns(&many).contains(&"rm y".to_owned()));
}

#[test]
fn commands_that_stand_in_each_other_too_often_are_refused_at_little_cost() {
    for (open, close) in [("$(echo ", ")"), ("<(cat ", ")"), ("\"$(echo ", ")\"")] {
        let verdict = judged(&format!("echo {}x{}", open.repeat(3000), close.repeat(3000)));
        assert_ne!(verdict.floor, Action::Allow);
        let listed: usize = verdict.commands.iter().map(|command| command.text.len()).sum();
        assert!(listed <= LISTED + LONGEST, "{listed}");
    }
    assert_eq!(judged(&format!("echo {}x{}", "$(echo ".repeat(3000), ")".repeat(3000))).floor, Action::Deny);
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

mod reach;
mod ways_around;
