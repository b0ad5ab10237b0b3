//! Commands: built-in ones, and those of the config.

use protocol::command::Command;
use protocol::config::Config;

/// Returns all commands, in the order clients show them.
pub fn commands(config: &Config) -> Vec<Command> {
    let mut commands = vec![
        built_in("init", "guided AGENTS.md setup", include_str!("prompts/init.txt"), None),
        built_in(
            "review",
            "review changes: nothing given, a commit, a branch or a pull request",
            include_str!("prompts/review.txt"),
            Some(true),
        ),
    ];
    for (name, command) in &config.command {
        commands.retain(|other| other.name != *name);
        commands.push(Command {
            name: name.clone(),
            description: command.description.clone(),
            agent: Some(command.agent.clone()),
            model: Some(command.model.clone()),
            source: Some("command".into()),
            template: command.template.clone(),
            subtask: Some(command.subtask),
            hints: hints(&command.template),
        });
    }
    commands
}

fn built_in(name: &str, description: &str, template: &str, subtask: Option<bool>) -> Command {
    Command {
        name: name.into(),
        description: Some(description.into()),
        agent: None,
        model: None,
        source: Some("command".into()),
        template: template.into(),
        subtask: subtask.map(Some),
        hints: hints(template),
    }
}

/// The placeholders of a template: numbered ones in order, then `$ARGUMENTS`.
fn hints(template: &str) -> Vec<String> {
    let numbered = (1..=9).map(|n| format!("${n}")).filter(|hint| template.contains(hint.as_str()));
    let rest = template.contains("$ARGUMENTS").then(|| "$ARGUMENTS".to_owned());
    numbered.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_config_command_stands_for_a_built_in_of_its_name_and_shows_its_placeholders() {
        let config = serde_json::json!({ "command": { "init": { "template": "say $2 $1 to $ARGUMENTS" } } });
        let commands = commands(&serde_json::from_value(config).expect("a config"));
        let names: Vec<_> = commands.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["review", "init"]);
        assert_eq!(commands[1].hints, ["$1", "$2", "$ARGUMENTS"]);
    }
}
