//! Blocks that are only like the old text: what two of the strategies accept where config allows it, and what an
//! error names otherwise.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use similar::TextDiff;

use super::strategies::{Block, Fit, Lines, Place};

/// How alike the lines between first and last must be, from 0 to 1.
const SIMILAR: f32 = 0.65;
/// Lines up to this many bytes are compared by character, longer ones as a whole.
const MAX_COMPARED: usize = 500;
/// Pairs of equal lines looked at in the search for the nearest block.
const MAX_PAIRS: usize = 2_000_000;
/// How long a single line's nearest one is looked for.
const TIME: Duration = Duration::from_millis(200);

/// Returns the blocks that begin and end like the old text and are similar between, of about its length.
pub(crate) fn block_anchor(lines: &Lines<'_>, block: &Block<'_>) -> Vec<Place> {
    let [first, middle @ .., last] = &*block.lines else { return Vec::new() };
    if middle.is_empty() {
        return Vec::new();
    }
    let slack = 2 + block.lines.len() / 4;
    let ends: Vec<usize> = positions(lines, last);
    let mut places = Vec::new();
    for start in positions(lines, first) {
        let Some(end) = ends.get(ends.partition_point(|end| *end < start + 2)).copied() else { continue };
        let count = end - start + 1;
        let here = lines.lines.get(start + 1..end).unwrap_or_default();
        if count.abs_diff(block.lines.len()) > slack || similarity(middle, here) < SIMILAR {
            continue;
        }
        let pairs = match count == block.lines.len() {
            true => (0..count).map(Some).collect(),
            // Which line is which is only sure at the ends.
            false => {
                let mut pairs = vec![None; block.lines.len()];
                pairs.first_mut().into_iter().for_each(|p| *p = Some(0));
                pairs.last_mut().into_iter().for_each(|p| *p = Some(count - 1));
                pairs
            }
        };
        places.extend(lines.range(start, count, block.has_end).map(|range| Place { range, fit: Fit::Lines(pairs) }));
    }
    places
}

/// Returns the blocks of the old text's length that begin and end like it and have half the lines between in common.
pub(crate) fn context_aware(lines: &Lines<'_>, block: &Block<'_>) -> Vec<Place> {
    let count = block.lines.len();
    let [first, middle @ .., last] = &*block.lines else { return Vec::new() };
    if middle.is_empty() {
        return Vec::new();
    }
    let is_alike = |start: &usize| {
        let Some([_, here @ .., end]) = lines.lines.get(*start..start + count) else { return false };
        let full = middle.iter().zip(here).filter(|(old, _)| !old.trim().is_empty());
        let (equal, all) =
            full.fold((0, 0), |(n, all), (old, now)| (n + usize::from(old.trim() == now.trim()), all + 1));
        end.trim() == last.trim() && all > 0 && equal * 2 >= all
    };
    let pairs = || Fit::Lines((0..count).map(Some).collect());
    let place = |start| Some(Place { range: lines.range(start, count, block.has_end)?, fit: pairs() });
    positions(lines, first).into_iter().filter(is_alike).filter_map(place).collect()
}

fn positions(lines: &Lines<'_>, wanted: &str) -> Vec<usize> {
    let wanted = wanted.trim();
    lines.lines.iter().enumerate().filter(|(_, line)| line.trim() == wanted).map(|(at, _)| at).collect()
}

fn similarity(old: &[&str], here: &[&str]) -> f32 {
    let most = old.len().max(here.len()).max(1);
    old.iter().zip(here).map(|(a, b)| alike(a.trim(), b.trim())).sum::<f32>() / most as f32
}

fn alike(a: &str, b: &str) -> f32 {
    if a == b {
        1.0
    } else if a.len().max(b.len()) > MAX_COMPARED {
        0.0
    } else {
        TextDiff::from_chars(a, b).ratio()
    }
}

/// The block that is most like the old text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Near {
    /// Its lines, from 1.
    pub(crate) first: usize,
    pub(crate) last: usize,
    /// The first one that differs by more than spaces around it (if none does, by those).
    pub(crate) differs: usize,
    /// That line in the file; none past the file's end.
    pub(crate) here: Option<String>,
    /// That line in the old text.
    pub(crate) old: String,
}

/// Returns the block with the most lines in common with the old text, or the line most like its first one.
pub(crate) fn nearest(lines: &Lines<'_>, block: &Block<'_>) -> Option<Near> {
    let mut wanted: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in block.lines.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        wanted.entry(line.trim()).or_default().push(at);
    }
    // Equal lines vote for the place where the block would begin; brackets and the like count little.
    let mut votes: HashMap<usize, usize> = HashMap::new();
    let mut pairs = 0;
    'lines: for (at, line) in lines.lines.iter().enumerate() {
        let line = line.trim();
        for old in wanted.get(line).into_iter().flatten() {
            let Some(start) = at.checked_sub(*old) else { continue };
            *votes.entry(start).or_default() += if line.len() > 3 { 4 } else { 1 };
            pairs += 1;
            if pairs > MAX_PAIRS {
                break 'lines;
            }
        }
    }
    let best = votes.into_iter().filter(|(_, votes)| *votes >= 4).max_by_key(|(at, votes)| (*votes, usize::MAX - at));
    let start = match best {
        Some((start, _)) => start,
        None => most_alike(lines, block)?,
    };
    let pair = |at: usize| Some((at, lines.lines.get(start + at).copied(), *block.lines.get(at)?));
    let pairs = || (0..block.lines.len()).filter_map(pair);
    let by_text = pairs().find(|(_, here, old)| here.is_none_or(|here| here.trim() != old.trim()));
    let (at, here, old) = by_text.or_else(|| pairs().find(|(_, here, old)| *here != Some(*old)))?;
    Some(Near {
        first: start + 1,
        last: (start + block.lines.len()).min(lines.lines.len()),
        differs: start + at + 1,
        here: here.map(str::to_owned),
        old: old.to_owned(),
    })
}

fn most_alike(lines: &Lines<'_>, block: &Block<'_>) -> Option<usize> {
    let (at, wanted) = block.lines.iter().enumerate().find(|(_, line)| !line.trim().is_empty())?;
    let began = Instant::now();
    let mut best = (SIMILAR, None);
    for (number, line) in lines.lines.iter().enumerate() {
        let alike = alike(line.trim(), wanted.trim());
        if alike > best.0 {
            best = (alike, Some(number));
        }
        if began.elapsed() > TIME {
            break;
        }
    }
    best.1?.checked_sub(at)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use protocol::config::EditAnchors;

    use super::super::strategies::{Search, Strategy, Wanted, find};
    use super::*;

    const TEXT: &str = "func a() {\n\tx := 1\n\ty := 2\n\treturn\n}\n";

    fn near(text: &str, old: &str) -> Option<Near> {
        nearest(&Lines::of(text), &Block::of(old))
    }

    #[test]
    fn the_first_differing_line_is_named() {
        let found = near(TEXT, &TEXT.replace("y := 2", "y := 99")).unwrap();
        assert_eq!(
            found,
            Near { first: 1, last: 5, differs: 3, here: Some("\ty := 2".into()), old: "\ty := 99".into() }
        );
    }

    #[test]
    fn a_single_line_has_a_nearest_one_if_it_is_like_it() {
        assert_eq!(near("alpha\nlet value = 1;\n", "let value = 2;").unwrap().differs, 2);
        assert_eq!(near("alpha\nlet value = 1;\n", "completely other words"), None);
    }

    #[test]
    fn a_block_past_the_end_says_so() {
        assert_eq!(near("first line\n", "first line\nsecond line").unwrap().here, None);
    }

    #[test]
    fn similar_blocks_are_accepted_only_where_config_says_so() {
        let old = "func a() {\n\tx := 1\n\ty := 3\n\treturn\n}";
        assert_eq!(find(TEXT, old, Wanted::One, EditAnchors::Off), Search::Nothing);
        let Search::Found(Strategy::BlockAnchor, places) = find(TEXT, old, Wanted::One, EditAnchors::Similar) else {
            panic!("not found")
        };
        assert_eq!(&TEXT[places[0].range.clone()], TEXT.trim_end());
    }

    #[test]
    fn half_of_the_lines_are_context_enough() {
        let text = "begin\n  same\n  this is quite another line\nend\n";
        let old = "begin\n  same\n  zzzzzzzzzz\nend\n";
        let Search::Found(Strategy::ContextAware, places) = find(text, old, Wanted::One, EditAnchors::Similar) else {
            panic!("not found")
        };
        assert_eq!(&text[places[0].range.clone()], text);
    }
}
