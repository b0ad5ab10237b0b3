//! A command's template, filled in. Pure.
//!
//! `$ARGUMENTS` is what was typed after the name; `$1`, `$2`… are its words, where quotes hold several together, and
//! the highest number that stands in the template takes all that are left. Arguments that no placeholder takes follow
//! the template. `` !`line` `` is a line of shell whose output takes its place: lines are looked for in the template
//! alone, never in what was put into it, so arguments and output run nothing. Source: OpenCode `session/prompt.ts`.

/// Stands for all arguments.
pub const ARGUMENTS: &str = "$ARGUMENTS";

/// A piece of a filled template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text.
    Text(String),
    /// A line of shell, whose output comes here.
    Shell(String),
}

/// Fills a template in.
pub fn fill(template: &str, arguments: &str) -> Vec<Piece> {
    let words = words(arguments);
    let last = numbers(template).into_iter().max();
    let fill = |text: &str| fill_text(text, arguments, &words, last);
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((before, line, after)) = shell(rest) {
        pieces.push(Piece::Text(fill(before)));
        pieces.push(Piece::Shell(fill(line)));
        rest = after;
    }
    let mut end = fill(rest);
    if last.is_none() && !template.contains(ARGUMENTS) && !arguments.trim().is_empty() {
        end.push_str("\n\n");
        end.push_str(arguments);
    }
    pieces.push(Piece::Text(end));
    pieces
}

/// Returns the numbers of a template's placeholders, each once, in order.
pub fn numbers(template: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    let mut rest = template;
    while let Some((_, number, after)) = placeholder(rest) {
        numbers.push(number);
        rest = after;
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The next `$NUMBER`: what comes before it, the number, what comes after it.
fn placeholder(text: &str) -> Option<(&str, usize, &str)> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.find('$')?;
        let digits = text.get(at + 1..)?;
        let length = digits.bytes().take_while(u8::is_ascii_digit).count();
        if let Ok(number) = digits.get(..length)?.parse() {
            return Some((text.get(..at)?, number, digits.get(length..)?));
        }
        from = at + 1;
    }
}

/// The next `` !`line` ``: what comes before it, the line, what comes after it.
fn shell(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.find("!`")?;
        let (line, after) = text.get(at + 2..)?.split_once('`')?;
        if !line.is_empty() {
            return Some((text.get(..at)?, line, after));
        }
        from = at + 2;
    }
}

fn fill_text(text: &str, arguments: &str, words: &[String], last: Option<usize>) -> String {
    let mut out = String::with_capacity(text.len() + arguments.len());
    let mut rest = text;
    loop {
        let all = rest.find(ARGUMENTS);
        match (placeholder(rest), all) {
            // The nearer of the two, each put in once: what comes with an argument is no placeholder.
            (Some((before, number, after)), all) if all.is_none_or(|at| before.len() < at) => {
                out.push_str(before);
                out.push_str(&word(number, words, last));
                rest = after;
            }
            (_, Some(at)) => {
                out.push_str(rest.get(..at).unwrap_or_default());
                out.push_str(arguments);
                rest = rest.get(at + ARGUMENTS.len()..).unwrap_or_default();
            }
            _ => return out + rest,
        }
    }
}

fn word(number: usize, words: &[String], last: Option<usize>) -> String {
    let Some(index) = number.checked_sub(1) else { return String::new() };
    if Some(number) == last {
        return words.get(index..).unwrap_or_default().join(" ");
    }
    words.get(index).cloned().unwrap_or_default()
}

/// Returns the words of arguments: quotes of either kind hold several together and are taken off; `[Image 1]`, as a
/// client writes a picture, is one.
pub fn words(arguments: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = arguments.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = image(rest).or_else(|| quoted(rest, first)).unwrap_or_else(|| {
            let end = rest.char_indices().skip(1).find(|(_, c)| c.is_whitespace() || matches!(c, '"' | '\''));
            end.map_or(rest.len(), |(at, _)| at)
        });
        let (word, after) = rest.split_at(length);
        let is_quoted = matches!(first, '"' | '\'') && length > 1;
        words.push(if is_quoted {
            word.trim_matches(first).to_owned()
        } else {
            word.trim_matches(['"', '\'']).to_owned()
        });
        rest = after.trim_start();
    }
    // A quote that is never closed is nothing.
    words.retain(|word| !word.is_empty());
    words
}

fn image(text: &str) -> Option<usize> {
    let digits = text.strip_prefix("[Image ")?;
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    (length > 0 && digits.get(length..)?.starts_with(']')).then_some("[Image ".len() + length + 1)
}

fn quoted(text: &str, quote: char) -> Option<usize> {
    matches!(quote, '"' | '\'').then_some(())?;
    Some(text.get(1..)?.find(quote)? + 2)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn text(template: &str, arguments: &str) -> String {
        let pieces = fill(template, arguments).into_iter().map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Shell(line) => format!("<{line}>"),
        });
        pieces.collect()
    }

    #[test]
    fn the_highest_number_takes_all_words_that_are_left() {
        assert_eq!(
            text("Say hello to $ARGUMENTS (first: $1)", "Bob Smith"),
            "Say hello to Bob Smith (first: Bob Smith)"
        );
        assert_eq!(text("$2 after $1", "a b c d"), "b c d after a");
        assert_eq!(text("$1|$2|$3", "a"), "a||");
        assert_eq!(text("$0 costs $ and $x", "a"), " costs $ and $x");
    }

    #[test]
    fn quotes_hold_words_together_and_are_taken_off() {
        assert_eq!(text("$1|$2|$3", r#""a b" 'c d' e"#), "a b|c d|e");
        assert_eq!(text("$1|$2", "[Image 1] it's"), "[Image 1]|it s");
        assert_eq!(text("$1|$2", "ä \"ö"), "ä|ö");
    }

    #[test]
    fn arguments_without_a_placeholder_follow_the_template() {
        assert_eq!(text("Do it.", "now"), "Do it.\n\nnow");
        assert_eq!(text("Do it.", "  "), "Do it.");
    }

    #[test]
    fn shell_is_run_of_the_template_only_with_its_placeholders_filled_in() {
        assert_eq!(text("see !`git log -$1` and !`` `x`", "3"), "see <git log -3> and !`` `x`");
        assert_eq!(text("see $ARGUMENTS", "!`rm -rf x`"), "see !`rm -rf x`");
        assert_eq!(text("a $1 b", "$ARGUMENTS $1"), "a $ARGUMENTS $1 b");
    }

    proptest! {
        #[test]
        fn any_template_and_arguments_are_filled_in(template in "[$1-3ARGUMENTS!` xä\"']{0,40}", arguments in "[\"' aä\\[Image1\\]]{0,20}") {
            let _ = fill(&template, &arguments);
        }
    }
}
