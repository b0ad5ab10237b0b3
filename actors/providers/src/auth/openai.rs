//! ChatGPT accounts: a login with PKCE in a browser of this machine, or with a code typed on any other; tokens that run
//! out; and OpenAI's backend for such accounts.
//!
//! Source: OpenAI's Codex CLI (open source, `codex-rs/login`), whose public client it is, and OpenCode 1.18.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use indexmap::IndexMap;
use protocol::Clock;
use rand::Rng;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::callback::Callback;
use super::device::{self, Answer};
use super::http::{Body, Http, number, refusal, text};
use super::login::Login;
use super::{AuthError, Authorization, Vendors};
use crate::credential::Access;

pub(super) const PROVIDER: &str = "openai";
/// The only port the vendor sends people back to.
pub(super) const CALLBACK_PORT: u16 = 1455;
const CALLBACK_PATH: &str = "/auth/callback";
const CLIENT_ID: &str = "app_EMoamEEZ73f0CkXaXp7hrann";
const SCOPE: &str = "openid profile email offline_access";
/// Who asks.
const ORIGINATOR: &str = "troupe";
/// Where requests of such accounts go.
const BACKEND: &str = "https://chatgpt.com/backend-api/codex";
/// How long an access token holds, where the vendor says nothing.
const HOUR: u64 = 3_600;

/// A login that waits for a browser to come back.
pub(super) struct Browser {
    callback: Callback,
    redirect: String,
    verifier: String,
    state: String,
}

impl Browser {
    pub(super) async fn begin(vendors: &Vendors) -> Result<(Self, Authorization), AuthError> {
        let (verifier, state) = (random(), random());
        let (callback, port) = Callback::listen(vendors.callback_port, CALLBACK_PATH, &state).await?;
        let redirect = format!("http://localhost:{port}{CALLBACK_PATH}");
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([
                ("response_type", "code"),
                ("client_id", CLIENT_ID),
                ("redirect_uri", &redirect),
                ("scope", SCOPE),
                ("code_challenge", &challenge),
                ("code_challenge_method", "S256"),
                ("id_token_add_organizations", "true"),
                ("codex_cli_simplified_flow", "true"),
                ("state", &state),
                ("originator", ORIGINATOR),
            ])
            .finish();
        let url = format!("{}/oauth/authorize?{query}", vendors.openai);
        let instructions = "Log in in your browser. This ends by itself.".to_owned();
        Ok((Self { callback, redirect, verifier, state }, Authorization { url, instructions }))
    }

    pub(super) async fn finish(
        self,
        vendors: &Vendors,
        http: &Http,
        clock: &dyn Clock,
        code: Option<&str>,
    ) -> Result<Login, AuthError> {
        let code = match code {
            Some(given) => pasted(given, &self.state)?,
            None => self.callback.wait().await?,
        };
        exchange(vendors, http, clock, &code, &self.redirect, &self.verifier).await
    }
}

/// Returns the code of what a person pasted: the code, or the whole address their browser went to.
fn pasted(given: &str, state: &str) -> Result<String, AuthError> {
    let given = given.trim();
    let Ok(url) = url::Url::parse(given) else { return Ok(given.to_owned()) };
    let find = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    if find("state").is_some_and(|other| other != state) {
        return Err(AuthError::BadInput("the address is of another login".into()));
    }
    find("code").ok_or_else(|| AuthError::BadInput("the address has no code".into()))
}

/// A login that waits for its code to be typed.
pub(super) struct Device {
    id: String,
    user_code: String,
    interval: Duration,
}

impl Device {
    pub(super) async fn begin(vendors: &Vendors, http: &Http) -> Result<(Self, Authorization), AuthError> {
        let url = format!("{}/api/accounts/deviceauth/usercode", vendors.openai);
        let (status, answer) = http.post(&url, Body::Json(&json!({ "client_id": CLIENT_ID }))).await?;
        let user_code = text(&answer, "user_code").or_else(|| text(&answer, "usercode"));
        let (Some(id), Some(user_code)) = (text(&answer, "device_auth_id"), user_code) else {
            return Err(refusal(status, &answer));
        };
        let interval = Duration::from_secs(number(&answer, "interval").unwrap_or(5));
        let device = Self { id: id.to_owned(), user_code: user_code.to_owned(), interval };
        let url = format!("{}/codex/device", vendors.openai);
        let instructions = format!("Enter code: {user_code}");
        Ok((device, Authorization { url, instructions }))
    }

    pub(super) async fn finish(self, vendors: &Vendors, http: &Http, clock: &dyn Clock) -> Result<Login, AuthError> {
        let url = format!("{}/api/accounts/deviceauth/token", vendors.openai);
        let asked = json!({ "device_auth_id": self.id, "user_code": self.user_code });
        let (code, verifier) = device::wait(self.interval, vendors.margin, device::PATIENCE, || async {
            let (status, answer) = http.post(&url, Body::Json(&asked)).await?;
            match (status, text(&answer, "authorization_code"), text(&answer, "code_verifier")) {
                (_, Some(code), Some(verifier)) => Ok(Answer::Done((code.to_owned(), verifier.to_owned()))),
                // It says so while the code was not typed.
                (403 | 404, ..) => Ok(Answer::Pending),
                (429, ..) => Ok(Answer::SlowDown(None)),
                _ => Err(refusal(status, &answer)),
            }
        })
        .await?;
        let redirect = format!("{}/deviceauth/callback", vendors.openai);
        exchange(vendors, http, clock, &code, &redirect, &verifier).await
    }
}

async fn exchange(
    vendors: &Vendors,
    http: &Http,
    clock: &dyn Clock,
    code: &str,
    redirect: &str,
    verifier: &str,
) -> Result<Login, AuthError> {
    let form = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", redirect),
        ("client_id", CLIENT_ID),
        ("code_verifier", verifier),
    ];
    let (status, answer) = http.post(&format!("{}/oauth/token", vendors.openai), Body::Form(&form)).await?;
    login(&answer, None, clock).ok_or_else(|| refusal(status, &answer))
}

/// Returns the login after this one, whose token has run out.
pub(super) async fn renew(
    vendors: &Vendors,
    http: &Http,
    clock: &dyn Clock,
    refresh: &str,
    account_id: Option<&str>,
) -> Result<Login, AuthError> {
    let form = [("grant_type", "refresh_token"), ("refresh_token", refresh), ("client_id", CLIENT_ID)];
    let (status, answer) = http.post(&format!("{}/oauth/token", vendors.openai), Body::Form(&form)).await?;
    match login(&answer, Some((refresh, account_id)), clock) {
        Some(login) => Ok(login),
        None if matches!(status, 400 | 401 | 403) => Err(AuthError::LoginNeeded { provider: PROVIDER.into() }),
        None => {
            let host = vendors.openai.split("://").last().unwrap_or_default().to_owned();
            Err(AuthError::Unreachable { host, reason: format!("it answered {status}") })
        }
    }
}

/// Reads an answer with tokens. What it leaves out stays as it was.
fn login(answer: &Value, before: Option<(&str, Option<&str>)>, clock: &dyn Clock) -> Option<Login> {
    let access = text(answer, "access_token")?;
    let refresh = text(answer, "refresh_token").or(before.map(|(refresh, _)| refresh))?;
    let seconds = number(answer, "expires_in").unwrap_or(HOUR);
    let account_id = [text(answer, "id_token"), Some(access)].into_iter().flatten().find_map(account);
    Some(Login::OAuth {
        refresh: refresh.to_owned(),
        access: access.to_owned(),
        expires: clock.now_ms().saturating_add(seconds.saturating_mul(1_000)),
        account_id: account_id.or_else(|| before?.1.map(str::to_owned)),
        enterprise_url: None,
    })
}

/// Returns the account a token is of. Nothing is proved by it: the vendor checks.
fn account(token: &str) -> Option<String> {
    let payload = token.split('.').nth(1)?;
    let claims: Value =
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?).ok()?;
    let named = text(&claims, "chatgpt_account_id");
    let nested = || text(claims.get("https://api.openai.com/auth")?, "chatgpt_account_id");
    let first = || text(claims.get("organizations")?.get(0)?, "id");
    named.or_else(nested).or_else(first).map(str::to_owned)
}

/// Returns how a login is used.
pub(super) fn access(token: &str, account_id: Option<&str>) -> Access {
    let account = account_id.map(|id| ("chatgpt-account-id".to_owned(), id.to_owned()));
    let originator = ("originator".to_owned(), ORIGINATOR.to_owned());
    let headers: IndexMap<String, String> = account.into_iter().chain([originator]).collect();
    Access { headers, base_url: Some(BACKEND.into()), ..Access::bearer(token) }
}

/// Returns 43 letters nobody can guess.
fn random() -> String {
    let mut bytes = [0_u8; 32];
    rand::rng().fill(&mut bytes);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}
