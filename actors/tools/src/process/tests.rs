use std::os::unix::process::ExitStatusExt;
use std::sync::mpsc;
use std::time::Duration;

use pretty_assertions::assert_eq;
use tokio::io::AsyncReadExt;

use super::*;
use crate::guard::tests::{AS_GUARD, fifo, holding, listen};
use crate::testing::{FakeDesk, Noted};

const LONG: Duration = Duration::from_secs(20);

fn spec(command: &str) -> Spec {
    Spec {
        program: "bash".into(),
        args: vec!["-c".into(), command.into()],
        cwd: "/".into(),
        env: Vec::new(),
        session: session(),
        call: format!("call_{}", rand_number()),
    }
}

/// Tests run side by side, so their markers must differ.
fn rand_number() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    (u64::from(std::process::id()) << 32) + NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

fn session() -> SessionId {
    SessionId::parse(&format!("ses_{}", rand_number())).unwrap()
}

async fn whole(child: &mut Child) -> String {
    let mut text = String::new();
    child.take_output().unwrap().read_to_string(&mut text).await.unwrap();
    text
}

async fn hear(heard: mpsc::Receiver<Option<String>>) -> (mpsc::Receiver<Option<String>>, Option<String>) {
    tokio::task::spawn_blocking(move || {
        let line = heard.recv_timeout(LONG).unwrap();
        (heard, line)
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn output_and_errors_come_through_one_pipe_in_order() {
    let spec = spec("for i in 1 2 3; do echo o$i; echo e$i >&2; done; cat; readlink /proc/self/fd/0");
    let mut child = Processes::none().spawn(&Effects::stored(), spec).unwrap();
    assert_eq!(whole(&mut child).await, "o1\ne1\no2\ne2\no3\ne3\n/dev/null\n");
    assert!(child.exited().await.unwrap().success());
    assert!(child.bury());
}

#[tokio::test]
async fn a_child_has_no_terminal_and_leads_its_own_group() {
    let spec = spec("(exec 3<>/dev/tty) 2>/dev/null && echo tty || echo none; echo $$");
    let mut child = Processes::none().spawn(&Effects::stored(), spec).unwrap();
    assert_eq!(whole(&mut child).await, format!("none\n{}\n", child.group().0));
}

#[tokio::test]
async fn a_child_carries_its_markers_and_no_password_of_the_server() {
    let mut spec = spec("echo $TROUPE_CALL; env | grep -c SERVER_PASSWORD");
    spec.env.push(("OPENCODE_SERVER_PASSWORD".into(), "secret".into()));
    let call = spec.call.clone();
    let mut child = Processes::none().spawn(&Effects::stored(), spec).unwrap();
    assert_eq!(whole(&mut child).await, format!("{call}\n0\n"));
}

#[tokio::test]
async fn a_missing_program_is_an_error() {
    let spec = Spec { program: "/no/such/program".into(), ..spec("") };
    assert_eq!(Processes::none().spawn(&Effects::stored(), spec).err().unwrap().kind(), io::ErrorKind::NotFound);
}

#[tokio::test]
async fn end_terminates_the_tree_and_kills_what_does_not_go() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = fifo(dir.path());
    let heard = listen(fifo.clone());
    let stubborn = "bash -c 'trap \"\" TERM; echo up >&9; sleep 1000; sleep 1000' & sleep 1000 & \
                    setsid sh -c 'echo up >&9; sleep 1000' & wait";
    let spec = Spec { call: format!("call_{}", rand_number()), ..holding(&fifo, stubborn) };
    let mut child = Processes::none().spawn(&Effects::stored(), spec).unwrap();
    let (heard, first) = hear(heard).await;
    let (heard, second) = hear(heard).await;
    assert_eq!((first.as_deref(), second.as_deref()), (Some("up"), Some("up")));
    assert!(child.anyone_left());
    child.end(Duration::from_millis(100)).await;
    assert!(!child.anyone_left());
    assert!(child.exited().await.unwrap().signal().is_some());
    assert_eq!(hear(heard).await.1, None);
}

#[tokio::test]
async fn a_dropped_handle_kills_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = fifo(dir.path());
    let heard = listen(fifo.clone());
    let spec =
        Spec { call: format!("call_{}", rand_number()), ..holding(&fifo, "echo up >&9; sleep 1000 & sleep 1000") };
    let child = Processes::none().spawn(&Effects::stored(), spec).unwrap();
    let (heard, _) = hear(heard).await;
    drop(child);
    assert_eq!(hear(heard).await.1, None);
}

#[tokio::test]
async fn what_outlives_its_command_is_kept_by_session_until_it_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = fifo(dir.path());
    let heard = listen(fifo.clone());
    let (processes, session, desk) = (Processes::none(), session(), FakeDesk::new());
    let mut spec = Spec { call: format!("call_{}", rand_number()), ..holding(&fifo, "") };
    spec.args[1] = "(exec 9>\"$FIFO\"; echo up >&9; while :; do echo noise; done) & echo started".into();
    let mut child = processes.spawn(&Effects::stored(), spec).unwrap();
    let (heard, _) = hear(heard).await;
    assert!(child.exited().await.unwrap().success());
    assert!(child.anyone_left());
    let (group, output) = (child.group(), child.take_output());
    let left = Left { command: "loop &".into(), directory: "/".into(), started_ms: 5, said: "started\n".into() };
    let id = processes.keep(&session, left.clone(), child, output, desk.clone());
    let listed = processes.background(&session);
    assert_eq!(listed, [BackgroundProcess { id, group, left: Left { said: String::new(), ..left } }]);
    assert!(processes.background_output(&session, id, 0).unwrap().text.starts_with("started\n"));
    while !processes.background_output(&session, id, 8).unwrap().text.contains("noise") {
        tokio::task::yield_now().await;
    }
    assert!(!processes.stop(&session, BackgroundId(99)).await);
    assert!(processes.stop(&session, id).await);
    assert_eq!(processes.background(&session), []);
    assert_eq!(hear(heard).await.1, None);
    assert_eq!(desk.noted(), [Noted::Ended(group)]);
    processes.stop_all(&session).await;
}

#[tokio::test]
async fn a_background_process_that_ends_by_itself_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = fifo(dir.path());
    let (processes, session, desk) = (Processes::none(), session(), FakeDesk::new());
    // It ends when somebody reads.
    let mut spec = Spec { call: format!("call_{}", rand_number()), ..holding(&fifo, "") };
    spec.args[1] = "(echo go >\"$FIFO\") &".into();
    let mut child = processes.spawn(&Effects::stored(), spec).unwrap();
    child.exited().await.unwrap();
    let (group, output) = (child.group(), child.take_output());
    let left = Left { command: "later".into(), directory: "/".into(), started_ms: 0, said: String::new() };
    processes.keep(&session, left, child, output, desk.clone());
    assert_eq!(processes.background(&session).len(), 1);
    assert_eq!(hear(listen(fifo)).await.1.as_deref(), Some("go"));
    while desk.noted().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(desk.noted(), [Noted::Ended(group)]);
    assert_eq!(processes.background(&session), []);
}

#[tokio::test]
async fn a_guard_that_dies_is_started_again_and_knows_the_groups() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = fifo(dir.path());
    let heard = listen(fifo.clone());
    let owner = format!("data{}:1", rand_number());
    let processes = Processes::guarded(&std::env::current_exe().unwrap(), &AS_GUARD, owner, 0).unwrap();
    let spec = Spec { call: format!("call_{}", rand_number()), ..holding(&fifo, "echo up >&9; sleep 1000") };
    let child = processes.spawn(&Effects::stored(), spec).unwrap();
    let (heard, _) = hear(heard).await;
    let (guard, _) = processes.shared.line.guard();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(guard), nix::sys::signal::Signal::SIGKILL).unwrap();
    while processes.shared.line.guard().1 < 2 {
        tokio::task::yield_now().await;
    }
    // As if the service died: no handle ends the child, only the closing line does.
    std::mem::forget(child);
    processes.shared.line.hang_up();
    assert_eq!(hear(heard).await.1, None);
}

#[tokio::test]
async fn a_child_that_finds_the_guard_dead_is_started_under_a_new_one() {
    let owner = format!("data{}:1", rand_number());
    let processes = Processes::guarded(&std::env::current_exe().unwrap(), &AS_GUARD, owner, 0).unwrap();
    processes.shared.line.deafen();
    let mut child = processes.spawn(&Effects::stored(), spec("echo ran")).unwrap();
    assert_eq!(whole(&mut child).await, "ran\n");
    assert_eq!(processes.shared.line.guard().1, 2);
}
