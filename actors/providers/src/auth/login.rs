//! One login, as it is kept and as clients send it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What proves who we are to one provider. The JSON is OpenCode's `Auth`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Login {
    /// A key.
    #[serde(rename = "api")]
    Api {
        /// The key.
        key: String,
        /// What else the provider needs to know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<BTreeMap<String, String>>,
    },
    /// Tokens.
    #[serde(rename = "oauth", rename_all = "camelCase")]
    OAuth {
        /// Gets the next ones.
        refresh: String,
        /// Sent with each request.
        access: String,
        /// When the access token runs out, in ms since the Unix epoch; 0: never.
        expires: u64,
        /// The account, where the provider wants it named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        account_id: Option<String>,
        /// The domain of a company's own GitHub.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        enterprise_url: Option<String>,
    },
    /// A token of a company's gateway, to be put into a variable.
    #[serde(rename = "wellknown")]
    WellKnown {
        /// The variable.
        key: String,
        /// The token.
        token: String,
    },
}

/// In which file a login is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Ours.
    Own,
    /// OpenCode's.
    OpenCode,
}

impl Login {
    /// Returns a login by this key.
    pub fn key(key: impl Into<String>) -> Self {
        Self::Api { key: key.into(), metadata: None }
    }

    /// Returns its kind, as it is written.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Api { .. } => "api",
            Self::OAuth { .. } => "oauth",
            Self::WellKnown { .. } => "wellknown",
        }
    }
}

impl fmt::Debug for Login {
    /// Leaves the secrets out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.kind())
    }
}
