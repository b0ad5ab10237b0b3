//! The line: who goes first, who may pass, who is told.

use futures::{FutureExt, poll};
use pretty_assertions::assert_eq;

use super::*;

fn visitor(tree: &str, limits: LimitsConfig) -> Visitor {
    let tree = SessionId::parse(&format!("ses_{tree}")).expect("an id");
    Visitor { provider: "mock".into(), account: "mock".into(), tree, limits, since: Instant::now() }
}

fn at_most(requests: u32) -> LimitsConfig {
    LimitsConfig { requests, ..LimitsConfig::default() }
}

fn gate() -> Gate {
    Gate::new(ProviderGate::default().start())
}

/// Takes a place in the line; the gate may not have seen it yet.
async fn wait<'a>(gate: &'a Gate, visitor: Visitor) -> impl Future<Output = Place> + Unpin + 'a {
    let mut entered = gate.enter(visitor, |_| {}).boxed_local();
    assert!(poll!(&mut entered).is_pending());
    entered
}

#[actix::test]
async fn who_came_first_goes_first() {
    let gate = gate();
    let first = gate.enter(visitor("a", at_most(1)), |_| {}).await;
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
    let first = gate.enter(visitor("a", limits), |_| {}).await;
    let mut second = wait(&gate, visitor("a", limits)).await;
    gate.enter(visitor("b", limits), |_| {}).await;
    assert!(poll!(&mut second).is_pending());
    drop(first);
    second.await;
}

#[actix::test]
async fn who_does_not_wait_any_more_takes_no_place() {
    let gate = gate();
    let first = gate.enter(visitor("a", at_most(1)), |_| {}).await;
    drop(wait(&gate, visitor("gone", at_most(1))).await);
    drop(first);
    gate.enter(visitor("b", at_most(1)), |_| {}).await;
}

#[actix::test]
async fn a_refusal_holds_back_all_of_its_account_and_nobody_else() {
    let gate = gate();
    let mut place = gate.enter(visitor("a", LimitsConfig::default()), |_| {}).await;
    place.refused = Some(Refusal { after: Some(Duration::from_millis(20)) });
    drop(place);
    let mut same = wait(&gate, visitor("b", LimitsConfig::default())).await;
    let other = Visitor { account: "other".into(), ..visitor("b", LimitsConfig::default()) };
    gate.enter(other, |_| {}).await;
    assert!(poll!(&mut same).is_pending());
    // It opens again by itself.
    same.await;
}

#[actix::test]
async fn who_waits_long_is_told_where_it_stands() {
    let gate = gate();
    let _first = gate.enter(visitor("a", at_most(1)), |_| {}).await;
    let _second = wait(&gate, visitor("b", at_most(1))).await;
    let (told, mut positions) = tokio::sync::mpsc::unbounded_channel();
    tokio::time::pause();
    let third = gate.enter(visitor("c", at_most(1)), |at| told.send(at).expect("a listener")).map(drop);
    let position = positions.recv();
    tokio::select! {
        () = third => panic!("there is no place"),
        position = position => assert_eq!(position, Some(2)),
    }
}
