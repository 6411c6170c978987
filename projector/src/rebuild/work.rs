//! The two commands.

use std::process::ExitCode;

use database::{DatabaseError, Session};
use tokio::time::Instant;
use tokio_postgres::Client;

use super::RebuildError;
use super::beside::{Beside, beside, replayed};
use super::compare::Compared;
use super::ground::Ground;
use super::load::{Loaded, load};
use super::origin::{has_rows, rows, rows_up_to};
use super::rekey::rekey_all;
use super::repair::Repair;
use super::report::{Report, TableReport};
use crate::config::RebuildConfig;
use crate::lock::lock_second;
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
    let compared = beside(&ground, &config, config.deep, 0).await?;
    let report = Report {
        deep: config.deep,
        ..found(&ground, "verify", compared)
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
        let loaded = bring_in_all(&ground, &config).await?;
        let report = put_right(&ground, &config, ground.end).await?;
        Report {
            loaded: true,
            equal: report.equal && loaded.refused == 0,
            ..report
        }
    } else {
        put_right(&ground, &config, 0).await?
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
async fn put_right(ground: &Ground, config: &RebuildConfig, brought_in: u64) -> Result<Report, RebuildError> {
    let beside = beside(ground, config, true, brought_in).await?;
    let (compared, prune) = (&beside.compared, config.prune);
    let repair = Repair {
        intake: ground.intake(),
        decoder: &ground.decoder,
        end: ground.end,
        prune,
    };
    let mut progress = Progress::new("repairing", 1, repair.total(compared));
    let mut done = 0;
    let repaired = repair
        .run(compared, |keys| {
            done += keys;
            progress.at(done + 1);
        })
        .await?;
    drop(progress);
    ground.settle(repaired.floor).await?;
    let mut report = found(ground, "rebuild", beside);
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
    let replayed = replayed(ground, loaded.tally).await?;
    ground.settle(ground.end).await?;
    let client = ground.session.client();
    let filled = Beside {
        replayed,
        floor: ground.end,
        compared: Compared {
            answers: filled(client, "answers").await?,
            winners: filled(client, "winners").await?,
            parked: filled(client, "parked").await?,
            refused: loaded.refused,
        },
    };
    Ok(Report {
        loaded: true,
        equal: loaded.refused == 0,
        ..found(ground, "rebuild", filled)
    })
}

async fn filled(client: &Client, table: &str) -> Result<TableReport, DatabaseError> {
    Ok(TableReport {
        rows: rows(client, table).await?,
        ..TableReport::default()
    })
}

async fn bring_in_all(ground: &Ground, config: &RebuildConfig) -> Result<Loaded, RebuildError> {
    let second = Session::open_another(&config.reach.rows.database, "projector").await?;
    if !lock_second(&ground.session, &second).await? {
        return Err(RebuildError::Busy);
    }
    let mut progress = Progress::new("filling the tables", 1, ground.end);
    load(ground.intake(), &second, &ground.decoder, ground.end, |seq| {
        progress.at(seq)
    })
    .await
}

fn found(ground: &Ground, command: &'static str, beside: Beside) -> Report {
    let Beside {
        replayed,
        floor,
        compared,
    } = beside;
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
