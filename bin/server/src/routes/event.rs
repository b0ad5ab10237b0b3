//! Event streams: those of one directory, and those of all.

use actix_web::{HttpRequest, HttpResponse, web};

use crate::Server;
use crate::events::{Scope, stream};
use crate::place::Place;

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/event", web::get().to(of_directory)).route("/global/event", web::get().to(of_all));
}

async fn of_directory(server: web::Data<Server>, place: Place, request: HttpRequest) -> HttpResponse {
    stream(server, Scope::Directory(place.text()), &request)
}

async fn of_all(server: web::Data<Server>, request: HttpRequest) -> HttpResponse {
    stream(server, Scope::Everything, &request)
}
