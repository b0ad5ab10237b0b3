//! What the demo says.

use super::project::{Listing, Readme, cut};

/// What it found, as far as it got.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Where it looked.
    pub(super) directory: Option<String>,
    pub(super) listing: Option<Listing>,
    /// The file it read, by its name, and what that says.
    pub(super) readme: Option<(String, Readme)>,
    /// Tools that failed, and what they said.
    pub(super) failures: Vec<(String, String)>,
}

/// Returns the beginning of a tour. `asked` is what the person wrote, `again` if it isn't the first tour.
pub(super) fn greeting(asked: &str, again: bool, calls: &[&str]) -> String {
    let still = if again { "still " } else { "" };
    let quote = match asked {
        "" => String::new(),
        asked => format!("I can't act on “{}”: ", cut(asked, 80)),
    };
    let tools: Vec<String> = calls.iter().map(|tool| format!("`{tool}`")).collect();
    format!(
        "This is {still}Troupe's built-in demo, not a real model. {quote}I only follow a script.\n\
         The script is a short tour: I look at this project with the real tools ({}), and then say what I found and how \
         to set up a model that can help.\n",
        tools.join(", ")
    )
}

/// Returns what stands before the second look.
pub(super) fn reading(name: &str) -> String {
    format!("The folder is listed. `{name}` may say what it is about, so I read that next.\n")
}

/// Returns the end of a tour.
pub(super) fn report(found: &Found) -> String {
    let looked = found.listing.is_some() || found.readme.is_some() || !found.failures.is_empty();
    let mut text = String::new();
    if !looked {
        text.push_str("This is Troupe's built-in demo, not a real model: I only follow a script.\n\n");
    }
    text.push_str("## What I found\n");
    for line in facts(found) {
        text.push_str(&format!("- {line}\n"));
    }
    if !looked {
        text.push_str("- No more: this session offers me none of the tools that I would look with.\n");
    }
    text.push_str(if looked { REAL } else { "" });
    text.push_str(HOW);
    text
}

fn facts(found: &Found) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(directory) = &found.directory {
        facts.push(format!("The project is in `{directory}`."));
    }
    if let Some((name, readme)) = &found.readme {
        match (&readme.title, &readme.paragraph) {
            (Some(title), Some(paragraph)) => {
                facts.push(format!("`{name}` calls it **{title}** and says: {paragraph}"))
            }
            (Some(title), None) => facts.push(format!("`{name}` begins with **{title}**.")),
            _ => facts.push(format!("`{name}` has no text that I can quote.")),
        }
    }
    if let Some(listing) = &found.listing {
        let kinds = if listing.files.is_empty() { String::new() } else { format!(": {}", listing.kinds()) };
        facts.push(format!(
            "At its top are {} and {}{kinds}.",
            count(listing.folders, "folder"),
            count(listing.files.len(), "file")
        ));
        facts.extend(listing.manifests().take(6).map(|(name, meaning)| format!("`{name}` stands for {meaning}.")));
    }
    facts.extend(found.failures.iter().map(|(tool, said)| format!("`{tool}` failed: {}", cut(said.trim(), 200))));
    facts
}

fn count(number: usize, thing: &str) -> String {
    match number {
        0 => format!("no {thing}s"),
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

const REAL: &str = "
## What was real
The tool calls, their permissions and their results were real, and all of it is stored as a session. The words were \
the demo's script.
";

const HOW: &str = "
## What a demo can't do
I can't answer questions, plan, or change code: whatever you write, I give this tour again.

## How to get a real model
Put an `opencode.json` into the project, for any server that speaks OpenAI chat completions (Ollama, LM Studio, vLLM, \
OpenRouter and many more):
```json
{
  \"provider\": {
    \"mine\": {
      \"npm\": \"@ai-sdk/openai-compatible\",
      \"options\": { \"baseURL\": \"http://localhost:11434/v1\", \"apiKey\": \"{env:MY_API_KEY}\" },
      \"models\": { \"NAME-OF-THE-MODEL\": {} }
    }
  },
  \"model\": \"mine/NAME-OF-THE-MODEL\"
}
```
A local server needs no `apiKey`. Once a model is configured, this demo steps aside.
";

/// Returns a title for a session that began with `asked`.
pub(super) fn title(asked: &str) -> String {
    let line = asked.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().take(7).collect();
    match words.as_slice() {
        [] => "Demo tour".into(),
        words => cut(&words.join(" "), 50),
    }
}

/// Returns a summary of a session in which `asked` was written.
pub(super) fn summary(asked: &[String]) -> String {
    let mut text = String::from("Summary by Troupe's built-in demo, not a real model. The person wrote:\n");
    for line in asked.iter().rev().take(20).rev() {
        text.push_str(&format!("- {}\n", cut(&line.replace('\n', " "), 200)));
    }
    text
}
