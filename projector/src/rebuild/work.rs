//! The two commands.

use std::process::ExitCode;

use database::{DatabaseError, Session};
use futures_util::{TryStreamExt, pin_mut};
use tokio::time::Instant;
use tokio_postgres::Client;
use tracing::info;

use super::RebuildError;
use super::compare::{Bounds, Compared, compare};
use super::ground::Ground;
use super::load::{Loaded, load};
use super::origin::{has_rows, rows, rows_up_to};
use super::rekey::rekey_all;
use super::repair::Repair;
use super::replay::{Tally, replay};
use super::report::{Gone, Replayed, Report, TableReport};
use super::side::{SideRows, SideTables};
use crate::config::RebuildConfig;
use crate::print::print;
use crate::progress::Progress;

/// Rows are few when there is less than one for so many events.
const FEW: u64 = 10;

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
    let client = ground.session.client();
    let rekeyed = match ground.rules_changed {
        true => rekey_all(ground.intake().to, ground.rules).await?,
        false => 0,
    };
    let report = if !has_rows(client).await? {
        fill(&ground, &config).await?
    } else if has_few(&ground).await? {
        // What is there is only raised by it; what is wrong all the same is found afterwards.
        bring_in_all(&ground, &config).await?;
        Report {
            loaded: true,
            ..put_right(&ground, config.prune, ground.end).await?
        }
    } else {
        put_right(&ground, config.prune, 0).await?
    };
    finish(Report { rekeyed, ..report }, begun, config.json)
}

/// Whether there are so few rows that it is cheaper to bring in every event than to look for those that are missing: a first load
/// was killed, or a projector was started before it.
async fn has_few(ground: &Ground) -> Result<bool, DatabaseError> {
    let few = ground.log.state.events / FEW;
    Ok(few > 0 && rows_up_to(ground.session.client(), few).await? < few)
}

/// Everything up to `brought_in` was brought in already.
async fn put_right(ground: &Ground, prune: bool, brought_in: u64) -> Result<Report, RebuildError> {
    let (replayed, floor) = beside(ground, true).await?;
    let floor = floor.max(brought_in);
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
    let loaded = bring_in_all(ground, config).await?;
    let replayed = replayed(ground, loaded.tally, loaded.gone).await?;
    ground.settle(ground.end).await?;
    let client = ground.session.client();
    let filled = Compared {
        answers: filled(client, "answers").await?,
        winners: filled(client, "winners").await?,
        parked: filled(client, "parked").await?,
        refused: loaded.refused,
    };
    Ok(Report {
        loaded: true,
        equal: loaded.refused == 0,
        ..found(ground, "rebuild", replayed, ground.end, filled)
    })
}

async fn filled(client: &Client, table: &str) -> Result<TableReport, DatabaseError> {
    Ok(TableReport {
        rows: rows(client, table).await?,
        ..TableReport::default()
    })
}

async fn bring_in_all(ground: &Ground, config: &RebuildConfig) -> Result<Loaded, RebuildError> {
    let beside = Session::open(&config.reach.rows.database, "projector").await?;
    let mut progress = Progress::new("filling the tables", 1, ground.end);
    load(ground.intake(), &beside, &ground.decoder, ground.end, |seq| {
        progress.at(seq)
    })
    .await
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
        rekeyed: 0,
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
