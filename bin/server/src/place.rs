//! Which directory a request is about: the query `directory`, the header `x-opencode-directory` (plain or
//! percent-encoded), the query `location[directory]`, or where the server was started, in this order.

use std::future::{Ready, ready};
use std::path::PathBuf;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use percent_encoding::percent_decode_str;
use tools::path::normalize;

use crate::Server;
use crate::error::ApiError;
use crate::query::Query;

/// The header that names it.
const HEADER: &str = "x-opencode-directory";

/// The directory a request is about: absolute, without `.` and `..`. It need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(pub PathBuf);

impl Place {
    /// Returns the directory as it is stored with sessions and events.
    pub fn text(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }
}

impl FromRequest for Place {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(of(request))
    }
}

fn of(request: &HttpRequest) -> Result<Place, ApiError> {
    let query = Query::of(request.query_string());
    let asked = |key| query.text(key).map(str::to_owned);
    if let Some(workspace) = asked("workspace") {
        return Err(ApiError::query(format!("Workspace not found: {workspace}")));
    }
    let header = || {
        let value = request.headers().get(HEADER)?.as_bytes();
        let text = percent_decode_str(std::str::from_utf8(value).ok()?).decode_utf8().ok()?;
        Some(text.into_owned()).filter(|text| !text.is_empty())
    };
    let named = asked("directory").or_else(header).or_else(|| asked("location[directory]"));
    let start = request.app_data::<web::Data<Server>>().map(|server| server.start_directory.clone());
    let start = start.unwrap_or_else(|| PathBuf::from("/"));
    match named {
        None => Ok(Place(start)),
        Some(named) if named.contains('\0') => Err(ApiError::query("directory holds a NUL character")),
        // Links stay: a directory is what its user calls it.
        Some(named) => Ok(Place(normalize(&start.join(named)))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use actix_web::test::TestRequest;

    use super::*;

    fn place(request: TestRequest) -> PathBuf {
        of(&request.to_http_request()).expect("a place").0
    }

    #[test]
    fn the_query_beats_the_header_and_both_forms_of_the_header_are_read() {
        let both = TestRequest::with_uri("/?directory=%2Fa%2Fb").insert_header((HEADER, "/c"));
        assert_eq!(place(both), Path::new("/a/b"));
        assert_eq!(place(TestRequest::default().insert_header((HEADER, "%2Fc%20d"))), Path::new("/c d"));
        assert_eq!(place(TestRequest::default().insert_header((HEADER, "/c/./x/../d/"))), Path::new("/c/d"));
        assert_eq!(place(TestRequest::with_uri("/api/agent?location[directory]=/e&")), Path::new("/e"));
        assert_eq!(place(TestRequest::with_uri("/api/agent?location%5Bdirectory%5D=%2Fe")), Path::new("/e"));
        assert_eq!(place(TestRequest::default()), Path::new("/"));
    }
}
