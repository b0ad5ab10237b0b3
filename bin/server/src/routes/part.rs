//! Parts of a message: changing them and taking them out.

use actix_web::web;
use actors::session::command::{RemovePart, UpdatePart};
use protocol::{MessageId, Part, PartId, SessionId};

use crate::body::Json;
use crate::error::{ApiError, at};
use crate::{Server, ids};

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    const PATH: &str = "/session/{id}/message/{message}/part/{part}";
    app.route(PATH, web::patch().to(update)).route(PATH, web::delete().to(delete));
}

type Path = web::Path<(String, String, String)>;

fn read(path: &Path) -> Result<(SessionId, MessageId, PartId), ApiError> {
    Ok((ids::session(&path.0)?, ids::message(&path.1)?, ids::part(&path.2)?))
}

async fn update(server: web::Data<Server>, path: Path, body: Json<Part>) -> Result<web::Json<Part>, ApiError> {
    let (session, message, part) = read(&path)?;
    let changed = body.0;
    let same = [
        ("sessionID", changed.session_id == session),
        ("messageID", changed.message_id == message),
        ("id", changed.id == part),
    ];
    if let Some((name, _)) = same.iter().find(|(_, is_same)| !is_same) {
        return Err(ApiError::payload(at("must be the one in the path", name)));
    }
    server.runtime.ask(&session, |ticket| UpdatePart { part: changed.clone(), ticket }).await?;
    Ok(web::Json(changed))
}

async fn delete(server: web::Data<Server>, path: Path) -> Result<web::Json<bool>, ApiError> {
    let (session, message_id, id) = read(&path)?;
    let remove = |ticket| RemovePart { message_id: message_id.clone(), id: id.clone(), ticket };
    server.runtime.ask(&session, remove).await?;
    Ok(web::Json(true))
}
