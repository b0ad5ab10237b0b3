//! What plugins think of a permission request.

use std::sync::Arc;

use plugins::{Hook, Plugins};
use protocol::permission::{Action, PermissionRequest};
use serde_json::json;

/// What plugins say of a request, before a person is asked. They are told it as OpenCode's plugins know it, and whole.
pub(super) async fn opinion(plugins: Plugins, request: Arc<PermissionRequest>) -> Action {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Opinion {
        status: Action,
    }
    let mut input = serde_json::to_value(&*request).unwrap_or_default();
    if let Some(map) = input.as_object_mut() {
        map.insert("type".into(), json!(request.permission));
        map.insert("pattern".into(), json!(request.patterns));
        map.insert("title".into(), json!(request.patterns.join(", ")));
        if let Some(call) = &request.tool {
            map.insert("messageID".into(), json!(call.message_id));
            map.insert("callID".into(), json!(call.call_id));
        }
    }
    plugins.change(Hook::PermissionAsk, input, Opinion { status: Action::Ask }).await.status
}
