//! Status and vendor's codes to [`ErrorClass`]. The table is in the docs of the module above.

use super::ErrorClass;
use super::body::VendorError;

const OVERFLOW: [&str; 10] = [
    "1261",
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "model_max_prompt_tokens_exceeded",
    "prompt_too_long",
    "request_too_large",
    "string_above_max_length",
    "tokens_limit_reached",
];

/// Without backquotes, as they are read. Who says which, where it isn't plain: Copilot "prompt token count", Kimi "model
/// token limit", vLLM "context length is only", LM Studio "context length of only", OpenAI "configured limit", Qwen
/// "range of input length", GLM "prompt exceeds max length" (code 1261), TGI "max_new_tokens" and "must have less than",
/// Cohere "too many tokens".
const OVERFLOW_TEXTS: [&str; 32] = [
    "context length exceeded",
    "context length is only",
    "context length of only",
    "context size has been exceeded",
    "context window exceeds",
    "exceed context limit",
    "exceeded max context length",
    "exceeded model token limit",
    "exceeds the available context size",
    "exceeds the context window",
    "exceeds the input token limit",
    "exceeds the maximum number of tokens",
    "exceeds the model's maximum context",
    "greater than the context length",
    "input is too long",
    "input length exceeds",
    "input tokens exceed the configured limit",
    "inputs must have less than",
    "inputs tokens + max_new_tokens must be",
    "larger than the maximum context",
    "length of prompt_tokens",
    "maximum context length",
    "maximum prompt length",
    "more than max tokens allowed",
    "prompt exceeds max length",
    "prompt is too long",
    "prompt token count of",
    "prompt too long",
    "range of input length should be",
    "reduce the length of the messages",
    "request entity too large",
    "too many tokens: total number of tokens",
];

const FILTER: [&str; 5] = [
    "content_filter",
    "content_policy_violation",
    "data_inspection_failed",
    "moderation_blocked",
    "responsibleaipolicyviolation",
];

const FILTER_TEXTS: [&str; 2] = ["content management policy", "your input was flagged"];

const AUTH: [&str; 16] = [
    "accessdeniedexception",
    "account_deactivated",
    "authentication_error",
    "billing_error",
    "billing_hard_limit_reached",
    "expiredtokenexception",
    "incorrect_api_key",
    "insufficient_credits",
    "insufficient_quota",
    "invalid_api_key",
    "invalid_authentication",
    "payment_required",
    "permission_denied",
    "permission_error",
    "unauthenticated",
    "unrecognizedclientexception",
];

const RATE_LIMIT: [&str; 7] = [
    "rate_limit_error",
    "rate_limit_exceeded",
    "rate_limited",
    "resource_exhausted",
    "slow_down",
    "throttlingexception",
    "too_many_requests",
];

const BROKEN: [&str; 26] = [
    "aborted",
    "api_error",
    "deadline_exceeded",
    "engine_overloaded",
    "engine_overloaded_error",
    "gateway_timeout",
    "internal",
    "internal_error",
    "internal_server_error",
    "internalservererror",
    "internalserverexception",
    "modelerrorexception",
    "modelnotreadyexception",
    "model_overloaded",
    "modelstreamerrorexception",
    "modeltimeoutexception",
    "overloaded",
    "overloaded_error",
    "server_error",
    "server_is_overloaded",
    "service_unavailable",
    "service_unavailable_error",
    "serviceunavailableexception",
    "timeout",
    "timeout_error",
    "unavailable",
];

const BAD_REQUEST: [&str; 12] = [
    "badrequesterror",
    "failed_precondition",
    "invalid_argument",
    "invalid_prompt",
    "invalid_request",
    "invalid_request_error",
    "model_not_found",
    "not_found",
    "not_found_error",
    "resourcenotfoundexception",
    "validation_error",
    "validationexception",
];

/// Returns the class of an answer with this status, or of an error object in a stream if there is none.
pub(crate) fn class(status: Option<u16>, vendor: &VendorError) -> ErrorClass {
    let named = |codes: &[&str]| vendor.codes.iter().any(|code| codes.contains(&code.as_str()));
    let said = |texts: &[&str]| texts.iter().any(|text| vendor.text.contains(text));
    let is = |wanted: fn(u16) -> bool| status.is_some_and(wanted) || vendor.status.is_some_and(wanted);
    // A limit of tokens a minute is said in nearly the same words, and waiting helps there.
    let size_may_be_meant = !is(|status| matches!(status, 401..=403 | 429)) && !named(&RATE_LIMIT);

    if is(|status| status == 413) || named(&OVERFLOW) || size_may_be_meant && said(&OVERFLOW_TEXTS) {
        ErrorClass::Overflow
    } else if named(&FILTER) || said(&FILTER_TEXTS) {
        ErrorClass::ContentFilter
    } else if is(|status| matches!(status, 401..=403)) || named(&AUTH) {
        ErrorClass::Auth
    } else if is(|status| matches!(status, 408 | 409 | 425 | 429 | 500..=599)) || named(&RATE_LIMIT) || named(&BROKEN) {
        ErrorClass::Retryable
    } else if is(|status| matches!(status, 400..=499)) || named(&BAD_REQUEST) {
        ErrorClass::BadRequest
    } else if status.is_none() {
        ErrorClass::Retryable
    } else {
        ErrorClass::Unknown
    }
}
