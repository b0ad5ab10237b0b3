//! Who may come in: a password where one is set; of web pages only this machine's own and those that were named; no
//! foreign `Host`. Adds the CORS headers, and logs the requests of other machines.
//!
//! A page of the internet can send requests to this machine, by its address or by a name that is made to point here
//! (DNS rebinding). The browser says where the page is from (`Origin`) and which name it used (`Host`); programs that
//! are no browsers are free to say what they like and are held back by the password alone. The unix socket is guarded
//! by its file mode: whoever may open it may come in.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};

use actix_web::body::{BoxBody, EitherBody, MessageBody};
use actix_web::dev::{Extensions, ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::{Error, HttpResponse, ResponseError, web};
use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, general_purpose};
use subtle::ConstantTimeEq;

use crate::Server;
use crate::error::ApiError;
use crate::query::Query;

/// What a browser may do.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, PUT, PATCH, POST, DELETE");
/// How long it may remember that, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("86400");
/// Most characters of a path in the log.
const LOGGED_PATH: usize = 200;
/// Pages of programs that bring their own browser, and the web client of OpenCode.
const ORIGINS: [&str; 2] = ["tauri://localhost", "https://app.opencode.ai"];
/// Pages this machine serves itself, on any port.
const LOCAL_ORIGINS: [&str; 3] = ["http://localhost", "http://127.0.0.1", "http://[::1]"];

/// Who may come in.
#[derive(Clone, Default)]
pub struct Access {
    /// User name and password; none: whoever reaches the server.
    pub password: Option<(String, String)>,
    /// More origins of pages that may come in, as browsers write them: `https://example.org`.
    pub origins: Vec<String>,
}

/// Marks a connection over a unix socket.
struct OverSocket;

/// Notes over what a connection came.
pub fn on_connect(connection: &dyn Any, extensions: &mut Extensions) {
    #[cfg(unix)]
    if connection.is::<actix_web::rt::net::UnixStream>() {
        extensions.insert(OverSocket);
    }
}

/// Lets a request in, or answers it.
pub async fn guard(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<EitherBody<impl MessageBody>>, Error> {
    let Some(server) = request.app_data::<web::Data<Server>>().cloned() else {
        let error = ApiError::Internal("the guard has no server".into());
        return Ok(request.into_response(error.error_response()).map_into_right_body());
    };
    let verdict = judge(&server.access, &Visit::of(&request));
    let allowed = allowed_origin(&server.access, &request);
    let guest = Guest::of(&request);
    let answer = match verdict {
        Verdict::Enter => {
            let mut response = next.call(request).await?.map_into_left_body::<BoxBody>();
            mark(response.headers_mut(), allowed);
            guest.inspect(|guest| guest.log(response.status()));
            return Ok(response);
        }
        Verdict::Preflight => preflight(request.headers()),
        Verdict::Refuse(reason) => ApiError::Forbidden(reason).error_response(),
        Verdict::AskPassword => HttpResponse::build(StatusCode::UNAUTHORIZED)
            .insert_header((header::WWW_AUTHENTICATE, r#"Basic realm="Secure Area""#))
            .finish(),
    };
    let mut response = request.into_response(answer).map_into_right_body();
    mark(response.headers_mut(), allowed);
    guest.inspect(|guest| guest.log(response.status()));
    Ok(response)
}

/// A request of another machine. Its query is left out: it may hold the password.
#[derive(Debug, PartialEq, Eq)]
struct Guest {
    peer: IpAddr,
    method: Method,
    path: String,
}

impl Guest {
    fn of(request: &ServiceRequest) -> Option<Self> {
        let peer = request.peer_addr()?.ip().to_canonical();
        let path = || request.path().chars().take(LOGGED_PATH).collect();
        (!peer.is_loopback()).then(|| Self { peer, method: request.method().clone(), path: path() })
    }

    fn log(&self, status: StatusCode) {
        let Self { peer, method, path } = self;
        tracing::info!(%peer, %method, path, status = status.as_u16(), "a request of another machine");
    }
}

/// The answer to a browser that asks what it may send. It is the same for all: what counts is whether the origin is
/// named in it.
fn preflight(asked: &HeaderMap) -> HttpResponse {
    let mut response = HttpResponse::NoContent();
    response.insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, METHODS));
    response.insert_header((header::ACCESS_CONTROL_MAX_AGE, MAX_AGE));
    if let Some(headers) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        response.insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, headers.clone()));
    }
    response.insert_header((header::VARY, "Access-Control-Request-Headers, Origin"));
    response.finish()
}

/// Adds what each response says of origins.
fn mark(headers: &mut HeaderMap, allowed: Option<HeaderValue>) {
    if !headers.contains_key(header::VARY) {
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    }
    if let Some(origin) = allowed {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
}

/// What of a request decides.
#[derive(Debug)]
struct Visit<'a> {
    method: &'a Method,
    origin: Option<&'a str>,
    host: Option<&'a str>,
    authorization: Option<&'a str>,
    /// The query `auth_token`, for browsers' event streams, which can't send headers.
    token: Option<String>,
    /// Over a unix socket.
    over_socket: bool,
    /// Where the server listens.
    listening: SocketAddr,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Enter,
    Preflight,
    Refuse(String),
    AskPassword,
}

impl<'a> Visit<'a> {
    fn of(request: &'a ServiceRequest) -> Self {
        let text = |name: HeaderName| Some(request.headers().get(name)?.to_str().unwrap_or("?"));
        Self {
            method: request.method(),
            origin: text(header::ORIGIN),
            host: text(header::HOST),
            authorization: text(header::AUTHORIZATION),
            token: Query::of(request.query_string()).text("auth_token").map(str::to_owned),
            over_socket: request.conn_data::<OverSocket>().is_some(),
            listening: request.app_config().local_addr(),
        }
    }
}

fn judge(access: &Access, visit: &Visit<'_>) -> Verdict {
    if *visit.method == Method::OPTIONS {
        return Verdict::Preflight;
    }
    if access.password.is_none()
        && !visit.over_socket
        && let Some(host) = visit.host.filter(|host| !is_own_host(host, visit.listening.ip()))
    {
        return Verdict::Refuse(format!(
            "requests for the host {host:?} are refused: use localhost or the address the server listens on, or set a password"
        ));
    }
    if let Some(origin) = visit.origin.filter(|origin| !may_come(access, origin, visit.host)) {
        return Verdict::Refuse(format!(
            "pages from {origin:?} are refused: name the origin in the global config under server.cors, or with --cors"
        ));
    }
    if visit.over_socket || has_password(access, visit) { Verdict::Enter } else { Verdict::AskPassword }
}

/// Whether pages from an origin may come in: those that are named, and the server's own.
fn may_come(access: &Access, origin: &str, host: Option<&str>) -> bool {
    let is_local = LOCAL_ORIGINS.iter().any(|local| match origin.strip_prefix(local) {
        Some("") => true,
        Some(rest) => rest.strip_prefix(':').is_some_and(is_port),
        None => false,
    });
    let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    is_local
        || ORIGINS.contains(&origin)
        || access.origins.iter().any(|allowed| allowed.trim_end_matches('/') == origin)
        || own.zip(host).is_some_and(|(own, host)| own.eq_ignore_ascii_case(host))
}

fn allowed_origin(access: &Access, request: &ServiceRequest) -> Option<HeaderValue> {
    let origin = request.headers().get(header::ORIGIN)?;
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    may_come(access, origin.to_str().ok()?, host).then(|| origin.clone())
}

/// Whether a `Host` can only mean this machine: a name of the internet could be made to point here, an address can't.
fn is_own_host(host: &str, listening: IpAddr) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, rest)) if rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port) => name,
        Some(_) => return false,
        None => match host.rsplit_once(':') {
            Some((name, port)) if is_port(port) => name,
            Some(_) => return false,
            None => host,
        },
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || listening.is_unspecified() || address == listening,
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn has_password(access: &Access, visit: &Visit<'_>) -> bool {
    let Some((user, password)) = &access.password else { return true };
    let basic = visit.authorization.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("basic").then(|| token.trim())
    });
    // A plus sign of a query that was not escaped is read as a blank.
    let token = visit.token.as_ref().map(|token| token.replace(' ', "+"));
    let wanted = format!("{user}:{password}");
    [basic, token.as_deref()].into_iter().flatten().any(|token| {
        let given = decode(token).unwrap_or_default();
        bool::from(given.as_slice().ct_eq(wanted.as_bytes()))
    })
}

fn decode(token: &str) -> Option<Vec<u8>> {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let standard = GeneralPurpose::new(&base64::alphabet::STANDARD, config);
    standard.decode(token).ok().or_else(|| general_purpose::URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).ok())
}

#[cfg(test)]
mod tests;
