use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use protocol::SessionId;

use super::*;
use crate::context::Effects;
use crate::process::{Processes, Spec};

/// Arguments that make this test program a guard.
pub(crate) const AS_GUARD: [&str; 3] = ["guard::tests::plays_the_guard", "--exact", "--nocapture"];

const AS_SERVICE: [&str; 3] = ["guard::tests::plays_the_service", "--exact", "--nocapture"];

#[test]
fn plays_the_guard() {
    if std::env::var_os(OWNER_OF_GUARD).is_some() {
        run().unwrap();
    }
}

/// A service with three children: a plain one, one with a background process, one that leaves its group. It waits to
/// be killed.
#[test]
fn plays_the_service() {
    let Some(fifo) = std::env::var_os("TROUPE_TEST_FIFO") else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let processes = Processes::guarded(&std::env::current_exe().unwrap(), &AS_GUARD, "data:7".into(), 0).unwrap();
        let mut children = Vec::new();
        for command in [
            "echo up >&9; sleep 1000",
            "echo up >&9; sleep 1000 & sleep 1000 & wait",
            "setsid sh -c 'echo up >&9; trap : TERM INT HUP; sleep 1000; sleep 1000' & exit 0",
        ] {
            children.push(processes.spawn(&Effects::stored(), holding(fifo.as_ref(), command)).unwrap());
        }
        std::future::pending::<()>().await;
    });
}

/// Returns a child that keeps `fifo` open for writing, with all that comes from it.
pub(crate) fn holding(fifo: &Path, command: &str) -> Spec {
    Spec {
        program: "bash".into(),
        args: vec!["-c".into(), format!("exec 9>\"$FIFO\"; {command}").into()],
        cwd: "/".into(),
        env: vec![("FIFO".into(), fifo.into())],
        session: SessionId::parse("ses_guard").unwrap(),
        call: "call_guard".into(),
    }
}

/// Returns a new named pipe in `dir`.
pub(crate) fn fifo(dir: &Path) -> PathBuf {
    let path = dir.join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    path
}

/// Reads a named pipe in a thread: each line as it comes, then `None` when nobody holds it open any more.
pub(crate) fn listen(fifo: PathBuf) -> mpsc::Receiver<Option<String>> {
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(File::open(fifo).unwrap()).lines() {
            tx.send(Some(line.unwrap())).unwrap();
        }
        let _ = tx.send(None);
    });
    rx
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn nothing_of_a_killed_service_is_left_a_second_later() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = fifo(dir.path());
    let mut service = Command::new(std::env::current_exe().unwrap())
        .args(AS_SERVICE)
        .env("TROUPE_TEST_FIFO", &fifo)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let heard = listen(fifo);
    for _ in 0..3 {
        assert_eq!(heard.recv_timeout(LONG).unwrap().as_deref(), Some("up"));
    }
    service.kill().unwrap();
    let killed = Instant::now();
    service.wait().unwrap();
    assert_eq!(heard.recv_timeout(LONG).unwrap(), None);
    assert!(killed.elapsed() < Duration::from_secs(1), "{:?}", killed.elapsed());
}

#[test]
fn the_guard_survives_the_signals_of_the_terminal_and_ends_with_the_service() {
    let mut guard = Command::new(std::env::current_exe().unwrap())
        .args(AS_GUARD)
        .env(OWNER_OF_GUARD, "nobody:0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(guard.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("running") {
        line.clear();
        output.read_line(&mut line).unwrap();
    }
    // It reads only after it has ignored the signals: once its end of the pipe is empty, it does.
    let mut stdin = guard.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, &[0; Record::SIZE]).unwrap();
    while unread(&stdin) > 0 {
        std::thread::yield_now();
    }
    for it in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGTERM, Signal::SIGTSTP] {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(guard.id() as i32), it).unwrap();
    }
    assert_eq!(guard.try_wait().unwrap(), None);
    drop(stdin);
    assert!(guard.wait().unwrap().success());
    output.read_to_string(&mut line).unwrap();
}

fn unread(pipe: &impl std::os::fd::AsRawFd) -> i32 {
    let mut bytes = 0;
    // SAFETY: the call writes one number where we say.
    assert_eq!(unsafe { nix::libc::ioctl(pipe.as_raw_fd(), nix::libc::FIONREAD, &mut bytes) }, 0);
    bytes
}

#[test]
fn the_book_holds_what_has_not_ended() {
    let mut book = Book::default();
    let said: Vec<u8> = [
        Record::Started(ProcessGroup(2_000_001)),
        Record::Started(ProcessGroup(2_000_002)),
        Record::Ended(ProcessGroup(2_000_001)),
        Record::Started(ProcessGroup(2_000_002)),
    ]
    .into_iter()
    .flat_map(Record::to_bytes)
    .chain([b's', 0, 0])
    .collect();
    book.read(said.as_slice());
    assert_eq!(book.groups, HashMap::from([(ProcessGroup(2_000_002), None)]));
}

#[test]
#[cfg(target_os = "linux")]
fn a_group_whose_number_went_to_a_younger_process_is_left_alone() {
    let me = std::process::id() as i32;
    assert!(!is_another(ProcessGroup(me), start_time(me)));
    assert!(is_another(ProcessGroup(me), Some(1)));
    assert!(!is_another(ProcessGroup(me), None));
}
