//! What proves who asks without a key in the config or a login: what the clouds' own tools find on a machine.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;

use crate::aws::{self, Keys};
use crate::endpoint::Endpoint;
use crate::google::Google;
use crate::vendors::{BEDROCK, MANTLE, VERTEX, VERTEX_ANTHROPIC};

/// Returns a variable of the environment that is set and not empty.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

const SERVICE_ACCOUNT: &str = "GOOGLE_APPLICATION_CREDENTIALS";
/// Where gcloud keeps a person's account, in the home directory.
const GCLOUD: &str = ".config/gcloud/application_default_credentials.json";
/// Variables that name a project of Google's, the stronger first.
pub const GOOGLE_PROJECTS: [&str; 4] =
    ["GOOGLE_VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCP_PROJECT", "GCLOUD_PROJECT"];

/// Returns whether the environment alone brings a provider of this package into use: keys or a profile of AWS's; a
/// project of Google's, and an account's file. Blocks.
pub fn is_ambient(npm: &str, variables: Variables<'_>) -> bool {
    let has = |name: &str| variables(name).is_some();
    match npm {
        BEDROCK => aws::of_environment(variables).is_some() || has("AWS_PROFILE"),
        VERTEX | VERTEX_ANTHROPIC => {
            let has_file = || variables("HOME").is_some_and(|home| PathBuf::from(home).join(GCLOUD).exists());
            GOOGLE_PROJECTS.iter().any(|name| has(name)) && (has(SERVICE_ACCOUNT) || has_file())
        }
        _ => false,
    }
}

/// Gives an endpoint of AWS its region, and, if it has neither key nor credential, one of AWS or Vertex its credential.
/// Blocks: a region may stand in a file.
pub fn add_ambient(endpoint: &mut Endpoint, variables: Variables<'_>) {
    let is_bare = endpoint.credential.is_none() && endpoint.api_key.as_ref().is_none_or(String::is_empty);
    match endpoint.npm.as_str() {
        BEDROCK | MANTLE => {
            let keys = Keys::new(endpoint, variables);
            if endpoint.setting("region").is_none() {
                let named = || variables("AWS_REGION").or_else(|| variables("AWS_DEFAULT_REGION"));
                if let Some(region) = named().or_else(|| keys.region()) {
                    endpoint.options.insert("region".into(), json!(region));
                }
            }
            if is_bare {
                endpoint.credential = Some(Arc::new(keys));
            }
        }
        // Without a project there is no address, which is told when it is opened.
        VERTEX | VERTEX_ANTHROPIC
            if is_bare && (!endpoint.base_url.is_empty() || endpoint.setting("project").is_some()) =>
        {
            endpoint.credential = Some(Arc::new(Google::new(variables(SERVICE_ACCOUNT).map(PathBuf::from))));
        }
        _ => {}
    }
}
