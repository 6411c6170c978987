//! The routes of the dashboard. The list is served as well, so that it cannot differ from what there is.

use axum::Router;
use axum::extract::State;
use axum::routing::{MethodRouter, delete, get, post, put};
use serde_json::{Value, json};

use super::dashboard as handle;
use super::desk::Desk;
use crate::api::routes::Parts;

/// A path with a method, what it does, and who handles it.
struct Route(
    &'static str,
    &'static str,
    &'static str,
    fn() -> MethodRouter<Desk>,
);

const ROUTES: &[Route] = &[
    Route(
        "GET",
        "/dashboard/deliveries",
        "the delivery log, latest first; ?state=pending|delivered|dead, ?limit=N",
        || get(handle::deliveries),
    ),
    Route(
        "GET",
        "/dashboard/deliveries/{number}",
        "one delivery with all its attempts",
        || get(handle::delivery),
    ),
    Route(
        "POST",
        "/dashboard/deliveries/{number}/redeliver",
        "send a delivered or dead delivery again",
        || post(handle::redeliver),
    ),
    Route("POST", "/dashboard/test", "send a test delivery", || {
        post(handle::send_test)
    }),
    Route("GET", "/dashboard/webhook", "where results are delivered", || {
        get(handle::webhook)
    }),
    Route(
        "PUT",
        "/dashboard/webhook",
        r#"deliver elsewhere: {"url": "…"}"#,
        || put(handle::set_webhook),
    ),
    Route(
        "POST",
        "/dashboard/rotate",
        r#"make a new secret: {"overlapSeconds": N} is how long the old one signs as well"#,
        || post(handle::rotate),
    ),
    Route(
        "POST",
        "/dashboard/retire",
        "end the validity of replaced secrets now",
        || post(handle::retire),
    ),
    Route(
        "POST",
        "/dashboard/lose",
        r#"lose webhooks: {"next": N} deliveries with all their attempts, {"all": true|false} of them"#,
        || post(handle::lose),
    ),
    Route("POST", "/dashboard/hold", "start no more tasks", || {
        post(handle::hold)
    }),
    Route("POST", "/dashboard/release", "start tasks again", || {
        post(handle::release)
    }),
    Route(
        "POST",
        "/dashboard/tasks/{id}/requeue",
        "put a running task back into the queue",
        || post(handle::requeue),
    ),
    Route(
        "POST",
        "/dashboard/faults",
        r#"let calls of the API go wrong: {"fault": "status", "status": 503, …}"#,
        || post(handle::add_fault),
    ),
    Route(
        "DELETE",
        "/dashboard/faults",
        "let all calls go right again",
        || delete(handle::clear_faults),
    ),
    Route(
        "GET",
        "/dashboard/calls",
        "what the API was asked, latest first; ?limit=N",
        || get(handle::calls),
    ),
];

/// The dashboard, for whoever serves the API to put beside it.
pub(super) fn router(desk: Desk) -> Router<Parts> {
    let own = get(async |State(desk): State<Desk>| desk.answer(Ok(contents())));
    ROUTES
        .iter()
        .fold(Router::new(), |router, Route(_, path, _, handler)| {
            router.route(path, handler())
        })
        .route("/dashboard", own)
        .with_state(desk)
}

fn contents() -> Value {
    let routes = ROUTES.iter();
    let lines =
        routes.map(|Route(method, path, does, _)| json!({"method": method, "path": path, "does": does}));
    json!({"routes": lines.collect::<Vec<Value>>()})
}
