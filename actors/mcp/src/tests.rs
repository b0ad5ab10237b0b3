//! Whole connections, with servers that do as they are told.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use protocol::JsonMap;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tools::process::Processes;

use crate::auth::{Authorizer, Tokens};
use crate::testing::{FakeDesk, Script, run_if_child};
use crate::{Changed, ConnectError, Connection, Environment, ServerConfig, Target, connect};

mod child;
mod network;
mod offered;

/// Children are this test.
const CHILD: &str = "tests::scripted_server";
/// Nothing here takes as long.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn scripted_server() {
    run_if_child();
}

fn environment() -> Environment {
    sse::http::install_crypto();
    Environment { processes: Processes::none(), http: reqwest::Client::new(), version: "0.0.0".into(), ledger: None }
}

fn target(entry: &Value) -> Target {
    let config = ServerConfig::read("srv", entry).unwrap().unwrap();
    let directory: Arc<Path> = std::env::temp_dir().into();
    Target { name: "srv".into(), config, directory, tokens: None, counters: Arc::default() }
}

fn with_login(entry: &Value, authorizer: &Authorizer) -> (Target, Tokens) {
    let mut target = target(entry);
    let tokens = authorizer.tokens("srv", target.config.remote().unwrap()).unwrap();
    target.tokens = Some(tokens.clone());
    (target, tokens)
}

async fn connected(script: &Script) -> Connection {
    connect(&target(&script.local(CHILD)), &environment()).await.unwrap()
}

async fn call(connection: &Connection, tool: &str, arguments: Value) -> Result<String, String> {
    let Value::Object(arguments) = arguments else { unreachable!() };
    call_with(connection, tool, arguments, FakeDesk::new()).await
}

async fn call_with(
    connection: &Connection,
    tool: &str,
    arguments: JsonMap,
    desk: Arc<FakeDesk>,
) -> Result<String, String> {
    let never = CancellationToken::new();
    let called = tokio::time::timeout(LIMIT, connection.call(tool, arguments, desk, None, &never));
    let result = called.await.expect("an answer").map_err(|error| error.to_string())?;
    crate::result::shape(&result).map(|shaped| shaped.text)
}

/// Looks again and again: nobody tells of processes and ports.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        while !is_so() {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(LIMIT, wait).await.unwrap_or_else(|_| panic!("{what}"));
}
