//! Messages of a session: giving prompts and commands, and reading what was said.

use actix_web::{HttpRequest, HttpResponse, web};
use actors::runtime::command::Called;
use actors::session::command::RemoveMessage;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use protocol::prompt::{CommandBody, InitBody, PromptBody, ShellBody, SummarizeBody};
use protocol::{MessageId, MessageWithParts, SessionId};
use serde::{Deserialize, Serialize};
use storage::store::Cursor;

use super::get;
use super::session::known;
use crate::body::Json;
use crate::error::ApiError;
use crate::query::Query;
use crate::{Server, ids, wait};

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/session/{id}/message", get().to(list))
        .route("/session/{id}/message", web::post().to(prompt))
        .route("/session/{id}/message/{message}", get().to(read))
        .route("/session/{id}/message/{message}", web::delete().to(delete))
        .route("/session/{id}/prompt_async", web::post().to(prompt_async))
        .route("/session/{id}/shell", web::post().to(shell))
        .route("/session/{id}/command", web::post().to(command))
        .route("/session/{id}/init", web::post().to(init))
        .route("/session/{id}/summarize", web::post().to(summarize));
}

/// Answers when the turn has ended: with the last message of the request that first held the prompt.
async fn prompt(
    server: web::Data<Server>,
    id: web::Path<String>,
    body: Json<PromptBody>,
) -> Result<web::Json<MessageWithParts>, ApiError> {
    let id = ids::session(&id)?;
    let accepted = server.runtime.prompt(&id, body.0).await?;
    let Some(end) = accepted.end else { return Ok(web::Json(accepted.message)) };
    let prompt = accepted.message.info.id().clone();
    Ok(web::Json(wait::answer(&server, &id, &prompt, end).await?))
}

/// Answers when the prompt is stored.
async fn prompt_async(
    server: web::Data<Server>,
    id: web::Path<String>,
    body: Json<PromptBody>,
) -> Result<HttpResponse, ApiError> {
    server.runtime.prompt(&ids::session(&id)?, body.0).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Answers when the command has ended.
async fn shell(
    server: web::Data<Server>,
    id: web::Path<String>,
    body: Json<ShellBody>,
) -> Result<web::Json<MessageWithParts>, ApiError> {
    let id = ids::session(&id)?;
    // Named here, so that its end can be asked for again.
    let prompt = body.0.message_id.unwrap_or_else(|| server.runtime.ids.message());
    let body = ShellBody { message_id: Some(prompt.clone()), ..body.0 };
    let end = server.runtime.shell(&id, body).await?;
    Ok(web::Json(wait::answer(&server, &id, &prompt, end).await?))
}

/// Answers when the turn of a command has ended, with its last message.
async fn command(
    server: web::Data<Server>,
    id: web::Path<String>,
    body: Json<CommandBody>,
) -> Result<web::Json<MessageWithParts>, ApiError> {
    Ok(web::Json(run_command(server, ids::session(&id)?, body.0).await?))
}

/// Runs the command `init`, and answers when its turn has ended.
async fn init(
    server: web::Data<Server>,
    id: web::Path<String>,
    body: Json<InitBody>,
) -> Result<web::Json<bool>, ApiError> {
    let InitBody { model_id, provider_id, message_id } = body.0;
    let body = CommandBody {
        message_id: Some(message_id),
        agent: None,
        model: Some(format!("{provider_id}/{model_id}")),
        arguments: String::new(),
        command: "init".into(),
        variant: None,
        parts: Vec::new(),
    };
    run_command(server, ids::session(&id)?, body).await?;
    Ok(web::Json(true))
}

/// Runs a command. Its end is told also when the client has hung up meanwhile.
async fn run_command(
    server: web::Data<Server>,
    id: SessionId,
    body: CommandBody,
) -> Result<MessageWithParts, ApiError> {
    let (name, arguments) = (body.command.clone(), body.arguments.clone());
    let Called { prompt, end, is_known } = server.runtime.command(&id, body).await?;
    let io = server.runtime.io().clone();
    let run = io.spawn(async move {
        let answer = wait::answer(&server, &id, &prompt, end).await?;
        if !is_known {
            server.runtime.command_executed(&id, name, arguments, answer.info.id().clone()).await;
        }
        Ok(answer)
    });
    run.await.map_err(|error| ApiError::Internal(error.to_string()))?
}

/// Answers when the summary is written.
async fn summarize(
    server: web::Data<Server>,
    id: web::Path<String>,
    body: Json<SummarizeBody>,
) -> Result<web::Json<bool>, ApiError> {
    let id = ids::session(&id)?;
    let request = server.runtime.ids.message();
    let end = server.runtime.summarize(&id, &request, body.0).await?;
    wait::answer(&server, &id, &request, end).await?;
    Ok(web::Json(true))
}

/// Lists messages, oldest first; with `limit` the newest so many, before the place that `before` names. Where there
/// are older ones the headers say how to get them.
async fn list(
    server: web::Data<Server>,
    id: web::Path<String>,
    query: Query,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let id = ids::session(&id)?;
    let limit = query.number("limit", 0, u64::from(u32::MAX))?.filter(|limit| *limit > 0).map(|limit| limit as u32);
    let before = query.text("before").map(cursor).transpose()?;
    if before.is_some() && limit.is_none() {
        return Err(ApiError::BadRequestTag("before needs a limit".into()));
    }
    known(&server, &id).await?;
    let (messages, next) = server.runtime.store.messages(&id, limit, before.as_ref()).await?;
    let mut response = HttpResponse::Ok();
    if let (Some(next), Some(limit)) = (next, limit) {
        let next = cursor_text(&next);
        let query = query.with(
            &["limit", "before", "auth_token"],
            &[("limit", limit.to_string().as_str()), ("before", next.as_str())],
        );
        response.insert_header(("access-control-expose-headers", "Link, X-Next-Cursor"));
        response.insert_header(("link", format!("<{}?{query}>; rel=\"next\"", request.path())));
        response.insert_header(("x-next-cursor", next));
    }
    Ok(response.json(messages))
}

async fn read(server: web::Data<Server>, path: web::Path<(String, String)>) -> Result<HttpResponse, ApiError> {
    let (id, message) = (ids::session(&path.0)?, ids::message(&path.1)?);
    match server.runtime.store.message(&id, &message).await? {
        Some(found) => Ok(HttpResponse::Ok().json(found)),
        None => {
            known(&server, &id).await?;
            Err(ApiError::NotFound(format!("Message not found: {message}")))
        }
    }
}

async fn delete(server: web::Data<Server>, path: web::Path<(String, String)>) -> Result<web::Json<bool>, ApiError> {
    let (id, message) = (ids::session(&path.0)?, ids::message(&path.1)?);
    server.runtime.ask(&id, |ticket| RemoveMessage { id: message.clone(), ticket }).await?;
    Ok(web::Json(true))
}

/// What a cursor holds, as base64 of its JSON.
#[derive(Serialize, Deserialize)]
struct CursorText {
    id: MessageId,
    time: u64,
}

fn cursor_text(cursor: &Cursor) -> String {
    let text = CursorText { id: cursor.id.clone(), time: cursor.time };
    URL_SAFE_NO_PAD.encode(serde_json::to_string(&text).unwrap_or_default())
}

fn cursor(text: &str) -> Result<Cursor, ApiError> {
    let wrong = || ApiError::BadRequestTag("before is no cursor; take it from the header X-Next-Cursor".into());
    let plain = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).or_else(|_| STANDARD.decode(text));
    let CursorText { id, time } = serde_json::from_slice(&plain.map_err(|_| wrong())?).map_err(|_| wrong())?;
    Ok(Cursor { id, time })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_so_is_one_of_the_real_thing() {
        let known =
            Cursor { id: MessageId::parse("msg_22c5918ea001V9Azs9x3uINccr").expect("an id"), time: 1796040366314 };
        assert_eq!(cursor(&cursor_text(&known)).ok(), Some(known.clone()));
        let real = "eyJpZCI6Im1zZ18yMmM1OTE4ZWEwMDFWOUF6czl4M3VJTmNjciIsInRpbWUiOjE3OTYwNDAzNjYzMTR9";
        assert_eq!(cursor(real).ok(), Some(known));
    }

    proptest! {
        #[test]
        fn anything_else_is_told_to_be_none(text in ".{0,40}") {
            prop_assert!(matches!(cursor(&text), Err(ApiError::BadRequestTag(_))));
        }
    }
}
