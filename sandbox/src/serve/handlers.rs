//! What the provider's dashboard offers, and what a person needs to break things: a handler for each route.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::Uri;
use serde::Deserialize;
use serde_json::{Value, json};

use super::dashboard::{Dashboard, Filter, read};
use super::fault_request::{FaultRequest, invalid};
use super::log::{Detail, Entry};
use crate::api::Call;
use crate::api::answer::Problem;
use crate::provider::body::timestamp;
use crate::provider::delivery::{DeliveryNumber, NoStanding, Standing};
use crate::provider::{Provider, Refused};

/// How long a replaced secret goes on signing where nobody says otherwise.
const OVERLAP: u32 = 24 * 3_600;

type Listed = Result<Query<Filter>, QueryRejection>;
type Answer = Result<Value, Problem>;

pub(super) async fn deliveries(State(dashboard): State<Dashboard>, query: Listed) -> Response {
    let answer = Filter::read(query).and_then(|filter| {
        let state = filter.state.as_deref().map(str::parse::<Standing>).transpose();
        let state = state.map_err(|error: NoStanding| invalid("state", error.to_string()))?;
        let entries: Vec<Entry> = dashboard.with(|provider| {
            let log = provider.deliveries().iter().rev();
            log.filter(|delivery| state.is_none_or(|state| delivery.standing() == state))
                .take(filter.limit())
                .map(|delivery| Entry::of(provider, delivery))
                .collect()
        });
        Ok(json!({"deliveries": entries}))
    });
    dashboard.answer(answer)
}

pub(super) async fn delivery(State(dashboard): State<Dashboard>, Path(number): Path<String>) -> Response {
    let answer = dashboard.with(|provider| {
        let number = known(provider, &number)?;
        Ok(json!(Detail::of(provider, provider.delivery(number))))
    });
    dashboard.answer(answer)
}

pub(super) async fn redeliver(State(dashboard): State<Dashboard>, Path(number): Path<String>) -> Response {
    let now = dashboard.now();
    let answer = dashboard.with(|provider| {
        let number = known(provider, &number)?;
        done(provider.redeliver(number, now))
    });
    dashboard.answer(answer)
}

pub(super) async fn send_test(State(dashboard): State<Dashboard>) -> Response {
    let now = dashboard.now();
    let number = dashboard.with(|provider| provider.send_test(now));
    dashboard.answer(Ok(json!({"success": true, "number": number.0})))
}

pub(super) async fn webhook(State(dashboard): State<Dashboard>) -> Response {
    dashboard.answer(Ok(dashboard.with(|provider| url(provider))))
}

pub(super) async fn set_webhook(State(dashboard): State<Dashboard>, body: Bytes) -> Response {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        url: String,
    }
    let answer = read(&body).and_then(|wanted: Wanted| {
        let new: Uri = wanted.url.parse().map_err(|_| invalid("url", "must be a URL"))?;
        Ok(dashboard.with(|provider| {
            provider.set_url(new);
            url(provider)
        }))
    });
    dashboard.answer(answer)
}

pub(super) async fn rotate(State(dashboard): State<Dashboard>, body: Bytes) -> Response {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Wanted {
        overlap_seconds: Option<u32>,
    }
    let answer = read(&body).map(|wanted: Wanted| {
        let overlap = wanted.overlap_seconds.unwrap_or(OVERLAP);
        let until = dashboard.now() + Duration::from_secs(overlap.into());
        let secret = dashboard.next_secret();
        let text = secret.text().to_owned();
        dashboard.with(|provider| provider.rotate(secret, until));
        json!({"webhookSecret": text, "oldValidUntil": timestamp(until)})
    });
    dashboard.answer(answer)
}

pub(super) async fn retire(State(dashboard): State<Dashboard>) -> Response {
    let now = dashboard.now();
    dashboard.with(|provider| provider.retire_replaced_secrets(now));
    dashboard.answer(success())
}

pub(super) async fn lose(State(dashboard): State<Dashboard>, body: Bytes) -> Response {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        next: Option<u32>,
        all: Option<bool>,
    }
    let answer = read(&body).and_then(|wanted: Wanted| {
        if let Some(next) = wanted.next {
            dashboard.losses.next(next);
        }
        if let Some(all) = wanted.all {
            dashboard.losses.all(all);
        }
        success()
    });
    dashboard.answer(answer)
}

pub(super) async fn hold(State(dashboard): State<Dashboard>) -> Response {
    dashboard.hold.set(true, &dashboard.parts.account);
    dashboard.answer(success())
}

pub(super) async fn release(State(dashboard): State<Dashboard>) -> Response {
    dashboard.hold.set(false, &dashboard.parts.account);
    dashboard.answer(success())
}

pub(super) async fn requeue(State(dashboard): State<Dashboard>, Path(id): Path<String>) -> Response {
    let now = dashboard.now();
    let answer = dashboard.with(|provider| {
        let task = provider.find(&id)?;
        done(provider.requeue(task, now))
    });
    dashboard.answer(answer)
}

pub(super) async fn add_fault(State(dashboard): State<Dashboard>, body: Bytes) -> Response {
    let rule = read(&body).and_then(FaultRequest::rule);
    let answer = rule.and_then(|rule| {
        dashboard.parts.faults.add(rule);
        success()
    });
    dashboard.answer(answer)
}

pub(super) async fn clear_faults(State(dashboard): State<Dashboard>) -> Response {
    dashboard.parts.faults.clear();
    dashboard.answer(success())
}

pub(super) async fn calls(State(dashboard): State<Dashboard>, query: Listed) -> Response {
    let answer = Filter::read(query).map(|filter| {
        let calls = dashboard.parts.calls.all().into_iter().rev();
        let calls: Vec<Value> = calls.take(filter.limit()).map(call).collect();
        json!({"calls": calls})
    });
    dashboard.answer(answer)
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
