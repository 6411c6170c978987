//! What the submitting application recorded, as far as the question is about it.

use schemas::job_key::{Rules, of_key};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::facts::Submission;
use super::tables::each;
use crate::config::Question;
use crate::statements::query;
use database::DatabaseError;

/// As JSON: the columns that there are depend on the version of the schema.
const SUBMISSIONS: &str = "
select to_jsonb(s) from submitted_tasks s
 where task_id = any($1) or (task_id is null and idempotency_key = any($2)) or starts_with(idempotency_key, $3)
 order by submission_id";

/// Those of these tasks, those that wait for an id under one of these keys, and those of the job that was asked about.
pub(super) async fn read(
    client: &Client,
    tasks: &[String],
    keys: &[String],
    question: &Question,
    rules: Rules,
) -> Result<Vec<Submission>, DatabaseError> {
    let attempt = "reading submissions";
    let job = match question {
        Question::Job(key) => Some(key.as_str()),
        Question::Task(_) => None,
    };
    let values: [(&(dyn ToSql + Sync), Type); 3] = [
        (&tasks, Type::TEXT_ARRAY),
        (&keys, Type::TEXT_ARRAY),
        (&job, Type::TEXT),
    ];
    let rows = query(client, attempt, SUBMISSIONS, &values).await?;
    let found: Vec<serde_json::Value> = each(&rows, attempt, |row| row.try_get(0))?;
    let found = found.iter().filter_map(submission);
    Ok(found
        .filter(|one| {
            let of_task = one.task_id.as_ref().is_some_and(|id| tasks.contains(id));
            let key = one.idempotency_key.as_deref();
            let unresolved = one.task_id.is_none() && key.is_some_and(|key| keys.iter().any(|k| k == key));
            of_task || unresolved || (job.is_some() && key.map(|key| of_key(rules, key)) == job)
        })
        .collect())
}

/// Only what the schema has ever had is looked for, so every field that is not null has its type.
fn submission(row: &serde_json::Value) -> Option<Submission> {
    let text = |name: &str| row[name].as_str().map(ToOwned::to_owned);
    let moment = |name: &str| OffsetDateTime::parse(row[name].as_str()?, &Rfc3339).ok();
    Some(Submission {
        submission_id: row["submission_id"].as_i64()?,
        task_id: text("task_id"),
        idempotency_key: text("idempotency_key"),
        submitted_at: moment("created_at")?,
        state: text("state")?,
        checks: i32::try_from(row["checks"].as_i64()?).ok()?,
        checked_at: moment("checked_at"),
        next_check_at: moment("next_check_at"),
        appended_seq: row["appended_seq"].as_i64(),
        last_error: text("last_error"),
        settled_at: moment("settled_at"),
    })
}
