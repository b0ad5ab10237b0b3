use std::collections::HashSet;

use futures::future::BoxFuture;
use pretty_assertions::assert_eq;
use protocol::config::{Damaged, Durability};
use protocol::permission::{Reply, Scope};
use protocol::{JsonMap, Session as Info, SystemClock};
use serde_json::json;
use storage::{Database, Frame, Sink};
use tokio::sync::mpsc;

use super::*;

/// Tells what kinds of events come.
struct Told(mpsc::UnboundedSender<String>);

impl Sink for Told {
    fn publish(&self, frames: Vec<Frame>) -> BoxFuture<'_, ()> {
        for frame in frames {
            let _ = self.0.send(frame.kind.to_owned());
        }
        Box::pin(async {})
    }
}

struct World {
    _root: tempfile::TempDir,
    database: Database,
    journal: Journal,
    ids: Arc<Ids>,
    broker: Addr<PermissionBroker>,
    told: mpsc::UnboundedReceiver<String>,
    calls: u32,
}

impl World {
    async fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("troupe.db");
        let database = Database::open(&path, Durability::Normal, Damaged::Salvage, 0).await.expect("a database");
        let ids = Arc::new(Ids::new(Arc::new(SystemClock), 0));
        let (sender, told) = mpsc::unbounded_channel();
        let sink = Arc::new(Told(sender));
        let journal = Journal::start(&database, sink, ids.clone(), Arc::new(SystemClock)).await.expect("a journal");
        let broker = broker(&journal, &database, &ids);
        Self { _root: root, database, journal, ids, broker, told, calls: 0 }
    }

    /// A new life of the broker, as after a crash of the service.
    fn restart(&mut self) {
        self.broker = broker(&self.journal, &self.database, &self.ids);
    }

    async fn session(&self, project: &str) -> (Fence, Arc<Origin>) {
        let id = self.ids.session();
        let fence = self.journal.fence(&id);
        let info: Info = serde_json::from_value(json!({
            "id": id, "slug": "s", "projectID": project, "directory": "/work", "title": "t", "version": "1",
            "time": { "created": 1, "updated": 1 },
        }))
        .expect("a session");
        let origin = Arc::new(Origin { directory: "/work".into(), project: project.into() });
        let changes = vec![Change::SessionCreated(Arc::new(info))];
        let record = Record { fence: Some(fence.clone()), origin: origin.clone(), changes, room: None };
        self.journal.record(record).await.expect("stored");
        (fence, origin)
    }

    fn asker(&mut self, session: &(Fence, Arc<Origin>), agent: &str, rules: &[Rule]) -> Asker {
        self.calls += 1;
        Asker {
            fence: session.0.clone(),
            origin: session.1.clone(),
            ancestors: Arc::from([]),
            agent: agent.into(),
            rules: rules.into(),
            message_id: self.ids.message(),
            call_id: CallId::new(format!("call_{}", self.calls)),
            plugins: plugins::Plugins::none(),
        }
    }

    async fn ask(&self, asker: &Asker, pattern: &str) -> oneshot::Receiver<Result<(), Refusal>> {
        let (answer, verdict) = oneshot::channel();
        let always = vec![format!("{} *", pattern.split(' ').next().unwrap_or_default())];
        let ask = tools::Ask::new("bash", vec![pattern.into()], always, JsonMap::new());
        let message = Ask { asker: asker.clone(), ask, names_call: true, answer };
        self.broker.send(message).await.expect("a broker");
        verdict
    }

    async fn waiting(&self) -> Vec<String> {
        let waiting = self.broker.send(ListWaiting).await.expect("a broker");
        waiting.permissions.iter().map(|(request, _)| request.id.to_string()).collect()
    }

    async fn reply(&self, id: &str, reply: Reply, message: Option<&str>, scope: Scope) -> Result<(), ReplyError> {
        let message = message.map(str::to_owned);
        self.broker.send(ReplyPermission { id: id.into(), reply, message, scope }).await.expect("a broker")
    }

    async fn told(&mut self, kind: &str) {
        while self.told.recv().await.as_deref() != Some(kind) {}
    }
}

fn broker(journal: &Journal, database: &Database, ids: &Arc<Ids>) -> Addr<PermissionBroker> {
    PermissionBroker::new(journal.clone(), Store::new(database), ids.clone(), Arc::new(SystemClock)).start()
}

fn asks() -> [Rule; 2] {
    [Rule::new("*", "*", Action::Ask), Rule::new("bash", "rm *", Action::Deny)]
}

#[actix::test]
async fn rules_decide_at_once_and_a_denial_names_its_rule() {
    let mut world = World::new().await;
    let session = world.session("p").await;
    let rules = [Rule::new("bash", "*", Action::Allow), Rule::new("bash", "rm *", Action::Deny)];
    let asker = world.asker(&session, "build", &rules);
    assert_eq!(world.ask(&asker, "ls").await.await, Ok(Ok(())));
    let Ok(Err(refusal)) = world.ask(&asker, "rm -rf x").await.await else { panic!("not denied") };
    let text = refusal.to_string();
    assert!(text.contains("rm *") && text.contains("rm -rf x"), "{text}");
    assert!(world.waiting().await.is_empty());
}

#[actix::test]
async fn a_reply_reaches_the_asker_after_it_is_stored_and_a_second_one_is_a_conflict() {
    let mut world = World::new().await;
    let session = world.session("p").await;
    let asker = world.asker(&session, "build", &asks());
    let verdict = world.ask(&asker, "ls").await;
    world.told("permission.asked").await;
    let id = world.waiting().await.remove(0);
    world.reply(&id, Reply::Once, None, Scope::Session).await.expect("taken");
    assert_eq!(verdict.await, Ok(Ok(())));
    let stored = Store::new(&world.database).asks().await.expect("read");
    assert!(matches!(&stored[0].0, AskRow::Permission { reply: Some((Reply::Once, None)), .. }));
    assert_eq!(world.reply(&id, Reply::Once, None, Scope::Session).await, Err(ReplyError::Answered(id)));
    let unknown = world.reply("per_x", Reply::Once, None, Scope::Session).await;
    assert_eq!(unknown, Err(ReplyError::NotFound("per_x".into())));
}

#[actix::test]
async fn what_is_shown_as_waiting_is_stored() {
    let mut world = World::new().await;
    let session = world.session("p").await;
    let store = Store::new(&world.database);
    for count in 1..=20 {
        let asker = world.asker(&session, "build", &asks());
        let _verdict = world.ask(&asker, "ls").await;
        assert_eq!(world.waiting().await.len(), count);
        assert_eq!(store.asks().await.expect("read").len(), count);
    }
}

#[actix::test]
async fn always_releases_what_it_now_allows_in_the_session_and_nobody_else() {
    let mut world = World::new().await;
    let (one, two) = (world.session("p").await, world.session("p").await);
    let mut verdicts = Vec::new();
    for (session, pattern) in [(&one, "git push"), (&one, "git pull"), (&one, "make"), (&two, "git push")] {
        let asker = world.asker(session, "build", &asks());
        verdicts.push(world.ask(&asker, pattern).await);
    }
    let ids = world.waiting().await;
    world.reply(&ids[0], Reply::Always, None, Scope::Session).await.expect("taken");
    assert_eq!(world.waiting().await, ids[2..], "make, and the other session, still wait");
    assert_eq!(verdicts.remove(0).await, Ok(Ok(())));
    assert_eq!(verdicts.remove(0).await, Ok(Ok(())));
    let later = world.asker(&one, "build", &asks());
    assert_eq!(world.ask(&later, "git log").await.await, Ok(Ok(())));
}

#[actix::test]
async fn an_approval_holds_for_its_agent_never_beats_a_deny_and_can_be_taken_back() {
    let mut world = World::new().await;
    let session = world.session("p").await;
    let asker = world.asker(&session, "build", &asks());
    let verdict = world.ask(&asker, "rmdir x").await;
    let id = world.waiting().await.remove(0);
    world.reply(&id, Reply::Always, None, Scope::Project).await.expect("taken");
    assert_eq!(verdict.await, Ok(Ok(())));
    let denied = [Rule::new("*", "*", Action::Ask), Rule::new("bash", "*", Action::Deny)];
    let strict = world.asker(&session, "build", &denied);
    assert!(matches!(world.ask(&strict, "rmdir y").await.await, Ok(Err(Refusal::Denied { .. }))));
    let plan = world.asker(&session, "plan", &asks());
    let _waits = world.ask(&plan, "rmdir z").await;
    world.told("permission.asked").await;
    world.told("permission.asked").await;
    assert_eq!(world.waiting().await.len(), 1, "another agent asks");

    world.restart();
    let other = world.session("p").await;
    let build = world.asker(&other, "build", &asks());
    assert_eq!(world.ask(&build, "rmdir y").await.await, Ok(Ok(())), "the project's approvals survive");
    let approvals = world.broker.send(ListApprovals).await.expect("a broker");
    assert_eq!(approvals.len(), 1);
    assert_eq!(world.broker.send(RemoveApproval(approvals[0].id.clone())).await.expect("a broker"), Ok(true));
    let again = world.asker(&other, "build", &asks());
    let _waits = world.ask(&again, "rmdir y").await;
    assert_eq!(world.waiting().await.len(), 2, "it is asked again at once");
}

#[actix::test]
async fn reject_takes_all_of_the_session_along_and_feedback_speaks_of_one() {
    let mut world = World::new().await;
    let (one, two) = (world.session("p").await, world.session("p").await);
    let mut verdicts = Vec::new();
    for session in [&one, &one, &two] {
        let asker = world.asker(session, "build", &asks());
        verdicts.push(world.ask(&asker, "ls").await);
    }
    let ids = world.waiting().await;
    world.reply(&ids[1], Reply::Reject, Some("use find"), Scope::Session).await.expect("taken");
    assert_eq!(verdicts.remove(1).await, Ok(Err(Refusal::Corrected("use find".into()))));
    assert_eq!(verdicts.remove(0).await, Ok(Err(Refusal::Rejected)));
    assert_eq!(world.waiting().await, ids[2..]);
}

#[actix::test]
async fn a_request_outlives_its_asker_and_the_service_under_its_id() {
    let mut world = World::new().await;
    let session = world.session("p").await;
    let (waits, replied) = (world.asker(&session, "build", &asks()), world.asker(&session, "build", &asks()));
    drop(world.ask(&waits, "ls").await);
    drop(world.ask(&replied, "pwd").await);
    world.told("permission.asked").await;
    world.told("permission.asked").await;
    let ids = world.waiting().await;
    assert_eq!(ids.len(), 2);
    world.restart();
    assert_eq!(world.waiting().await, ids, "listed before anybody asks again");
    world.reply(&ids[1], Reply::Once, None, Scope::Session).await.expect("taken without an asker");
    assert_eq!(world.ask(&replied, "pwd").await.await, Ok(Ok(())), "nobody is asked twice");
    let verdict = world.ask(&waits, "ls").await;
    assert_eq!(world.waiting().await, ids[..1]);
    world.reply(&ids[0], Reply::Once, None, Scope::Session).await.expect("taken");
    assert_eq!(verdict.await, Ok(Ok(())));
}

#[actix::test]
async fn a_withdrawn_session_leaves_nothing_waiting_and_says_what_to_store() {
    let mut world = World::new().await;
    let session = world.session("p").await;
    let asker = world.asker(&session, "build", &asks());
    let verdict = world.ask(&asker, "ls").await;
    world.told("permission.asked").await;
    let changes = world.broker.send(Withdraw(session.0.session_id.clone())).await.expect("a broker");
    assert!(matches!(changes.as_slice(), [Change::PermissionWithdrawn(..)]));
    assert!(verdict.await.is_err(), "nobody decided");
    assert!(world.waiting().await.is_empty());
}

#[actix::test]
async fn a_request_of_an_older_epoch_is_not_held() {
    let mut world = World::new().await;
    let session = world.session("p").await;
    let asker = world.asker(&session, "build", &asks());
    world.journal.fence(&session.0.session_id);
    let verdict = world.ask(&asker, "ls").await;
    assert!(verdict.await.is_err(), "nobody decided");
    assert!(world.waiting().await.is_empty());
}

#[actix::test]
async fn what_cannot_be_judged_asks_even_where_everything_is_allowed() {
    let mut world = World::new().await;
    let session = world.session("p").await;
    let asker = world.asker(&session, "build", &[Rule::new("*", "*", Action::Allow)]);
    let (answer, _verdict) = oneshot::channel();
    let mut ask = tools::Ask::new("bash", vec!["$X".into()], Vec::new(), JsonMap::new());
    ask.floor = Action::Ask;
    world.broker.send(Ask { asker, ask, names_call: true, answer }).await.expect("a broker");
    assert_eq!(world.waiting().await.len(), 1);
}

#[actix::test]
async fn what_is_meant_as_well_heeds_rules_that_speak_of_it_and_none_that_speaks_of_all() {
    let mut world = World::new().await;
    let session = world.session("p").await;
    let rule = |pattern: &str, action| Rule::new("bash", pattern, action);
    for (rules, wanted) in [
        (vec![rule("*", Action::Allow)], Some(true)),
        (vec![rule("*", Action::Ask), rule("uv *", Action::Allow)], Some(true)),
        (vec![rule("*", Action::Deny), rule("uv *", Action::Allow)], Some(true)),
        (vec![rule("uv *", Action::Allow)], Some(true)),
        (vec![rule("*", Action::Allow), rule("rm *", Action::Deny)], Some(false)),
        (vec![rule("*", Action::Allow), rule("rm *", Action::Ask)], None),
    ] {
        let asker = world.asker(&session, "build", &rules);
        let (answer, mut verdict) = oneshot::channel();
        let ask = tools::Ask::new("bash", vec!["uv run rm y".into()], Vec::new(), JsonMap::new());
        let ask = tools::Ask { aside: vec!["rm y".into()], ..ask };
        world.broker.send(Ask { asker, ask, names_call: true, answer }).await.expect("a broker");
        assert_eq!(verdict.try_recv().ok().map(|said| said.is_ok()), wanted, "{rules:?}");
    }
}

async fn put(world: &World, asker: &Asker, ask: tools::Ask) -> oneshot::Receiver<Result<(), Refusal>> {
    let (answer, verdict) = oneshot::channel();
    world.broker.send(Ask { asker: asker.clone(), ask, names_call: true, answer }).await.expect("a broker");
    verdict
}

#[actix::test]
async fn what_cannot_be_judged_is_allowed_for_good_as_it_stands_and_where_it_is() {
    let mut world = World::new().await;
    let session = world.session("p").await;
    let rules = [Rule::new("*", "*", Action::Allow), Rule::new("bash", "rm *", Action::Deny)];
    let asker = world.asker(&session, "build", &rules);
    let doubtful = |patterns: &[&str], exactly: Option<&str>| {
        let metadata = exactly.map(|exactly| (tools::EXACTLY.to_owned(), json!(exactly))).into_iter().collect();
        let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        tools::Ask { floor: Action::Ask, ..tools::Ask::new("bash", patterns, vec!["$X *".into()], metadata) }
    };
    let first = put(&world, &asker, doubtful(&["$X a*"], Some("/p: $X a*"))).await;
    world.reply(&world.waiting().await[0], Reply::Always, None, Scope::Session).await.expect("taken");
    assert_eq!(first.await, Ok(Ok(())));
    for life in 0..2 {
        assert_eq!(put(&world, &asker, doubtful(&["$X a*"], Some("/p: $X a*"))).await.await, Ok(Ok(())), "life {life}");
        // The same call: it would find its answer.
        let mut other = asker.clone();
        other.call_id = CallId::new(format!("other_{life}"));
        let again = doubtful(&["$X a*"], Some("/p: $X a*"));
        assert_eq!(put(&world, &other, again).await.await, Ok(Ok(())), "life {life}");
        let denied = put(&world, &other, doubtful(&["$X a*", "rm -rf y"], Some("/p: $X a*"))).await;
        assert!(matches!(denied.await, Ok(Err(Refusal::Denied { .. }))), "an approval never beats a deny");
        let before = world.waiting().await.len();
        for (number, exactly) in [Some("/p: $X ab"), Some("/q: $X a*"), None].into_iter().enumerate() {
            other.call_id = CallId::new(format!("asks_{life}_{number}"));
            drop(put(&world, &other, doubtful(&["$X a*"], exactly)).await);
        }
        let agent = Asker { agent: "plan".into(), call_id: CallId::new(format!("agent_{life}")), ..other.clone() };
        drop(put(&world, &agent, doubtful(&["$X a*"], Some("/p: $X a*"))).await);
        assert_eq!(world.waiting().await.len(), before + 4);
        world.restart();
    }
}

async fn ask_questions(
    world: &World,
    asker: &Asker,
    questions: &[Question],
) -> oneshot::Receiver<Result<Answers, Refusal>> {
    let (answer, answers) = oneshot::channel();
    let message = AskQuestions { asker: asker.clone(), questions: questions.to_vec(), answer };
    world.broker.send(message).await.expect("a broker");
    answers
}

#[actix::test]
async fn questions_are_answered_dismissed_and_found_again() {
    let mut world = World::new().await;
    let session = world.session("p").await;
    let questions: Vec<Question> = serde_json::from_value(json!([
        { "question": "Which?", "header": "Pick", "options": [{ "label": "A", "description": "a" }] }
    ]))
    .expect("questions");
    let (first, second) = (world.asker(&session, "build", &[]), world.asker(&session, "build", &[]));
    let answered = ask_questions(&world, &first, &questions).await;
    let dismissed = ask_questions(&world, &second, &questions).await;
    let listed = world.broker.send(ListWaiting).await.expect("a broker").questions;
    let ids: Vec<_> = listed.iter().map(|(request, _)| request.id.to_string()).collect();
    let reply = |id: &String, answers| world.broker.send(ReplyQuestions { id: id.clone(), answers });
    reply(&ids[0], Some(vec![vec!["A".into()]])).await.expect("a broker").expect("taken");
    reply(&ids[1], None).await.expect("a broker").expect("taken");
    assert_eq!(answered.await, Ok(Ok(vec![vec!["A".to_owned()]])));
    assert_eq!(dismissed.await, Ok(Err(Refusal::Dismissed)));
    world.restart();
    assert_eq!(ask_questions(&world, &first, &questions).await.await, Ok(Ok(vec![vec!["A".to_owned()]])));
    let unique: HashSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), 2);
}
