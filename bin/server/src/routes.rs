//! The routes, one file a resource.

use actix_web::guard::{Any, Get, Guard, Head};
use actix_web::{HttpRequest, Route, web};

use crate::error::ApiError;

mod event;
mod file;
mod global;
mod mcp;
mod message;
mod part;
mod permission;
mod process;
mod project;
mod provider;
mod question;
mod session;
mod settings;
mod troupe;

/// Adds all routes.
pub fn configure(app: &mut web::ServiceConfig) {
    global::configure(app);
    event::configure(app);
    session::configure(app);
    message::configure(app);
    part::configure(app);
    permission::configure(app);
    process::configure(app);
    question::configure(app);
    mcp::configure(app);
    settings::configure(app);
    project::configure(app);
    provider::configure(app);
    file::configure(app);
    troupe::configure(app);
}

/// A route for reads: GET, and HEAD, which is answered without the body.
fn get() -> Route {
    web::route().guard(GetOrHead)
}

struct GetOrHead;

impl Guard for GetOrHead {
    fn check(&self, context: &actix_web::guard::GuardContext<'_>) -> bool {
        Any(Get()).or(Head()).check(context)
    }
}

/// Answers what no route does. (The real thing answers with its web page, whatever the method.)
pub async fn not_found(request: HttpRequest) -> Result<String, ApiError> {
    Err(ApiError::NotFound(format!("there is no route {} {}", request.method(), request.path())))
}
