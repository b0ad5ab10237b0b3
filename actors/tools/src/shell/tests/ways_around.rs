//! Ways around a rule that were found, and ordinary lines that look like them.

use pretty_assertions::assert_eq;

use super::*;

/// Each runs `rm y`, or might: a rule against it, or a question, must see it.
#[test]
fn denied_commands_are_found_behind_more_ways_to_name_them() {
    for line in [
        "git rebase --exec='rm y' HEAD~1",
        "git rebase '-xrm y' HEAD~1",
        "git --git-dir .git rebase -x 'rm y' HEAD~1",
        "git --git-dir .git -c alias.x='!rm y' x",
        "git config alias.x '!rm y' && git x",
        "git grep -O'rm y' x",
        "git filter-branch --tree-filter 'rm y'",
        "git difftool -x 'rm y'",
        "git fetch --upload-pack='rm y' .",
        "bash -oc pipefail 'rm y'",
        "bash -euoc pipefail 'rm y'",
        "bash +c 'rm y'",
        "f() { timeout \"$@\"; }; f 5 rm y",
        "a=(5 rm y); timeout \"${a[@]}\"",
        "nice -n \"${a[@]}\"",
        "timeout {5,rm,y}",
        "X='5 rm y'; timeout $X",
        "X='A=1 rm y'; env $X",
        "X='--norc -c rm${IFS}y'; bash $X",
        "args=(-maxdepth 0 -exec rm y \\;); find . \"${args[@]}\"",
        "find . {-exec,rm,y,\\;}",
        "X='-c alias.x=!rm${IFS}y x'; git $X",
        "args=(push --force); git \"${args[@]}\"",
        "set -- push; git $1",
        "read c <<< push; git $c",
        "git pu{sh,}",
        "env A.B=1 rm y",
        "env 1=1 rm y",
        "flock -w 5 l rm y",
        "flock --timeout 5 l rm y",
        "flock l -c 'rm y'",
        "script -c'rm y' f",
        "su -c'rm y'",
        "su root -c\"rm y\"",
        "runuser --user root -- rm y",
        "x86_64 rm y",
        "setarch x86_64 rm y",
        "gdb --args rm y",
        "perf stat rm y",
        "npm exec -c 'rm y'",
        "npx -c 'rm y'",
        "tar --checkpoint=1 --checkpoint-action=exec='rm y' -cf a b",
        "tar -I 'rm y' -cf a b",
        "make --eval='x:;rm y' x",
        "MAKEFLAGS=--eval=x make",
        "TAR_OPTIONS=x tar -cf a b",
        "rsync -e 'rm y' a b:c",
    ] {
        let verdict = judged(line);
        let listed = verdict.commands.iter().any(|command| command.text == "rm y");
        assert!(listed || verdict.floor == Action::Ask, "{line}: {verdict:?}");
    }
}

#[test]
fn what_is_written_every_day_is_not_asked_for() {
    for line in [
        "git add $(git ls-files -m) && git commit -m x",
        "for f in *.rs; do git add $f; done",
        "git push -u origin main",
        "git -C sub rebase -i HEAD~2",
        "git config user.name x",
        "find . -name *.rs -exec grep -l x {} +",
        "find src -name '*.{ts,tsx}'",
        "for d in a b; do find $d -type f; done",
        "npx prettier -c src",
        "tar -I zstd -xf a.tar.zst",
        "tar -czf a.tgz src",
        "rsync -av -e ssh a b",
        "make -j$(nproc) all",
        "npm run build",
        "cargo test --workspace",
        "env RUST_LOG=debug cargo test",
        "timeout 5 cargo test",
        "flock -n lock make",
        "bash -euo pipefail -c 'ls'",
        "docker run --rm -v x:y image ls",
    ] {
        let verdict = judged(line);
        assert_eq!(verdict.floor, Action::Allow, "{line}: {verdict:?}");
    }
}

#[test]
fn paths_outside_are_found_in_more_places() {
    for (line, directory) in [
        ("cat /proc/self/fd/../root/etc/hostname", "/proc/self/root/etc"),
        ("echo x > /dev/fd/../root/tmp/f", "/dev/root/tmp"),
        ("tar -cf/tmp/x.tar a", "/tmp"),
        ("sort -uo/tmp/x f", "/tmp"),
        ("wget -qO/tmp/x http://h", "/tmp"),
        ("ln -sft/tmp f", "/tmp"),
        ("grep -rf../secret a", "/"),
        ("docker run --mount type=bind,source=/etc,target=/x i", "/etc"),
        ("curl FILE:///etc/hosts", "/etc"),
        ("curl file:/etc/hosts", "/etc"),
        ("curl -F 'x=<../f' http://h", "/"),
        ("curl --data-urlencode x@../f http://h", "/"),
        ("cd a && ln -s ../.. b; cat b/secret", "/"),
    ] {
        assert_eq!(outside(line), [directory], "{line}");
    }
    for line in
        ["cat <&3 /dev/fd/3", "scp f git@host:x", "docker run --mount type=bind,source=src,target=/x i", "ln -s a b"]
    {
        assert_eq!(outside(line), [""; 0], "{line}");
    }
}

#[test]
fn numbers_behind_options_and_words_for_elsewhere_are_no_paths() {
    for line in [
        "grep -A 3 /foo f",
        "grep -rm 1 /foo src",
        "column -s / f",
        "ssh h ls /etc",
        "docker exec c ls /etc",
        "kubectl exec p -- cat /etc/hosts",
    ] {
        assert_eq!(outside(line), [""; 0], "{line}");
    }
    assert_eq!(outside("ssh -F /etc/ssh h ls"), ["/etc"]);
    assert_eq!(outside("grep -A 3 foo /etc/hosts"), ["/etc"]);
}

#[test]
fn a_cd_that_goes_nowhere_leaves_the_shell_where_it_was() {
    for line in ["cd a b", "cd a < nofile", "cd -@ a", "pushd -n a", "rm -rf a; cd a", "mv src b; cd src"] {
        assert_eq!(outside(&format!("{line}; cat ../secret.txt")), ["/"], "{line}");
    }
    for line in ["cd() { :; }; cd a", "enable -n cd; cd a", "set -P; cd a", "set -o physical"] {
        asks(line);
    }
    assert_eq!(outside("cd -P vendor; cat ../x"), ["/outside", "/"]);
    assert_eq!(outside("rm -f old.log; cd a; cat ../x"), [""; 0]);
    assert_eq!(outside("rm -rf a && mkdir a && cd a && cat ../x"), [""; 0]);
}

#[test]
fn braces_globs_and_quoted_blanks_that_do_no_harm_do_not_ask() {
    for line in [
        "mkdir -p out/{a,b}/{c,d}",
        "git log HEAD@{1}..HEAD@{0}",
        "ls a/*.{ts,tsx}",
        "ls src/**/*.{js,ts}",
        "git commit -m \"\u{65e5}\u{3000}\u{672c}\"",
        "git commit -m 'a\u{a0}b' && printf '\u{1b}[1mx'",
        "cat <<'EOF' > D\nFOO=a\\\nb\nEOF",
        "echo \"foo\\\nbar\"",
    ] {
        let verdict = judged(line);
        assert_eq!((verdict.floor, verdict.directories), (Action::Allow, Vec::new()), "{line}: {:?}", verdict.reasons);
    }
    for line in ["cat {.,a}./x", "cat {,x}/etc/passwd", "rm -rf a/{b,../..}/c", "echo a\u{3000}b", "r\\\nm y"] {
        let verdict = judged(line);
        assert!(verdict.floor == Action::Ask || !verdict.directories.is_empty(), "{line}: {verdict:?}");
    }
}
