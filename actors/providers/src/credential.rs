//! What proves to a vendor who asks. Made and refreshed by others; adapters only ask for it.

use std::fmt;

use futures::future::BoxFuture;
use indexmap::IndexMap;

use crate::ProviderError;

/// Asked for what proves who we are, once for each request.
pub trait Credential: Send + Sync {
    /// Returns what to send now. A refresh that is under way is shared by all who ask; an error ends the request, so
    /// its class says whether asking again helps.
    fn access(&self) -> BoxFuture<'_, Result<Access, ProviderError>>;

    /// Told when the vendor refused `access` (401 or 403). Returns whether another one can be had now: the request is
    /// then sent once more.
    fn refused<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, bool>;
}

/// What is sent to prove who asks.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The secret.
    pub secret: Secret,
    /// Sent with the request, before the configured headers (`chatgpt-account-id`). `anthropic-beta` is added to what
    /// the adapter sends under that name.
    pub headers: IndexMap<String, String>,
    /// Goes before the address of the endpoint, for accounts that have one of their own.
    pub base_url: Option<String>,
}

/// A secret, and how vendors that take several kinds tell them apart.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Secret {
    /// There is none: a local server.
    #[default]
    None,
    /// A key. It goes where the vendor wants keys: a header of its own, or a bearer token.
    Key(String),
    /// An access token of OAuth. It always goes as a bearer token.
    Bearer(String),
    /// Keys of AWS. They go nowhere: the request is signed with them.
    Signing(SigningKeys),
}

/// Keys that sign requests to AWS.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SigningKeys {
    /// Names the secret one, in the request.
    pub id: String,
    /// The secret one.
    pub secret: String,
    /// Sent beside keys that are valid for some time.
    pub session_token: Option<String>,
}

impl Access {
    /// Returns the access by this key; an empty one is none.
    pub fn key(key: impl Into<String>) -> Self {
        let key = key.into();
        let secret = if key.is_empty() { Secret::None } else { Secret::Key(key) };
        Self { secret, ..Self::default() }
    }

    /// Returns the access by this token.
    pub fn bearer(token: impl Into<String>) -> Self {
        Self { secret: Secret::Bearer(token.into()), ..Self::default() }
    }

    /// Returns what must not be repeated in an error.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let mut secrets: Vec<String> = self.headers.values().cloned().collect();
        match &self.secret {
            Secret::None => {}
            Secret::Key(secret) | Secret::Bearer(secret) => secrets.push(secret.clone()),
            Secret::Signing(keys) => {
                secrets.extend([keys.id.clone(), keys.secret.clone()]);
                secrets.extend(keys.session_token.clone());
            }
        }
        secrets
    }
}

impl fmt::Debug for Access {
    /// Leaves out all values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("secret", &self.secret)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Secret {
    /// Says of which kind it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Key(_) => "Key(…)",
            Self::Bearer(_) => "Bearer(…)",
            Self::Signing(_) => "Signing(…)",
        })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn nothing_secret_is_shown() {
        let keys = SigningKeys { id: "AKIA-t0ken".into(), secret: "t0ken".into(), session_token: Some("t0ken".into()) };
        for secret in [Secret::Key("s3cret".into()), Secret::Bearer("t0ken".into()), Secret::Signing(keys)] {
            let headers = IndexMap::from([("chatgpt-account-id".to_owned(), "s3cret".to_owned())]);
            let access = Access { secret, headers, base_url: Some("http://s3cret@h".into()) };
            let shown = format!("{access:?}");
            assert!(!shown.contains("s3cret") && !shown.contains("t0ken"), "{shown}");
            assert!(access.secrets().iter().any(|secret| secret == "s3cret"));
        }
    }

    #[test]
    fn an_empty_key_is_none() {
        assert_eq!(Access::key(""), Access::default());
        assert_eq!(Access::key("k").secret, Secret::Key("k".into()));
    }
}
