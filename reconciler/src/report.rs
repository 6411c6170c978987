//! The command `report`: what is outstanding, given up or unknown, for people or for programs.

use std::fmt::{self, Display, Write as _};
use std::io::Write as _;

use database::{Database, DatabaseError, FitError};
use serde::Serialize;
use service::Stop;
use thiserror::Error;

use crate::config::ReportConfig;
use crate::open::APPLICATION;
use crate::provider::{ClientError, Provider, Queue};
use crate::submissions::{List, Listed, Report, Submissions, Unsubmitted};

/// Why there is no report.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The provider cannot be asked.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The database cannot be used.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Standard output is closed.
    #[error("printing the report")]
    Print(#[from] std::io::Error),
}

/// A report, and what the provider says.
#[derive(Debug, Serialize)]
struct Whole {
    #[serde(flatten)]
    report: Report,
    /// What the whole account has left to do; absent when the provider did not say.
    provider: Option<Queue>,
    /// Why it did not.
    provider_error: Option<&'static str>,
}

/// Prints the report. Succeeds also when the provider does not answer.
///
/// # Errors
/// When the database fails.
pub async fn run(config: ReportConfig, stop: Stop) -> Result<(), ReportError> {
    let provider = Provider::new(config.provider, 1)?;
    let database::Target {
        config: target,
        connector,
        ..
    } = config.database;
    let database = Database::new(target, connector, APPLICATION, 1, config.limits);
    let submissions = Submissions::new(database, provider.base());
    let reading = async {
        submissions.check().await?;
        let report = submissions.report(config.most).await?;
        let queue = provider.queue().await;
        Ok::<_, ReportError>(Whole {
            report,
            provider_error: queue.as_ref().err().map(|reply| reply.as_str()),
            provider: queue.ok(),
        })
    };
    let Some(whole) = stop.unless_requested(reading).await else {
        return Ok(());
    };
    let whole = whole?;
    let text = if config.json {
        let mut text = serde_json::to_string_pretty(&whole).expect("a report is plain data");
        text.push('\n');
        text
    } else {
        whole.to_string()
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

impl Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            states,
            overdue,
            critical,
            gone,
            lost,
            too_large,
            unusable,
            unknown_ids,
            unsubmitted,
        } = &self.report;
        f.write_str("submissions\n")?;
        for (state, count) in states {
            writeln!(f, "  {state:<10} {count:>9}")?;
        }
        if states.is_empty() {
            f.write_str("  none recorded\n")?;
        }
        match (&self.provider, self.provider_error) {
            (Some(queue), _) => writeln!(
                f,
                "provider, whole account: {} queued, {} processing",
                queue.queued_tasks, queue.processing_tasks
            )?,
            (None, why) => writeln!(f, "provider: no answer ({})", why.unwrap_or("unknown"))?,
        }
        section(f, "critical: wait for far too long", critical)?;
        section(f, "overdue: past the horizon, still asked for", overdue)?;
        section(f, "lost: given up", lost)?;
        section(f, "gone: unknown to the provider", gone)?;
        section(f, "too large: answer over the size limit", too_large)?;
        section(
            f,
            "unusable: several answers in a row that could not be used",
            unusable,
        )?;
        section(f, "without a task id", unknown_ids)?;
        section(f, "answers that nobody recorded a submission for", unsubmitted)
    }
}

fn section<T: Display>(f: &mut fmt::Formatter<'_>, title: &str, list: &List<T>) -> fmt::Result {
    if list.count == 0 {
        return Ok(());
    }
    writeln!(f, "\n{title}: {}", list.count)?;
    for one in &list.oldest {
        writeln!(f, "  {one}")?;
    }
    let more = list.count - list.oldest.len() as u64;
    if more > 0 {
        writeln!(f, "  and {more} more")?;
    }
    Ok(())
}

impl Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  ", minutes(self.created_at))?;
        match (&self.task_id, &self.idempotency_key) {
            (Some(id), Some(key)) => write!(f, "{} (key {})", Plain(id), Plain(key))?,
            (Some(id), None) => Plain(id).fmt(f)?,
            (None, Some(key)) => write!(f, "key {}", Plain(key))?,
            (None, None) => write!(f, "submission {}", self.submission_id)?,
        }
        write!(f, "  checked {} times", self.checks)?;
        if let Some(error) = &self.last_error {
            write!(f, ": {}", Plain(error))?;
        }
        Ok(())
    }
}

impl Display for Unsubmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", minutes(self.received_at), Plain(&self.task_id))
    }
}

/// Text of others on one line of a terminal, which takes no orders from it.
struct Plain<'t>(&'t str);

impl Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter.is_control() {
            true => write!(f, "{}", letter.escape_default()),
            false => f.write_char(letter),
        })
    }
}

fn minutes(at: time::OffsetDateTime) -> String {
    let (date, time) = (at.date(), at.time());
    format!("{date} {:02}:{:02}Z", time.hour(), time.minute())
}
