//! Messages of a session: giving prompts, and reading what was said.

use actix_web::{HttpResponse, web};
use protocol::MessageWithParts;
use protocol::prompt::PromptBody;

use super::session::session_id;
use crate::Server;
use crate::body::Json;
use crate::error::ApiError;

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/session/{id}/message", web::post().to(prompt))
        .route("/session/{id}/message", web::get().to(list))
        .route("/session/{id}/prompt_async", web::post().to(prompt_async));
}

async fn prompt(
    server: web::Data<Server>,
    id: web::Path<String>,
    body: Json<PromptBody>,
) -> Result<web::Json<MessageWithParts>, ApiError> {
    let id = session_id(&id)?;
    let accepted = server.runtime.prompt(&id, body.0).await?;
    let Some(end) = accepted.end else { return Ok(web::Json(accepted.message)) };
    let message_id = accepted.message.info.id().clone();
    let mut end = end;
    loop {
        match end.await {
            Ok(Ok(answer)) => return Ok(web::Json(answer)),
            Ok(Err(gone)) => return Err(ApiError::NotFound(gone.to_string())),
            // The session fell: its turn goes on, and so does the wait.
            Err(_) => {
                let session = server.runtime.session(&id).await?;
                end = session.address.send(actors::session::WaitTurn(message_id.clone())).await??;
            }
        }
    }
}

async fn prompt_async(
    server: web::Data<Server>,
    id: web::Path<String>,
    body: Json<PromptBody>,
) -> Result<HttpResponse, ApiError> {
    server.runtime.prompt(&session_id(&id)?, body.0).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn list(server: web::Data<Server>, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let id = session_id(&id)?;
    let (messages, _) = server.runtime.store.messages(&id, None, None).await?;
    Ok(HttpResponse::Ok().json(messages))
}
