//! What the names of Claude's models tell of their limits.
//!
//! Source: <https://docs.anthropic.com/en/docs/about-claude/models/overview>.

/// Version of a Claude model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u32, u32);

/// Returns the version in a name, before or behind the family: `claude-3-7-sonnet-…`, `claude-opus-4.5`. None for other
/// models. A date is no version.
pub(super) fn version(model: &str) -> Option<Version> {
    let (_, rest) = model.split_once("claude-")?;
    let mut numbers = rest
        .split(['-', '.', '@', ':', '_'])
        .skip_while(|word| word.parse::<u32>().is_err())
        .map_while(|word| word.parse::<u32>().ok().filter(|_| word.len() <= 2));
    let major = numbers.next()?;
    Some(Version(major, numbers.next().unwrap_or(0)))
}

/// Returns the most tokens an answer of a model may have, thinking included; none for other models than Claude.
pub(super) fn most_tokens(model: &str) -> Option<u64> {
    let version = version(model)?;
    Some(match version {
        Version(..=2, _) | Version(3, 0..=4) => 4_096,
        Version(3, 5) => 8_192,
        Version(3, _) => 64_000,
        Version(4, 0 | 1) if model.contains("opus") => 32_000,
        Version(4, 0..=5) => 64_000,
        _ => 128_000,
    })
}

/// Returns whether a model refuses temperature and the like.
pub(super) fn refuses_sampling(model: &str) -> bool {
    version(model).is_some_and(|version| version >= Version(4, 7))
}

/// Returns whether a model decides by itself how long it thinks.
/// Source: <https://docs.anthropic.com/en/docs/build-with-claude/adaptive-thinking>.
pub(super) fn adapts(model: &str) -> bool {
    version(model).is_some_and(|version| version >= Version(4, 6))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn versions_are_read_from_all_forms_of_names() {
        for (model, known) in [
            ("claude-3-haiku-20240307", Some((3, 0))),
            ("claude-3-5-sonnet-20241022", Some((3, 5))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-opus-4-5", Some((4, 5))),
            ("anthropic/claude-opus-4.7", Some((4, 7))),
            ("claude-sonnet-4@20250514", Some((4, 0))),
            ("us.anthropic.claude-haiku-4-5-20251001-v1:0", Some((4, 5))),
            ("claude-x", None),
            ("glm-4.6", None),
        ] {
            assert_eq!(version(model), known.map(|(major, minor)| Version(major, minor)), "{model}");
        }
    }

    #[test]
    fn limits_go_by_version_and_family() {
        for (model, most) in [
            ("claude-3-haiku-20240307", Some(4_096)),
            ("claude-opus-4-1", Some(32_000)),
            ("claude-sonnet-4-5", Some(64_000)),
            ("claude-opus-4-6", Some(128_000)),
            ("kimi-k2", None),
        ] {
            assert_eq!(most_tokens(model), most, "{model}");
        }
        assert!(refuses_sampling("claude-opus-4-7") && !refuses_sampling("claude-opus-4-6"));
    }
}
