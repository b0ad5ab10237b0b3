//! One login, from the address a person opens to the tokens; and the renewal of tokens.

use std::sync::Arc;

use reqwest::Url;
use rmcp::transport::auth::{AuthorizationManager, OAuthClientConfig};

use super::callbacks::{CALLBACK_PATH, CALLBACK_PORT};
use super::file::ClientInfo;
use super::http::OAuthHttp;
use super::store::ServerStore;
use super::{AuthProblem, Shared};
use crate::config::{OAuth, Remote};

/// What clients are registered as.
const CLIENT_NAME: &str = "Troupe";

/// A login that was begun.
#[derive(Clone, PartialEq, Eq)]
pub struct Begun {
    /// The address a person opens.
    pub authorization_url: String,
    /// Names the login when the person comes back.
    pub state: String,
    /// Where the person comes back to.
    pub redirect_uri: String,
}

impl std::fmt::Debug for Begun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Begun").field("redirect_uri", &self.redirect_uri).finish_non_exhaustive()
    }
}

/// A login that waits for its person.
pub struct Flow {
    manager: AuthorizationManager,
    state: String,
}

impl Flow {
    /// Finds the server of the login, registers a client where that is needed, and makes the address to open.
    pub(super) async fn begin(server: &str, remote: &Remote, shared: &Shared) -> Result<(Self, Begun), AuthProblem> {
        let Some(oauth) = &remote.oauth else { return Err(AuthProblem::Refused("`oauth` is switched off".into())) };
        let redirect_uri = redirect_uri(oauth);
        let (mut manager, registers) = manager(remote, &shared.http).await?;
        let scopes = match &oauth.scope {
            Some(scope) => scope.split_whitespace().map(str::to_owned).collect(),
            None => manager.select_initial_scopes(&[]).await,
        };
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let url = remote.url.as_str();
        let client_id = match client(server, remote, oauth, shared).await? {
            Some(client) => {
                manager.configure_client(client_config(&client, &redirect_uri))?;
                client.client_id
            }
            None if !registers => return Err(AuthProblem::RegistrationNeeded),
            None => {
                let registered = manager.register_client(CLIENT_NAME, &redirect_uri, &scopes).await?;
                let client = ClientInfo {
                    client_id: registered.client_id.clone(),
                    client_secret: registered.client_secret,
                    issued_at: Some((shared.clock.now_ms() / 1000) as f64),
                    secret_expires_at: None,
                };
                shared.file.change(server, url, |entry| entry.client_info = Some(client)).await?;
                registered.client_id
            }
        };
        manager.set_credential_store(store(server, remote, client_id, shared));
        let authorization_url = manager.get_authorization_url(&scopes).await?;
        let state = Url::parse(&authorization_url).ok().and_then(|url| {
            let state = url.query_pairs().find(|(key, _)| key == "state");
            state.map(|(_, value)| value.into_owned())
        });
        let Some(state) = state else { return Err(AuthProblem::Refused("its address has no `state`".into())) };
        Ok((Self { manager, state: state.clone() }, Begun { authorization_url, state, redirect_uri }))
    }

    /// Names the login.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Gives the code for tokens. They are on disk when it returns.
    pub async fn finish(self, code: &str, issuer: Option<&str>) -> Result<(), AuthProblem> {
        self.manager.exchange_code_for_token_with_issuer(code, &self.state, issuer).await?;
        Ok(())
    }
}

/// Gets new tokens. They are on disk when it returns. Call it under the server's lock.
pub(super) async fn refresh(server: &str, remote: &Remote, oauth: &OAuth, shared: &Shared) -> Result<(), AuthProblem> {
    let client = client(server, remote, oauth, shared).await?.ok_or(AuthProblem::LoginNeeded)?;
    let (mut manager, _) = manager(remote, &shared.http).await?;
    manager.configure_client(client_config(&client, &redirect_uri(oauth)))?;
    manager.set_credential_store(store(server, remote, client.client_id, shared));
    manager.refresh_token().await?;
    Ok(())
}

/// Returns whether the server registers clients by itself.
pub(super) async fn registers_clients(http: &Arc<OAuthHttp>, remote: &Remote) -> Result<bool, AuthProblem> {
    Ok(manager(remote, http).await?.1)
}

/// The SDK's side of a login, with the server of the login found; and whether that registers clients.
async fn manager(remote: &Remote, http: &Arc<OAuthHttp>) -> Result<(AuthorizationManager, bool), AuthProblem> {
    let mut manager = AuthorizationManager::new_with_oauth_http_client(remote.url.clone(), http.clone()).await?;
    let metadata = manager.resolve_metadata().await?.metadata;
    let registers = metadata.registration_endpoint.is_some();
    manager.set_metadata(metadata);
    Ok((manager, registers))
}

/// The client of the config, else the one that was registered, unless it has run out.
async fn client(
    server: &str,
    remote: &Remote,
    oauth: &OAuth,
    shared: &Shared,
) -> Result<Option<ClientInfo>, AuthProblem> {
    if let Some(client_id) = oauth.client_id.clone() {
        let client_secret = oauth.client_secret.clone();
        return Ok(Some(ClientInfo { client_id, client_secret, issued_at: None, secret_expires_at: None }));
    }
    let now = shared.clock.now_ms() as f64 / 1000.0;
    let known = shared.file.get(server, remote.url.as_str()).await?.and_then(|entry| entry.client_info);
    Ok(known.filter(|client| client.secret_expires_at.is_none_or(|end| end == 0.0 || end > now)))
}

fn client_config(client: &ClientInfo, redirect_uri: &str) -> OAuthClientConfig {
    let config = OAuthClientConfig::new(client.client_id.clone(), redirect_uri);
    match &client.client_secret {
        Some(secret) => config.with_client_secret(secret.clone()),
        None => config,
    }
}

fn store(server: &str, remote: &Remote, client_id: String, shared: &Shared) -> ServerStore {
    ServerStore {
        file: shared.file.clone(),
        clock: shared.clock.clone(),
        server: server.to_owned(),
        url: remote.url.as_str().to_owned(),
        client_id,
    }
}

fn redirect_uri(oauth: &OAuth) -> String {
    let port = oauth.callback_port.unwrap_or(CALLBACK_PORT);
    oauth.redirect_uri.clone().unwrap_or_else(|| format!("http://127.0.0.1:{port}{CALLBACK_PATH}"))
}
