use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pretty_assertions::assert_eq;
use protocol::model::{
    AssistantContent, FinishReason, ModelEvent, ModelMessage, ToolChoice, ToolResult, ToolSpec, UserContent,
};
use protocol::{CallId, SessionId};
use serde_json::{Value, json};

use super::*;

fn ids() -> IdSource {
    let count = AtomicU32::new(0);
    Arc::new(move || CallId::new(format!("call-{}", count.fetch_add(1, Ordering::Relaxed))))
}

fn request(tools: &[&str], asked: &str) -> ModelRequest {
    let tool = |name: &&str| ToolSpec { name: (*name).into(), description: String::new(), parameters: json!({}) };
    ModelRequest {
        session_id: SessionId::parse("ses_1").expect("an id"),
        parent_id: None,
        model: MODEL_ID.into(),
        system: vec!["agent".into(), "<env>\n  Working directory: /work/proj\n  Platform: linux\n</env>".into()],
        messages: vec![user(asked)],
        tools: tools.iter().map(tool).collect(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 0,
        temperature: None,
        top_p: None,
        reasoning: None,
        options: JsonMap::new(),
        headers: IndexMap::new(),
    }
}

fn user(text: &str) -> ModelMessage {
    ModelMessage::User(vec![UserContent::Text(text.into())])
}

fn said(events: &[ModelEvent]) -> String {
    events
        .iter()
        .filter_map(|event| if let ModelEvent::TextDelta(text) = event { Some(text.as_str()) } else { None })
        .collect()
}

fn called(events: &[ModelEvent]) -> Vec<(CallId, String, Value)> {
    let call = |event: &ModelEvent| match event {
        ModelEvent::Call { id, tool, input, .. } => Some((id.clone(), tool.clone(), input.clone().into())),
        _ => None,
    };
    events.iter().filter_map(call).collect()
}

/// Answers the calls of a step, as the loop does; false when there are none.
fn step(request: &mut ModelRequest, ids: &IdSource, tool: impl Fn(&str, &Value) -> Result<String, String>) -> String {
    let events = next(request, ids);
    let (text, calls) = (said(&events), called(&events));
    let mut parts = vec![AssistantContent::Text { text: text.clone(), metadata: None }];
    parts.extend(calls.iter().map(|(id, tool, input)| AssistantContent::Call {
        id: id.clone(),
        tool: tool.clone(),
        input: input.clone(),
        metadata: None,
    }));
    request.messages.push(ModelMessage::Assistant(parts));
    let results: Vec<ToolResult> = calls
        .into_iter()
        .map(|(id, name, input)| {
            let result = tool(&name, &input);
            ToolResult {
                id,
                tool: name,
                is_error: result.is_err(),
                output: result.unwrap_or_else(|said| said),
                files: Vec::new(),
            }
        })
        .collect();
    let reason = if results.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    assert!(matches!(events.last(), Some(ModelEvent::Finish { reason: given, .. }) if *given == reason));
    if !results.is_empty() {
        request.messages.push(ModelMessage::Tool(results));
    }
    text
}

fn project(tool: &str, input: &Value) -> Result<String, String> {
    Ok(match (tool, input["filePath"].as_str()) {
        ("glob", _) => "/work/proj/docs/README.md\n/work/proj/README.md".into(),
        (_, Some("/work/proj")) => {
            "<path>/work/proj</path>\n<type>directory</type>\n<entries>\nCargo.toml\nREADME.md\nsrc/\n\n(3 entries)\n</entries>".into()
        }
        (_, Some("/work/proj/README.md")) => {
            "<path>/work/proj/README.md</path>\n<type>file</type>\n<content>\n1: # Widget\n2: \n3: Makes widgets.\n\n(End of file - total 3 lines)\n</content>".into()
        }
        other => panic!("unexpected call {other:?}"),
    })
}

#[test]
fn the_tour_looks_reads_and_reports_and_says_each_time_that_it_is_a_demo() {
    let ids = ids();
    let mut request = request(&["bash", "glob", "read"], "fix the bug");
    let greeting = step(&mut request, &ids, project);
    assert!(greeting.contains("not a real model") && greeting.contains("fix the bug"), "{greeting}");
    let reading = step(&mut request, &ids, project);
    assert!(reading.contains("README.md"), "{reading}");
    let report = step(&mut request, &ids, project);
    for text in
        ["**Widget**", "Makes widgets.", "1 folder and 2 files", "Rust (Cargo)", "baseURL", "I can't answer questions"]
    {
        assert!(report.contains(text), "{text} not in {report}");
    }
    assert_eq!(request.messages.len(), 6);

    request.messages.push(user("and now?"));
    let again = step(&mut request, &ids, project);
    assert!(again.contains("still Troupe's built-in demo"), "{again}");
}

#[test]
fn without_a_readme_it_reads_a_manifest_and_without_that_it_reports() {
    let listing = |names: &str| format!("<entries>\n{names}\n</entries>");
    for (names, steps) in [("Makefile\npackage.json", 3), ("notes.txt", 2)] {
        let (ids, mut request) = (ids(), request(&["glob", "read"], "hi"));
        let tool = |tool: &str, input: &Value| match (tool, input["filePath"].as_str()) {
            ("glob", _) => Ok("No files found".into()),
            (_, Some("/work/proj/package.json")) => Ok("<content>\n1: {\n</content>".into()),
            _ => Ok(listing(names)),
        };
        let texts: Vec<String> = (0..steps).map(|_| step(&mut request, &ids, tool)).collect();
        assert!(texts.last().is_some_and(|text| text.contains("## What I found")), "{texts:?}");
    }
}

#[test]
fn tools_that_fail_or_are_not_offered_are_reported_not_invented() {
    let (ids, mut asked) = (ids(), request(&["glob", "read"], "hi"));
    step(&mut asked, &ids, |_, _| Err("denied by a rule".into()));
    let report = step(&mut asked, &ids, project);
    assert!(report.contains("`read` failed: denied by a rule"), "{report}");
    let report = step(&mut request(&["bash"], "hi"), &ids, project);
    assert!(report.contains("none of the tools"), "{report}");
}

#[test]
fn without_tools_it_gives_a_title_or_a_summary() {
    let events = next(&request(&[], "\n fix the   bug in the parser of dates please\nnow"), &ids());
    assert_eq!(said(&events), "fix the bug in the parser of");
    assert_eq!(said(&next(&request(&[], " "), &ids())), "Demo tour");
    let mut compaction = request(&[], "first");
    compaction.messages.extend([
        ModelMessage::Assistant(vec![AssistantContent::Text { text: "a".into(), metadata: None }]),
        user("second"),
    ]);
    let summary = said(&next(&compaction, &ids()));
    assert!(summary.contains("not a real model") && summary.contains("- first\n- second\n"), "{summary}");
}

#[test]
fn equal_requests_get_equal_answers() {
    let request = request(&["glob", "read"], "hi");
    assert_eq!(next(&request, &ids()), next(&request, &ids()));
    assert_eq!(called(&next(&request, &ids())).len(), 2);
}

#[tokio::test]
async fn the_stream_ends_with_its_finish() {
    let items: Vec<_> = Demo::new(ids()).stream(request(&["read"], "hi")).collect().await;
    assert!(items.len() > 3);
    let last = items.last().and_then(|item| item.as_ref().ok()?.last());
    assert!(matches!(last, Some(ModelEvent::Finish { .. })));
}

#[test]
fn the_list_of_providers_says_that_it_is_a_demo() {
    let info = provider_info();
    let model = info.models.get(MODEL_ID).expect("the model");
    assert_eq!((info.id.as_str(), model.provider_id.as_str(), model.api.npm.as_str()), (PROVIDER_ID, PROVIDER_ID, NPM));
    assert!(model.name.contains("not a real model"));
}
