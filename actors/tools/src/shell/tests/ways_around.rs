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
        "echo -exec rm y ';' | xargs find .",
        "echo 5 rm y | xargs timeout",
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
        "git rebase --exe='rm y' HEAD~1",
        "git rebase -x ls -x 'rm y' HEAD~1",
        "git clone -c core.fsmonitor='rm y' . z",
        "git config --file .git/config alias.x '!rm y'",
        "git difftool -yx 'rm y'",
        "git grep -nO'rm y' x",
        "fd -HIx rm y",
        "fd --exec=rm y",
        "script -q f -- rm y",
        "su --session-command='rm y'",
        "flock l gcc -c x; rm y",
        "nix-shell -p x --run 'rm y'",
        "nodemon -x 'rm y'",
        "fish -C 'rm y'",
        "fish --command='rm y'",
        "tar cIf 'rm y' a b",
        "tar --use-compress-prog='rm y' -cf a b",
        "tar --to-comm='rm y' -xf a",
        "make SHELL=rm x",
        "ssh -o ProxyCommand='rm y' h",
        "gdb -ex 'shell rm y'",
        "sort --compress-program='rm y' f",
        "split --filter='rm y' f",
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
        "npx --yes create-x@latest .",
        "git clone -c core.autocrlf=false https://h/x.git",
        "git config --get core.editor",
        "git grep -eFOO",
        "tar cf a.tar src",
        "tar --checkpoint=100 -cf a.tar src",
        "script -q f",
        "flock -n l -c 'make all'",
        "fish -c ls",
        "sort -k1,1 f",
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
        ("curl -Fx=@../f http://h", "/"),
        ("curl -d@../f http://h", "/"),
        ("sort -k1o/tmp/x f", "/tmp"),
        ("docker run --mount=type=bind,src=/etc,target=/x i", "/etc"),
        ("aws s3api put-object --body fileb:///etc/x", "/etc"),
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
        "kubectl -n x exec p -- ls /etc",
        "docker compose exec c ls /etc",
        "docker run --rm -it -w /app -e X=/y image ls /etc",
        "gh api -X POST /repos/o/r/issues -f title=x",
        "aws logs tail /aws/x",
        "./configure --prefix=/usr",
        "cmake -DCMAKE_INSTALL_PREFIX=/usr .",
        "gcc -Isrc/include -Llib/x a.c",
        "go test -run /sub ./...",
        "openssl req -x509 -subj '/CN=x' -out c.pem",
        "rg -g '*.rs' /foo src",
        "column -t -s / f",
        "npx vite build --base /x/",
    ] {
        assert_eq!(outside(line), [""; 0], "{line}");
    }
    assert_eq!(outside("ssh -F /etc/ssh h ls"), ["/etc"]);
    assert_eq!(outside("docker run -v /etc:/x image ls"), ["/etc"]);
    assert_eq!(outside("docker cp /etc/x c:/y"), ["/etc"]);
    assert_eq!(outside("docker build -t exec /etc"), ["/etc"]);
    assert_eq!(outside("docker -c exec build /etc"), ["/etc"]);
    assert_eq!(outside("aws --profile logs s3 cp /etc/x s3://b"), ["/etc"]);
    assert_eq!(outside("gh api /repos/o/r --input /etc/x"), ["/etc"]);
    assert_eq!(outside("make -sC/etc"), ["/etc"]);
    assert_eq!(outside("TMPDIR=/etc mktemp"), ["/etc", "/tmp"]);
    asks("TMPDIR=a; rm $(mktemp)");
    assert_eq!(outside("aws s3 cp /etc/x s3://b"), ["/etc"]);
    assert_eq!(outside("gcc -I/etc/x a.c"), ["/etc"]);
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

/// Texts of the commands that are listed, and of those listed aside.
fn listed(line: &str) -> (Vec<String>, Vec<String>) {
    let (aside, listed): (Vec<Simple>, Vec<Simple>) = judged(line).commands.into_iter().partition(|one| one.aside);
    let texts = |commands: Vec<Simple>| commands.into_iter().map(|command| command.text).collect();
    (texts(listed), texts(aside))
}

#[test]
fn what_a_command_known_by_its_own_name_runs_is_listed_aside() {
    for line in [
        "npm exec -- rm y",
        "npx rm y",
        "pnpm -C a exec rm y",
        "uv run rm y",
        "uv --quiet run rm y",
        "uv run --with requests rm y",
        "poetry run sh -c 'rm y'",
        "conda run -n base rm y",
        "bundle exec rm y",
        "direnv exec . rm y",
        "mise exec -- rm y",
        "mise x node@20 -- rm y",
        "docker exec -it c rm y",
        "docker exec c sh -c 'cd /; rm y'",
        "docker compose exec c rm y",
        "docker run --rm image rm y",
        "kubectl -n x exec p -- rm y",
        "nix develop -c rm y",
        "watchexec -w src -- rm y",
        "ssh h rm y",
        "ssh -p 22 h 'ls; rm y'",
    ] {
        let (listed, aside) = listed(line);
        assert!(aside.contains(&"rm y".to_owned()), "{line}: {aside:?}");
        assert!(!listed.contains(&"rm y".to_owned()), "{line}: {listed:?}");
        let verdict = judged(line);
        assert_eq!((verdict.floor, verdict.directories), (Action::Allow, Vec::new()), "{line}");
    }
    asks("uv run bash -c \"$X\"");
    asks("poetry run $X");
    assert_eq!(listed("uv run rm y; rm y").0, ["uv run rm y", "rm y"], "the stricter reading holds");
    assert_eq!(listed("npm i x rm").1, [""; 0]);
    assert_eq!(listed("rm y; uv run rm y").0, ["rm y", "uv run rm y"]);
}

#[test]
fn another_way_to_write_a_name_and_what_only_guides_the_shell_are_listed_aside() {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    for (line, wanted, aside) in [
        ("\"git\" status", &["git status"] as &[&str], &["\"git\" status"] as &[&str]),
        ("/usr/bin/git status", &["git status"], &["/usr/bin/git status"]),
        ("g\\it status", &["git status"], &["g\\it status"]),
        ("git log && true", &["git log"], &["true"]),
        ("git log || :", &["git log"], &[":"]),
        ("set -euo pipefail; git log || exit 1", &["git log"], &["set -euo pipefail", "exit 1"]),
        ("test -d .git && git status", &["git status"], &["test -d .git"]),
        ("git commit -m \"x\"", &["git commit -m \"x\"", "git commit -m x"], &[]),
        ("set -- push", &["set -- push"], &[]),
        ("true", &["true"], &[]),
        ("X=a; git $X", &["git $X", "git a"], &[]),
    ] {
        assert_eq!(listed(line), (texts(wanted), texts(aside)), "{line}");
    }
}

#[test]
fn a_directory_that_a_glob_finds_is_followed() {
    for line in [
        "for d in */; do (cd \"$d\" && ls); done",
        "for d in packages/*; do (cd \"$d\" && cat x/y && cd .. && cat z); done",
        "for d in a b; do cd $d; ls; cd ..; done",
        "for d in a b; do pushd $d; ls; popd; done",
        "cd */ && ls",
    ] {
        let verdict = judged(line);
        assert_eq!((verdict.floor, verdict.directories), (Action::Allow, Vec::new()), "{line}: {:?}", verdict.reasons);
    }
    assert_eq!(outside("for d in /etc/*/; do (cd \"$d\" && cat x); done"), ["/etc"]);
    assert_eq!(outside("for d in */; do cd \"$d\"; cat y; cd ..; done; cat x"), ["/"], "it may not be there");
    for line in [
        "for d in */; do (cd \"$d\" && cat ../x); done",
        "for d in *; do (cd \"$d\" && ls); done",
        "for d in */; do (cd -P \"$d\" && ls); done",
        "shopt -s globstar; cd a/**/; cat ../../x",
        "for d in .*/; do (cd \"$d\" && ls); done",
        "X='a b'; cd $X",
        "X='*'; cd $X",
        "cd {a,b}/c",
    ] {
        asks(line);
    }
}

#[test]
fn what_is_printed_for_sure_is_known() {
    for line in [
        "chown -R $(id -u):$(id -g) a",
        "mkdir $(date +%F)",
        "cp a \"a.$(date +%Y%m%d_%H%M%S).bak\"",
        "xargs -P $(nproc) -n 1 echo",
        "GIT_TRACE=1 git status",
        "rm -f .??*",
    ] {
        let verdict = judged(line);
        assert_eq!((verdict.floor, verdict.directories), (Action::Allow, Vec::new()), "{line}: {:?}", verdict.reasons);
    }
    for (line, directory) in [
        ("tmp=$(mktemp); rm \"$tmp\"", "/tmp"),
        ("cd \"$(mktemp -d)\" && ls", "/tmp"),
        ("mktemp", "/tmp"),
        ("mktemp -t x", "/tmp"),
        ("cat ${PWD%/*}/secret", "/"),
        ("cat \"$(dirname \"$PWD\")/secret\"", "/"),
    ] {
        let verdict = judged(line);
        assert_eq!(verdict.directories, [PathBuf::from(directory)], "{line}");
        assert_eq!(verdict.floor, Action::Allow, "{line}: {:?}", verdict.reasons);
    }
    assert_eq!(outside("mktemp -p a; mktemp x.XXX"), [""; 0]);
    for line in ["mkdir $(date +%D)", "date() { echo ..; }; mkdir $(date +%F)", "GIT_TRACE=/tmp/x git status"] {
        asks(line);
    }
}
