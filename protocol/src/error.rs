//! Errors of a turn as clients see them: `{name, data}` on a message and in `session.error`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Why a turn, or one of its steps, failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", content = "data")]
pub enum SessionError {
    /// The vendor refused the key.
    ProviderAuthError {
        /// Which provider.
        #[serde(rename = "providerID")]
        provider_id: String,
        /// What it said.
        message: String,
    },
    /// Anything that has no name of its own.
    UnknownError {
        /// What happened, and what to do.
        message: String,
    },
    /// The model's answer was cut at its output limit and nothing of it can be used.
    MessageOutputLengthError {},
    /// Stopped by a person, or by a crash that could not be resumed.
    MessageAbortedError {
        /// Who or what stopped it.
        message: String,
    },
    /// No answer in the demanded shape.
    StructuredOutputError {
        /// What was wrong.
        message: String,
        /// How often it was tried again.
        retries: u32,
    },
    /// The request is larger than the model's window and could not be made smaller.
    ContextOverflowError {
        /// What the vendor said, with the numbers that are known.
        message: String,
        /// The vendor's answer.
        #[serde(default, rename = "responseBody", skip_serializing_if = "Option::is_none")]
        response_body: Option<String>,
    },
    /// The vendor's filter stopped the answer.
    ContentFilterError {
        /// What it said.
        message: String,
    },
    /// The vendor answered with an error, or not at all.
    #[serde(rename = "APIError")]
    ApiError(ApiError),
}

/// The data of `APIError`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ApiError {
    /// What the vendor said, or what broke.
    pub message: String,
    /// HTTP status, where there was one.
    #[serde(default, rename = "statusCode", skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// Whether the same request may succeed later.
    #[serde(rename = "isRetryable")]
    pub is_retryable: bool,
    /// The vendor's answer's headers (cookies left out).
    #[serde(default, rename = "responseHeaders", skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<BTreeMap<String, String>>,
    /// The vendor's answer, cut at a readable length.
    #[serde(default, rename = "responseBody", skip_serializing_if = "Option::is_none")]
    pub response_body: Option<String>,
    /// `url`: where the request went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

impl SessionError {
    /// Returns the error of a turn that a person stopped.
    pub fn aborted() -> Self {
        Self::MessageAbortedError { message: "Aborted".into() }
    }

    /// Returns an error without a name of its own.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::UnknownError { message: message.into() }
    }

    /// Returns the text for a person.
    pub fn message(&self) -> &str {
        match self {
            Self::ProviderAuthError { message, .. }
            | Self::UnknownError { message }
            | Self::MessageAbortedError { message }
            | Self::StructuredOutputError { message, .. }
            | Self::ContextOverflowError { message, .. }
            | Self::ContentFilterError { message } => message,
            Self::MessageOutputLengthError {} => "the answer was cut at the model's output limit",
            Self::ApiError(error) => &error.message,
        }
    }
}
