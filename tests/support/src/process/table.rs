//! What runs on the machine.

use std::time::Duration;

/// Returns the ids of the processes whose command line holds `needle`, the test's own left out.
pub fn alive(needle: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let holds = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        words.join(" ").contains(needle)
    };
    pids.filter(|pid| *pid != own).filter(holds).collect()
}

/// Waits until no process has `needle` in its command line. Nothing tells a test that a stranger's process has ended,
/// so this one looks again and again.
pub async fn until_gone(needle: &str, limit: Duration) {
    let gone = until(needle, limit, |found| found.is_empty()).await;
    assert!(gone, "after {limit:?} processes {:?} with {needle:?} are alive", alive(needle));
}

/// Waits until a process has `needle` in its command line, as [`until_gone`].
pub async fn until_alive(needle: &str, limit: Duration) {
    let come = until(needle, limit, |found| !found.is_empty()).await;
    assert!(come, "after {limit:?} no process with {needle:?} is alive");
}

async fn until(needle: &str, limit: Duration, wanted: impl Fn(&[i32]) -> bool) -> bool {
    let waiting = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        while !wanted(&alive(needle)) {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(limit, waiting).await.is_ok()
}
