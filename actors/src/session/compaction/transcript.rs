//! The text a summary is made from. Pure.
//! Source of the choice of the tail and of the limits: OpenCode `session/compaction.ts`.

use protocol::{MessageId, PartKind, ToolState};

use super::view::View;
use super::window;
use crate::session::history::Entry;

/// Most bytes of one tool result.
const RESULT_BYTES: usize = 2_000;

const TASK: &str = "Write a summary by which the work can go on without the messages below. Use these headings, and \
    leave out those with nothing to say:\n\
    ## Goal (what the person wants, in their words, with every condition they set)\n\
    ## Done (what was done and found out, with exact paths, names, commands and results)\n\
    ## State (what works, what fails and how, which files were changed)\n\
    ## Next (what is left to do, in order)\n\
    ## Notes (decisions and their reasons, preferences of the person, dead ends not to try again)\n";

/// What of a history is summarised.
pub struct Head<'a> {
    /// The messages.
    pub entries: Vec<&'a Entry>,
    /// The first message that is kept as it is.
    pub tail_start: Option<MessageId>,
}

/// Returns what of the messages to summarise: all but the newest that fit into `budget` tokens; at most `turns`
/// turns are kept where that is given. All are, where nothing would be left to summarise.
pub fn select<'a>(entries: &[&'a Entry], budget: u64, turns: Option<u32>) -> Head<'a> {
    let mut starts: Vec<usize> =
        entries.iter().enumerate().filter(|(_, e)| e.info.as_user().is_some()).map(|(at, _)| at).collect();
    if let Some(turns) = turns {
        starts.drain(..starts.len().saturating_sub(turns as usize));
    }
    let first = starts.first().copied().unwrap_or(entries.len());
    let mut left = budget;
    let mut keep = entries.len();
    for (at, entry) in entries.iter().enumerate().rev().take_while(|(at, _)| *at >= first) {
        let size = window::size(entry);
        if size > left {
            break;
        }
        left -= size;
        keep = at;
    }
    // What says nothing is not worth keeping.
    while entries.get(keep).is_some_and(|entry| window::size(entry) == 0) {
        keep += 1;
    }
    let whole = Head { entries: entries.to_vec(), tail_start: None };
    match (entries.split_at_checked(keep), entries.get(keep)) {
        (Some((head, _)), Some(start)) if !head.is_empty() => {
            Head { entries: head.to_vec(), tail_start: Some(start.info.id().clone()) }
        }
        _ => whole,
    }
}

/// Returns the request for a summary, at most about `bytes` long: where there is more, every long piece is cut in its
/// middle, the more the longer it is.
pub fn request(view: &View<'_>, head: &Head<'_>, bytes: usize) -> String {
    let mut pieces: Vec<String> = Vec::new();
    if let Some((_, summary)) = view.summary {
        pieces.push(format!("[Summary of what came before]\n{}", summary.text()));
    }
    pieces.extend(head.entries.iter().flat_map(|entry| told(entry)));
    let room = bytes.saturating_sub(TASK.len() + 64);
    let limit = piece_limit(&pieces, room);
    let told: Vec<String> = pieces.iter().map(|piece| cut(piece, limit)).collect();
    format!("{TASK}\n<conversation>\n{}\n</conversation>", told.join("\n"))
}

/// The longest a piece may be, so that all fit into `room`.
fn piece_limit(pieces: &[String], room: usize) -> usize {
    let mut sizes: Vec<usize> = pieces.iter().map(|piece| piece.len() + 1).collect();
    sizes.sort_unstable();
    let mut left = room;
    for (at, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - at);
        if *size > share {
            return share;
        }
        left -= size;
    }
    usize::MAX
}

/// Cuts the middle out of a text that is too long.
pub(super) fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let half = limit / 2;
    let (start, end) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len().saturating_sub(half)));
    let (first, last) = (text.get(..start).unwrap_or(""), text.get(end..).unwrap_or(""));
    format!("{first}\n[… {} bytes left out …]\n{last}", text.len() - first.len() - last.len())
}

/// A message as lines of a transcript.
fn told(entry: &Entry) -> Vec<String> {
    let who = if entry.info.as_user().is_some() { "Person" } else { "Assistant" };
    let mut lines = Vec::new();
    for part in &entry.parts {
        match &part.kind {
            PartKind::Text(text) if !text.ignored && !text.text.is_empty() => {
                lines.push(format!("[{who}] {}", text.text));
            }
            PartKind::Reasoning(thought) if !thought.text.is_empty() => {
                lines.push(format!("[Assistant, thinking] {}", thought.text));
            }
            PartKind::File(file) => {
                lines.push(format!("[{who} attached {} {}]", file.mime, file.filename.as_deref().unwrap_or("")));
            }
            PartKind::Subtask(task) => lines.push(format!("[Person, to the subagent {}] {}", task.agent, task.prompt)),
            PartKind::Tool(tool) => {
                lines.push(format!("[Call] {} {}", tool.tool, tool.state.input()));
                lines.extend(match &tool.state {
                    ToolState::Completed { time, .. } if time.compacted.is_some() => None,
                    ToolState::Completed { output, .. } => Some(format!("[Result] {}", cut(output, RESULT_BYTES))),
                    ToolState::Error { error, .. } => Some(format!("[Failed] {}", cut(error, RESULT_BYTES))),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests;
