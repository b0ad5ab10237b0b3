//! `plan_enter` and `plan_exit`: from working to planning and back. The person decides.

use protocol::question::{Question, QuestionOption};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::context::{Refusal, ToolContext};
use crate::error::ToolError;
use crate::path::relative;
use crate::tool::{Tool, ToolOutput, Traits};

/// The answer that agrees.
const YES: &str = "Yes";
const NO: &str = "No";

/// Offers the person to plan first.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanEnter;

/// Offers the person to carry the plan out.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanExit;

/// The arguments of both: none.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct PlanInput {}

/// From which agent to which, in words.
struct Change {
    agent: &'static str,
    header: &'static str,
    question: String,
    yes: &'static str,
    no: &'static str,
    /// Told to the next agent.
    message: String,
}

impl Tool for PlanEnter {
    type Input = PlanInput;
    const ID: &'static str = "plan_enter";
    const DESCRIPTION: &'static str = include_str!("plan_enter.txt");
    const TRAITS: Traits = Traits::reading("plan_enter");

    async fn run(&self, _: PlanInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let plan = plan(cx);
        change(
            cx,
            Change {
                agent: "plan",
                header: "Plan Agent",
                question: format!("Shall the plan agent first work out a plan, and write it to {plan}?"),
                yes: "Plan first, change nothing yet",
                no: "Go on without a plan",
                message: format!("The person wants a plan first. Work it out and write it to {plan}."),
            },
        )
        .await
    }
}

impl Tool for PlanExit {
    type Input = PlanInput;
    const ID: &'static str = "plan_exit";
    const DESCRIPTION: &'static str = include_str!("plan_exit.txt");
    const TRAITS: Traits = Traits::reading("plan_exit");

    async fn run(&self, _: PlanInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let plan = plan(cx);
        let (of_file, told) = if cx.plan.is_file() {
            (format!(" at {plan}"), format!("The person has approved the plan at {plan}."))
        } else {
            (String::new(), "The person has approved the plan.".to_owned())
        };
        change(
            cx,
            Change {
                agent: "build",
                header: "Build Agent",
                question: format!("The plan{of_file} is complete. Shall the build agent carry it out now?"),
                yes: "Carry the plan out",
                no: "Stay with the plan and refine it",
                message: format!("{told} You may change files now: carry it out."),
            },
        )
        .await
    }
}

/// Returns the plan's file as the person sees it.
fn plan(cx: &ToolContext) -> String {
    relative(&cx.place.worktree, &cx.plan).to_string_lossy().into_owned()
}

async fn change(cx: &ToolContext, change: Change) -> Result<ToolOutput, ToolError> {
    let option =
        |label: &str, description: &str| QuestionOption { label: label.into(), description: description.into() };
    let question = Question {
        question: change.question,
        header: change.header.into(),
        options: vec![option(YES, change.yes), option(NO, change.no)],
        multiple: None,
        custom: Some(false),
    };
    let answers = cx.desk.question(vec![question]).await?;
    if answers.first().and_then(|answer| answer.first()).is_none_or(|answer| answer != YES) {
        // As in OpenCode the turn stops: what comes next is for the person to say.
        return Err(Refusal::Dismissed.into());
    }
    cx.begin().await?;
    let agent = change.agent;
    cx.desk.hand_over(agent, change.message).await?;
    let output = format!("The person agreed: the {agent} agent takes over with the next step. Wait for it.");
    Ok(ToolOutput::new(format!("Switching to {agent} agent"), output, json!({})))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use protocol::JsonMap;

    use super::*;
    use crate::testing::{Noted, context};
    use crate::tool::AnyTool;

    #[tokio::test]
    async fn the_next_agent_takes_over_only_when_the_person_agrees() {
        let dir = tempfile::tempdir().unwrap();
        let (cx, desk) = context(dir.path());
        for answer in [Ok(vec![vec!["No".to_owned()]]), Ok(Vec::new()), Err(Refusal::Dismissed)] {
            desk.answer(answer);
            let error = AnyTool::run(&PlanExit, JsonMap::new(), &cx).await.unwrap_err();
            assert!(matches!(error, ToolError::Refused(refusal) if refusal.stops_turn()));
        }
        assert_eq!(desk.begun(), 0);
        desk.answer(Ok(vec![vec!["Yes".to_owned()]]));
        let output = AnyTool::run(&PlanExit, JsonMap::new(), &cx).await.unwrap();
        assert_eq!(output.title, "Switching to build agent");
        AnyTool::run(&PlanEnter, JsonMap::new(), &cx).await.unwrap();
        let to: Vec<String> = desk
            .noted()
            .into_iter()
            .filter_map(|n| if let Noted::HandedOver(to, _) = n { Some(to) } else { None })
            .collect();
        assert_eq!(to, ["build", "plan"]);
    }

    #[tokio::test]
    async fn the_question_names_the_plan_that_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let (cx, desk) = context(dir.path());
        std::fs::create_dir_all(cx.plan.parent().unwrap()).unwrap();
        std::fs::write(&cx.plan, "1. do it\n").unwrap();
        let _ = AnyTool::run(&PlanExit, JsonMap::new(), &cx).await;
        let Some(Noted::Questioned(questions)) = desk.noted().into_iter().next() else { panic!() };
        assert!(questions[0].question.contains(".opencode/plans/plan.md"), "{}", questions[0].question);
        assert_eq!(questions[0].custom, Some(false));
    }
}
