//! OpenAI's formats on Azure: the path, the version of the API in the query, and the key in a header of its own.
//!
//! Source: <https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle>, and OpenCode's client package.

use protocol::model::ModelRequest;

use crate::adapter::Post;
use crate::credential::Secret;
use crate::endpoint::Endpoint;
use crate::vendors::AZURE;

/// Moves a request to where Azure wants it; one to anyone else stays. The address may end in `/v1` already.
pub(crate) fn place(endpoint: &Endpoint, request: &ModelRequest, post: &mut Post) {
    if endpoint.npm != AZURE {
        return;
    }
    if endpoint.is_set("useDeploymentBasedUrls") {
        post.path.splice(0..0, ["deployments".to_owned(), request.model.clone()]);
    } else if !endpoint.base_url.trim_end_matches('/').ends_with("/v1") {
        post.path.insert(0, "v1".into());
    }
    let version = endpoint.setting("apiVersion").unwrap_or("v1");
    post.query.push(("api-version", version.to_owned()));
}

/// Returns the header with the secret: Azure's own for its keys, else a bearer token.
pub(crate) fn authorize(endpoint: &Endpoint, secret: &Secret) -> Option<(&'static str, String)> {
    match secret {
        Secret::Key(key) if endpoint.npm == AZURE => Some(("api-key", key.clone())),
        Secret::Key(secret) | Secret::Bearer(secret) => Some(("authorization", format!("Bearer {secret}"))),
        Secret::None | Secret::Signing(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::testing::request;

    fn placed(npm: &str, base: &str, options: serde_json::Value) -> String {
        let mut endpoint = Endpoint::new("p", npm, base);
        endpoint.options = options.as_object().cloned().expect("an object");
        let mut post = Post { path: vec!["responses".into()], ..Post::default() };
        place(&endpoint, &request(Vec::new()), &mut post);
        endpoint.url(None, &post.path, &post.query).expect("a url").into()
    }

    #[test]
    fn the_path_and_the_version_are_azures() {
        let of_resource = placed(AZURE, "", json!({ "resourceName": "r" }));
        assert_eq!(of_resource, "https://r.openai.azure.com/openai/v1/responses?api-version=v1");
        assert_eq!(placed(AZURE, "http://h/openai/v1/", json!({})), "http://h/openai/v1/responses?api-version=v1");
        let by_deployment = json!({ "useDeploymentBasedUrls": true, "apiVersion": "2025-04-01-preview" });
        assert_eq!(
            placed(AZURE, "http://h/openai", by_deployment),
            "http://h/openai/deployments/mock/responses?api-version=2025-04-01-preview"
        );
        assert_eq!(placed("@ai-sdk/openai", "http://h/v1", json!({})), "http://h/v1/responses");
    }

    #[test]
    fn keys_have_a_header_of_their_own_and_tokens_are_bearers() {
        let azure = Endpoint::new("p", AZURE, "http://h");
        assert_eq!(authorize(&azure, &Secret::Key("k".into())), Some(("api-key", "k".into())));
        assert_eq!(authorize(&azure, &Secret::Bearer("t".into())), Some(("authorization", "Bearer t".into())));
        let other = Endpoint::new("p", "x", "http://h");
        assert_eq!(authorize(&other, &Secret::Key("k".into())), Some(("authorization", "Bearer k".into())));
    }
}
