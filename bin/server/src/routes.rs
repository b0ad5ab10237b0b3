//! The routes, one file a resource.

use actix_web::{HttpRequest, web};

use crate::error::ApiError;

mod global;
mod message;
mod session;

/// Adds all routes.
pub fn configure(app: &mut web::ServiceConfig) {
    global::configure(app);
    session::configure(app);
    message::configure(app);
}

/// Answers what no route does. (The real thing answers with its web page, whatever the method.)
pub async fn not_found(request: HttpRequest) -> Result<String, ApiError> {
    Err(ApiError::NotFound(format!("there is no route {} {}", request.method(), request.path())))
}
