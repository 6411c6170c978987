//! `sandbox demo`: the main job, on this machine, with everything that can happen to a webhook on its way.
//!
//! A provider whose tasks have ended sends its results to the real ingress and projector, with private servers behind
//! them. A seeded plan loses, repeats, delays, changes and forges deliveries, and the signing secret is rotated
//! meanwhile. Some deliveries never arrive, however often they are tried: their results the real reconciler asks for,
//! from a provider that begins by refusing it for a second. Then an audit reads the whole stream and every row, and counts
//! what is missing and what is twice.

mod audit;
mod error;
mod evidence;
mod progress;
mod report;
mod stack;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::{self, Api, Fault, Operation, RetryAfter, Rule};
use crate::clock::Clock;
use crate::faults::{FaultPlan, Rates};
use crate::provider::schedule::Schedule;
use crate::provider::secrets::Secret;
use crate::provider::{self, Provider};
use crate::seed::Seed;
use crate::sender::{self, Account, Sender};
use crate::servers::postgres_bin;
use crate::workload;
pub use error::DemoError;

use audit::Audit;
use evidence::{Evidence, Progress};
use progress::{Narrator, Steps};
use report::{Deliveries, Report};
use stack::{HOOK, Places, Plan, Stack};

/// How many times faster than the real retry schedule the demo's is: the second attempt comes after 10 to 20 ms, the
/// last after 5 to 10 s.
const SPEED: f64 = 250.0;
/// The share of deliveries of which every attempt is lost.
const NEVER: f64 = 0.02;
/// Calls of the reconciler that the provider refuses at first, each with the wish to be left alone for a second.
const REFUSED_CALLS: u32 = 3;
/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// For how long the projection may stand still before the demo counts what is there.
const STANDSTILL: Duration = Duration::from_secs(20);
/// How long stopping may take.
const STOPPING: Duration = Duration::from_secs(40);
/// Test deliveries sent in between.
const TESTS: usize = 3;

/// Let a provider send results through the real programs, and count what became of them
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// Tasks that the provider has
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub tasks: usize,
    /// What the tasks are and what goes wrong follows from this
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub seed: u64,
    /// Stay open at the end, to look around, until Ctrl-C
    #[arg(long)]
    pub keep: bool,
    /// Processes of ingress
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub ingresses: usize,
    /// Processes of projector
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub projectors: usize,
    /// Where the programs are; by default beside this one
    #[arg(long, value_name = "DIRECTORY")]
    pub profile_dir: Option<PathBuf>,
    /// How long the demo may take before it gives up; by default five minutes, and a minute more for every 30,000 tasks
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub deadline: Option<Duration>,
}

/// Runs the demo; true if every task was answered and nothing was lost, duplicated or otherwise wrong. The last line that
/// it prints gives the counts. Ends early, and cleans up, when `stop` is cancelled.
pub async fn run(
    args: &DemoArgs,
    beside: PathBuf,
    clock: &Clock,
    stop: &CancellationToken,
) -> Result<bool, DemoError> {
    let narrator = Narrator::new(io::stderr().is_terminal());
    let deadline = args
        .deadline
        .unwrap_or_else(|| Duration::from_secs(300 + args.tasks as u64 / 500));
    let end = Instant::now() + deadline;
    let seed = Seed(args.seed);
    let secrets = [Secret::generate(seed, 1), Secret::generate(seed, 0)];
    let plan = Plan {
        binaries: args.profile_dir.clone().unwrap_or(beside),
        ingresses: args.ingresses,
        projectors: args.projectors,
        secrets: secrets.iter().map(|secret| secret.text().to_owned()).collect(),
    };
    let [newer, older] = secrets;

    narrator.begin("starting a broker, a database and the programs");
    let starting = tokio::time::timeout_at(end, Stack::start(&plan));
    let mut stack = tokio::select! {
        started = starting => started.map_err(|_| late(deadline, &narrator))??,
        () = stop.cancelled() => return Err(DemoError::Interrupted),
    };
    let places = stack.places().clone();
    let account = account(args, &places, older, clock);
    let api = api(args, &account, clock).await?;
    let starting = tokio::time::timeout_at(end, stack.start_reconciler(&plan, &api, &account));
    tokio::select! {
        started = starting => started.map_err(|_| late(deadline, &narrator))??,
        () = stop.cancelled() => return Err(DemoError::Interrupted),
    }

    let told = story(args, &places, &account, newer, clock, &narrator);
    let report = tokio::select! {
        told = tokio::time::timeout_at(end, told) => told.map_err(|_| late(deadline, &narrator))??,
        death = stack.first_death() => return Err(death),
        () = stop.cancelled() => return Err(DemoError::Interrupted),
    };
    println!("{report}");

    if args.keep {
        show_places(&places, &api);
        println!("{}", report.last_line());
        tokio::select! {
            death = stack.first_death() => return Err(death),
            () = stop.cancelled() => {}
        }
    }
    narrator.stage_is("stopping the programs");
    tokio::time::timeout(STOPPING, stack.stop())
        .await
        .map_err(|_| late(STOPPING, &narrator))??;
    if !args.keep {
        println!("{}", report.last_line());
    }
    Ok(report.is_good())
}

/// Delivers, waits for the rows, has the rest recovered, and audits.
async fn story(
    args: &DemoArgs,
    places: &Places,
    account: &Account,
    newer: Secret,
    clock: &Clock,
    narrator: &Narrator,
) -> Result<Report, DemoError> {
    let evidence = Evidence::open(&places.nats, &places.database).await?;
    let rates = Rates {
        undelivered: NEVER,
        ..Rates::rough()
    };
    let faults = FaultPlan::new(Seed(args.seed), rates);
    let tally = deliver(account, places, &faults, newer, clock, narrator).await;
    let steps = narrator.count("projecting", args.tasks as u64);
    settle(&evidence, steps, |now| now.outstanding == 0).await?;
    evidence.let_the_hour_pass().await?;
    let steps = narrator.count("recovering", args.tasks as u64);
    settle(&evidence, steps, |now| now.outstanding == 0 && now.unsettled == 0).await?;
    narrator.begin("reading the whole stream and every row");
    let (tasks, deliveries) = account.with(|provider| {
        let deliveries = Deliveries::of(provider, &faults);
        (provider.tasks().to_vec(), deliveries)
    });
    let mut audit = Audit::new(&tasks);
    evidence.read_into(&mut audit).await?;
    Ok(Report {
        findings: audit.finish(),
        tally,
        deliveries,
    })
}

fn late(deadline: Duration, narrator: &Narrator) -> DemoError {
    DemoError::Late {
        deadline,
        stage: narrator.stage(),
    }
}

/// A provider whose tasks have all ended, with nothing delivered yet.
fn account(args: &DemoArgs, places: &Places, secret: Secret, clock: &Clock) -> Account {
    let host = places.hooks.first().map(ToString::to_string).unwrap_or_default();
    let url = format!("http://{host}{HOOK}")
        .parse()
        .expect("an address and a path make a URL");
    let settings = provider::Settings {
        schedule: Schedule::faster(SPEED),
        ..provider::Settings::loopback(url)
    };
    let seed = Seed(args.seed);
    let mut provider = Provider::new(settings, secret, seed);
    workload::play(&mut provider, workload::plan(seed, args.tasks, clock.now()));
    Account::new(provider)
}

/// The provider's API, which refuses the first calls.
async fn api(args: &DemoArgs, account: &Account, clock: &Clock) -> Result<Api, DemoError> {
    let settings = api::Settings::new(Seed(args.seed));
    let api = Api::start(account.clone(), settings, clock.clone()).await?;
    let refusal = Fault::Status(429, RetryAfter::Seconds(1));
    api.faults()
        .add(Rule::new(refusal).on(Operation::Get).times(REFUSED_CALLS));
    Ok(api)
}

/// Delivers everything. After a third the secret is rotated, after two thirds the old one ends; in between both sign.
async fn deliver(
    account: &Account,
    places: &Places,
    faults: &FaultPlan,
    newer: Secret,
    clock: &Clock,
    narrator: &Narrator,
) -> sender::Tally {
    let settings = sender::Settings {
        addresses: places.hooks.clone(),
        faults: faults.clone(),
        ..sender::Settings::default()
    };
    for _ in 0..TESTS {
        account.with(|provider| provider.send_test(clock.now()));
    }
    let total = account.with(|provider| provider.deliveries().len() as u64);
    let sender = Sender::new(account.clone(), settings, clock.clone());
    let run = sender.run_until_quiet();
    tokio::pin!(run);

    let mut steps = narrator.count("delivering", total);
    let mut newer = Some(newer);
    let mut retired = false;
    loop {
        let quiet = tokio::time::timeout(LOOK, &mut run).await.is_ok();
        let delivered = sender.tally().delivered;
        steps.done(delivered);
        if delivered * 3 >= total
            && let Some(secret) = newer.take()
        {
            account.with(|provider| provider.rotate(secret, clock.now() + Duration::from_secs(86_400)));
        } else if delivered * 3 >= total * 2 && !retired {
            retired = true;
            account.with(|provider| provider.retire_replaced_secrets(clock.now()));
        }
        if quiet {
            return sender.tally();
        }
    }
}

/// Waits until the programs have come as far as `enough` says, or do nothing any more.
async fn settle(
    evidence: &Evidence,
    mut steps: Steps,
    enough: impl Fn(Progress) -> bool,
) -> Result<(), DemoError> {
    let mut last = evidence.progress().await?;
    let mut moved = Instant::now();
    while !enough(last) && moved.elapsed() < STANDSTILL {
        tokio::time::sleep(LOOK).await;
        let now = evidence.progress().await?;
        if now != last {
            (last, moved) = (now, Instant::now());
        }
        steps.done(now.rows);
    }
    steps.done(last.rows);
    Ok(())
}

/// Says how to look around.
fn show_places(places: &Places, api: &Api) {
    let psql = postgres_bin()
        .map(|bin| bin.join("psql"))
        .ok()
        .filter(|psql| psql.is_file());
    let psql = psql.map_or_else(|| "psql".to_owned(), |psql| psql.display().to_string());
    let hooks: Vec<String> = places
        .hooks
        .iter()
        .map(|address| format!("http://{address}{HOOK}"))
        .collect();
    println!("where to look, until Ctrl-C:");
    println!("  {psql} {}", places.database);
    println!(
        "  {psql} {} -c 'select status, count(*) from answers group by status'",
        places.database
    );
    println!("  broker   {}", places.nats);
    println!("  ingress  {}", hooks.join("  "));
    println!("  provider {} (key {})\n", api.url(), api.key());
}
