//! `parked list`.

use std::process::ExitCode;

use database::{Database, DatabaseError};

use super::ParkedError;
use super::rows::{Parked, counts, list};
use crate::config::{Rows, Which};
use crate::print::{Table, count, moment, print, size};
use crate::reach;

/// So many are read at a time.
const PAGE: u32 = 1_000;

pub(super) async fn run(
    which: &Which,
    limit: Option<u32>,
    json: bool,
    rows: &Rows,
) -> Result<ExitCode, ParkedError> {
    let database = reach::database(rows).await?;
    let counts = database
        .snapshot(async |client| counts(client, which).await)
        .await?;
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    if !json {
        print(head(&counts, total).as_bytes())?;
    }
    let mut shown = 0;
    let mut after = None;
    while let Some(page) = page(&database, which, after, limit, shown).await? {
        let text = if json { lines(&page) } else { table(&page) };
        print(text.as_bytes())?;
        shown += page.len() as u64;
        after = page.last().map(Parked::place);
    }
    if !json && shown < total {
        let more = format!("  and {} later ones; --limit 0 lists all\n", count(total - shown));
        print(more.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The next rows; None when all that were asked for are there.
async fn page(
    database: &Database,
    which: &Which,
    after: Option<super::rows::Place>,
    limit: Option<u32>,
    shown: u64,
) -> Result<Option<Vec<Parked>>, DatabaseError> {
    let left = limit.map_or(u64::from(PAGE), |limit| u64::from(limit).saturating_sub(shown));
    let size = i64::try_from(left.min(u64::from(PAGE))).unwrap_or(i64::from(PAGE));
    let rows = database
        .snapshot(async |client| list(client, which, after, size).await)
        .await?;
    Ok(Some(rows).filter(|rows| !rows.is_empty()))
}

fn head(counts: &[(String, u64)], total: u64) -> String {
    if total == 0 {
        return "nothing is parked\n".to_owned();
    }
    let each: Vec<String> = counts
        .iter()
        .map(|(reason, number)| format!("{} {reason}", count(*number)))
        .collect();
    crate::print::plain(&format!("{} parked: {}", count(total), each.join(", "))) + "\n"
}

fn lines(page: &[Parked]) -> String {
    let lines = page
        .iter()
        .map(|row| serde_json::to_string(row).expect("a row is plain data") + "\n");
    lines.collect()
}

fn table(page: &[Parked]) -> String {
    let mut table = Table::new(&["SEQ", "TIME", "REASON", "TASK", "SIZE", "SUBJECT", "DETAIL"]);
    for row in page {
        let older = if row.is_of_older_stream {
            "of an older stream"
        } else {
            ""
        };
        let detail = [older, row.detail.as_deref().unwrap_or_default()];
        let detail: Vec<&str> = detail.into_iter().filter(|text| !text.is_empty()).collect();
        table.row([
            row.stream_seq.to_string(),
            moment(row.parked_at),
            row.reason.clone(),
            row.task_id.clone().unwrap_or_else(|| "-".to_owned()),
            size(row.bytes),
            row.subject.clone(),
            detail.join("; "),
        ]);
    }
    table.to_string()
}
