//! How long a vendor asks to wait.

use std::time::Duration;

use chrono::DateTime;
use sse::HeaderMap;

/// Returns the wait: `retry-after-ms`, else `retry-after` in seconds or as an HTTP date; zero for a date that is past.
/// A number that is no wait is passed over.
pub(super) fn read(headers: &HeaderMap, now_ms: u64) -> Option<Duration> {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim());
    let ms = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok());
    if let Some(wait) = ms.and_then(|ms| seconds(ms / 1_000.0)) {
        return Some(wait);
    }
    let after = text("retry-after")?;
    if let Ok(number) = after.parse::<f64>() {
        return seconds(number);
    }
    let date = u64::try_from(DateTime::parse_from_rfc2822(after).ok()?.timestamp_millis()).ok()?;
    Some(Duration::from_millis(date.saturating_sub(now_ms)))
}

/// What stands before a wait in the vendors' texts.
const BEFORE_WAIT: [&str; 3] = ["try again in", "retry in", "retry after"];

/// Returns the wait that a text in lower case names.
pub(super) fn said(text: &str) -> Option<Duration> {
    BEFORE_WAIT.iter().find_map(|before| duration(text.split_once(before)?.1))
}

/// Returns the time a text in lower case begins with: `20s`, `1m30.5s`, `350 ms`, `2 minutes`. A number without a unit
/// is none.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (mut rest, mut sum) = (text, None);
    loop {
        let start = rest.trim_start_matches([' ', ':']);
        let digits = start.len() - start.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let Some((number, after)) = start.split_at_checked(digits) else { return sum };
        let after = after.trim_start_matches(' ');
        let letters = after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let Some((unit, after)) = after.split_at_checked(letters) else { return sum };
        let factor = match unit {
            "ms" | "msec" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hour" | "hours" => 3_600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => return sum,
        };
        let Some(part) = number.parse::<f64>().ok().and_then(|number| seconds(number * factor)) else { return sum };
        sum = sum.unwrap_or(Duration::ZERO).checked_add(part);
        rest = after;
    }
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
    fn a_wait_is_found_in_the_vendors_texts() {
        for (text, ms) in [
            ("rate limit reached for m. please try again in 20s. visit", Some(20_000)),
            ("please try again in 1m30.5s.", Some(90_500)),
            ("try again in 350ms", Some(350)),
            ("retry after 2 minutes", Some(120_000)),
            ("please retry in 37.12s.", Some(37_120)),
            ("try again in 1h0m0s", Some(3_600_000)),
            ("try again in a moment", None),
            ("try again in 5", None),
            ("slow down", None),
        ] {
            assert_eq!(said(text), ms.map(Duration::from_millis), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "[0-9.smh :好e-]{0,12}") {
            duration(&text);
        }
    }

    #[test]
    fn milliseconds_go_before_seconds_unless_they_are_none() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", HeaderValue::from_static("7"));
        headers.insert("retry-after-ms", HeaderValue::from_static("10"));
        assert_eq!(read(&headers, 0), Some(Duration::from_millis(10)));
        for odd in ["-1", "NaN", "soon"] {
            headers.insert("retry-after-ms", HeaderValue::from_static(odd));
            assert_eq!(read(&headers, 0), Some(Duration::from_secs(7)), "{odd}");
        }
    }
}
