//! Who is alive: the kernel's list of processes. Linux tells all of it in `/proc`; elsewhere only groups are seen.

use crate::process::ProcessGroup;

/// A living process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Living {
    /// Its id.
    pub pid: i32,
    /// Its group.
    pub group: i32,
    /// When it started, in ticks since the machine did. Tells it from a later process of the same id.
    pub start: u64,
}

/// Returns when a process started, in ticks since the machine did; none when it is gone, or the system can't tell.
pub fn start_time(pid: i32) -> Option<u64> {
    linux::status(pid).map(|(living, _)| living.start)
}

/// Returns an id of this run of the machine's kernel; empty where the system has none.
pub fn boot_id() -> String {
    linux::boot_id()
}

/// Returns the living members of a group. Where the system can't tell them: one entry if there are any.
pub(crate) fn members(group: ProcessGroup) -> Vec<Living> {
    if !group.exists() {
        return Vec::new();
    }
    if cfg!(target_os = "linux") {
        return linux::all().filter(|p| p.group == group.0).collect();
    }
    vec![Living { pid: group.0, group: group.0, start: 0 }]
}

/// Returns the living processes whose environment began with this variable at this value; none where the system
/// can't tell.
pub(crate) fn marked(name: &str, value: &str) -> Vec<Living> {
    let entry = format!("{name}={value}");
    linux::all().filter(|p| linux::environment(p.pid).split(|b| *b == 0).any(|e| e == entry.as_bytes())).collect()
}

/// Returns the value of a variable as a process was started with it.
pub(crate) fn variable(pid: i32, name: &str) -> Option<String> {
    let environment = linux::environment(pid);
    let value = environment.split(|b| *b == 0).find_map(|entry| {
        let rest = entry.strip_prefix(name.as_bytes())?;
        rest.strip_prefix(b"=")
    })?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// A group and what strayed from it, looked at again and again at little cost.
#[derive(Debug)]
pub(crate) struct Watch {
    group: ProcessGroup,
    call: String,
    /// Who was alive at the last look.
    known: Vec<Living>,
}

impl Watch {
    pub(crate) fn new(group: ProcessGroup, call: impl Into<String>) -> Self {
        Self { group, call: call.into(), known: Vec::new() }
    }

    /// Returns whether anybody of the group or the call is alive. Reads the whole process list only when nobody is
    /// left of those known before.
    pub(crate) fn anyone(&mut self) -> bool {
        if !cfg!(target_os = "linux") {
            return self.group.exists();
        }
        let still = |was: &Living| linux::status(was.pid).is_some_and(|(now, dead)| !dead && now.start == was.start);
        if self.known.iter().any(still) {
            return true;
        }
        self.known = members(self.group);
        self.known.extend(marked(super::CALL, &self.call));
        !self.known.is_empty()
    }
}

mod linux {
    //! `/proc`, see proc(5). On other systems the files are missing and everything is empty.

    use std::fs;

    use super::Living;

    /// Returns all living processes (not those dead and not yet waited for).
    pub(super) fn all() -> impl Iterator<Item = Living> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .filter_map(|pid| status(pid).filter(|(_, dead)| !dead).map(|(living, _)| living))
    }

    /// Returns a process and whether it is dead.
    pub(super) fn status(pid: i32) -> Option<(Living, bool)> {
        parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    pub(super) fn parse(pid: i32, stat: &str) -> Option<(Living, bool)> {
        // The second field is the name in brackets and may hold anything.
        let rest = stat.get(stat.rfind(')')? + 1..)?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let dead = matches!(*fields.first()?, "Z" | "X" | "x");
        let group = fields.get(2)?.parse().ok()?;
        let start = fields.get(19)?.parse().ok()?;
        Some((Living { pid, group, start }, dead))
    }

    pub(super) fn environment(pid: i32) -> Vec<u8> {
        fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
    }

    pub(super) fn boot_id() -> String {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_status_line_is_read_past_a_name_with_brackets() {
        let line = "42 (a) b (c)) S 1 40 40 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0";
        assert_eq!(linux::parse(42, line), Some((Living { pid: 42, group: 40, start: 777 }, false)));
        assert_eq!(linux::parse(42, "42 (x) Z 1 40"), None);
        assert_eq!(linux::parse(42, ""), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_alive_and_has_a_start_time() {
        let me = std::process::id() as i32;
        assert!(start_time(me).is_some());
        assert!(linux::all().any(|p| p.pid == me));
        assert!(!boot_id().is_empty());
        assert_eq!(start_time(i32::MAX), None);
    }

    #[test]
    fn the_groups_zero_and_one_are_never_signalled() {
        for group in [ProcessGroup(0), ProcessGroup(1), ProcessGroup(-1)] {
            assert!(!group.exists());
            assert!(members(group).is_empty());
        }
    }
}
