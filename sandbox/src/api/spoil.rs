//! Turning an answer into what a fault leaves of it.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::answer::bare_error;
use super::fault::Fault;
use super::server::hang_up;

/// Sent bytes get this long to leave before the connection under them is closed.
const LEAVE: Duration = Duration::from_millis(5);

const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>One moment</title></head><body><h1>We will be right back</h1></body></html>\n";

/// What a fault answers that needs no true answer.
pub(super) async fn instead(fault: &Fault, now: OffsetDateTime) -> Response {
    match fault {
        Fault::Status(status, retry_after) => {
            let mut response = bare_error(code(*status), now);
            if let Some(value) = retry_after.value(now) {
                response.headers_mut().insert(header::RETRY_AFTER, value);
            }
            response
        }
        Fault::Redirect(status, to) => {
            let to = HeaderValue::try_from(to.as_str()).expect("a test redirects to a URL");
            bare(code(*status), Body::empty(), &[(header::LOCATION, to)])
        }
        Fault::Body(body) => bare(StatusCode::OK, Body::from(body.clone()), &[as_json()]),
        Fault::Html => {
            let html = HeaderValue::from_static("text/html; charset=utf-8");
            bare(StatusCode::OK, Body::from(PAGE), &[(header::CONTENT_TYPE, html)])
        }
        Fault::Empty => bare(StatusCode::OK, Body::empty(), &[]),
        Fault::NoContent => bare(StatusCode::NO_CONTENT, Body::empty(), &[]),
        Fault::Silence => std::future::pending().await,
        Fault::HangUp
        | Fault::Stall
        | Fault::Drip(_)
        | Fault::Cut
        | Fault::NotJson
        | Fault::Huge(_)
        | Fault::OtherTask
        | Fault::NoId
        | Fault::MarkedTest => hang_up(),
    }
}

/// What a fault leaves of the true answer.
pub(super) async fn of(fault: &Fault, status: StatusCode, body: Bytes, now: OffsetDateTime) -> Response {
    let half = body.slice(..body.len() / 2);
    match fault {
        Fault::Stall => {
            let rest = stream::pending::<Result<Bytes, Infallible>>();
            streamed(status, body.len(), stream::iter([Ok(half)]).chain(rest))
        }
        Fault::Cut => {
            let broken = stream::once(async {
                tokio::time::sleep(LEAVE).await;
                Err(io::Error::other("cut on purpose"))
            });
            streamed(status, body.len(), stream::iter([Ok(half)]).chain(broken))
        }
        Fault::Drip(pause) => {
            let (pause, length) = (*pause, body.len());
            let drops = stream::iter(0..length).then(move |at| {
                let drop = body.slice(at..=at);
                async move {
                    tokio::time::sleep(pause).await;
                    Ok::<_, Infallible>(drop)
                }
            });
            streamed(status, length, drops)
        }
        Fault::NotJson => whole(status, body.slice(..body.len().saturating_sub(1))),
        Fault::Huge(bytes) => {
            let text = "x".repeat(*bytes);
            changed(status, &body, |answer| {
                answer["response"] = json!({"result": {"text": text}})
            })
        }
        Fault::OtherTask => changed(status, &body, |answer| {
            answer["task"]["id"] = json!("00000000-0000-4000-8000-000000000000");
        }),
        Fault::NoId => changed(status, &body, |answer| {
            if let Some(task) = answer["task"].as_object_mut() {
                task.remove("id");
            }
        }),
        Fault::MarkedTest => changed(status, &body, |answer| answer["test"] = json!(true)),
        Fault::Status(..)
        | Fault::Redirect(..)
        | Fault::Body(_)
        | Fault::Html
        | Fault::Empty
        | Fault::NoContent
        | Fault::Silence
        | Fault::HangUp => instead(fault, now).await,
    }
}

/// A true answer that is an object, with a change; any other stays as it is.
fn changed(status: StatusCode, body: &Bytes, change: impl FnOnce(&mut Value)) -> Response {
    let mut answer: Value = serde_json::from_slice(body).expect("the API writes JSON objects");
    change(&mut answer);
    let body = serde_json::to_vec(&answer).expect("a JSON value always serializes");
    whole(status, body.into())
}

fn whole(status: StatusCode, body: Bytes) -> Response {
    bare(status, Body::from(body), &[as_json()])
}

/// A body in pieces that claims to be `length` bytes long.
fn streamed<E: Into<axum::BoxError> + 'static>(
    status: StatusCode,
    length: usize,
    pieces: impl stream::Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> Response {
    let length = (header::CONTENT_LENGTH, HeaderValue::from(length));
    bare(status, Body::from_stream(pieces), &[as_json(), length])
}

fn as_json() -> (http::HeaderName, HeaderValue) {
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    (header::CONTENT_TYPE, json)
}

fn bare(status: StatusCode, body: Body, headers: &[(http::HeaderName, HeaderValue)]) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().extend(headers.iter().cloned());
    response
}

fn code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).expect("a fault has a status of three digits")
}
