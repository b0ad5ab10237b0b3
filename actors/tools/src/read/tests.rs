use std::path::PathBuf;

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;
use crate::files::ContentHash;
use crate::testing::{FakeDesk, context};
use crate::tool::AnyTool;

fn setup() -> (tempfile::TempDir, PathBuf, ToolContext, Arc<FakeDesk>) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (cx, desk) = context(&root);
    (dir, root, cx, desk)
}

async fn read(cx: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
    let Value::Object(input) = input else { unreachable!() };
    AnyTool::run(&Read, input, cx).await
}

async fn error(cx: &ToolContext, input: Value) -> String {
    read(cx, input).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_file_is_shown_with_line_numbers() {
    let (_keep, root, cx, desk) = setup();
    std::fs::write(root.join("a.txt"), "alpha\nbeta\ngamma\n").unwrap();
    let path = root.join("a.txt").display().to_string();
    let output = read(&cx, json!({"filePath": "a.txt"})).await.unwrap();
    let want = ToolOutput {
        truncated: Some(false),
        ..ToolOutput::new(
            "a.txt",
            format!(
                "<path>{path}</path>\n<type>file</type>\n<content>\n1: alpha\n2: beta\n3: gamma\n\n\
                 (End of file - total 3 lines)\n</content>"
            ),
            json!({
                "preview": "alpha\nbeta\ngamma",
                "loaded": [],
                "display": {
                    "type": "file",
                    "path": path,
                    "text": "alpha\nbeta\ngamma",
                    "lineStart": 1,
                    "lineEnd": 3,
                    "totalLines": 3,
                    "truncated": false,
                },
            }),
        )
    };
    assert_eq!(output, want);
    assert_eq!(desk.asks(), vec![Ask::new("read", vec!["a.txt".into()], vec!["*".into()], JsonMap::new())]);
    assert_eq!(cx.files.known(&root.join("a.txt")), Some(ContentHash::of(b"alpha\nbeta\ngamma\n")));
}

#[tokio::test]
async fn a_window_says_where_to_go_on() {
    let (_keep, root, cx, _) = setup();
    std::fs::write(root.join("long.txt"), (1..=2500).map(|n| format!("line {n}\n")).collect::<String>()).unwrap();
    let output = read(&cx, json!({"filePath": "long.txt", "offset": 10, "limit": 3})).await.unwrap();
    assert!(output.output.contains(
        "<content>\n10: line 10\n11: line 11\n12: line 12\n\n(Showing lines 10-12 of 2500. Use offset=13 to continue.)\n"
    ));
    assert_eq!(output.truncated, Some(true));
    let whole = read(&cx, json!({"filePath": "long.txt"})).await.unwrap();
    assert!(whole.output.contains("\n2000: line 2000\n\n(Showing lines 1-2000 of 2500. Use offset=2001 to continue.)"));
    assert_eq!(whole.metadata["preview"].as_str().unwrap().lines().count(), 20);
    let past = error(&cx, json!({"filePath": "long.txt", "offset": 9999})).await;
    assert_eq!(past, "Offset 9999 is out of range for this file (2500 lines)");
}

#[tokio::test]
async fn an_empty_file_has_no_lines() {
    let (_keep, root, cx, _) = setup();
    std::fs::write(root.join("empty.txt"), "").unwrap();
    let output = read(&cx, json!({"filePath": "empty.txt"})).await.unwrap();
    assert!(output.output.ends_with("<content>\n\n\n(End of file - total 0 lines)\n</content>"));
    assert_eq!(
        (&output.metadata["display"]["lineStart"], &output.metadata["display"]["lineEnd"]),
        (&json!(1), &json!(0))
    );
}

#[tokio::test]
async fn a_directory_lists_its_entries() {
    let (_keep, root, cx, desk) = setup();
    for name in ["README.md", "a.txt", ".env"] {
        std::fs::write(root.join(name), "").unwrap();
    }
    for name in [".git", "src"] {
        std::fs::create_dir(root.join(name)).unwrap();
    }
    let path = root.display().to_string();
    let output = read(&cx, json!({"filePath": path})).await.unwrap();
    assert_eq!(
        output.output,
        format!(
            "<path>{path}</path>\n<type>directory</type>\n<entries>\n.env\n.git/\na.txt\nREADME.md\nsrc/\n\n\
             (5 entries)\n</entries>"
        )
    );
    assert_eq!(output.title, "");
    assert_eq!(
        output.metadata["display"],
        json!({
            "type": "directory",
            "path": path,
            "entries": [".env", ".git/", "a.txt", "README.md", "src/"],
            "offset": 1,
            "totalEntries": 5,
            "truncated": false,
        })
    );
    assert_eq!(desk.asks()[0].patterns, vec!["."]);
    let part = read(&cx, json!({"filePath": path, "offset": 2, "limit": 2})).await.unwrap();
    assert!(part.output.contains(".git/\na.txt\n\n(Showing entries 2-3 of 5. Use offset=4 to continue.)"));
}

#[tokio::test]
async fn a_missing_file_comes_with_near_names() {
    let (_keep, root, cx, _) = setup();
    std::fs::write(root.join("a.txt"), "").unwrap();
    std::fs::write(root.join("session.rs"), "").unwrap();
    let at = |name: &str| root.join(name).display().to_string();
    assert_eq!(
        error(&cx, json!({"filePath": "a.tx"})).await,
        format!("File not found: {}\n\nDid you mean one of these?\n{}", at("a.tx"), at("a.txt"))
    );
    assert!(error(&cx, json!({"filePath": "sesion.rs"})).await.ends_with(&at("session.rs")));
    assert_eq!(error(&cx, json!({"filePath": "zzzz"})).await, format!("File not found: {}", at("zzzz")));
}

#[tokio::test]
async fn a_link_to_nothing_says_where_it_leads() {
    let (_keep, root, cx, _) = setup();
    std::os::unix::fs::symlink("gone/x", root.join("dang")).unwrap();
    let at = |name: &str| root.join(name).display().to_string();
    let want = format!("File not found: {} is a link to {}, where nothing is.", at("dang"), at("gone/x"));
    assert_eq!(error(&cx, json!({"filePath": "dang"})).await, want);
}

#[tokio::test]
async fn near_names_are_found_among_thousands() {
    let (_keep, root, cx, _) = setup();
    for n in 0..1500 {
        std::fs::write(root.join(format!("{}-{n}", "x".repeat(180))), "").unwrap();
    }
    std::fs::write(root.join("session.rs"), "").unwrap();
    let told = error(&cx, json!({"filePath": "sesion.rs"})).await;
    assert!(told.ends_with(&root.join("session.rs").display().to_string()), "{told}");
}

#[tokio::test]
async fn what_is_no_text_is_refused_by_name() {
    let (_keep, root, cx, _) = setup();
    std::fs::write(root.join("bin.dat"), b"\0\x01\x02").unwrap();
    nix::unistd::mkfifo(&root.join("p"), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let path = root.join("bin.dat");
    assert_eq!(
        error(&cx, json!({"filePath": "bin.dat"})).await,
        format!("Cannot read binary file: {}", path.display())
    );
    assert!(error(&cx, json!({"filePath": "p"})).await.contains("not a regular file but a fifo"));
    assert!(error(&cx, json!({"filePath": "/dev/zero"})).await.contains("not a regular file but a device"));
}

#[tokio::test]
async fn other_encodings_are_decoded_and_flagged() {
    let (_keep, root, cx, _) = setup();
    std::fs::write(root.join("gbk.txt"), b"\xD6\xD0\xCE\xC4\nx=1\n").unwrap();
    let wide: Vec<u8> = [0xFF, 0xFE].into_iter().chain("a\nb\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    std::fs::write(root.join("wide.txt"), wide).unwrap();
    std::fs::write(root.join("mark.txt"), "\u{FEFF}marked\n").unwrap();
    let shown = |name: &'static str| {
        let cx = cx.clone();
        async move { read(&cx, json!({"filePath": name})).await.unwrap().output }
    };
    let gbk = shown("gbk.txt").await;
    assert!(gbk.contains("2: x=1") && gbk.contains("not UTF-8"), "{gbk}");
    let wide = shown("wide.txt").await;
    assert!(wide.contains("1: a\n2: b\n") && wide.contains("UTF-16"), "{wide}");
    let mark = shown("mark.txt").await;
    assert!(mark.contains("1: marked\n") && !mark.contains('\u{FEFF}') && !mark.contains("UTF"), "{mark}");
}

#[tokio::test]
async fn images_and_pdfs_are_attached() {
    let (_keep, root, cx, _) = setup();
    let png = b"\x89PNG\r\n\x1a\nrest";
    std::fs::write(root.join("pixel.txt"), png).unwrap();
    let output = read(&cx, json!({"filePath": "pixel.txt"})).await.unwrap();
    assert_eq!(output.output, "Image read successfully");
    let url = format!("data:image/png;base64,{}", STANDARD.encode(png));
    assert_eq!(output.attachments, vec![FilePart { mime: "image/png".into(), filename: None, url, source: None }]);
    std::fs::write(root.join("d.pdf"), b"%PDF-1.7\n").unwrap();
    assert_eq!(read(&cx, json!({"filePath": "d.pdf"})).await.unwrap().output, "PDF read successfully");
    let large = [&png[..], &vec![0; 5 * 1024 * 1024]].concat();
    std::fs::write(root.join("large.png"), large).unwrap();
    assert!(error(&cx, json!({"filePath": "large.png"})).await.contains("too large"));
}

#[tokio::test]
async fn nearer_instructions_come_along_once() {
    let (_keep, root, cx, _) = setup();
    std::fs::create_dir_all(root.join("sub/deep")).unwrap();
    std::fs::write(root.join("AGENTS.md"), "root rules\n").unwrap();
    std::fs::write(root.join("sub/AGENTS.md"), "sub rules\n").unwrap();
    std::fs::write(root.join("sub/CLAUDE.md"), "not these\n").unwrap();
    std::fs::write(root.join("sub/deep/CONTEXT.md"), "deep rules\n").unwrap();
    for name in ["sub/f.txt", "sub/deep/g.txt"] {
        std::fs::write(root.join(name), "text\n").unwrap();
    }
    let sub = root.join("sub/AGENTS.md").display().to_string();
    let deep = root.join("sub/deep/CONTEXT.md").display().to_string();
    let first = read(&cx, json!({"filePath": "sub/f.txt"})).await.unwrap();
    assert!(first.output.ends_with(&format!(
        "</content>\n\n<system-reminder>\nInstructions from: {sub}\nsub rules\n\n</system-reminder>"
    )));
    assert_eq!(first.metadata["loaded"], json!([sub]));
    let second = read(&cx, json!({"filePath": "sub/deep/g.txt"})).await.unwrap();
    assert_eq!(second.metadata["loaded"], json!([deep]));
    let third = read(&cx, json!({"filePath": "sub/deep/g.txt"})).await.unwrap();
    assert!(third.output.ends_with("</content>"));
}

#[tokio::test]
async fn instructions_that_were_read_themselves_do_not_come_again() {
    let (_keep, root, cx, _) = setup();
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(root.join("sub/AGENTS.md"), "sub rules\n").unwrap();
    std::fs::write(root.join("sub/f.txt"), "text\n").unwrap();
    let own = read(&cx, json!({"filePath": "sub/AGENTS.md"})).await.unwrap();
    assert_eq!(own.metadata["loaded"], json!([]));
    assert_eq!(read(&cx, json!({"filePath": "sub/f.txt"})).await.unwrap().metadata["loaded"], json!([]));
}

#[tokio::test]
async fn a_cancelled_read_ends_at_once() {
    let (_keep, root, cx, _) = setup();
    std::fs::write(root.join("a.txt"), "x").unwrap();
    cx.cancel.cancel();
    assert!(matches!(read(&cx, json!({"filePath": "a.txt"})).await, Err(ToolError::Aborted)));
}

#[test]
fn the_schema_is_plain() {
    let spec = Read.spec();
    let offset = &spec.parameters["properties"]["offset"];
    assert_eq!((&offset["type"], &offset["minimum"]), (&json!("integer"), &json!(0)));
    assert_eq!(spec.parameters["required"], json!(["filePath"]));
}
