//! The line: who goes first, who may pass, who is told.

use futures::{FutureExt, poll};
use pretty_assertions::assert_eq;

use super::*;

fn visitor(tree: &str, limits: LimitsConfig) -> Visitor {
    let tree = SessionId::parse(&format!("ses_{tree}")).expect("an id");
    let (provider, longest) = ("mock".into(), Duration::from_secs(60));
    Visitor { provider, account: "mock".into(), model: "m".into(), tree, limits, longest, since: Instant::now() }
}

fn at_most(requests: u32) -> LimitsConfig {
    LimitsConfig { requests, ..LimitsConfig::default() }
}

fn gate() -> Gate {
    Gate::new(ProviderGate::default().start())
}

async fn enter(gate: &Gate, visitor: Visitor) -> Place {
    gate.enter(visitor, |_| {}).await.expect("a place")
}

/// What a vendor says that wants a pause.
fn refusal(pause: Duration) -> Refusal {
    let error = ProviderError::new(providers::ErrorClass::Retryable, "slow down");
    Refusal { error, after: Some(pause) }
}

/// Asks for a place, and is told to come back later.
async fn be_refused(gate: &Gate, pause: Duration) {
    let mut place = enter(gate, visitor("refused", LimitsConfig::default())).await;
    place.refused = Some(refusal(pause));
}

/// Takes a place in the line; the gate may not have seen it yet.
async fn wait<'a>(gate: &'a Gate, visitor: Visitor) -> impl Future<Output = Place> + Unpin + 'a {
    let mut entered = enter(gate, visitor).boxed_local();
    assert!(poll!(&mut entered).is_pending());
    entered
}

#[actix::test]
async fn who_came_first_goes_first() {
    let gate = gate();
    let first = enter(&gate, visitor("a", at_most(1))).await;
    let (old, new) = (visitor("old", at_most(1)), visitor("new", at_most(1)));
    // The older one comes back to its place before the newer one.
    let (mut new, old) = (wait(&gate, new).await, wait(&gate, old).await);

    drop(first);

    let old = old.await;
    assert!(poll!(&mut new).is_pending());
    drop(old);
    new.await;
}

#[actix::test]
async fn one_whose_tree_has_enough_lets_others_pass() {
    let gate = gate();
    let limits = LimitsConfig { requests_per_tree: 1, ..LimitsConfig::default() };
    let first = enter(&gate, visitor("a", limits)).await;
    let mut second = wait(&gate, visitor("a", limits)).await;
    enter(&gate, visitor("b", limits)).await;
    assert!(poll!(&mut second).is_pending());
    drop(first);
    second.await;
}

#[actix::test]
async fn who_does_not_wait_any_more_takes_no_place() {
    let gate = gate();
    let first = enter(&gate, visitor("a", at_most(1))).await;
    drop(wait(&gate, visitor("gone", at_most(1))).await);
    drop(first);
    enter(&gate, visitor("b", at_most(1))).await;
}

#[actix::test]
async fn a_refusal_holds_back_all_of_its_account_and_model_and_nobody_else() {
    let gate = gate();
    be_refused(&gate, Duration::from_millis(20)).await;
    let mut same = wait(&gate, visitor("b", LimitsConfig::default())).await;
    for (account, model) in [("other", "m"), ("mock", "other")] {
        let other = visitor("b", LimitsConfig::default());
        drop(enter(&gate, Visitor { account: account.into(), model: model.into(), ..other }).await);
    }
    assert!(poll!(&mut same).is_pending());
    // It opens again by itself.
    same.await;
}

#[actix::test]
async fn who_waits_for_a_pause_is_told_why_and_until_when() {
    let gate = gate();
    be_refused(&gate, Duration::from_secs(50)).await;
    let begun = Instant::now();
    let (told, mut waits) = tokio::sync::mpsc::unbounded_channel();
    let entered =
        gate.enter(visitor("b", LimitsConfig::default()), |wait| told.send(wait).expect("a listener")).map(drop);
    tokio::select! {
        () = entered => panic!("there is a pause"),
        wait = waits.recv() => {
            let Some(Wait::Pause { reason, until }) = wait else { panic!("{wait:?}") };
            assert_eq!(reason, "slow down");
            let left = until - begun;
            assert!(left > Duration::from_secs(40) && left < Duration::from_secs(51), "{left:?}");
        }
    }
}

#[actix::test]
async fn who_would_wait_too_long_is_refused_also_when_it_is_in_the_line_already() {
    let gate = gate();
    let limits = at_most(1);
    let mut first = enter(&gate, visitor("a", limits)).await;
    let hasty = Visitor { longest: Duration::from_secs(1), ..visitor("b", limits) };
    let mut waits = gate.enter(hasty.clone(), |_| {}).boxed_local();
    assert!(poll!(&mut waits).is_pending());
    let mut patient = wait(&gate, visitor("c", limits)).await;

    first.refused = Some(refusal(Duration::from_secs(50)));
    drop(first);

    assert_eq!(waits.await.expect_err("a refusal").to_string(), "slow down");
    assert_eq!(gate.enter(hasty, |_| {}).await.expect_err("a refusal").to_string(), "slow down");
    assert!(poll!(&mut patient).is_pending());
}

#[actix::test]
async fn who_waits_long_is_told_where_it_stands() {
    let gate = gate();
    let _first = enter(&gate, visitor("a", at_most(1))).await;
    let _second = wait(&gate, visitor("b", at_most(1))).await;
    let (told, mut positions) = tokio::sync::mpsc::unbounded_channel();
    tokio::time::pause();
    let third = gate.enter(visitor("c", at_most(1)), |wait| told.send(wait).expect("a listener")).map(drop);
    let position = positions.recv();
    tokio::select! {
        () = third => panic!("there is no place"),
        position = position => assert_eq!(position, Some(Wait::Turn(2))),
    }
}
