//! The second line: ending what a former run of the service recorded and nobody ended.

use nix::sys::signal::Signal;

use super::census::{self, Living};
use super::group::ProcessGroup;
use super::{OWNER, boot_id, start_time};

/// A process group as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedGroup {
    /// The group.
    pub group: ProcessGroup,
    /// The kernel's [`boot_id`] then.
    pub boot_id: String,
    /// The leader's [`start_time`].
    pub started: u64,
}

impl RecordedGroup {
    /// Returns what to record of a group that was just started.
    pub fn of(group: ProcessGroup) -> Self {
        Self { group, boot_id: boot_id(), started: start_time(group.0).unwrap_or_default() }
    }
}

/// Kills at once the recorded groups that are still ours, and returns them. All others are somebody else's by now
/// and are left alone; the rows of both can go.
///
/// `data_dir` is the data directory's id, the part of the owner before the colon.
pub fn reap(groups: &[RecordedGroup], data_dir: &str) -> Vec<ProcessGroup> {
    let boot = boot_id();
    let mut killed = Vec::new();
    for row in groups {
        let members: Vec<Member> = census::members(row.group).iter().map(Member::of).collect();
        if is_ours(row, &boot, data_dir, &members) && row.group.signal(Signal::SIGKILL) {
            killed.push(row.group);
        }
    }
    killed
}

/// A living member of a group.
#[derive(Clone, Debug)]
struct Member {
    /// In ticks since the machine started.
    start: u64,
    /// The value of [`OWNER`] in its environment.
    owner: Option<String>,
}

impl Member {
    fn of(living: &Living) -> Self {
        Self { start: living.start, owner: census::variable(living.pid, OWNER) }
    }
}

/// Returns whether a group is still the one that was recorded: same run of the kernel, and a living member carries
/// this data directory's marker and is not older than the row. After a reboot the number may be the person's editor.
fn is_ours(row: &RecordedGroup, boot: &str, data_dir: &str, members: &[Member]) -> bool {
    let carries = |member: &Member| {
        let owner = member.owner.as_deref().and_then(|owner| owner.split_once(':'));
        owner.is_some_and(|(of, _)| of == data_dir && !of.is_empty())
    };
    !boot.is_empty() && row.boot_id == boot && members.iter().any(|m| m.start >= row.started && carries(m))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> RecordedGroup {
        RecordedGroup { group: ProcessGroup(500), boot_id: "boot".into(), started: 100 }
    }

    fn member(start: u64, owner: &str) -> Member {
        Member { start, owner: Some(owner.into()) }
    }

    #[test]
    fn a_group_of_this_boot_with_our_marker_is_ours() {
        assert!(is_ours(&row(), "boot", "data", &[member(100, "data:1")]));
        assert!(is_ours(&row(), "boot", "data", &[member(50, "data:1"), member(180, "data:2")]));
    }

    #[test]
    fn anything_else_is_not() {
        assert!(!is_ours(&row(), "later", "data", &[member(100, "data:1")]), "another boot of the machine");
        assert!(!is_ours(&row(), "", "data", &[member(100, "data:1")]), "a machine without boot ids");
        assert!(!is_ours(&row(), "boot", "data", &[member(99, "data:1")]), "older than the row");
        assert!(!is_ours(&row(), "boot", "data", &[member(100, "data2:1")]), "another data directory");
        assert!(!is_ours(&row(), "boot", "data", &[Member { start: 100, owner: None }]), "no marker");
        assert!(!is_ours(&row(), "boot", "", &[member(100, ":1")]), "no data directory");
        assert!(!is_ours(&row(), "boot", "data", &[]), "nobody left");
    }
}
