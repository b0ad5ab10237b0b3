//! How long a vendor asks to wait.

use std::time::Duration;

use chrono::DateTime;
use sse::HeaderMap;

/// Returns the wait: `retry-after-ms`, else `retry-after` in seconds or as an HTTP date; zero for a date that is past.
pub(super) fn read(headers: &HeaderMap, now_ms: u64) -> Option<Duration> {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim());
    if let Some(ms) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return seconds(ms / 1_000.0);
    }
    let after = text("retry-after")?;
    if let Ok(number) = after.parse::<f64>() {
        return seconds(number);
    }
    let date = u64::try_from(DateTime::parse_from_rfc2822(after).ok()?.timestamp_millis()).ok()?;
    Some(Duration::from_millis(date.saturating_sub(now_ms)))
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use sse::HeaderValue;

    use super::*;

    #[test]
    fn seconds_milliseconds_and_dates_are_read_and_nonsense_is_left_out() {
        let now = 1_700_000_000_000; // Tue, 14 Nov 2023 22:13:20 GMT
        for (name, value, wait) in [
            ("retry-after", "7", Some(7_000)),
            ("retry-after", " 1.5 ", Some(1_500)),
            ("retry-after", "100000", Some(100_000_000)),
            ("retry-after", "Tue, 14 Nov 2023 22:13:30 GMT", Some(10_000)),
            ("retry-after", "Tue, 14 Nov 2023 22:00:00 GMT", Some(0)),
            ("retry-after-ms", "250", Some(250)),
            ("retry-after", "-1", None),
            ("retry-after", "soon", None),
            ("retry-after", "NaN", None),
            ("retry-after", "1e300", None),
            ("x-other", "7", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            assert_eq!(read(&headers, now), wait.map(Duration::from_millis), "{name}: {value}");
        }
    }

    #[test]
    fn milliseconds_go_before_seconds() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", HeaderValue::from_static("7"));
        headers.insert("retry-after-ms", HeaderValue::from_static("10"));
        assert_eq!(read(&headers, 0), Some(Duration::from_millis(10)));
    }
}
