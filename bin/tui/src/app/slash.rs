//! What begins with a slash: the client's own commands, then the directory's templates.

/// A command of the client's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slash {
    /// Leave the session for a new one.
    New,
    /// List sessions.
    Sessions,
    /// Choose the agent.
    Agent,
    /// Choose the model.
    Model,
    /// Give the session another title.
    Rename,
    /// Say what keys do.
    Help,
    /// End.
    Quit,
}

/// Names, in the order they are shown, and what they do.
pub const SLASHES: [(&str, Slash, &str); 7] = [
    ("new", Slash::New, "start a new session"),
    ("sessions", Slash::Sessions, "show another session"),
    ("agent", Slash::Agent, "choose the agent (Tab takes the next)"),
    ("model", Slash::Model, "choose the model"),
    ("rename", Slash::Rename, "give this session another title"),
    ("help", Slash::Help, "show what keys do"),
    ("quit", Slash::Quit, "leave"),
];

/// Returns the command's name and what follows it, if `text` is a command.
pub fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('/')?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    // A path is no command.
    (!name.is_empty() && !name.contains('/')).then(|| (name, arguments.trim()))
}

/// Returns the client's own command of a name.
pub fn named(name: &str) -> Option<Slash> {
    match name {
        "exit" | "q" => Some(Slash::Quit),
        "session" | "resume" => Some(Slash::Sessions),
        "agents" => Some(Slash::Agent),
        "models" => Some(Slash::Model),
        "clear" => Some(Slash::New),
        _ => SLASHES.iter().find(|(known, ..)| *known == name).map(|(_, slash, _)| *slash),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_from_a_path() {
        assert_eq!(split("/rename a  b "), Some(("rename", "a  b")));
        assert_eq!(split("/new"), Some(("new", "")));
        assert_eq!(split("/usr/bin is full"), None);
        assert_eq!(split("/"), None);
        assert_eq!(split("new"), None);
        assert_eq!(named("exit"), Some(Slash::Quit));
        assert_eq!(named("nothing"), None);
    }
}
