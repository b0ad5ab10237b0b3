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
    let waiting = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        while !alive(needle).is_empty() {
            ticks.tick().await;
        }
    };
    let gone = tokio::time::timeout(limit, waiting).await.is_ok();
    assert!(gone, "after {limit:?} processes {:?} with {needle:?} are alive", alive(needle));
}
