//! Values of a query, and what is said of wrong ones.

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};

use crate::error::{ApiError, at};

/// The values of a query, in order. Of a key that comes twice the first counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl FromRequest for Query {
    type Error = Infallible;
    type Future = Ready<Result<Self, Infallible>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Self::of(request.query_string())))
    }
}

impl Query {
    /// Reads a query, without the question mark.
    pub fn of(text: &str) -> Self {
        Self(url::form_urlencoded::parse(text.as_bytes()).map(|(k, v)| (k.into_owned(), v.into_owned())).collect())
    }

    /// Returns a value, empty ones too.
    pub fn given(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns a value that is not empty.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.given(key).filter(|value| !value.is_empty())
    }

    /// Returns a value that must be there.
    pub fn needed(&self, key: &str) -> Result<&str, ApiError> {
        self.given(key).ok_or_else(|| ApiError::query(at("Missing key", key)))
    }

    /// Returns a whole number that is neither below `least` nor above `most`.
    pub fn number(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let wrong = |message: String| Err(ApiError::query(at(&message, key)));
        match text.parse::<i128>() {
            Ok(number) if number < i128::from(least) => wrong(format!("must not be less than {least}, got {text}")),
            Ok(number) if number > i128::from(most) => wrong(format!("must not be more than {most}, got {text}")),
            Ok(number) => Ok(u64::try_from(number).ok()),
            Err(_) => wrong(format!("must be a whole number, got {}", short(text))),
        }
    }

    /// Returns a flag: `true` or `false`.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, ApiError> {
        self.one_of(key, &[("true", true), ("false", false)])
    }

    /// Returns one of the values that are allowed.
    pub fn one_of<T: Copy>(&self, key: &str, allowed: &[(&str, T)]) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match allowed.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let names: Vec<String> = allowed.iter().map(|(name, _)| format!("{name:?}")).collect();
                Err(ApiError::query(at(&format!("Expected {}, got {}", names.join(" | "), short(text)), key)))
            }
        }
    }

    /// Returns the query without these keys, and with these values after the rest.
    pub fn with(&self, without: &[&str], more: &[(&str, &str)]) -> String {
        let mut text = url::form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(self.0.iter().filter(|(key, _)| !without.contains(&key.as_str())));
        text.extend_pairs(more);
        text.finish()
    }
}

/// A client's value as an error shows it.
fn short(text: &str) -> Cow<'static, str> {
    let shown: String = text.chars().take(64).collect();
    format!("{shown:?}").into()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn wrong_values_are_named_with_their_place() {
        let query = Query::of("limit=abc&low=-1&high=201&roots=yes&empty=");
        let error = |result: Result<Option<u64>, ApiError>| result.err().map(|e| e.to_string()).unwrap_or_default();
        assert_eq!(error(query.number("limit", 0, 9)), "must be a whole number, got \"abc\"\n  at [\"limit\"]");
        assert_eq!(error(query.number("low", 0, 9)), "must not be less than 0, got -1\n  at [\"low\"]");
        assert_eq!(error(query.number("high", 1, 200)), "must not be more than 200, got 201\n  at [\"high\"]");
        let flag = query.flag("roots").expect_err("an error").to_string();
        assert_eq!(flag, "Expected \"true\" | \"false\", got \"yes\"\n  at [\"roots\"]");
        assert_eq!(query.needed("pattern").expect_err("an error").to_string(), "Missing key\n  at [\"pattern\"]");
        assert_eq!((query.given("empty"), query.text("empty")), (Some(""), None));
    }

    #[test]
    fn a_query_is_written_again_without_its_secret() {
        let query = Query::of("directory=%2Fa+b&limit=2&auth_token=x&before=y");
        assert_eq!(
            query.with(&["limit", "before", "auth_token"], &[("limit", "2"), ("before", "z")]),
            "directory=%2Fa+b&limit=2&before=z"
        );
    }
}
