//! File patterns: `*.ts` anywhere, `src/**/*.ts` from the top.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

/// Characters that make a part of a pattern more than a name.
const SPECIAL: [char; 8] = ['*', '?', '[', ']', '{', '}', '!', '\\'];

/// Longest pattern, in bytes: it becomes a regular expression of many times its size.
const LONGEST: usize = 4 * 1024;

/// A pattern that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    /// It is empty.
    #[error("The pattern is empty. Give one like `**/*.rs`.")]
    Empty,
    /// It is too long.
    #[error("The pattern has {0} bytes; at most {LONGEST} are taken. Search for less at a time.")]
    Long(usize),
    /// It goes up after a wildcard.
    #[error("The pattern `{0}` has `..` after a wildcard. Only its beginning may lead up; or use path.")]
    Up(String),
    /// It isn't a pattern.
    #[error("The pattern is wrong: {0}")]
    Syntax(String),
}

/// A pattern over the paths of a tree.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// The directory its plain beginning names; empty without one. `dist/*.js` is `*.js` in `dist`, which is searched
    /// even where it is ignored: it was named outright.
    pub(crate) prefix: String,
    /// The one name it stands for, if it has no wildcards.
    pub(crate) plain: Option<String>,
    /// Directory levels it can reach below the prefix; none when there is no end.
    pub(crate) depth: Option<usize>,
    names: Names,
}

/// What is matched.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    matcher: GlobMatcher,
    /// The file's name only, at any depth.
    by_name: bool,
}

impl Pattern {
    pub(crate) fn parse(pattern: &str) -> Result<Self, PatternError> {
        let pattern = pattern.trim();
        must_be_short(pattern)?;
        let mut rest = pattern;
        while let Some(after) = rest.strip_prefix("./") {
            rest = after.trim_start_matches('/');
        }
        if rest.is_empty() {
            return Err(PatternError::Empty);
        }
        let first_special = rest.find(SPECIAL).unwrap_or(rest.len());
        let (prefix, below) = match rest.get(..first_special).and_then(|plain| plain.rfind('/')) {
            Some(at) => rest.split_at_checked(at + 1).unwrap_or(("", rest)),
            None => ("", rest),
        };
        if below.is_empty() {
            return Err(PatternError::Syntax(format!("`{pattern}` names a directory; add what to find in it")));
        }
        if below.split('/').any(|part| part == "..") {
            return Err(PatternError::Up(pattern.to_owned()));
        }
        let is_anchored = !prefix.is_empty();
        Ok(Self {
            prefix: prefix.to_owned(),
            plain: (first_special == rest.len()).then(|| below.to_owned()),
            depth: depth(below, is_anchored),
            names: Names::new(below, is_anchored)?,
        })
    }

    /// Returns whether it stands for a path, relative to the prefix.
    pub(crate) fn matches(&self, relative: &Path) -> bool {
        self.names.matches(relative)
    }
}

fn must_be_short(pattern: &str) -> Result<(), PatternError> {
    if pattern.len() > LONGEST { Err(PatternError::Long(pattern.len())) } else { Ok(()) }
}

impl Names {
    fn new(pattern: &str, is_anchored: bool) -> Result<Self, PatternError> {
        let matcher = GlobBuilder::new(pattern)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| PatternError::Syntax(error.to_string()))?
            .compile_matcher();
        Ok(Self { matcher, by_name: !is_anchored && !pattern.contains('/') })
    }

    fn matches(&self, relative: &Path) -> bool {
        // As bytes: `Path::file_name` takes the whole path apart.
        let bytes = relative.as_os_str().as_bytes();
        match bytes.iter().rposition(|b| *b == b'/').and_then(|at| bytes.get(at + 1..)) {
            Some(name) if self.by_name => self.matcher.is_match(OsStr::from_bytes(name)),
            _ => self.matcher.is_match(relative),
        }
    }
}

fn depth(pattern: &str, is_anchored: bool) -> Option<usize> {
    let levels = pattern.split('/').count();
    let is_bounded = (is_anchored || levels > 1) && !pattern.contains("**") && !pattern.contains(['{', '[', '\\']);
    is_bounded.then_some(levels)
}

/// A filter of files: patterns with commas or in braces, those with `!` exclude.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    included: Vec<Names>,
    excluded: Vec<Names>,
}

impl Filter {
    pub(crate) fn parse(patterns: &str) -> Result<Self, PatternError> {
        must_be_short(patterns)?;
        let mut filter = Self::default();
        for pattern in split(patterns) {
            match pattern.strip_prefix('!') {
                Some(pattern) => filter.excluded.push(Self::names(pattern)?),
                None => filter.included.push(Self::names(pattern)?),
            }
        }
        Ok(filter)
    }

    fn names(pattern: &str) -> Result<Names, PatternError> {
        let plain = pattern.trim_start_matches("./").trim_start_matches('/');
        Names::new(plain, plain.len() < pattern.len())
    }

    /// Returns whether a path, relative to the searched directory, passes.
    pub(crate) fn passes(&self, relative: &Path) -> bool {
        (self.included.is_empty() || self.included.iter().any(|names| names.matches(relative)))
            && !self.excluded.iter().any(|names| names.matches(relative))
    }
}

/// Splits at commas outside braces.
fn split(patterns: &str) -> Vec<&str> {
    let mut open = 0usize;
    let mut pieces: Vec<&str> = patterns
        .split(|c: char| {
            match c {
                '{' => open += 1,
                '}' => open = open.saturating_sub(1),
                _ => {}
            }
            c == ',' && open == 0
        })
        .map(str::trim)
        .collect();
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(Path::new(path))
    }

    #[test]
    fn a_pattern_without_a_slash_matches_names_anywhere() {
        assert!(matches("*.ts", "main.ts") && matches("*.ts", "src/deep/main.ts") && !matches("*.ts", "main.tsx"));
        assert!(matches("*.{ts,tsx}", "a/b.tsx") && matches(".env*", "a/.env.local"));
    }

    #[test]
    fn a_pattern_with_a_slash_counts_from_the_top() {
        assert!(matches("**/*needle*", "needle.txt") && matches("**/*needle*", "a/b/my-needle-7"));
        assert!(matches("*/x.ts", "a/x.ts") && !matches("*/x.ts", "a/b/x.ts"));
        assert!(matches("{src,lib}/**/*.rs", "lib/a/b.rs") && !matches("{src,lib}/**/*.rs", "x/lib/b.rs"));
    }

    #[test]
    fn the_plain_beginning_is_where_to_search() {
        let parts = |pattern: &str| {
            let parsed = Pattern::parse(pattern).unwrap();
            (parsed.prefix, parsed.plain, parsed.depth)
        };
        assert_eq!(parts("src/ui/*.ts"), ("src/ui/".into(), None, Some(1)));
        assert_eq!(parts("/etc/**/*.conf"), ("/etc/".into(), None, None));
        assert_eq!(parts("../x/a.txt"), ("../x/".into(), Some("a.txt".into()), Some(1)));
        assert_eq!(parts("./*.md"), (String::new(), None, None));
        assert_eq!(parts("x.log"), (String::new(), Some("x.log".into()), None));
        assert!(Pattern::parse("src/*.ts").unwrap().matches(Path::new("a.ts")));
        assert!(!Pattern::parse("src/*.ts").unwrap().matches(Path::new("deep/a.ts")));
    }

    #[test]
    fn a_pattern_that_would_be_too_large_is_refused() {
        for long in ["*".repeat(100_000), format!("{{{}}}", ",".repeat(300_000)), "(".repeat(LONGEST + 1)] {
            let size = long.len();
            assert_eq!(Pattern::parse(&long).unwrap_err(), PatternError::Long(size));
            assert_eq!(Filter::parse(&long).unwrap_err(), PatternError::Long(size));
        }
        for long in ["*".repeat(LONGEST), format!("{{{}}}", ",".repeat(LONGEST - 2)), "{a".repeat(LONGEST / 2)] {
            let _ = (Pattern::parse(&long), Filter::parse(&long));
        }
    }

    #[test]
    fn wrong_patterns_say_what_is_wrong() {
        for (pattern, words) in [("", "empty"), ("*/../x", "`..`"), ("[", "wrong"), ("src/", "directory")] {
            let error = Pattern::parse(pattern).unwrap_err().to_string();
            assert!(error.contains(words), "{pattern}: {error}");
        }
    }

    #[test]
    fn filters_include_and_exclude() {
        let filter = Filter::parse("*.{ts,tsx}, src/**/*.rs, !*.test.ts").unwrap();
        let passes = |path: &str| filter.passes(Path::new(path));
        assert!(passes("a/b.tsx") && passes("src/x/y.rs"));
        assert!(!passes("x/y.rs") && !passes("a.test.ts") && !passes("a.js"));
        assert!(Filter::default().passes(Path::new("anything")));
    }

    proptest! {
        #[test]
        fn no_pattern_breaks_it(pattern in "[a-z*?!{}\\[\\],./\\\\ ]{0,12}", path in "[a-z./]{1,12}") {
            if let Ok(parsed) = Pattern::parse(&pattern) {
                parsed.matches(Path::new(&path));
            }
            if let Ok(filter) = Filter::parse(&pattern) {
                filter.passes(Path::new(&path));
            }
        }
    }
}
