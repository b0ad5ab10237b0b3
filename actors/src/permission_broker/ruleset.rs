//! Rules to verdicts. Pure.

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
    fn a_tool_is_not_offered_when_its_name_or_its_permission_is_wholly_denied() {
        let rules =
            [rule("*", "*", Action::Allow), rule("edit", "*", Action::Deny), rule("bash", "rm *", Action::Deny)];
        assert!(forbids_tool(&rules, "write", "edit"));
        assert!(!forbids_tool(&rules, "bash", "bash"), "only some commands are denied");
        let reopened = [rules[1].clone(), rule("edit", "docs/*", Action::Allow)];
        assert!(!forbids_tool(&reopened, "edit", "edit"));
    }
}
