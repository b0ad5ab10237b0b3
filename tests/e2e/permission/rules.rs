//! What rules decide: commands piece by piece, paths where they really lead.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{Project, ScriptedModel};

use super::{Desk, Verdict};
use crate::world::{World, completed, failed, troupe};

const ASKED: &str = "asked";
const DENIED: &str = "denied";
const ALLOWED: &str = "allowed";

impl Desk {
    /// Each command, in a session of its own, has to meet this verdict.
    async fn expect(&mut self, expected: &str, commands: &[&str]) {
        for command in commands {
            let session = self.session().await;
            let verdict = self.bash(&session, command).await;
            let met = match &verdict {
                Verdict::Asked(_) => ASKED,
                Verdict::Denied(_) => DENIED,
                Verdict::Allowed(_) => ALLOWED,
            };
            assert_eq!(met, expected, "{command}: {verdict:?}");
        }
    }

    fn write(&self, file: &str, content: &str) -> PathBuf {
        self.world.project.write(file, content)
    }
}

/// A directory outside of every project.
fn outside() -> tempfile::TempDir {
    let temporary = std::env::temp_dir().canonicalize().expect("a directory for temporary files");
    tempfile::Builder::new().prefix("outside-").tempdir_in(temporary).expect("a directory")
}

#[tokio::test]
async fn variables_in_front_of_a_command_do_not_hide_it() {
    let mut desk =
        Desk::with_rules(json!({ "bash": { "*": "allow", "git *": "ask", "kill *": "ask", "rm *": "ask" } })).await;
    desk.write("x", "keep");
    desk.expect(ASKED, &["CI=true git commit -m x", "A=1 B=\"two words\" git push", "FOO=bar env BAZ=1 git push"])
        .await;
    // Nor do flags and dashes.
    desk.expect(ASKED, &["kill -9 4999999", "rm -rf -- x", "rm -- x", "command rm x", "\\rm x", "r''m x"]).await;
    desk.expect(ALLOWED, &["CI=true ls", "A=1 B=2 ls -la"]).await;
    assert!(desk.world.project.exists("x"));
}

#[tokio::test]
async fn a_line_without_a_command_or_that_does_not_parse_is_asked_for() {
    let mut desk = Desk::with_rules(json!({ "bash": { "*": "ask" } })).await;
    let lines = [
        "git diff --",
        "git diff --no-index -- a b",
        "ls -",
        "# only a comment",
        "if true; then (",
        "echo \"open",
        ";",
        "X=1",
    ];
    desk.expect(ASKED, &lines).await;
    // What can't be judged asks even where everything is allowed.
    let mut desk = Desk::with_rules(json!({ "bash": "allow" })).await;
    desk.expect(ASKED, &["if true; then (", "echo \"open", "$(cat script)", "eval \"$X\""]).await;
}

#[tokio::test]
async fn assignments_that_choose_what_runs_are_asked_for_and_others_are_not() {
    let mut desk =
        Desk::with_rules(json!({ "bash": { "*": "ask", "git --version": "allow" }, "external_directory": "allow" }))
            .await;
    desk.expect(ALLOWED, &["git --version", "FOO=bar git --version"]).await;
    let dangerous = [
        "PATH=/tmp/evil git --version",
        "LD_PRELOAD=/tmp/evil.so git --version",
        "GIT_SSH_COMMAND=evil git --version",
        "BASH_ENV=evil git --version",
        "export PATH=/tmp/evil; git --version",
    ];
    desk.expect(ASKED, &dangerous).await;
    let dir = outside();
    let target = dir.path().join("p");
    for line in [
        format!("X=`touch {}` git --version", target.display()),
        format!("X=$(touch {}) git --version", target.display()),
    ] {
        let session = desk.session().await;
        let request = desk.bash(&session, &line).await.asked();
        let shown = request["patterns"].as_array().expect("patterns");
        assert!(shown.contains(&json!(format!("touch {}", target.display()))), "{request}");
    }
    assert!(!target.exists());
}

const JOINED: [&str; 8] = [
    "git log x && rm -rf y",
    "git status; rm -rf y",
    "git x\nrm y",
    "git $(rm y)",
    "git <(rm y)",
    "git log | xargs rm y",
    "(git log; rm y)",
    "f() { rm y; }; git log; f",
];

#[tokio::test]
async fn each_command_of_a_line_is_judged_alone_and_the_strictest_verdict_wins() {
    let mut desk = Desk::with_rules(json!({ "bash": { "*": "ask", "git *": "allow" } })).await;
    desk.write("y/keep", "x");
    desk.expect(
        ALLOWED,
        &["git status", "git status && git log -1", "git --version 2>&1", "git --version > /dev/null"],
    )
    .await;
    desk.expect(ASKED, &JOINED).await;
    desk.expect(ASKED, &["git log | sh", "git log -1 && make"]).await;
    assert!(desk.world.project.exists("y/keep"));

    let mut desk = Desk::with_rules(json!({ "bash": { "*": "ask", "git *": "allow", "rm *": "deny" } })).await;
    desk.write("y/keep", "x");
    desk.expect(DENIED, &JOINED).await;
    desk.expect(DENIED, &["unknown-command && rm y", "sh -c 'rm y'", "timeout 5 rm y", "find . -exec rm {} \\;"]).await;
    assert!(desk.world.project.exists("y/keep"));
}

#[tokio::test]
async fn a_denial_names_its_rule_and_what_met_it() {
    let mut desk = Desk::with_rules(
        json!({ "bash": { "*": "allow", "curl *": "deny" }, "edit": { "*": "allow", "secret/*": "deny" } }),
    )
    .await;
    let session = desk.session().await;
    let said = desk.bash(&session, "echo hi && curl evil").await.denied();
    assert!(said.contains("curl *") && said.contains("curl evil"), "{said}");
    let said = desk.call(&session, "write", json!({ "filePath": "secret/x", "content": "x" })).await.denied();
    assert!(said.contains("secret/*") && said.contains("secret/x"), "{said}");
    assert!(!desk.world.project.exists("secret"));
    // The turn goes on, and the model has read it.
    assert!(desk.world.model.requests().last().expect("a request").body.to_string().contains("secret/*"));
}

#[tokio::test]
async fn redirections_reach_outside_and_harmless_ones_do_not() {
    let mut desk = Desk::with_rules(json!({ "external_directory": "deny" })).await;
    let dir = outside();
    let out = dir.path().display();
    desk.write("f", "x\n");
    let lines = [
        format!("echo B > {out}/o.txt"),
        "env >> ~/o".into(),
        "echo x > \"$HOME/o\"".into(),
        format!("tee {out}/o < f"),
        format!("cat f 2> {out}/e"),
        format!("cp f {out}/o"),
        "cat < ~/.bashrc".into(),
    ];
    desk.expect(DENIED, &lines.each_ref().map(String::as_str)).await;
    assert_eq!(std::fs::read_dir(dir.path()).expect("the directory").count(), 0);
    assert!(!desk.world.service.home().path("o").exists());
    desk.expect(ALLOWED, &["echo x > out.txt", "ls f 2>&1", "echo x >/dev/null", "cat < f"]).await;
    assert_eq!(desk.world.project.read("out.txt"), "x\n");
}

#[tokio::test]
async fn a_change_of_directory_is_followed_through_the_line() {
    let mut desk = Desk::with_rules(json!({ "external_directory": "deny" })).await;
    let dir = outside();
    let keep = dir.path().join("q");
    std::fs::write(&keep, "x").expect("a file");
    let root_relative = keep.strip_prefix("/").expect("an absolute path").display();
    let lines = [
        format!("cd {} && echo x > o", dir.path().display()),
        "pushd ..; touch made-outside".into(),
        format!("(cd / && rm -f {root_relative})"),
        "cd; touch made-outside".into(),
        "cd ~ && ls".into(),
    ];
    desk.expect(DENIED, &lines.each_ref().map(String::as_str)).await;
    assert!(keep.exists() && !dir.path().join("o").exists());
    assert!(!desk.world.project.path("../made-outside").exists());

    let mut desk = Desk::with_rules(json!({ "external_directory": "ask" })).await;
    desk.write("a/f", "x");
    desk.write("b/f", "x");
    desk.expect(ALLOWED, &["cd a && ls && cd ../b && ls 2>&1 | tail -1; cd ..", "cd a/../b; ls", "(cd a && ls) && ls"])
        .await;
}

#[tokio::test]
async fn a_link_counts_where_it_leads() {
    let mut desk = Desk::with_rules(json!({ "external_directory": "deny" })).await;
    let dir = outside();
    for name in ["n.txt", "e.txt"] {
        std::fs::write(dir.path().join(name), "needle\n").expect("a file");
    }
    symlink(dir.path(), desk.world.project.path("vendor")).expect("a link");
    let session = desk.session().await;
    for (tool, args) in [
        ("read", json!({ "filePath": "vendor/n.txt" })),
        ("read", json!({ "filePath": "vendor" })),
        ("write", json!({ "filePath": "vendor/new.txt", "content": "x\n" })),
        ("write", json!({ "filePath": "vendor/sub/dir/new.txt", "content": "x\n" })),
        ("edit", json!({ "filePath": "vendor/e.txt", "oldString": "needle", "newString": "x" })),
        ("grep", json!({ "pattern": "needle", "path": "vendor" })),
        ("glob", json!({ "pattern": "*", "path": "vendor" })),
        ("glob", json!({ "pattern": "vendor/*.txt" })),
        ("bash", json!({ "command": "cat vendor/n.txt", "description": "x" })),
        ("bash", json!({ "command": "echo x > vendor/new.txt", "description": "x" })),
    ] {
        let said = desk.call(&session, tool, args.clone()).await.denied();
        assert!(said.contains(&*dir.path().to_string_lossy()), "{tool} {args}: {said}");
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("e.txt")).expect("the file"), "needle\n");
    assert_eq!(std::fs::read_dir(dir.path()).expect("the directory").count(), 2);
}

#[tokio::test]
async fn to_go_outside_and_to_run_are_two_permissions() {
    let mut desk =
        Desk::with_rules(json!({ "bash": { "*": "ask", "ls*": "allow" }, "external_directory": "ask" })).await;
    let session = desk.session().await;
    let request = desk.bash(&session, "ls /etc").await.asked();
    assert_eq!((&request["permission"], &request["patterns"]), (&json!("external_directory"), &json!(["/etc/*"])));

    let secret = desk.world.service.home().path(".ssh/id");
    std::fs::create_dir_all(secret.parent().expect("a directory")).expect("a directory");
    std::fs::write(&secret, "the secret\n").expect("a file");
    let session = desk.session().await;
    let first = desk.bash(&session, "cat ~/.ssh/id").await.asked();
    assert_eq!(first["permission"], "external_directory");
    assert_eq!(desk.answer(&first, json!({ "reply": "once" })).await.0, 200);
    let asked = |event: &Value| event["type"] == "permission.asked" && event["properties"]["sessionID"] == session;
    let second = desk.events.wait(asked).await["properties"].clone();
    assert_eq!((&second["permission"], &second["patterns"][0]), (&json!("bash"), &json!("cat ~/.ssh/id")));
    let part = desk.reply(&second, json!({ "reply": "once" })).await;
    assert_eq!(completed(&part)["output"], "the secret\n");
}

#[tokio::test]
async fn a_request_to_edit_outside_shows_the_file_and_the_change_and_is_not_leave_to_edit() {
    let mut desk = Desk::with_rules(json!({ "external_directory": "ask", "edit": "ask" })).await;
    let path = desk.world.service.home().path(".zshrc");
    std::fs::write(&path, "export OLD_LINE=1\n").expect("a file");
    let session = desk.session().await;
    let args = json!({ "filePath": "~/.zshrc", "oldString": "OLD_LINE", "newString": "NEW_LINE" });
    let first = desk.call(&session, "edit", args).await.asked();
    assert_eq!((&first["permission"], &first["metadata"]["filepath"]), (&json!("external_directory"), &json!(path)));
    assert!(first["tool"]["callID"].is_string());
    let diff = text(&first["metadata"]["diff"]);
    assert!(diff.contains("-export OLD_LINE=1") && diff.contains("+export NEW_LINE=1"), "{diff}");
    assert_eq!(desk.answer(&first, json!({ "reply": "always" })).await.0, 200);
    let second = desk.events.wait_for("permission.asked").await["properties"].clone();
    assert_eq!(second["permission"], "edit");
    assert!(text(&second["metadata"]["diff"]).contains("NEW_LINE"));
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "export OLD_LINE=1\n");
    completed(&desk.reply(&second, json!({ "reply": "once" })).await);
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "export NEW_LINE=1\n");
}

#[tokio::test]
async fn secrets_are_asked_for_and_patterns_know_the_home_directory() {
    let mut desk =
        Desk::with_rules(json!({ "external_directory": { "~/notes/*": "allow", "$HOME/logs/*": "allow" } })).await;
    desk.write(".env", "KEY=1\n");
    desk.write("sub/.env.local", "KEY=1\n");
    desk.write(".env.example", "KEY=\n");
    for (file, is_asked) in [(".env", true), ("sub/.env.local", true), (".env.example", false)] {
        let session = desk.session().await;
        let verdict = desk.call(&session, "read", json!({ "filePath": file })).await;
        assert_eq!(matches!(verdict, Verdict::Asked(_)), is_asked, "{file}: {verdict:?}");
    }
    for (dir, is_asked) in [("notes", false), ("logs", false), ("other", true)] {
        let file = desk.world.service.home().path(dir).join("n.txt");
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        std::fs::write(&file, "note\n").expect("a file");
        let session = desk.session().await;
        let verdict = desk.call(&session, "read", json!({ "filePath": file })).await;
        assert_eq!(matches!(verdict, Verdict::Asked(_)), is_asked, "{dir}: {verdict:?}");
    }
}

#[tokio::test]
async fn stronger_sources_of_rules_come_later() {
    // Config, then the environment, then the session's own rules.
    let model = ScriptedModel::start().await;
    let config = json!({ "permission": { "bash": { "*": "allow", "make *": "deny" } } });
    let project = Project::new(&model).config(config).create();
    let service = troupe().env("OPENCODE_PERMISSION", r#"{"bash":{"git *":"deny"}}"#).start().await;
    let wire = service.wire(project.dir());
    let world = World { model, project, service, wire };
    let mut desk = Desk { events: world.events().await, world };
    desk.expect(DENIED, &["make x", "git log"]).await;
    desk.expect(ALLOWED, &["ls"]).await;
    let rules = json!([
        { "permission": "bash", "pattern": "ls*", "action": "deny" },
        { "permission": "bash", "pattern": "git status", "action": "allow" },
    ]);
    let session = text(&desk.world.wire.create_session_with(json!({ "permission": rules })).await["id"]);
    desk.bash(&session, "ls").await.denied();
    desk.bash(&session, "git status").await.allowed();
    desk.bash(&session, "git log").await.denied();
}

#[tokio::test]
async fn a_tool_that_is_wholly_denied_is_not_offered() {
    let desk =
        Desk::with_rules(json!({ "edit": "deny", "webfetch": { "*": "deny", "https://example.com/*": "allow" } }))
            .await;
    let session = desk.session().await;
    let part = desk.world.call_in(&session, "write", json!({ "filePath": "x", "content": "x" })).await;
    assert_eq!(part["tool"], "invalid");
    assert!(!desk.world.project.exists("x"));
    let offered = desk.world.model.requests()[0].tool_names();
    let is_offered = |name: &str| offered.iter().any(|tool| tool == name);
    assert!(!is_offered("edit") && !is_offered("write") && is_offered("webfetch") && is_offered("bash"), "{offered:?}");
    let fetch = desk.world.call_in(&session, "webfetch", json!({ "url": desk.world.model.url("/page") })).await;
    assert!(failed(&fetch).contains("rule"), "{fetch}");
}
