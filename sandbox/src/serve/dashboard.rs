//! What the provider's dashboard offers, and what a person needs to break things, as JSON.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::Uri;
use serde::Deserialize;
use serde_json::{Value, json};

use super::desk::{Desk, Filter, read};
use super::log::{Detail, Entry};
use super::wish::{FaultWish, wrong};
use crate::api::Call;
use crate::api::answer::Problem;
use crate::provider::body::timestamp;
use crate::provider::delivery::{DeliveryNumber, NoStanding, Standing};
use crate::provider::{Provider, Refused};

/// How long a replaced secret goes on signing where nobody says otherwise.
const OVERLAP: u32 = 24 * 3_600;

type Listed = Result<Query<Filter>, QueryRejection>;
type Answer = Result<Value, Problem>;

pub(super) async fn deliveries(State(desk): State<Desk>, query: Listed) -> Response {
    let answer = Filter::read(query).and_then(|filter| {
        let state = filter.state.as_deref().map(str::parse::<Standing>).transpose();
        let state = state.map_err(|error: NoStanding| wrong("state", error.to_string()))?;
        let entries: Vec<Entry> = desk.with(|provider| {
            let log = provider.deliveries().iter().rev();
            log.filter(|delivery| state.is_none_or(|state| delivery.standing() == state))
                .take(filter.limit())
                .map(|delivery| Entry::of(provider, delivery))
                .collect()
        });
        Ok(json!({"deliveries": entries}))
    });
    desk.answer(answer)
}

pub(super) async fn delivery(State(desk): State<Desk>, Path(number): Path<String>) -> Response {
    let answer = desk.with(|provider| {
        let number = known(provider, &number)?;
        Ok(json!(Detail::of(provider, provider.delivery(number))))
    });
    desk.answer(answer)
}

pub(super) async fn redeliver(State(desk): State<Desk>, Path(number): Path<String>) -> Response {
    let now = desk.now();
    let answer = desk.with(|provider| {
        let number = known(provider, &number)?;
        done(provider.redeliver(number, now))
    });
    desk.answer(answer)
}

pub(super) async fn send_test(State(desk): State<Desk>) -> Response {
    let now = desk.now();
    let number = desk.with(|provider| provider.send_test(now));
    desk.answer(Ok(json!({"success": true, "number": number.0})))
}

pub(super) async fn webhook(State(desk): State<Desk>) -> Response {
    desk.answer(Ok(desk.with(|provider| url(provider))))
}

pub(super) async fn set_webhook(State(desk): State<Desk>, body: Bytes) -> Response {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wish {
        url: String,
    }
    let answer = read(&body).and_then(|wish: Wish| {
        let new: Uri = wish.url.parse().map_err(|_| wrong("url", "must be a URL"))?;
        Ok(desk.with(|provider| {
            provider.set_url(new);
            url(provider)
        }))
    });
    desk.answer(answer)
}

pub(super) async fn rotate(State(desk): State<Desk>, body: Bytes) -> Response {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Wish {
        overlap_seconds: Option<u32>,
    }
    let answer = read(&body).map(|wish: Wish| {
        let overlap = wish.overlap_seconds.unwrap_or(OVERLAP);
        let until = desk.now() + Duration::from_secs(overlap.into());
        let secret = desk.next_secret();
        let text = secret.text().to_owned();
        desk.with(|provider| provider.rotate(secret, until));
        json!({"webhookSecret": text, "oldValidUntil": timestamp(until)})
    });
    desk.answer(answer)
}

pub(super) async fn retire(State(desk): State<Desk>) -> Response {
    let now = desk.now();
    desk.with(|provider| provider.retire_replaced_secrets(now));
    desk.answer(success())
}

pub(super) async fn lose(State(desk): State<Desk>, body: Bytes) -> Response {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wish {
        next: Option<u32>,
        all: Option<bool>,
    }
    let answer = read(&body).and_then(|wish: Wish| {
        if let Some(next) = wish.next {
            desk.losses.next(next);
        }
        if let Some(all) = wish.all {
            desk.losses.all(all);
        }
        success()
    });
    desk.answer(answer)
}

pub(super) async fn hold(State(desk): State<Desk>) -> Response {
    desk.hold.set(true, &desk.parts.account);
    desk.answer(success())
}

pub(super) async fn release(State(desk): State<Desk>) -> Response {
    desk.hold.set(false, &desk.parts.account);
    desk.answer(success())
}

pub(super) async fn requeue(State(desk): State<Desk>, Path(id): Path<String>) -> Response {
    let now = desk.now();
    let answer = desk.with(|provider| {
        let task = provider.find(&id)?;
        done(provider.requeue(task, now))
    });
    desk.answer(answer)
}

pub(super) async fn add_fault(State(desk): State<Desk>, body: Bytes) -> Response {
    let rule = read(&body).and_then(FaultWish::rule);
    let answer = rule.and_then(|rule| {
        desk.parts.faults.add(rule);
        success()
    });
    desk.answer(answer)
}

pub(super) async fn clear_faults(State(desk): State<Desk>) -> Response {
    desk.parts.faults.clear();
    desk.answer(success())
}

pub(super) async fn calls(State(desk): State<Desk>, query: Listed) -> Response {
    let answer = Filter::read(query).map(|filter| {
        let calls = desk.parts.calls.all().into_iter().rev();
        let calls: Vec<Value> = calls.take(filter.limit()).map(call).collect();
        json!({"calls": calls})
    });
    desk.answer(answer)
}

fn call(call: Call) -> Value {
    json!({
        "at": timestamp(call.at),
        "operation": call.operation.as_str(),
        "method": call.method.as_str(),
        "path": call.path,
        "task": call.task,
        "status": call.status,
    })
}

fn url(provider: &Provider) -> Value {
    json!({"url": provider.settings().url.to_string()})
}

fn known(provider: &Provider, number: &str) -> Result<DeliveryNumber, Problem> {
    let number = number.parse().ok().map(DeliveryNumber);
    number
        .filter(|number| number.0 < provider.deliveries().len() as u64)
        .ok_or(Problem::NotFound("delivery"))
}

fn done(step: Result<(), Refused>) -> Answer {
    step.map_err(|refused| Problem::Refused(refused, None))?;
    success()
}

fn success() -> Answer {
    Ok(json!({"success": true}))
}
