//! The routes of the dashboard. The list is served as well, so that it cannot differ from what there is.

use axum::Router;
use axum::extract::State;
use axum::routing::{MethodRouter, delete, get, post, put};
use serde_json::{Value, json};

use super::dashboard::Dashboard;
use super::handlers;
use crate::api::routes::Parts;

/// A path with a method, what it does, and who handles it.
struct Route(
    &'static str,
    &'static str,
    &'static str,
    fn() -> MethodRouter<Dashboard>,
);

const ROUTES: &[Route] = &[
    Route(
        "GET",
        "/dashboard/deliveries",
        "the delivery log, latest first; ?state=pending|delivered|dead, ?limit=N",
        || get(handlers::deliveries),
    ),
    Route(
        "GET",
        "/dashboard/deliveries/{number}",
        "one delivery with all its attempts",
        || get(handlers::delivery),
    ),
    Route(
        "POST",
        "/dashboard/deliveries/{number}/redeliver",
        "send a delivered or dead delivery again",
        || post(handlers::redeliver),
    ),
    Route("POST", "/dashboard/test", "send a test delivery", || {
        post(handlers::send_test)
    }),
    Route("GET", "/dashboard/webhook", "where results are delivered", || {
        get(handlers::webhook)
    }),
    Route(
        "PUT",
        "/dashboard/webhook",
        r#"deliver elsewhere: {"url": "…"}"#,
        || put(handlers::set_webhook),
    ),
    Route(
        "POST",
        "/dashboard/rotate",
        r#"make a new secret: {"overlapSeconds": N} is how long the old one signs as well"#,
        || post(handlers::rotate),
    ),
    Route(
        "POST",
        "/dashboard/retire",
        "end the validity of replaced secrets now",
        || post(handlers::retire),
    ),
    Route(
        "POST",
        "/dashboard/lose",
        r#"lose webhooks: {"next": N} deliveries with all their attempts, {"all": true|false} of them"#,
        || post(handlers::lose),
    ),
    Route("POST", "/dashboard/hold", "start no more tasks", || {
        post(handlers::hold)
    }),
    Route("POST", "/dashboard/release", "start tasks again", || {
        post(handlers::release)
    }),
    Route(
        "POST",
        "/dashboard/tasks/{id}/requeue",
        "put a running task back into the queue",
        || post(handlers::requeue),
    ),
    Route(
        "POST",
        "/dashboard/faults",
        r#"let calls of the API go wrong: {"fault": "status", "status": 503, …}"#,
        || post(handlers::add_fault),
    ),
    Route(
        "DELETE",
        "/dashboard/faults",
        "let all calls go right again",
        || delete(handlers::clear_faults),
    ),
    Route(
        "GET",
        "/dashboard/calls",
        "what the API was asked, latest first; ?limit=N",
        || get(handlers::calls),
    ),
];

/// The dashboard, for whoever serves the API to put beside it.
pub(super) fn router(dashboard: Dashboard) -> Router<Parts> {
    let own = get(async |State(dashboard): State<Dashboard>| dashboard.answer(Ok(contents())));
    ROUTES
        .iter()
        .fold(Router::new(), |router, Route(_, path, _, handler)| {
            router.route(path, handler())
        })
        .route("/dashboard", own)
        .with_state(dashboard)
}

fn contents() -> Value {
    let routes = ROUTES.iter();
    let lines =
        routes.map(|Route(method, path, does, _)| json!({"method": method, "path": path, "does": does}));
    json!({"routes": lines.collect::<Vec<Value>>()})
}
