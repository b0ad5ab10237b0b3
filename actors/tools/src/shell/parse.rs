//! Parsing, and the doubts about it: the grammar is not bash, so what it may have seen otherwise is found here.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use regex::{Captures, Regex};
use tree_sitter::{Node, ParseOptions, Parser, Tree, TreeCursor};

use super::walk::named;
use super::word::{ANY, GLOB};

/// The reason given when the tree may not be what bash would see.
pub(super) const UNCLEAR: &str = "the command is not clear";

/// Longest time for one parse.
const PATIENCE: Duration = Duration::from_millis(500);

/// How deep here-documents are followed into each other.
const DEEPEST_BODY: usize = 16;

/// A script and its tree.
#[derive(Debug)]
pub(super) struct Parsed<'s> {
    /// What was parsed: the script, but for operators the grammar lacks.
    pub source: Cow<'s, str>,
    pub tree: Tree,
    /// The tree is surely what bash sees.
    pub is_clear: bool,
}

/// Parses a script; none when it takes too long.
pub(super) fn parse(script: &str) -> Option<Parsed<'_>> {
    let tree = tree_of(script)?;
    let is_clear = is_clear(script, &tree);
    if !is_clear && script.contains("<>") {
        // The grammar has no `<>`. As `<` it leads to the same file.
        let source = script.replace("<>", "< ");
        let tree = tree_of(&source)?;
        let is_redirect = |at| {
            let leaf = tree.root_node().descendant_for_byte_range(at, at + 1);
            leaf.is_some_and(|leaf| leaf.kind() == "<" && leaf.parent().is_some_and(|p| p.kind() == "file_redirect"))
        };
        if script.match_indices("<>").all(|(at, _)| is_redirect(at)) && self::is_clear(&source, &tree) {
            return Some(Parsed { source: source.into(), tree, is_clear: true });
        }
    }
    Some(Parsed { source: script.into(), tree, is_clear })
}

fn tree_of(script: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let harmless = harmless(script);
    let bytes = harmless.as_bytes();
    let start = Instant::now();
    let mut progress = |_: &tree_sitter::ParseState| {
        if start.elapsed() > PATIENCE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options))
}

/// Returns the script without what crashes the grammar's scanner, each byte where it was.
///
/// After a brace the scanner looks characters up in C's table of the first 256, whatever they are, and reads far
/// outside of it (tree-sitter-bash issue 337). An underscore belongs to a word as they do.
fn harmless(script: &str) -> Cow<'_, str> {
    static BEYOND_THE_TABLE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(\{[0-9]*(?:\.\.[0-9]*)?)([^\x00-\xff])").expect("an expression"));
    BEYOND_THE_TABLE.replace_all(script, |found: &Captures| found[1].to_owned() + &"_".repeat(found[2].len()))
}

/// Returns whether the tree is surely what bash sees.
fn is_clear(script: &str, tree: &Tree) -> bool {
    !tree.root_node().has_error()
        && !script.char_indices().any(|(at, c)| is_odd(c) && (stands_in(c) || !is_quoted(tree, at)))
        && !script
            .match_indices("\\\n")
            .any(|(at, _)| (glues(script, at) || is_first(script, at)) && !is_quoted(tree, at))
        && leaves_are_clear(script, tree.root_node(), DEEPEST_BODY)
}

/// Returns whether a character is a blank to one of grammar and bash and not to the other, or means something to us.
fn is_odd(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || (!c.is_ascii() && c.is_whitespace()) || stands_in(c)
}

/// Returns whether a character stands for something to us.
fn stands_in(c: char) -> bool {
    c == ANY || c == GLOB
}

/// Returns whether a place is within quotes, a here-document or a comment, where blanks part no words.
fn is_quoted(tree: &Tree, at: usize) -> bool {
    let mut node = tree.root_node().descendant_for_byte_range(at, at + 1);
    while let Some(inner) = node {
        if matches!(inner.kind(), "string" | "raw_string" | "ansi_c_string" | "heredoc_body" | "comment") {
            return true;
        }
        // What stands in a substitution is no text.
        if matches!(inner.kind(), "command_substitution" | "process_substitution") {
            return false;
        }
        node = inner.parent();
    }
    false
}

/// Returns whether a continued line at `at` glues two words: bash makes one of them, the grammar two.
fn glues(script: &str, at: usize) -> bool {
    let before = script.get(..at).and_then(|text| text.chars().next_back());
    let after = script.get(at + 2..).and_then(|text| text.chars().next());
    let blank = |c: Option<char>| c.is_none_or(|c| c == ' ' || c == '\t' || c == '\n');
    !blank(before) && !blank(after)
}

/// Returns whether a line that is continued at `at` has nothing before that: the grammar then overlooks that the line
/// before has ended.
fn is_first(script: &str, at: usize) -> bool {
    let before = script.get(..at).unwrap_or_default().trim_end_matches([' ', '\t']);
    before.ends_with('\n') && !before.ends_with("\\\n")
}

/// Looks at each token of a tree: none may hide a substitution, and nothing but blanks may be between them. `deep`: how
/// deep here-documents may stand in each other.
fn leaves_are_clear(script: &str, root: Node, deep: usize) -> bool {
    let mut cursor = root.walk();
    let (mut at, end) = if root.parent().is_some() { (root.start_byte(), root.end_byte()) } else { (0, script.len()) };
    loop {
        let node = cursor.node();
        let between = script.get(at..node.start_byte()).unwrap_or_default();
        let text = script.get(node.byte_range()).unwrap_or_default();
        if node.kind() == "heredoc_body" {
            // Looked through by hand when it is judged: its tokens leave parts of it out. What is substituted is code.
            let Some(deep) = deep.checked_sub(1) else { return false };
            let is_code = |child: &Node| child.kind().ends_with("_substitution");
            if named(node).iter().filter(|child| is_code(child)).any(|code| !leaves_are_clear(script, *code, deep)) {
                return false;
            }
            at = node.end_byte();
            if !next(&mut cursor) {
                return true;
            }
            continue;
        }
        if node.child_count() == 0 {
            // The grammar loses a lone dash before a here-document; it is found again there.
            let is_dash = node.kind().starts_with("<<") && between.trim_matches([' ', '\t']) == "-";
            if !(is_blank(between) || is_dash) || !leaf_is_clear(script, node, text) {
                return false;
            }
            at = at.max(node.end_byte());
        }
        if !cursor.goto_first_child() && !next(&mut cursor) {
            return is_blank(script.get(at..end).unwrap_or_default());
        }
    }
}

/// Moves to the next node that is not below this one.
fn next(cursor: &mut TreeCursor) -> bool {
    loop {
        if cursor.goto_next_sibling() {
            return true;
        }
        if !cursor.goto_parent() {
            return false;
        }
    }
}

fn is_blank(between: &str) -> bool {
    between.replace("\\\n", "").chars().all(|c| matches!(c, ' ' | '\t' | '\n'))
}

fn leaf_is_clear(script: &str, leaf: Node, text: &str) -> bool {
    match leaf.kind() {
        "raw_string" | "ansi_c_string" | "heredoc_start" | "heredoc_end" => true,
        // In bash a comment begins a word.
        "comment" => {
            let before = script.get(..leaf.start_byte()).and_then(|text| text.chars().next_back());
            before.is_none_or(|c| c.is_ascii_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')'))
        }
        "string_content" => !hides(text, false),
        _ if leaf.is_named() => !hides(text, true) && !is_broken(text),
        _ => true,
    }
}

/// Returns whether a line ends within a token that has no quotes: `ls`, a line break and `\rm` are two commands to bash,
/// and words of one to the grammar.
fn is_broken(text: &str) -> bool {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '\n' => return true,
            _ => {}
        }
    }
    false
}

/// Returns whether a text holds a substitution that is not escaped.
pub(super) fn hides(text: &str, unquoted: bool) -> bool {
    substitution(text, unquoted).is_some()
}

/// Returns where the first substitution of a text begins.
pub(super) fn substitution(text: &str, unquoted: bool) -> Option<usize> {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, c)| *c);
        match (c, next) {
            ('\\', _) => drop(chars.next()),
            ('`', _) | ('$', Some('(')) => return Some(at),
            ('<' | '>', Some('(')) if unquoted => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clear(script: &str) -> bool {
        parse(script).unwrap().is_clear
    }

    #[test]
    fn ordinary_lines_are_clear() {
        for line in [
            "git status && npm run test -- --x; cat a.txt | wc -l > /dev/null",
            "echo \"a b\" 'c' $x ${y:-z} $(ls) `ls` # comment",
            "for i in 1 2 3; do\n  echo $i\ndone",
            "cat <<'EOF' > f\n`code` $(x)\nEOF\n",
            "a \\\n  --long \\\n  --more",
            "if [[ $a == b* && -f c ]]; then echo; fi",
            "printf '\\033[31mred\\033[0m\\n'",
            "python3 -c \"print('\\r'.join(str(i) for i in range(20)))\"",
            "echo \"  leading\n  lines\"",
            "awk '{print $1}' f | sort -k2 -t: | uniq -c",
            "exec 3<>/dev/tty; echo \"a\" <> f",
            "python3 - <<'PY'\nprint(1)\nPY",
            "ls &&\n  \\ls\nfoo=(\n  a\n  b\n)",
            "case $x in\n  a|b) ls ;;\n  *)\n    pwd\n    ;;\nesac",
            "x=$((1 + 2)); ((x++)); echo ${x%.*} ${#x} ${x//a/b}",
        ] {
            assert!(clear(line), "{line}");
        }
    }

    #[test]
    fn a_character_outside_the_scanners_table_is_parsed_as_a_part_of_its_word() {
        for line in ["echo {\u{31860},b}", "echo {12\u{31860}", "echo {1..\u{10fffd}}", "{\u{65e5}; }", "echo {{{😀"]
        {
            let parsed = parse(line).unwrap();
            assert_eq!((&*parsed.source, parsed.tree.root_node().end_byte()), (line, line.len()));
            assert_eq!(harmless(line).len(), line.len());
        }
        assert!(clear("echo {\u{31860},b} \"{\u{65e5}}\""));
    }

    #[test]
    fn what_bash_may_see_otherwise_is_not_clear() {
        for line in [
            "echo \"open",
            "if true; then (",
            "r\\\nm x",
            "ls\u{a0}x",
            "ls\rx",
            "[[ a =~ ^a`rm y` ]]",
            "((rm x); ls)",
            "ls\n\\rm y",
            "\nEOF\n\\rm y",
            "ls\n\\\n\\rm y",
            "ls\n \\\n rm y",
            "cat <<EOF\n$(ls\n\\rm y)\nEOF\n",
            "cat <<EOF\n$(cat <<X\n$(ls\n\\rm y)\nX\n)\nEOF\n",
            "echo '<>' <> (f",
        ] {
            assert!(!clear(line), "{line}");
        }
    }
}
