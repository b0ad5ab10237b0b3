//! Marks of what the vendor's cache keeps: the system texts' ends, and the ends of the last two messages. Four in all,
//! as many as the vendor takes.

use super::wire::{Block, CacheControl, Kind};

/// Marks the first and the last system text.
pub(super) fn mark_system(system: &mut [Block<'_>]) {
    if let [first, ..] = system {
        first.cache_control = Some(CacheControl::Ephemeral);
    }
    if let [.., last] = system {
        last.cache_control = Some(CacheControl::Ephemeral);
    }
}

/// Marks the last block that may bear a mark: thinking may not.
pub(super) fn mark(content: &mut [Block<'_>]) {
    let may = |block: &&mut Block<'_>| !matches!(block.kind, Kind::Thinking { .. } | Kind::RedactedThinking { .. });
    if let Some(block) = content.iter_mut().rfind(may) {
        block.cache_control = Some(CacheControl::Ephemeral);
    }
}
