//! Commands: built-in ones, those of the config, and the skills, each of which can be called like one.

use protocol::command::Command;
use protocol::config::Config;
use protocol::skill::Skill;

pub mod reference;
pub mod template;

/// Returns all commands, in the order clients show them.
pub fn commands(config: &Config, skills: &[Skill]) -> Vec<Command> {
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
            variant: command.variant.clone(),
            subtask: Some(command.subtask),
            hints: hints(&command.template),
        });
    }
    for skill in skills {
        if !commands.iter().any(|command| command.name == skill.name) {
            commands.push(of_skill(skill));
        }
    }
    commands
}

/// Returns all commands, those that come and go with their servers before the skills, as on the wire.
pub fn with_offered(own: &[Command], offered: &[Command]) -> Vec<Command> {
    let is_skill = |command: &&Command| command.source.as_deref() == Some("skill");
    let others = own.iter().filter(|command| !is_skill(command));
    others.chain(offered).chain(own.iter().filter(is_skill)).cloned().collect()
}

fn of_skill(skill: &Skill) -> Command {
    let mut template = skill.content.clone();
    if let Some(directory) = skill.directory() {
        template.push_str(&format!(
            "\n\nBase directory of this skill: {}\nRelative paths in this skill (e.g., scripts/, references/) count from \
             there.",
            directory.display()
        ));
    }
    Command {
        name: skill.name.clone(),
        description: Some(skill.description.clone()),
        agent: None,
        model: None,
        source: Some("skill".into()),
        template,
        variant: None,
        subtask: None,
        hints: Vec::new(),
    }
}

fn built_in(name: &str, description: &str, template: &str, subtask: Option<bool>) -> Command {
    Command {
        name: name.into(),
        description: Some(description.into()),
        agent: None,
        model: None,
        source: Some("command".into()),
        template: template.into(),
        variant: None,
        subtask: subtask.map(Some),
        hints: hints(template),
    }
}

/// The placeholders of a template: numbered ones in order, then `$ARGUMENTS`.
fn hints(template: &str) -> Vec<String> {
    let numbered = template::numbers(template).into_iter().map(|number| format!("${number}"));
    let rest = template.contains(template::ARGUMENTS).then(|| template::ARGUMENTS.to_owned());
    numbered.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_config_command_stands_for_a_built_in_of_its_name_and_shows_its_placeholders() {
        let config = serde_json::json!({ "command": { "init": { "template": "say $2 $1 to $ARGUMENTS" } } });
        let skill = |name: &str| Skill {
            name: name.into(),
            description: "d".into(),
            location: format!("/s/{name}/SKILL.md"),
            content: "Body.\n".into(),
        };
        let skills = [skill("init"), skill("demo")];
        let commands = commands(&serde_json::from_value(config).expect("a config"), &skills);
        let names: Vec<_> = commands.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["review", "init", "demo"], "a skill of a command's name is none");
        assert_eq!(commands[1].hints, ["$1", "$2", "$ARGUMENTS"]);
        assert!(commands[2].template.starts_with("Body.\n\n\nBase directory of this skill: /s/demo\n"));
    }
}
