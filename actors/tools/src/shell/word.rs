//! Words: what a word of the source becomes when the shell has expanded it, as far as that can be known.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::Judge;
use super::printed::above;
use super::state::State;

/// Stands in a value for what a glob or a number puts there, and twice for what a brace expansion does: some name, below
/// what is before it.
pub(super) const GLOB: char = '\u{10FFFE}';

/// Stands in a value for anything.
pub(super) const ANY: char = '\u{10FFFF}';

/// Most values followed of one word.
const MOST: usize = 32;

/// How deep strings and expansions are followed into each other.
const DEEP: usize = 24;

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// As it stands in the source.
    pub raw: String,
    /// What it may become, with placeholders.
    pub values: BTreeSet<String>,
    /// It holds an expansion, a substitution, a glob or braces.
    pub expands: bool,
    /// An expansion in it is unquoted, so that blanks in its value make several words.
    pub splits: bool,
    /// A brace expansion in it makes absolute paths or climbs.
    pub climbs: bool,
    /// It is the file name of a process substitution.
    pub is_process: bool,
}

impl Word {
    /// Returns a word that stands for itself.
    pub(super) fn plain(text: &str) -> Self {
        Self {
            raw: text.to_owned(),
            values: BTreeSet::from([text.to_owned()]),
            expands: false,
            splits: false,
            climbs: false,
            is_process: false,
        }
    }

    /// Returns a word nobody knows, or several.
    pub(super) fn unknown() -> Self {
        Self { values: BTreeSet::from([ANY.to_string()]), expands: true, splits: true, ..Self::plain("") }
    }

    /// Returns what it becomes, if that is one thing and known.
    pub(super) fn exact(&self) -> Option<&str> {
        let value = self.values.first().filter(|_| self.values.len() == 1)?;
        (!value.contains([GLOB, ANY])).then_some(value)
    }

    /// Returns whether the shell may make several words of it, so that options and commands come out of it: a list, a
    /// value with blanks, braces in front. Names of files that are found count as one each.
    pub(super) fn may_be_several(&self) -> bool {
        let is_list = self.expands && ["$@", "[@]", "${@"].iter().any(|list| self.raw.contains(list));
        let has_blank = |value: &String| value.contains([' ', '\t', '\n', ANY]);
        let in_front = || self.raw.starts_with(['{', '-']) && self.raw.contains('{') && self.expands;
        is_list || self.splits && self.values.iter().any(has_blank) || self.exact().is_none() && in_front()
    }

    /// Returns what it becomes without the shell's help: no expansion, only quotes taken off.
    pub(super) fn literal(&self) -> Option<&str> {
        if self.expands { None } else { self.exact() }
    }
}

/// A word in the making.
struct Pieces {
    values: BTreeSet<String>,
    /// The unquoted literal text, quoted parts as `Q`: where brace expansion looks.
    skeleton: String,
    expands: bool,
    splits: bool,
    is_process: bool,
}

impl Pieces {
    fn new() -> Self {
        let values = BTreeSet::from([String::new()]);
        Self { values, skeleton: String::new(), expands: false, splits: false, is_process: false }
    }

    fn push(&mut self, text: &str) {
        self.values = self.values.iter().map(|value| format!("{value}{text}")).collect();
    }

    fn push_any_of(&mut self, texts: &BTreeSet<String>) {
        let all = self.values.iter().flat_map(|value| texts.iter().map(move |text| format!("{value}{text}")));
        let all: BTreeSet<String> = all.take(MOST + 1).collect();
        self.values = if all.len() > MOST { BTreeSet::from([ANY.to_string()]) } else { all };
    }
}

impl Judge<'_> {
    /// Returns the word at a node. Substitutions in it are judged elsewhere ([`Judge::substitutions`]).
    pub(super) fn word(&self, source: &str, node: Node, state: &State) -> Word {
        let raw = source.get(node.byte_range()).unwrap_or_default().to_owned();
        let mut pieces = Pieces::new();
        self.add(source, node, state, false, DEEP, &mut pieces);
        let braces = braces(&pieces.skeleton);
        if braces != Braces::None {
            // What comes out is not worth the trouble; what is before the brace still holds.
            pieces.values = pieces.values.iter().map(|value| up_to_brace(value)).collect();
        }
        pieces.values = pieces.values.iter().map(|value| self.home_in(value, &pieces.skeleton)).collect();
        Word {
            raw,
            values: pieces.values,
            expands: pieces.expands || braces != Braces::None,
            splits: pieces.splits,
            climbs: braces == Braces::Climbing,
            is_process: pieces.is_process,
        }
    }

    fn add(&self, source: &str, node: Node, state: &State, quoted: bool, deep: usize, to: &mut Pieces) {
        let text = source.get(node.byte_range()).unwrap_or_default();
        let Some(deep) = deep.checked_sub(1) else {
            to.expands = true;
            return to.push(&ANY.to_string());
        };
        match node.kind() {
            "word" | "number" | "variable_name" | "regex" | "extglob_pattern" if node.named_child_count() == 0 => {
                let (value, globs) = unescape(text);
                to.skeleton.push_str(text);
                to.expands |= globs;
                to.push(&value);
            }
            "raw_string" => {
                to.skeleton.push('Q');
                to.push(text.trim_start_matches('\'').trim_end_matches('\''));
            }
            "ansi_c_string" => {
                to.skeleton.push('Q');
                let inner = text.strip_prefix("$'").and_then(|t| t.strip_suffix('\'')).unwrap_or(text);
                match decode(inner) {
                    Some(value) => to.push(&value),
                    None => to.push(&ANY.to_string()),
                }
            }
            "string" | "translated_string" => {
                to.skeleton.push('Q');
                self.add_string(source, node, state, deep, to);
            }
            "concatenation" | "command_name" => {
                let mut cursor = node.walk();
                for child in node.children(&mut cursor) {
                    if node.kind() == "concatenation" && source.get(child.byte_range()) == Some("[") {
                        to.expands = true;
                        to.push(&GLOB.to_string());
                    } else {
                        self.add(source, child, state, quoted, deep, to);
                    }
                }
            }
            "simple_expansion" | "expansion" => {
                to.skeleton.push('Q');
                to.expands = true;
                to.splits |= !quoted;
                let values = self.expansion(source, node, state, deep);
                to.push_any_of(&values);
            }
            "arithmetic_expansion" | "brace_expression" => {
                to.expands = true;
                to.push(&GLOB.to_string());
            }
            "command_substitution" => {
                to.expands = true;
                to.splits |= !quoted;
                to.push_any_of(&self.printed(text, state));
            }
            "process_substitution" => {
                to.expands = true;
                to.is_process = true;
                to.push("/dev/fd/63");
            }
            "``" => {}
            "$" | "{" | "}" | "[" | "]" | "==" | "=~" => {
                to.skeleton.push_str(text);
                to.push(text);
            }
            _ => {
                to.expands = true;
                to.push(&ANY.to_string());
            }
        }
    }

    /// Adds a double-quoted string: between its children the source stands as it is.
    fn add_string(&self, source: &str, node: Node, state: &State, deep: usize, to: &mut Pieces) {
        let mut cursor = node.walk();
        let mut at = node.start_byte();
        for child in node.children(&mut cursor) {
            // Blanks at the start of a piece belong to no node.
            to.push(&undouble(source.get(at..child.start_byte()).unwrap_or_default()));
            at = child.end_byte();
            match child.kind() {
                "\"" => {}
                "$" if node.kind() == "translated_string" => {}
                "$" | "string_content" => to.push(&undouble(source.get(child.byte_range()).unwrap_or_default())),
                _ => self.add(source, child, state, true, deep, to),
            }
        }
    }

    /// Returns what `$name` or `${name…}` may be.
    fn expansion(&self, source: &str, node: Node, state: &State, deep: usize) -> BTreeSet<String> {
        let any = || BTreeSet::from([ANY.to_string()]);
        let mut cursor = node.walk();
        let children: Vec<Node> = node.children(&mut cursor).collect();
        let text = |node: &Node| source.get(node.byte_range()).unwrap_or_default();
        match children.as_slice() {
            [open, name] if open.kind() == "$" => self.variable(text(name), state),
            [_, name, _] if matches!(name.kind(), "variable_name" | "special_variable_name") => {
                self.variable(text(name), state)
            }
            [_, name, operator, default, _] if matches!(text(operator), ":-" | "-" | ":=" | "=") => {
                let mut values = self.variable(text(name), state);
                let mut pieces = Pieces::new();
                self.add(source, *default, state, true, deep, &mut pieces);
                values.extend(pieces.values);
                values
            }
            // The directory above a known one.
            [_, name, operator, end, _] if text(name) == "PWD" && text(operator) == "%" && text(end) == "/*" => {
                above(self.variable("PWD", state))
            }
            _ => any(),
        }
    }

    pub(super) fn variable(&self, name: &str, state: &State) -> BTreeSet<String> {
        let paths = |paths: &BTreeSet<std::path::PathBuf>| -> BTreeSet<String> {
            paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
        };
        if let Some(values) = state.variables.get(name) {
            return values.clone();
        }
        let known = match name {
            "HOME" => self.surroundings.home.iter().map(|home| home.to_string_lossy().into_owned()).collect(),
            "PWD" => paths(&state.cwds),
            "OLDPWD" => paths(&state.before),
            "?" | "#" | "$" | "!" | "-" | "RANDOM" | "SECONDS" | "LINENO" | "UID" | "EUID" | "PPID" => {
                BTreeSet::from([GLOB.to_string()])
            }
            _ => BTreeSet::new(),
        };
        if known.is_empty() { BTreeSet::from([ANY.to_string()]) } else { known }
    }

    /// Replaces an unquoted `~` at the start.
    fn home_in(&self, value: &str, skeleton: &str) -> String {
        let Some(rest) = value.strip_prefix('~').filter(|_| skeleton.starts_with('~')) else {
            return value.to_owned();
        };
        match &self.surroundings.home {
            Some(home) if rest.is_empty() || rest.starts_with('/') => format!("{}{rest}", home.display()),
            _ => value.to_owned(),
        }
    }
}

/// Takes backslashes off an unquoted word; globs become placeholders. Returns whether there were any.
fn unescape(text: &str) -> (String, bool) {
    let (mut out, mut globs) = (String::new(), false);
    let mut chars = text.chars();
    let mut last = ' ';
    while let Some(c) = chars.next() {
        let before = std::mem::replace(&mut last, c);
        match c {
            '\\' => out.extend(chars.next().filter(|c| *c != '\n')),
            '*' | '?' | '[' => {
                // `**` may find what is deeper, as braces may make it; `??` finds no name of one character.
                match (c, before) {
                    ('?', '?') => out.push('?'),
                    ('*', '*') => out.push(GLOB),
                    _ if !out.ends_with(GLOB) => out.push(GLOB),
                    _ => {}
                }
                globs = true;
            }
            c => out.push(c),
        }
    }
    // A lone bracket is a command's name.
    if text == "[" { ("[".into(), false) } else { (out, globs) }
}

/// Takes backslashes off where they mean something between double quotes.
fn undouble(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('\n')) => drop(chars.next()),
            ('\\', Some('"' | '\\' | '$' | '`')) => out.extend(chars.next()),
            _ => out.push(c),
        }
    }
    out
}

/// Returns what `$'…'` stands for; none where an escape is not known.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let kind = chars.next()?;
        let mut digits = |most: usize, radix: u32| {
            let mut value = None;
            for _ in 0..most {
                let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix)) else { break };
                chars.next();
                value = Some(value.unwrap_or(0) * radix + digit);
            }
            value
        };
        match kind {
            'n' => out.push(b'\n'),
            't' => out.push(b'\t'),
            'r' => out.push(b'\r'),
            'a' => out.push(7),
            'b' => out.push(8),
            'e' | 'E' => out.push(27),
            'f' => out.push(12),
            'v' => out.push(11),
            '\\' | '\'' | '"' | '?' => out.push(kind as u8),
            'x' => out.push(u8::try_from(digits(2, 16)?).ok()?),
            'u' => out.extend_from_slice(char::from_u32(digits(4, 16)?)?.encode_utf8(&mut [0; 4]).as_bytes()),
            'U' => out.extend_from_slice(char::from_u32(digits(8, 16)?)?.encode_utf8(&mut [0; 4]).as_bytes()),
            '0'..='7' => {
                let first = kind.to_digit(8)?;
                let more = (0..2).try_fold(first, |value, _| {
                    let digit = chars.peek().and_then(|c| c.to_digit(8))?;
                    chars.next();
                    Some(value * 8 + digit)
                });
                // Fewer than three digits are rare enough to give up on.
                out.push(u8::try_from(more?).ok()?);
            }
            _ => return None,
        }
    }
    // A NUL ends the string there.
    let end = out.iter().position(|b| *b == 0).unwrap_or(out.len());
    out.truncate(end);
    String::from_utf8(out).ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Braces {
    None,
    /// All that comes out is below what is before it.
    Below,
    /// Something that comes out may be absolute, or climb.
    Climbing,
}

/// Looks for brace expansions in a word's unquoted text.
fn braces(skeleton: &str) -> Braces {
    let mut found = Braces::None;
    let (mut depth, mut from) = (0, 0);
    for (at, c) in skeleton.char_indices() {
        match c {
            '{' => {
                from = if depth == 0 { at } else { from };
                depth += 1;
            }
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    found = found.max(group(skeleton.get(from + 1..at).unwrap_or_default(), from == 0));
                }
            }
            _ => {}
        }
    }
    if depth > 0 && found == Braces::None {
        // One that is not closed may hold others that are.
        let rest = skeleton.get(from + 1..).and_then(|rest| rest.rsplit_once('}')).map(|(inner, _)| inner);
        found = rest.map_or(Braces::None, |inner| group(inner, from == 0));
    }
    found
}

/// Looks at what is between two braces. `bare`: nothing is before them.
fn group(inner: &str, bare: bool) -> Braces {
    let is_range = inner.split_once("..").is_some_and(|(from, to)| {
        !from.is_empty()
            && from.chars().all(char::is_alphanumeric)
            && to.chars().all(|c| c.is_alphanumeric() || c == '.')
    });
    if is_range {
        return Braces::Below;
    }
    if !inner.contains(',') && !inner.contains("..") {
        return Braces::None;
    }
    // Nothing from the braces and nothing before them: what comes after may be absolute.
    let mut parts = inner.split(['{', '}', ',']);
    let climbs = inner.contains("..") || parts.any(|p| p.starts_with(['/', '~', 'Q']) || bare && p.is_empty());
    if climbs { Braces::Climbing } else { Braces::Below }
}

fn up_to_brace(value: &str) -> String {
    match value.split_once('{') {
        Some((before, rest)) => {
            let after = rest.rsplit_once('}').map_or("", |(_, after)| after);
            format!("{before}{GLOB}{GLOB}{after}")
        }
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn escapes_of_ansi_strings_are_decoded_or_given_up_on() {
        assert_eq!(decode(r"\x72m").as_deref(), Some("rm"));
        assert_eq!(decode(r"\162\155 \u0041\t\\\'").as_deref(), Some("rm A\t\\'"));
        assert_eq!(decode(r"r\0zm"), None);
        assert_eq!(decode(r"rm\000x").as_deref(), Some("rm"));
        assert_eq!(decode(r"\cA"), None);
        assert_eq!(decode("x\\"), None);
        assert_eq!(decode(r"\x"), None);
    }

    #[test]
    fn braces_are_told_from_literal_ones() {
        assert_eq!(braces("{}"), Braces::None);
        assert_eq!(braces("src/{a,b}/x"), Braces::Below);
        assert_eq!(braces("{1..5}"), Braces::Below);
        assert_eq!(braces("{/etc,x}"), Braces::Climbing);
        assert_eq!(braces("{a,../b}"), Braces::Climbing);
        assert_eq!(braces("a{,b}"), Braces::Below);
        assert_eq!(braces("{,b}/etc"), Braces::Climbing);
        assert_eq!(braces("{a"), Braces::None);
    }
}
