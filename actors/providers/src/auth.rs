//! Logins: what proves to vendors who we are, kept in `auth.json` in OpenCode's format; and the ways to get one.
//!
//! - Ours is the one that is written, readable for its owner alone. OpenCode's own file is read where ours has nothing
//!   of a provider, so that its users need no second login; it is never changed.
//! - A token that has run out is renewed once for all who ask ([`Logins::credential`]), and the new one is on disk
//!   before anybody uses it.
//! - Nothing here tells a key, a token or a code in an error, a log or a debug text.

mod callback;
mod credential;
mod device;
mod file;
mod github;
mod http;
mod login;
mod openai;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use protocol::Clock;
use serde_json::{Value, json};
use sse::Client;

use crate::credential::Credential;

pub use login::{Login, Source};

use self::file::Files;
use self::http::Http;

/// Why a login can't be had, kept or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// There is no such way to log in.
    #[error("provider {provider:?} has no login of this kind; `GET /provider/auth` lists those there are")]
    NoMethod {
        /// The provider.
        provider: String,
    },
    /// What was given with it makes no sense.
    #[error("{0}")]
    BadInput(String),
    /// No login waits to be ended, or it was ended.
    #[error("no login of provider {provider:?} is under way; begin again")]
    NotBegun {
        /// The provider.
        provider: String,
    },
    /// The vendor said no.
    #[error("the login was refused: {0}")]
    Refused(String),
    /// The vendor can't be reached.
    #[error("{host} can't be reached: {reason}")]
    Unreachable {
        /// Where.
        host: String,
        /// Why.
        reason: String,
    },
    /// Nobody logged in in time.
    #[error("nobody logged in within {minutes} minutes; begin again")]
    Late {
        /// The limit.
        minutes: u64,
    },
    /// There is no login, or it no longer holds.
    #[error("the login of provider {provider:?} no longer holds; log in again: troupe auth login {provider}")]
    LoginNeeded {
        /// The provider.
        provider: String,
    },
    /// The file can't be read or written.
    #[error("{0}")]
    File(String),
}

/// Where a person goes to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorization {
    /// Open it in a browser.
    pub url: String,
    /// What to do there.
    pub instructions: String,
}

/// What became of a login that was to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// It is gone.
    Gone,
    /// Ours had none, or has none now, but OpenCode's own file does: that one counts.
    KeptByOpenCode(PathBuf),
    /// There was none.
    Nothing,
}

/// Where vendors are asked for tokens.
#[derive(Clone, Debug)]
struct Vendors {
    openai: String,
    github: String,
    /// Where OpenAI's browser login comes back to; 0: any port.
    callback_port: u16,
    /// Added to the waits vendors ask for.
    margin: Duration,
}

impl Default for Vendors {
    fn default() -> Self {
        Self {
            openai: "https://auth.openai.com".into(),
            github: "https://github.com".into(),
            callback_port: openai::CALLBACK_PORT,
            margin: device::MARGIN,
        }
    }
}

/// The logins of a data directory. Cheap to clone; one for the process.
#[derive(Clone)]
pub struct Logins {
    shared: Arc<Shared>,
}

struct Shared {
    files: Files,
    clock: Arc<dyn Clock>,
    http: Http,
    vendors: Vendors,
    /// By provider: held while its token is renewed.
    renewing: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// By provider: the login that waits for its person.
    waiting: Mutex<HashMap<String, Waiting>>,
}

/// A login that was begun.
enum Waiting {
    OpenAiBrowser(openai::Browser),
    OpenAiDevice(openai::Device),
    GitHub(github::Device),
}

/// How a person may log in, besides with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    OpenAiBrowser,
    OpenAiDevice,
    GitHub,
}

impl Method {
    /// The methods of a provider, in the order clients see them.
    fn of(provider: &str) -> &'static [Self] {
        match provider {
            openai::PROVIDER => &[Self::OpenAiBrowser, Self::OpenAiDevice],
            github::PROVIDER => &[Self::GitHub],
            _ => &[],
        }
    }
}

/// Returns the ways to log in by provider, as `GET /provider/auth` tells them. Any provider takes a key.
pub fn methods() -> Value {
    json!({
        openai::PROVIDER: [
            { "type": "oauth", "label": "ChatGPT Pro/Plus (browser)" },
            { "type": "oauth", "label": "ChatGPT Pro/Plus (headless)" },
            { "type": "api", "label": "Manually enter API Key" },
        ],
        github::PROVIDER: [{
            "type": "oauth",
            "label": "Login with GitHub Copilot",
            "prompts": [
                { "type": "select", "key": github::DEPLOYMENT, "message": "Select GitHub deployment type", "options": [
                    { "label": "GitHub.com", "value": "github.com", "hint": "Public" },
                    { "label": "GitHub Enterprise", "value": github::ENTERPRISE, "hint": "Data residency or self-hosted" },
                ] },
                { "type": "text", "key": github::ENTERPRISE_URL, "message": "Enter your GitHub Enterprise URL or domain",
                  "placeholder": "company.ghe.com or https://company.ghe.com",
                  "when": { "key": github::DEPLOYMENT, "op": "eq", "value": github::ENTERPRISE } },
            ],
        }],
    })
}

impl Logins {
    /// Returns the logins kept in `own`, and in `opencodes` where `own` has none. Reads nothing yet. `client` is asked
    /// for when a vendor is.
    pub fn new(
        own: PathBuf,
        opencodes: PathBuf,
        clock: Arc<dyn Clock>,
        client: impl Fn() -> Client + Send + Sync + 'static,
    ) -> Self {
        Self::with(own, opencodes, clock, client, Vendors::default())
    }

    fn with(
        own: PathBuf,
        opencodes: PathBuf,
        clock: Arc<dyn Clock>,
        client: impl Fn() -> Client + Send + Sync + 'static,
        vendors: Vendors,
    ) -> Self {
        let shared = Shared {
            files: Files::new(own, opencodes),
            clock,
            http: Http::new(client),
            vendors,
            renewing: Mutex::default(),
            waiting: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the files logins are kept in: ours, and OpenCode's.
    pub fn files(&self) -> [PathBuf; 2] {
        self.shared.files.paths()
    }

    /// Returns all logins by provider, and in which file each is. Blocks.
    pub fn all(&self) -> Result<IndexMap<String, (Login, Source)>, AuthError> {
        self.shared.files.all()
    }

    /// Keeps a login. Returns when it is on disk.
    pub async fn set(&self, provider: &str, login: Login) -> Result<(), AuthError> {
        check_name(provider)?;
        let _alone = self.shared.renewing(provider).lock_owned().await;
        self.shared.files.set(provider, login).await
    }

    /// Forgets a login.
    pub async fn remove(&self, provider: &str) -> Result<Forgotten, AuthError> {
        lock(&self.shared.waiting).remove(provider);
        let _alone = self.shared.renewing(provider).lock_owned().await;
        self.shared.files.remove(provider).await
    }

    /// Returns what proves who we are to a provider whose login is no plain key; none for providers without such
    /// logins. All credentials of one provider share one renewal.
    pub fn credential(&self, provider: &str) -> Option<Arc<dyn Credential>> {
        credential::of(&self.shared, provider)
    }

    /// Begins a login by the `method`-th way of a provider: a person goes where it says. One that was begun before is
    /// forgotten. Run it where network I/O may run for as long as the login waits.
    pub async fn begin(
        &self,
        provider: &str,
        method: usize,
        inputs: &HashMap<String, String>,
    ) -> Result<Authorization, AuthError> {
        let no_method = || AuthError::NoMethod { provider: provider.to_owned() };
        let method = Method::of(provider).get(method).copied().ok_or_else(no_method)?;
        let shared = &self.shared;
        let (waiting, authorization) = match method {
            Method::OpenAiBrowser => {
                // Its port may be held by the one before.
                lock(&shared.waiting).remove(provider);
                let (browser, authorization) = openai::Browser::begin(&shared.vendors).await?;
                (Waiting::OpenAiBrowser(browser), authorization)
            }
            Method::OpenAiDevice => {
                let (device, authorization) = openai::Device::begin(&shared.vendors, &shared.http).await?;
                (Waiting::OpenAiDevice(device), authorization)
            }
            Method::GitHub => {
                let (device, authorization) = github::Device::begin(&shared.vendors, &shared.http, inputs).await?;
                (Waiting::GitHub(device), authorization)
            }
        };
        lock(&shared.waiting).insert(provider.to_owned(), waiting);
        Ok(authorization)
    }

    /// Waits until the person has logged in, and keeps what they got. `code` is what the vendor showed them, where it
    /// couldn't come back by itself.
    pub async fn finish(&self, provider: &str, code: Option<&str>) -> Result<(), AuthError> {
        let shared = &self.shared;
        let waiting = lock(&shared.waiting).remove(provider);
        let login = match waiting.ok_or_else(|| AuthError::NotBegun { provider: provider.to_owned() })? {
            Waiting::OpenAiBrowser(browser) => {
                browser.finish(&shared.vendors, &shared.http, &*shared.clock, code).await?
            }
            Waiting::OpenAiDevice(device) => device.finish(&shared.vendors, &shared.http, &*shared.clock).await?,
            Waiting::GitHub(device) => device.finish(&shared.http).await?,
        };
        self.set(provider, login).await
    }
}

/// A provider's key becomes a name in a file.
fn check_name(provider: &str) -> Result<(), AuthError> {
    let is_fine = !provider.is_empty() && provider.len() <= 128 && !provider.chars().any(char::is_control);
    if is_fine { Ok(()) } else { Err(AuthError::BadInput("the name of the provider is empty or too long".into())) }
}

impl Shared {
    fn renewing(&self, provider: &str) -> Arc<tokio::sync::Mutex<()>> {
        lock(&self.renewing).entry(provider.to_owned()).or_default().clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logins").field("files", &self.files()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Authorization {
    /// Leaves the code out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").finish_non_exhaustive()
    }
}
