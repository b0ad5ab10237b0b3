//! Rules to verdicts. Pure.

use std::path::Path;

use protocol::permission::{Action, Rule};

/// Returns the last rule that matches `permission` and `pattern`; none when none does, which means: ask.
/// Source: OpenCode `permission/next.ts`, `evaluate`.
pub fn deciding<'a>(rules: &'a [Rule], permission: &str, pattern: &str) -> Option<&'a Rule> {
    rules.iter().rev().find(|rule| matches(&rule.permission, permission) && matches(&rule.pattern, pattern))
}

/// Returns the rules that speak of a permission, in order.
pub fn about(rules: &[Rule], permission: &str) -> Vec<Rule> {
    rules.iter().filter(|rule| matches(&rule.permission, permission)).cloned().collect()
}

/// Returns a rule whose pattern may begin with `~` or `$HOME`, which stand for the person's home.
pub fn at_home(mut rule: Rule, home: Option<&Path>) -> Rule {
    let rest = ["~", "$HOME"].iter().find_map(|prefix| rule.pattern.strip_prefix(prefix));
    if let (Some(rest), Some(home)) = (rest.filter(|rest| rest.is_empty() || rest.starts_with('/')), home) {
        rule.pattern = format!("{}{rest}", home.display());
    }
    rule
}

/// Returns whether `rules` forbid a tool as a whole, so that it is not offered: the last rule that names it or its
/// permission denies everything.
pub fn forbids_tool(rules: &[Rule], tool: &str, permission: &str) -> bool {
    [tool, permission].into_iter().any(|name| {
        rules
            .iter()
            .rev()
            .find(|rule| matches(&rule.permission, name))
            .is_some_and(|rule| rule.pattern == "*" && rule.action == Action::Deny)
    })
}

/// Returns whether a wildcard matches the whole text: `*` is any text, `/` included, `?` any one character. A
/// wildcard that ends in ` *` also matches without it, so that `git status *` allows `git status`.
pub fn matches(wildcard: &str, text: &str) -> bool {
    if let Some(bare) = wildcard.strip_suffix(" *")
        && glob(bare, text)
    {
        return true;
    }
    glob(wildcard, text)
}

/// Two pointers and one place to go back to: never more than `wildcard * text` steps.
fn glob(wildcard: &str, text: &str) -> bool {
    let (wildcard, text): (Vec<char>, Vec<char>) = (wildcard.chars().collect(), text.chars().collect());
    let (mut w, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match wildcard.get(w) {
            Some('*') => {
                star = Some((w, t));
                w += 1;
            }
            Some(c) if *c == '?' || Some(c) == text.get(t) => {
                w += 1;
                t += 1;
            }
            _ => match star {
                Some((star_w, star_t)) => {
                    w = star_w + 1;
                    t = star_t + 1;
                    star = Some((star_w, star_t + 1));
                }
                None => return false,
            },
        }
    }
    wildcard.iter().skip(w).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    /// The same by the regular expression OpenCode makes of a wildcard.
    fn reference(wildcard: &str, text: &str) -> bool {
        let mut expression = regex::escape(wildcard).replace(r"\*", ".*").replace(r"\?", ".");
        if let Some(bare) = expression.strip_suffix(" .*") {
            expression = format!("{bare}( .*)?");
        }
        regex::Regex::new(&format!("(?s)^{expression}$")).expect("an expression").is_match(text)
    }

    proptest! {
        #[test]
        fn wildcards_match_as_the_reference_does(wildcard in "[ab*? /.]{0,8}", text in "[ab /.\n]{0,10}") {
            prop_assert_eq!(matches(&wildcard, &text), reference(&wildcard, &text));
        }

        #[test]
        fn any_text_matches_a_lone_star(text in ".*") {
            prop_assert!(matches("*", &text));
        }
    }

    fn rule(permission: &str, pattern: &str, action: Action) -> Rule {
        Rule::new(permission, pattern, action)
    }

    #[test]
    fn the_last_match_wins_and_no_match_is_none() {
        let rules = [
            rule("*", "*", Action::Allow),
            rule("bash", "git *", Action::Ask),
            rule("bash", "git status *", Action::Allow),
        ];
        let decide = |pattern| deciding(&rules, "bash", pattern).map(|rule| rule.action);
        assert_eq!(decide("git push"), Some(Action::Ask));
        assert_eq!(decide("git status"), Some(Action::Allow));
        assert_eq!(decide("ls"), Some(Action::Allow));
        assert_eq!(deciding(&rules[1..], "edit", "x"), None);
    }

    #[test]
    fn the_home_is_named_by_a_tilde_or_its_variable() {
        let at = |pattern| at_home(rule("read", pattern, Action::Deny), Some(Path::new("/home/ada"))).pattern;
        assert_eq!(at("~/.ssh/*"), "/home/ada/.ssh/*");
        assert_eq!(at("$HOME/.ssh/*"), "/home/ada/.ssh/*");
        assert_eq!(at("~"), "/home/ada");
        for other in ["~bob/x", "$HOMER/x", "x/~", "*"] {
            assert_eq!(at(other), other);
        }
    }

    /// Lines made of an allowed and a denied command, one inside the other.
    fn nested() -> impl Strategy<Value = String> {
        let piece = prop_oneof![Just("git status".to_owned()), Just("rm -rf y".to_owned())];
        piece.prop_recursive(4, 16, 2, |inner| {
            (inner.clone(), inner, 0..12_usize).prop_map(|(a, b, form)| match form {
                0 => format!("{a} && {b}"),
                1 => format!("{a}; {b}"),
                2 => format!("{a} | {b}"),
                3 => format!("( {a} ) || {b}"),
                4 => format!("git log $({a}) \"$({b})\""),
                5 => format!("X=$({a}) git <({b})"),
                6 => format!("if {a}; then {b}; fi"),
                7 => format!("for i in 1 2; do {a}; {b}; done"),
                8 => format!("f() {{ {a}; }}; {b}"),
                9 => format!("sh -c '{}' && {b}", a.replace('\'', "'\\''")),
                10 => format!("bash <<'END'\n{a}\nEND\n{b}"),
                _ => format!("timeout 5 env A=1 {a}\n{b} &"),
            })
        })
    }

    proptest! {
        #[test]
        fn a_line_with_a_denied_command_in_it_is_never_allowed(line in nested()) {
            prop_assert!(!is_allowed(&line) || !line.contains("rm"), "{}", line);
        }
    }

    /// Whether a line would run without a question where `rm` is denied and all else allowed.
    fn is_allowed(line: &str) -> bool {
        let look = |path: &Path| tools::shell::Seen { path: path.to_owned(), is_directory: true };
        let surroundings = tools::shell::Surroundings {
            directory: "/p".into(),
            worktree: None,
            inside: vec!["/p".into()],
            home: None,
            look: &look,
        };
        let verdict = tools::shell::judge(line, &surroundings);
        let rules = [rule("*", "*", Action::Allow), rule("bash", "rm *", Action::Deny)];
        let allows = |text: &str| deciding(&rules, "bash", text).is_some_and(|rule| rule.action == Action::Allow);
        verdict.floor == Action::Allow && verdict.commands.iter().all(|one| allows(&one.text))
    }

    #[test]
    fn a_line_of_allowed_commands_is_allowed() {
        assert!(is_allowed("git status && git log $(git rev-parse HEAD) | git patch-id"));
        assert!(!is_allowed("git status && git log $(rm -rf y)"));
    }

    #[test]
    fn a_tool_is_not_offered_when_its_name_or_its_permission_is_wholly_denied() {
        let rules =
            [rule("*", "*", Action::Allow), rule("edit", "*", Action::Deny), rule("bash", "rm *", Action::Deny)];
        assert!(forbids_tool(&rules, "write", "edit"));
        assert!(!forbids_tool(&rules, "bash", "bash"), "only some commands are denied");
        let reopened = [rules[1].clone(), rule("edit", "docs/*", Action::Allow)];
        assert!(!forbids_tool(&reopened, "edit", "edit"));
    }
}
