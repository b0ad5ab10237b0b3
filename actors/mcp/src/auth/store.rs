//! Where the SDK puts the tokens it gets.

use std::sync::Arc;

use async_trait::async_trait;
use protocol::Clock;
use rmcp::transport::auth::{AuthError, CredentialStore, OAuthTokenResponse, StoredCredentials};
use serde_json::{Value, json};

use super::AuthProblem;
use super::file::{AuthFile, TokenSet};

/// What is kept of one server, as the SDK wants it.
pub struct ServerStore {
    /// The file.
    pub file: Arc<AuthFile>,
    /// Dates what runs out.
    pub clock: Arc<dyn Clock>,
    /// The server.
    pub server: String,
    /// Its address.
    pub url: String,
    /// The client whose tokens they are.
    pub client_id: String,
}

#[async_trait]
impl CredentialStore for ServerStore {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let entry = self.file.get(&self.server, &self.url).await.map_err(problem)?;
        let Some(tokens) = entry.and_then(|entry| entry.tokens) else { return Ok(None) };
        let scopes = tokens.scope.iter().flat_map(|scope| scope.split_whitespace()).map(str::to_owned).collect();
        let response = json!({
            "access_token": tokens.access_token,
            "token_type": "bearer",
            "refresh_token": tokens.refresh_token,
            "scope": tokens.scope,
        });
        let response: OAuthTokenResponse = serde_json::from_value(response).map_err(unreadable)?;
        Ok(Some(StoredCredentials::new(self.client_id.clone(), Some(response), scopes, None)))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let response = credentials.token_response.map(serde_json::to_value).transpose().map_err(unreadable)?;
        let Some(response) = response else { return self.clear().await };
        let text = |key: &str| response.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(access_token) = text("access_token") else { return self.clear().await };
        let now = self.clock.now_ms() as f64 / 1000.0;
        let scope = text("scope").or_else(|| {
            let granted = credentials.granted_scopes.join(" ");
            (!granted.is_empty()).then_some(granted)
        });
        let tokens = TokenSet {
            access_token,
            refresh_token: text("refresh_token"),
            expires_at: response.get("expires_in").and_then(Value::as_f64).map(|seconds| now + seconds),
            scope,
        };
        self.file.change(&self.server, &self.url, |entry| entry.tokens = Some(tokens)).await.map_err(problem)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.file.change(&self.server, &self.url, |entry| entry.tokens = None).await.map_err(problem)
    }
}

fn problem(problem: AuthProblem) -> AuthError {
    AuthError::CredentialStoreError(problem.to_string())
}

/// What serde says may quote a token.
fn unreadable(_: serde_json::Error) -> AuthError {
    AuthError::CredentialStoreError("the tokens have another shape than expected".into())
}
