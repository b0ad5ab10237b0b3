//! Clients that read slowly, or not at all.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;
use support::{At, Gate, PATIENCE, Step};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::world::{World, said};

/// Opens an event stream, and reads nothing of it.
async fn open(world: &World, path: &str) -> TcpStream {
    let address = world.wire.base_url().strip_prefix("http://").expect("an address");
    let socket = TcpSocket::new_v4().expect("a socket");
    // What the system keeps for a reader that doesn't read could else be all of it.
    socket.set_recv_buffer_size(16 * 1024).expect("an option");
    let mut stream = socket.connect(address.parse().expect("an address")).await.expect("a connection");
    let directory = world.project.dir().display();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nx-opencode-directory: {directory}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream
}

async fn subscribers(world: &World) -> u64 {
    world.wire.get("/troupe/supervision").await.1["subscribers"].as_u64().expect("a number")
}

/// Waits until so many streams are open: nothing tells a client that another one's is gone.
async fn until_subscribers(world: &World, count: u64) {
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let waited = tokio::time::timeout(PATIENCE, async {
        while subscribers(world).await != count {
            ticks.tick().await;
        }
    });
    assert!(waited.await.is_ok(), "{} subscribers, not {count}", subscribers(world).await);
}

#[tokio::test]
async fn clients_that_vanish_are_forgotten_and_disturb_nobody() {
    let world = World::start().await;
    let gate = Gate::new();
    world.model.script("long", [Step::text("word ").repeat(100).gate_at(At::Text(50), &gate)]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "long").await;
    gate.reached().await;
    let mut open_streams = Vec::new();
    for number in 0..60 {
        let path = if number % 2 == 0 { "/event" } else { "/global/event" };
        let mut stream = open(&world, path).await;
        if number % 3 == 0 {
            let mut piece = [0; 64];
            assert_ne!(stream.read(&mut piece).await.expect("something"), 0);
        }
        // Reset, not closed: no client is left to say goodbye.
        stream.set_zero_linger().expect("an option");
        open_streams.push(stream);
    }
    until_subscribers(&world, 60).await;

    drop(open_streams);

    until_subscribers(&world, 0).await;
    gate.open();
    let mut events = world.events().await;
    let mut answer = world.wire.messages(&session).await.pop().expect("an answer");
    while !answer["info"]["time"]["completed"].is_u64() {
        events.until_idle(&session).await;
        answer = world.wire.messages(&session).await.pop().expect("an answer");
    }
    assert_eq!(said(&answer), "word ".repeat(100));
    let metrics = world.wire.get("/metrics").await.1;
    assert!(metrics.as_str().is_some_and(|text| text.contains("troupe_event_subscribers 1")), "{metrics}");
}

#[tokio::test]
async fn a_client_that_never_reads_holds_up_nobody_and_learns_that_it_missed_something() {
    const PIECE: usize = 20_000;
    const PIECES: usize = 800;
    let world = World::start().await;
    let mut slow = open(&world, "/event").await;
    until_subscribers(&world, 1).await;
    world.model.script("flood", [Step::text("x".repeat(PIECE)).repeat(PIECES)]);
    let session = world.wire.create_session().await;

    let (answer, healthy) = tokio::join!(world.wire.prompt(&session, "flood"), async {
        let mut healthy = 0;
        for _ in 0..20 {
            healthy += usize::from(world.wire.get("/global/health").await.0 == 200);
        }
        healthy
    });

    assert_eq!((said(&answer).len(), healthy), (PIECE * PIECES, 20));
    // It was cut off: with a note, or at the least with an end that says that the response is not whole.
    let mut seen = Vec::new();
    let read = tokio::time::timeout(PATIENCE, async {
        let mut piece = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = slow.read(&mut piece).await {
            seen.extend_from_slice(&piece[..length]);
        }
    });
    assert!(read.await.is_ok(), "the stream goes on after {} bytes", seen.len());
    let text = String::from_utf8_lossy(&seen);
    assert!(text.len() < PIECE * PIECES && text.contains("server.resync"), "{} bytes", text.len());
    let last = text.lines().rev().find_map(|line| line.strip_prefix("id: ")).expect("an id");
    let mut again = world.wire.events_after("/event", last).await;
    again.wait_for("server.resync").await;
    let whole = |event: &serde_json::Value| {
        let part = &event["properties"]["part"];
        part["time"]["end"].is_u64() && part["text"].as_str().is_some_and(|text| text.len() == PIECE * PIECES)
    };
    again.wait(whole).await;
    until_subscribers(&world, 1).await;
    assert_eq!(world.wire.get("/session/status").await, (200, json!({})));
}
