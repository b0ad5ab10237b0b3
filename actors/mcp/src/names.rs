//! Names of servers' tools as models and permission rules know them: `server_tool`, of letters, digits, `_` and `-`
//! (what all vendors take), at most 64 bytes, and always the same for the same server and tool.
//!
//! What can't be in a name becomes `_`, as in OpenCode. A name that is too long, or that two tools of a server would
//! share, ends in a hash of the true names.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

/// The longest name all vendors take.
pub const MAX_NAME: usize = 64;
/// Digits of a hash in a name.
const HASH: usize = 8;

/// Returns text with everything replaced that can't be in a name.
pub fn safe(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

/// Returns the names of a server's tools, in their order. A tool listed twice has the same name twice.
///
/// Which tools get a hash depends on their own names and on nothing else but the tools they would collide with: a tool
/// whose name needed no change keeps its plain one.
pub fn tool_names<'a>(server: &str, tools: impl IntoIterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut plain: HashMap<String, Vec<&str>> = HashMap::new();
    for tool in tools.clone() {
        let sharing = plain.entry(joined(server, tool)).or_default();
        if !sharing.contains(&tool) {
            sharing.push(tool);
        }
    }
    let name = |tool: &str| {
        let name = joined(server, tool);
        let is_shared = plain.get(&name).is_some_and(|tools| tools.len() > 1);
        if name.len() > MAX_NAME || (is_shared && safe(tool) != tool) { hashed(&name, server, tool) } else { name }
    };
    tools.into_iter().map(name).collect()
}

/// Returns another name for a tool whose own is taken by something else.
pub fn other_name(server: &str, tool: &str) -> String {
    hashed(&joined(server, tool), server, tool)
}

/// Returns the name of a prompt as a command: `server:prompt`.
pub fn command_name(server: &str, prompt: &str) -> String {
    format!("{}:{}", safe(server), safe(prompt))
}

fn joined(server: &str, tool: &str) -> String {
    format!("{}_{}", safe(server), safe(tool))
}

fn hashed(name: &str, server: &str, tool: &str) -> String {
    let digest = Sha256::new().chain_update(server).chain_update([0]).chain_update(tool).finalize();
    let hash: String = digest.iter().take(HASH / 2).map(|byte| format!("{byte:02x}")).collect();
    // All of it is ASCII, so any cut is one between characters.
    let head = name.get(..name.len().min(MAX_NAME - HASH - 1)).unwrap_or_default();
    format!("{head}_{hash}")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_opencodes_where_they_fit() {
        assert_eq!(tool_names("demo", ["add", "get-it"]), ["demo_add", "demo_get-it"]);
        assert_eq!(
            tool_names("enterprise.db", ["get/user:info", "ok"]),
            ["enterprise_db_get_user_info", "enterprise_db_ok"]
        );
        assert_eq!(command_name("a.b", "c d"), "a_b:c_d");
    }

    #[test]
    fn long_and_colliding_names_end_in_a_hash_that_stays() {
        let long = "a".repeat(80);
        let names = tool_names("srv", [long.as_str(), "get/x", "get_x", "get:x", "ok"]);
        assert_eq!(names[0].len(), MAX_NAME);
        assert_eq!((names[2].as_str(), names[4].as_str()), ("srv_get_x", "srv_ok"));
        assert!(names[1].starts_with("srv_get_x_") && names[3].starts_with("srv_get_x_") && names[1] != names[3]);
        // The order of the list is nothing they depend on.
        assert_eq!(tool_names("srv", ["get:x", "get_x"])[0], names[3]);
        assert_eq!(names[0], tool_names("srv", [long.as_str()])[0]);
    }

    proptest! {
        #[test]
        fn names_are_legal_distinct_and_independent_of_order(
            server in ".{1,40}",
            tools in proptest::collection::hash_set("[a-c/:_.]{1,4}|.{0,90}", 1..12),
        ) {
            let tools: Vec<String> = tools.into_iter().collect();
            let names = tool_names(&server, tools.iter().map(String::as_str));
            for name in &names {
                prop_assert!(!name.is_empty() && name.len() <= MAX_NAME);
                prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            }
            let distinct: std::collections::HashSet<_> = names.iter().collect();
            prop_assert_eq!(distinct.len(), tools.len());
            let reversed = tool_names(&server, tools.iter().rev().map(String::as_str));
            prop_assert_eq!(names, reversed.into_iter().rev().collect::<Vec<_>>());
        }
    }
}
