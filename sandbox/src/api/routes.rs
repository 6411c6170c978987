//! The routes of the API, and what happens to every call before and after them.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, Path, RawPathParams, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{delete, get, post};
use http::{HeaderMap, Method, header};
use service::Secret;

use super::answer::{self, Problem};
use super::calls::{Call, Calls, Operation};
use super::faults::{Chosen, Faults};
use super::retry_after::date_header;
use super::{create, server, spoil};
use crate::account::Account;
use crate::clock::Clock;
use crate::provider::body;

/// The largest body that is read.
const BODY_LIMIT: usize = 1024 * 1024;

const TASKS: &str = "/v1/async/task";
const TASK: &str = "/v1/async/task/{id}";
const STATUS: &str = "/v1/async/status";
const QUEUE: &str = "/v1/async/queue";

/// What the handlers work on.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) account: Account,
    pub(crate) clock: Clock,
    pub(crate) key: Secret,
    pub(crate) rate_limit: Option<u32>,
    pub(crate) faults: Faults,
    pub(crate) calls: Calls,
}

/// The API, with `more` routes beside it that need the key as well, are not noted and meet no faults.
pub(crate) fn router(parts: Parts, more: Router<Parts>) -> Router {
    let more = more
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(parts.clone(), authorized));
    Router::new()
        .route(TASKS, post(create_task))
        .route(TASK, get(get_task))
        .route(STATUS, get(queue_status))
        .route(QUEUE, delete(clear_queue))
        .method_not_allowed_fallback(wrong_method)
        .fallback(wrong_path)
        .layer(from_fn_with_state(parts.clone(), noted))
        .merge(more)
        .with_state(parts)
}

async fn create_task(State(parts): State<Parts>, body: Body) -> Response {
    let now = parts.clock.now();
    let created: Result<_, Problem> = async {
        let body = to_bytes(body, BODY_LIMIT).await.map_err(|_| Problem::TooLarge)?;
        let request = create::read(&body)?;
        let key = request.idempotency_key.clone();
        parts.account.with(|provider| {
            let task = provider.create(request, now);
            let task = task.map_err(|refused| Problem::Refused(refused, key))?;
            Ok(body::of_creation(provider.task(task)))
        })
    }
    .await;
    match created {
        Ok(body) => answer::ok(body),
        Err(problem) => problem.response(now),
    }
}

async fn get_task(State(parts): State<Parts>, Path(id): Path<String>) -> Response {
    let now = parts.clock.now();
    match parts.account.with(|provider| provider.get(&id, now)) {
        Ok(body) => answer::ok(body),
        Err(not_found) => Problem::from(not_found).response(now),
    }
}

async fn queue_status(State(parts): State<Parts>) -> Response {
    let now = parts.clock.now();
    answer::queue_status(&parts.account.with(|provider| provider.status(now)))
}

async fn clear_queue(State(parts): State<Parts>) -> Response {
    let now = parts.clock.now();
    answer::cleared(parts.account.with(|provider| provider.clear_queue(now)))
}

async fn wrong_path(State(parts): State<Parts>) -> Response {
    Problem::NoPath.response(parts.clock.now())
}

async fn wrong_method(State(parts): State<Parts>) -> Response {
    Problem::NoMethod.response(parts.clock.now())
}

/// Notes the call and its answer, refuses whoever does not show the key, and lets a fault befall the others.
async fn noted(
    State(parts): State<Parts>,
    route: Option<MatchedPath>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let operation = match (route.as_ref().map(MatchedPath::as_str), request.method()) {
        (Some(TASKS), &Method::POST) => Operation::Create,
        (Some(TASK), &Method::GET) => Operation::Get,
        (Some(STATUS), &Method::GET) => Operation::Status,
        (Some(QUEUE), &Method::DELETE) => Operation::Clear,
        _ => Operation::Unknown,
    };
    let params = params.ok();
    let task = params.and_then(|params| params.iter().next().map(|(_, id)| id.to_owned()));
    let now = parts.clock.now();
    let lately = parts.calls.lately(operation, now);
    let open = parts.calls.open(Call {
        at: now,
        operation,
        method: request.method().clone(),
        path: request.uri().path().to_owned(),
        task: task.clone(),
        status: None,
    });
    let admitted = admit(&parts, request.headers(), lately);
    let mut response = match admitted {
        Err(problem) => problem.response(now),
        Ok(()) => match parts.faults.choose(operation, task.as_deref()) {
            None => next.run(request).await,
            Some(chosen) => spoilt(&chosen, request, next, &parts).await,
        },
    };
    response.headers_mut().insert(header::DATE, date_header(now));
    if !server::is_hung_up(&response) {
        open.answered(response.status().as_u16());
    }
    response
}

/// Whether a caller gets an answer, after `lately` calls like this in the last second.
fn admit(parts: &Parts, headers: &HeaderMap, lately: usize) -> Result<(), Problem> {
    if !shows_key(headers, parts.key.expose()) {
        return Err(Problem::Unauthorized);
    }
    match parts.rate_limit {
        Some(limit) if usize::try_from(limit).is_ok_and(|limit| lately >= limit) => {
            Err(Problem::TooOften { limit })
        }
        _ => Ok(()),
    }
}

/// What a fault leaves of a call's answer.
async fn spoilt(chosen: &Chosen, request: Request, next: Next, parts: &Parts) -> Response {
    let now = parts.clock.now();
    if !chosen.takes_effect {
        return spoil::instead(&chosen.fault, now).await;
    }
    let (head, body) = next.run(request).await.into_parts();
    let body = to_bytes(body, usize::MAX)
        .await
        .expect("the handlers answer with bytes that are there");
    spoil::of(&chosen.fault, head.status, body, now).await
}

/// Refuses whoever does not show the key.
async fn authorized(State(parts): State<Parts>, request: Request, next: Next) -> Response {
    if shows_key(request.headers(), parts.key.expose()) {
        next.run(request).await
    } else {
        Problem::Unauthorized.response(parts.clock.now())
    }
}

/// The word is case-sensitive: `bearer` is refused.
fn shows_key(headers: &HeaderMap, key: &str) -> bool {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let shown = lines.next().and_then(|line| line.to_str().ok());
    lines.next().is_none() && shown.and_then(|line| line.strip_prefix("Bearer ")) == Some(key)
}
