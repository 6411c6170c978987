//! The two commands.

use std::process::ExitCode;

use database::Session;
use futures_util::{TryStreamExt, pin_mut};
use tokio::time::Instant;
use tracing::info;

use super::RebuildError;
use super::compare::{Bounds, Compared, compare};
use super::ground::Ground;
use super::load::load;
use super::origin::has_rows;
use super::repair::Repair;
use super::replay::{Tally, replay};
use super::report::{Gone, Replayed, Report, TableReport};
use super::side::{SideRows, SideTables};
use crate::config::RebuildConfig;
use crate::print::print;
use crate::progress::Progress;

/// Compares the tables with the stream and prints what differs. The exit code is 0 when nothing does, else 1.
///
/// # Errors
/// See [`RebuildError`].
pub async fn verify(config: RebuildConfig) -> Result<ExitCode, RebuildError> {
    let begun = Instant::now();
    let ground = Ground::prepare(&config, false).await?;
    let (replayed, floor) = beside(&ground, config.deep).await?;
    let compared = against(&ground, floor).await?;
    let report = Report {
        deep: config.deep,
        ..found(&ground, "verify", replayed, floor, compared)
    };
    finish(report, begun, config.json)
}

/// Makes the tables what the stream says and prints what was put right. The exit code is 0, or 1 when something could not be.
///
/// # Errors
/// See [`RebuildError`]. What was put right by then is right, and another run does the rest.
pub async fn rebuild(config: RebuildConfig) -> Result<ExitCode, RebuildError> {
    let begun = Instant::now();
    let ground = Ground::prepare(&config, true).await?;
    let report = if has_rows(ground.session.client()).await? {
        put_right(&ground, config.prune).await?
    } else {
        fill(&ground, &config).await?
    };
    finish(report, begun, config.json)
}

async fn put_right(ground: &Ground, prune: bool) -> Result<Report, RebuildError> {
    let (replayed, floor) = beside(ground, true).await?;
    let compared = against(ground, floor).await?;
    let tables = [&compared.answers, &compared.winners, &compared.parked];
    let total: u64 = tables.iter().map(|table| table.found.total()).sum();
    let repair = Repair {
        intake: ground.intake(),
        decoder: &ground.decoder,
        end: ground.end,
        prune,
    };
    let mut progress = Progress::new("repairing", 1, total);
    let mut done = 0;
    let repaired = repair
        .run(&compared, |keys| {
            done += keys;
            progress.at(done + 1);
        })
        .await?;
    drop(progress);
    ground.settle(repaired.floor).await?;
    let mut report = found(ground, "rebuild", replayed, floor, compared);
    report.deep = true;
    report.answers.repaired = Some(repaired.answers);
    report.winners.repaired = Some(repaired.winners);
    report.parked.repaired = Some(repaired.parked);
    report.refused += repaired.refused;
    report.referenced = repaired.referenced;
    // Rows that name an event behind the end stay, unless they may go.
    let invented: u64 = [&report.answers, &report.winners, &report.parked]
        .iter()
        .map(|table| table.found.invented)
        .sum();
    report.equal = repaired.referenced == 0 && repaired.refused == 0 && (prune || invented == 0);
    Ok(report)
}

async fn fill(ground: &Ground, config: &RebuildConfig) -> Result<Report, RebuildError> {
    let beside = Session::open(&config.reach.rows.database, "projector").await?;
    let mut progress = Progress::new("filling the tables", 1, ground.end);
    let loaded = load(ground.intake(), &beside, &ground.decoder, ground.end, |seq| {
        progress.at(seq)
    })
    .await?;
    drop(progress);
    let replayed = replayed(ground, loaded.tally, loaded.gone).await?;
    ground.settle(ground.end).await?;
    Ok(Report {
        loaded: true,
        refused: loaded.refused,
        equal: loaded.refused == 0,
        ..found(ground, "rebuild", replayed, ground.end, Compared::default())
    })
}

/// Puts what the stream comes to beside the tables. Gives that, and up to where everything must be in the tables: asked
/// before they are compared, since that only grows.
async fn beside(ground: &Ground, deep: bool) -> Result<(Replayed, u64), RebuildError> {
    let side = SideTables::create(&ground.session).await?;
    let stretches = replay(&ground.log, &ground.decoder, 1, ground.end, move |stretch| {
        SideRows::of(stretch, deep)
    });
    pin_mut!(stretches);
    let (mut tally, mut gone) = (Tally::default(), Gone::default());
    let mut progress = Progress::new("replaying", 1, ground.end);
    while let Some((stretch, rows)) = stretches.try_next().await? {
        tally.add(&stretch);
        side.add(rows).await?;
        if !stretch.gone.is_empty() {
            stretch
                .gone
                .iter()
                .for_each(|(first, last)| gone.add(*first, *last));
            side.add_gone(&stretch.gone).await?;
        }
        progress.at(stretch.last);
    }
    drop(progress);
    side.analyze().await?;
    let replayed = replayed(ground, tally, gone).await?;
    Ok((replayed, ground.floor().await?))
}

async fn against(ground: &Ground, floor: u64) -> Result<Compared, RebuildError> {
    info!("comparing");
    let bounds = Bounds {
        end: ground.end,
        floor,
        created: ground.created,
        begin: ground.begin(),
    };
    compare(&ground.session, bounds, ground.last()).await
}

/// What was replayed, once it is known that the stream does not hold more. A replica that lags would look like one from which
/// events were deleted.
async fn replayed(ground: &Ground, tally: Tally, gone: Gone) -> Result<Replayed, RebuildError> {
    if let Some(state) = ground.log.reader.state().await?
        && gone.total() > state.last_seq.saturating_sub(state.events)
    {
        return Err(RebuildError::Incomplete {
            end: ground.end,
            seen: tally.events,
        });
    }
    Ok(Replayed {
        stream: ground.log.reader.stream().to_owned(),
        created: ground.created,
        end: ground.end,
        events: tally.events,
        results: tally.results,
        to_park: tally.parked,
        nonfinal: tally.nonfinal,
        gone,
    })
}

fn found(
    ground: &Ground,
    command: &'static str,
    replayed: Replayed,
    floor: u64,
    compared: Compared,
) -> Report {
    let equal = |table: &TableReport| table.found.is_equal();
    Report {
        command,
        replayed,
        floor,
        deep: false,
        refused: compared.refused,
        loaded: false,
        forced: ground.stranger.as_ref().map(ToString::to_string),
        equal: equal(&compared.answers) && equal(&compared.winners) && equal(&compared.parked),
        answers: compared.answers,
        winners: compared.winners,
        parked: compared.parked,
        referenced: 0,
        seconds: 0.0,
        events_per_second: 0.0,
    }
}

fn finish(mut report: Report, begun: Instant, json: bool) -> Result<ExitCode, RebuildError> {
    report.seconds = begun.elapsed().as_secs_f64();
    report.events_per_second = report.replayed.events as f64 / report.seconds;
    let text = if json {
        serde_json::to_string(&report).expect("a report is plain data") + "\n"
    } else {
        report.to_string()
    };
    print(text.as_bytes())?;
    Ok(if report.equal {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
