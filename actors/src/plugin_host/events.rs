//! Tells plugins of what happens in their directory.

use std::time::Duration;

use actix::Addr;
use plugins::Plugins;
use serde_json::{Value, json};
use storage::{Body, Frame};
use tokio::sync::broadcast::error::RecvError;

use crate::bus::{Bus, Subscribe};

/// Before a bus that fell is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// Forwards the events of a directory, as long as it is polled.
pub async fn forward(bus: Addr<Bus>, directory: String, plugins: Plugins) {
    loop {
        let Ok(mut subscription) = bus.send(Subscribe { after: None }).await else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        loop {
            match subscription.live.recv().await {
                Ok(entry) if !entry.is_copy && entry.frame.origin.directory == directory => {
                    if let Some(event) = event_of(&entry.frame) {
                        plugins.event(&event);
                    }
                }
                Ok(_) => {}
                // What it is behind is lost to plugins: nothing hangs on them.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => {
                    tokio::time::sleep(AGAIN).await;
                    break;
                }
            }
        }
    }
}

/// The event as it is on the wire.
fn event_of(frame: &Frame) -> Option<Value> {
    let properties = match &frame.body {
        Body::Json(properties) => serde_json::from_str(&properties.pieces().concat()).ok()?,
        Body::Delta(delta) => json!({
            "sessionID": delta.session_id,
            "messageID": delta.message_id,
            "partID": delta.part_id,
            "field": "text",
            "delta": delta.text,
        }),
    };
    Some(json!({ "id": frame.id, "type": frame.kind, "properties": properties }))
}
