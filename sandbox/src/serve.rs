//! `sandbox serve`: the provider for a person. Its API, a runner that ends tasks, and a sender that tells of them.

mod dashboard;
mod fault_request;
mod handlers;
mod log;
mod routes;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use http::Uri;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::account::Account;
use crate::api::{self, Api};
use crate::clock::Clock;
use crate::faults::{FaultPlan, Rates};
use crate::provider::life::Life;
use crate::provider::schedule::Schedule;
use crate::provider::secrets::Secret;
use crate::provider::{self, Provider};
use crate::runner::{self, Hold, Pace, Runner};
use crate::seed::Seed;
use crate::sender::{self, Losses, Sender};
use crate::servers::ServerError;
use crate::workload;
use dashboard::Dashboard;

/// How long calls under way have when the provider stops.
const GRACE: Duration = Duration::from_secs(2);
/// The most calls of a kind in a second.
const RATE_LIMIT: u32 = 1_000;

/// Run the provider for a person: its API, tasks that end, webhooks, and a dashboard to break it all with
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Address of the API and the dashboard
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070")]
    pub listen: SocketAddr,
    /// Where results are delivered
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:8080/hooks/answers"
    )]
    pub hook_url: Uri,
    /// What the key, the secrets, the tasks and what goes wrong follow from
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub seed: u64,
    /// Tasks that are in the queue at the start
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub tasks: usize,
    /// The most tasks that run at a time
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrency: usize,
    /// How many times faster than real everything is: how long tasks wait, run and are kept, and the waits between
    /// attempts
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    pub speed: f64,
    /// Lose, repeat, delay, change and forge webhooks as `sandbox demo` does
    #[arg(long)]
    pub faults: bool,
    /// The share of webhooks, from 0 to 1, of which no attempt ever arrives
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub undelivered: f64,
    /// Print what was started as one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the provider until `stop` is cancelled; then takes no more calls, starts no more tasks, and finishes the attempts
/// that are under way.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn run(args: &ServeArgs, clock: &Clock, stop: &CancellationToken) -> Result<(), ServerError> {
    let seed = Seed(args.seed);
    let secret = Secret::generate(seed, 0);
    let account = account(args, secret.clone(), clock);
    let (losses, hold) = (Losses::default(), Hold::default());
    let settings = api::Settings {
        listen: Some(args.listen),
        rate_limit: Some(RATE_LIMIT),
        ..api::Settings::new(seed)
    };
    let mut api = Api::start_with(account.clone(), settings, clock.clone(), |parts| {
        routes::router(Dashboard::new(parts.clone(), losses.clone(), hold.clone(), seed))
    })
    .await?;
    let sender = Sender::new(account.clone(), sending(args, losses), clock.clone());
    let runner = Runner::new(seed, Pace::default().faster(args.speed));

    say(&started(args, &api, &secret)).map_err(ServerError::io("printing what was started"))?;
    let tasks = runner::run(runner, &account, &hold, clock, stop);
    let closed = async {
        stop.cancelled().await;
        api.close(GRACE).await;
    };
    tokio::join!(tasks, closed, sender.run_until(stop));
    Ok(())
}

fn account(args: &ServeArgs, secret: Secret, clock: &Clock) -> Account {
    let settings = provider::Settings {
        schedule: Schedule::faster(args.speed),
        life: Life::compressed(args.speed),
        concurrency: Some(args.concurrency),
        ..provider::Settings::loopback(args.hook_url.clone())
    };
    let (seed, now) = (Seed(args.seed), clock.now());
    let mut provider = Provider::new(settings, secret, seed);
    for planned in workload::plan(seed, args.tasks, now) {
        // The queue has a limit; what is over it was asked for in vain.
        let _ = provider.create(planned.request, now);
    }
    Account::new(provider)
}

fn sending(args: &ServeArgs, losses: Losses) -> sender::Settings {
    let rates = if args.faults {
        Rates::rough()
    } else {
        Rates::none()
    };
    let rates = Rates {
        undelivered: args.undelivered,
        ..rates
    };
    sender::Settings {
        faults: FaultPlan::new(Seed(args.seed), rates),
        losses,
        ..sender::Settings::default()
    }
}

/// What a person needs to know, or a script.
fn started(args: &ServeArgs, api: &Api, secret: &Secret) -> String {
    let (url, key, secret, hook) = (api.url(), api.key(), secret.text(), &args.hook_url);
    if args.json {
        let hook = hook.to_string();
        return json!({"url": url, "apiKey": key, "webhookSecret": secret, "hookUrl": hook}).to_string();
    }
    format!(
        "the provider runs until Ctrl-C\n\
         \x20 API             {url}\n\
         \x20 API key         {key}\n\
         \x20 webhook secret  {secret}\n\
         \x20 delivers to     {hook}\n\
         \x20 dashboard       {url}/dashboard"
    )
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if factor > 0.0 && f64::is_finite(factor) => Ok(factor),
        _ => Err("a speed is a positive number".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests;
