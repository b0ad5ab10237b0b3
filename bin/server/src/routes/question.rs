//! Questions that wait for a person.

use std::sync::Arc;

use actix_web::web;
use actors::permission_broker::{ListWaiting, ReplyQuestions};
use protocol::question::{Answers, QuestionRequest};
use serde::Deserialize;

use super::get;
use crate::body::Json;
use crate::error::{ApiError, Asked};
use crate::place::Place;
use crate::{Server, ids};

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/question", get().to(list))
        .route("/question/{id}/reply", web::post().to(reply))
        .route("/question/{id}/reject", web::post().to(reject));
}

async fn list(server: web::Data<Server>, place: Place) -> Result<web::Json<Vec<Arc<QuestionRequest>>>, ApiError> {
    let directory = place.text();
    let waiting = server.runtime.broker.send(ListWaiting).await?.questions.into_iter();
    Ok(web::Json(waiting.filter(|(_, at)| at.directory == directory).map(|(request, _)| request).collect()))
}

/// The body of `POST /question/:id/reply`.
#[derive(Deserialize)]
struct ReplyBody {
    answers: Answers,
}

async fn reply(
    server: web::Data<Server>,
    id: web::Path<String>,
    body: Json<ReplyBody>,
) -> Result<web::Json<bool>, ApiError> {
    answer(&server, &id, Some(body.0.answers)).await
}

async fn reject(server: web::Data<Server>, id: web::Path<String>) -> Result<web::Json<bool>, ApiError> {
    answer(&server, &id, None).await
}

async fn answer(server: &Server, id: &str, answers: Option<Answers>) -> Result<web::Json<bool>, ApiError> {
    let reply = ReplyQuestions { id: ids::question(id)?.to_string(), answers };
    server.runtime.broker.send(reply).await?.map_err(|error| Asked::Question.error(error))?;
    Ok(web::Json(true))
}
