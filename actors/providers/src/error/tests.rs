use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sse::{HeaderMap, HeaderName, HeaderValue, Url};

use super::*;

fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Answer {
    let headers = headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    Answer { status, headers: HeaderMap::from_iter(headers), body: body.to_owned() }
}

fn http(status: u16, body: &str) -> ProviderError {
    let json = [("content-type", "application/json")];
    ProviderError::from_sse(SseError::Http(Box::new(answer(status, &json, body))), 0)
}

fn page(kind: &'static str, body: &str) -> ProviderError {
    let page = answer(200, &[("content-type", kind)], body);
    ProviderError::from_sse(SseError::NotAStream(Box::new(page)), 0)
}

fn wire(error: &ProviderError) -> Value {
    serde_json::to_value(error.to_session_error("p")).expect("JSON")
}

const PLAIN: &str = r#"{"error":{"message":"m"}}"#;

#[test]
fn statuses_are_classed_as_in_the_table() {
    use ErrorClass::*;
    for (status, class) in [
        (400, BadRequest),
        (401, Auth),
        (402, Auth),
        (403, Auth),
        (404, BadRequest),
        (408, Retryable),
        (409, Retryable),
        (413, Overflow),
        (422, BadRequest),
        (425, Retryable),
        (429, Retryable),
        (500, Retryable),
        (502, Retryable),
        (503, Retryable),
        (529, Retryable),
        (307, Unknown),
    ] {
        assert_eq!(http(status, PLAIN).class(), class, "{status}");
        assert_eq!(http(status, "<html>no JSON</html>").class(), class, "{status}");
    }
}

#[test]
fn codes_and_texts_are_classed_with_a_status_and_in_a_stream() {
    use ErrorClass::*;
    for (status, error, class) in [
        (
            400,
            json!({ "code": "context_length_exceeded", "message": "odd", "type": "invalid_request_error" }),
            Overflow,
        ),
        (
            400,
            json!({ "type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum" }),
            Overflow,
        ),
        (400, json!({ "type": "exceed_context_size_error", "message": "x", "code": 400, "n_ctx": 4096 }), Overflow),
        (500, json!({ "message": "the request exceeds the available context size (4096 tokens)" }), Overflow),
        (400, json!({ "message": "Provider returned error", "metadata": { "raw": "Prompt is too long" } }), Overflow),
        (429, json!({ "message": "Prompt is too long for your tokens per minute" }), Retryable),
        (429, json!({ "code": "insufficient_quota", "message": "pay" }), Auth),
        (400, json!({ "code": "invalid_api_key", "message": "bad key" }), Auth),
        (400, json!({ "code": "content_filter", "message": "no" }), ContentFilter),
        (403, json!({ "message": "Your input was flagged", "code": 403 }), ContentFilter),
        (400, json!({ "type": "server_error", "message": "boom" }), Retryable),
        (400, json!({ "code": 502, "message": "upstream" }), Retryable),
        (400, json!({ "type": "overloaded_error", "message": "Overloaded" }), Retryable),
        (400, json!({ "status": "RESOURCE_EXHAUSTED", "message": "slow" }), Retryable),
        (404, json!({ "type": "invalid_request_error", "code": "model_not_found", "message": "no" }), BadRequest),
    ] {
        let body = json!({ "error": error }).to_string();
        assert_eq!(http(status, &body).class(), class, "{status} {body}");
    }
    for (error, class) in [
        (json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } }), Retryable),
        (json!({ "error": { "message": "busy", "code": "server_is_overloaded" } }), Retryable),
        (json!({ "error": { "message": "boom", "type": "server_error" } }), Retryable),
        (json!({ "error": { "message": "odd", "code": "context_length_exceeded" } }), Overflow),
        (json!({ "error": { "message": "odd", "type": "invalid_request_error" } }), BadRequest),
        (json!({ "error": { "message": "odd", "code": 401 } }), Auth),
        (json!({ "error": { "message": "odd", "code": 503 } }), Retryable),
        (json!({ "error": "odd" }), Retryable),
        (json!({ "object": "error", "message": "odd", "type": "BadRequestError", "code": 400 }), BadRequest),
        (
            json!({ "error": { "code": "rate_limit_exceeded", "message": "limit of 30000 tokens; prompt is too long" } }),
            Retryable,
        ),
    ] {
        assert_eq!(ProviderError::in_stream(&error.to_string()).class(), class, "{error}");
    }
}

#[test]
fn overflows_are_known_by_what_vendors_say_and_name_the_window() {
    for (text, window) in [
        ("prompt token count of 130000 exceeds the limit of 128000", Some(128_000)),
        ("Invalid request: Your request exceeded model token limit: 131072", Some(131_072)),
        ("You passed 40000 input tokens. However, the model's context length is only 32768 tokens", Some(32_768)),
        ("the model is loaded with context length of only 4096 tokens, which is not enough", Some(4_096)),
        ("Request Entity Too Large", None),
        ("Input tokens exceed the configured limit of 272000 tokens. Your messages are 300000", Some(272_000)),
        ("<400> InternalError.Algo: Range of input length should be [1, 30720]", Some(30_720)),
        ("Prompt exceeds max length", None),
        ("tokens in request more than max tokens allowed", None),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens", Some(4_096)),
        ("`inputs` must have less than 1024 tokens. Given: 1050", Some(1_024)),
        ("too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000", Some(4_081)),
        ("length of prompt_tokens (5000) must be less than max_seq_len (4096)", Some(4_096)),
    ] {
        let body = json!({ "error": { "message": text, "type": "invalid_request_error" } }).to_string();
        for error in [http(400, &body), ProviderError::in_stream(&body)] {
            assert_eq!((error.class(), error.context_limit()), (ErrorClass::Overflow, window), "{text}");
        }
        assert_eq!(http(400, text).class(), ErrorClass::Overflow, "{text}");
    }
    for code in [json!("model_max_prompt_tokens_exceeded"), json!("1261"), json!(1261)] {
        let body = json!({ "error": { "code": code, "message": "odd" } }).to_string();
        assert_eq!(http(400, &body).class(), ErrorClass::Overflow, "{code}");
    }
    let other = json!({ "error": { "code": 1214, "message": "messages: the limit of pictures is 5000" } }).to_string();
    assert_eq!(http(400, &other).class(), ErrorClass::BadRequest);
}

#[test]
fn a_wait_that_only_the_body_names_is_kept() {
    let google = json!({ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota", "details": [
        { "@type": "type.googleapis.com/google.rpc.Help" },
        { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s" },
    ] } });
    let openai = json!({ "error": { "code": "rate_limit_exceeded", "message": "Please try again in 1.5s." } });
    for (body, ms) in [(google, 37_000), (openai, 1_500)] {
        let body = body.to_string();
        for error in [http(429, &body), ProviderError::in_stream(&body)] {
            assert_eq!(error.retry_after(), Some(Duration::from_millis(ms)), "{body}");
        }
        let headers = [("retry-after", "2")];
        let error = ProviderError::from_sse(SseError::Http(Box::new(answer(429, &headers, &body))), 0);
        assert_eq!(error.retry_after(), Some(Duration::from_secs(2)), "the header goes first");
    }
}

#[test]
fn an_error_in_a_stream_is_told_as_it_came_while_it_waits_to_be_tried_again() {
    let object = r#"{ "message":"boom sk-1234","type":"server_error" }"#;
    let blame = Blame::new("http://h/".parse().expect("a url"), vec!["sk-1234".into()]);
    let told = |data: &str| blame.put(ProviderError::in_stream(data)).status_text().to_owned();
    assert_eq!(told(&format!("{{\"error\":{object}}}")), object.replace("sk-1234", "***"));
    assert_eq!(told(r#"{"error":"boom"}"#), r#"{"error":"boom"}"#);
    assert_eq!(told(r#"{"message":"boom"}"#), r#"{"message":"boom"}"#);
    assert_eq!(http(500, PLAIN).status_text(), "m");
}

#[test]
fn lost_streams_may_be_tried_again_and_unreadable_ones_not() {
    let class = |error| ProviderError::from_sse(error, 0).class();
    for error in [
        SseError::Idle { limit_ms: 5 },
        SseError::HeaderTimeout { limit_ms: 5 },
        SseError::Cut("reset".into()),
        SseError::Connect("refused".into()),
    ] {
        assert_eq!(class(error), ErrorClass::Retryable);
    }
    assert_eq!(class(SseError::TooBig { limit: 1 }), ErrorClass::Unknown);
    assert_eq!(class(SseError::Malformed("x".into())), ErrorClass::Unknown);
    let idle = ProviderError::from_sse(SseError::Idle { limit_ms: 1_500 }, 0);
    assert!(idle.to_string().contains("idle for 1500 ms") && idle.to_string().contains("timed out"));
}

#[test]
fn a_page_instead_of_a_stream_says_what_to_check_and_an_error_object_in_one_is_classed() {
    let html = page("text/html", "<html>welcome</html>");
    assert_eq!(html.class(), ErrorClass::BadRequest);
    assert!(html.to_string().contains("text/html") && html.to_string().contains("baseURL"), "{html}");
    let busy = page("application/json", r#"{"error":{"message":"busy","type":"overloaded_error"}}"#);
    assert_eq!((busy.class(), busy.to_string()), (ErrorClass::Retryable, "busy".into()));
    assert_eq!(page("application/json", r#"{"error":{"message":"odd"}}"#).class(), ErrorClass::BadRequest);
    assert_eq!(page("text/event-stream", r#"{"error":{"message":"odd"}}"#).class(), ErrorClass::Retryable);
}

#[test]
fn the_message_is_the_vendors_or_a_readable_body_or_the_status() {
    assert_eq!(http(400, PLAIN).to_string(), "m");
    assert_eq!(http(500, "upstream went away").to_string(), "upstream went away");
    assert_eq!(http(502, "<html><body>Bad</body></html>").to_string(), "the server answered 502 Bad Gateway");
    assert_eq!(http(503, "").to_string(), "the server answered 503 Service Unavailable");
}

#[test]
fn the_wait_and_the_window_are_kept() {
    let headers = [("retry-after", "7")];
    let error = ProviderError::from_sse(SseError::Http(Box::new(answer(429, &headers, PLAIN))), 0);
    assert_eq!((error.retry_after(), error.is_retryable()), (Some(Duration::from_secs(7)), true));
    let text = "the request exceeds the available context size (4096 tokens)";
    let error = http(400, &json!({ "error": { "message": text } }).to_string());
    assert_eq!(error.context_limit(), Some(4_096));
    assert_eq!(http(429, &json!({ "error": { "message": "limit of 4096 tokens" } }).to_string()).context_limit(), None);
}

#[test]
fn an_error_with_a_status_is_an_api_error_as_on_the_wire() {
    let url: Url = "http://user:pass@127.0.0.1:1/v1/chat/completions?key=secret".parse().expect("a url");
    let blame = Blame::new(url, Vec::new());
    let body = r#"{"error":{"message":"bad key","type":"invalid_request_error","code":"invalid_api_key"}}"#;
    assert_eq!(
        wire(&blame.put(http(401, body))),
        json!({ "name": "APIError", "data": {
            "message": "bad key",
            "statusCode": 401,
            "isRetryable": false,
            "responseHeaders": { "content-type": "application/json" },
            "responseBody": body,
            "metadata": { "url": "http://127.0.0.1:1/v1/chat/completions" },
        } })
    );
    let cut = blame.put(ProviderError::from_sse(SseError::Cut("reset".into()), 0));
    assert_eq!(
        wire(&cut),
        json!({ "name": "APIError", "data": {
            "message": "the connection was cut: reset",
            "isRetryable": true,
            "metadata": { "url": "http://127.0.0.1:1/v1/chat/completions" },
        } })
    );
}

#[test]
fn the_other_classes_have_names_of_their_own_on_the_wire() {
    let body = r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","code":"context_length_exceeded"}}"#;
    assert_eq!(
        wire(&http(400, body)),
        json!({ "name": "ContextOverflowError", "data": {
            "message": "This model's maximum context length is 128000 tokens.",
            "responseBody": body,
        } })
    );
    for (class, name) in [
        (ErrorClass::Cancelled, "MessageAbortedError"),
        (ErrorClass::ContentFilter, "ContentFilterError"),
        (ErrorClass::Auth, "ProviderAuthError"),
        (ErrorClass::Unknown, "UnknownError"),
        (ErrorClass::BadRequest, "APIError"),
        (ErrorClass::Retryable, "APIError"),
    ] {
        assert_eq!(wire(&ProviderError::new(class, "m"))["name"], name);
    }
}

#[test]
fn a_key_that_the_vendor_repeats_is_starred_out_and_long_texts_are_cut() {
    let blame = Blame::new("http://h/".parse().expect("a url"), vec!["sk-1234".into()]);
    let long = "好".repeat(20_000);
    let error =
        blame.put(http(401, &json!({ "error": { "message": format!("wrong key sk-1234 {long}") } }).to_string()));
    let shown = format!("{error} {error:?} {}", wire(&error));
    assert!(!shown.contains("sk-1234") && shown.contains("wrong key ***"));
    assert_eq!(error.to_string().chars().count(), KEPT);
}
