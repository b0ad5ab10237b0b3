//! Breaks styled text into lines of a width.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthChar;

/// A stretch of text in one style.
pub type Run = (String, Style);

/// Characters of a line, each with its style.
type Styled<'a> = &'a [(char, Style)];

/// Where lines may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// Between words; within one only where it is longer than a line.
    Words,
    /// Anywhere: code keeps its spaces.
    Anywhere,
}

/// Returns the lines of `runs`, the first begun with `first`, the others with `rest`; all at most `width` columns.
/// Line ends within the text stay.
pub fn wrap(runs: &[Run], width: usize, first: &[Run], rest: &[Run], at: Break) -> Vec<Line<'static>> {
    let characters: Vec<(char, Style)> = runs
        .iter()
        .flat_map(|(text, style)| text.chars().map(|character| (character, *style)))
        .filter(|(character, _)| *character == '\n' || !character.is_control())
        .collect();
    let mut lines = Vec::new();
    for line in characters.split(|(character, _)| *character == '\n') {
        let mut line = line;
        loop {
            let prefix = if lines.is_empty() { first } else { rest };
            let room = width.saturating_sub(columns(prefix)).max(1);
            let (taken, left) = take(line, room, at);
            lines.push(joined(prefix, taken));
            match left {
                Some(left) => line = left,
                None => break,
            }
        }
    }
    lines
}

/// Returns as much of a line as fits in `room` columns, and what is left of it.
fn take(line: Styled<'_>, room: usize, at: Break) -> (Styled<'_>, Option<Styled<'_>>) {
    let mut used = 0;
    let mut space = None;
    for (index, (character, _)) in line.iter().enumerate() {
        let width = character.width().unwrap_or(0);
        if used + width > room {
            // Spaces at the edge hang over.
            if *character == ' ' && at == Break::Words {
                let behind = line.iter().skip(index).take_while(|(c, _)| *c == ' ').count();
                return rest_of(line, index, index + behind);
            }
            return match space {
                Some(space) if at == Break::Words => rest_of(line, space, space + 1),
                _ => rest_of(line, index.max(1), index.max(1)),
            };
        }
        // A space of the indent is no place to break.
        if *character == ' ' && line.iter().take(index).any(|(c, _)| *c != ' ') {
            space = Some(index);
        }
        used += width;
    }
    (line, None)
}

fn rest_of(line: Styled<'_>, end: usize, next: usize) -> (Styled<'_>, Option<Styled<'_>>) {
    let left = line.get(next..).filter(|left| !left.is_empty());
    (line.get(..end).unwrap_or(line), left)
}

fn joined(prefix: &[Run], characters: Styled<'_>) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = prefix.iter().map(|(text, style)| Span::styled(text.clone(), *style)).collect();
    let mut runs: Vec<Run> = Vec::new();
    for (character, style) in characters {
        match runs.last_mut() {
            Some((text, last)) if last == style => text.push(*character),
            _ => runs.push((character.to_string(), *style)),
        }
    }
    spans.extend(runs.into_iter().map(|(text, style)| Span::styled(text, style)));
    Line::from(spans)
}

/// Returns how many columns runs take.
pub fn columns(runs: &[Run]) -> usize {
    runs.iter().flat_map(|(text, _)| text.chars()).map(|character| character.width().unwrap_or(0)).sum()
}

/// Returns `text` cut to a width, `…` at its end where something is missing.
pub fn cut(text: &str, width: usize) -> String {
    let mut used = 0;
    let mut out = String::new();
    for character in text.chars() {
        let columns = character.width().unwrap_or(0);
        if used + columns > width {
            while used + 1 > width {
                let Some(last) = out.pop() else { break };
                used -= last.width().unwrap_or(0);
            }
            if width > 0 {
                out.push('…');
            }
            break;
        }
        used += columns;
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn lines(text: &str, width: usize, at: Break) -> Vec<String> {
        let run = |text: &str| vec![(text.to_owned(), Style::default())];
        let lines = wrap(&run(text), width, &run("> "), &run("  "), at);
        lines.iter().map(|line| line.spans.iter().map(|span| span.content.as_ref()).collect()).collect()
    }

    #[test]
    fn words_stay_whole_as_long_as_they_fit() {
        assert_eq!(lines("one two three", 9, Break::Words), ["> one two", "  three"]);
        assert_eq!(lines("abcdefghijkl x", 7, Break::Words), ["> abcde", "  fghij", "  kl x"]);
        assert_eq!(lines("a\n\nb", 9, Break::Words), ["> a", "  ", "  b"]);
        assert_eq!(lines("", 9, Break::Words), ["> "]);
    }

    #[test]
    fn code_keeps_its_spaces() {
        assert_eq!(lines("a  b  c", 5, Break::Anywhere), ["> a  ", "  b  ", "  c"]);
    }

    #[test]
    fn wide_characters_count_twice_and_a_narrow_line_ends() {
        assert_eq!(lines("漢字漢字", 6, Break::Words), ["> 漢字", "  漢字"]);
        assert_eq!(lines("漢字", 1, Break::Words), ["> 漢", "  字"]);
        assert_eq!(cut("漢字漢", 5), "漢字…");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("abcd", 0), "");
    }

    #[test]
    fn styles_stay_with_their_text() {
        let bold = Style::default().bold();
        let runs = [("a ".to_owned(), Style::default()), ("b".to_owned(), bold)];
        let lines = wrap(&runs, 10, &[], &[], Break::Words);
        assert_eq!(lines, [Line::from(vec![Span::raw("a "), Span::styled("b", bold)])]);
    }
}
