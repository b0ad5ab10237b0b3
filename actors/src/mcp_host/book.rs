//! Writes children down with the service's other processes, so that the next one ends what this one left.

use std::sync::Arc;

use mcp::Ledger;
use protocol::SessionId;
use storage::journal::ProcessRow;
use storage::{Change, Journal, Origin, Record};
use tools::process::{ProcessGroup, RecordedGroup};

/// Writes children down with the service's other processes.
pub(super) struct Book {
    pub(super) journal: Journal,
    pub(super) origin: Arc<Origin>,
}

impl Book {
    fn write(&self, group: ProcessGroup, change: impl Fn(ProcessRow) -> Change) {
        // They belong to no session; the column wants a name.
        let Ok(session_id) = SessionId::parse("ses_mcp") else { return };
        let RecordedGroup { boot_id, started, .. } = RecordedGroup::of(group);
        let row = ProcessRow { pgid: group.0, boot_id, session_id, started };
        let (origin, changes) = (self.origin.clone(), vec![change(row)]);
        self.journal.record(Record { fence: None, origin, changes, room: None }).detach();
    }
}

impl Ledger for Book {
    fn started(&self, group: ProcessGroup) {
        self.write(group, Change::ProcessStarted);
    }

    fn ended(&self, group: ProcessGroup) {
        self.write(group, Change::ProcessEnded);
    }
}
