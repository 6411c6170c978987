//! The worker: a batch a statement, all of it inside the database.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use deadpool_postgres::Pool;
use serde_json::json;

const BATCH: i64 = 1_000;

/// Nothing leaves the database, and each batch is one statement and one commit: no worker that holds to the pattern does less.
const PROCESS: &str = "
with batch as (
  select task_id, body from webhook_inbox
   where processed_at is null
   order by received_at
   limit $1
     for update skip locked
), made as (
  insert into answers (task_id, job_key, status, created_at, response)
  select task_id, body #>> '{task,idempotencyKey}', body #>> '{task,status}', (body #>> '{task,createdAt}')::timestamptz,
         body -> 'response'
    from batch
      on conflict (task_id) do nothing
)
update webhook_inbox i set processed_at = now() from batch where i.task_id = batch.task_id";

/// Makes answers until the inbox is empty, and prints how many, how many of them with the first commit, and how many seconds after
/// that the last one came.
pub(crate) async fn drain(pool: &Pool) -> Result<()> {
    let client = pool.get().await?;
    let process = client.prepare(PROCESS).await?;
    let (mut rows, mut first) = (0, 0);
    let (mut began, mut last) = (Instant::now(), Duration::ZERO);
    loop {
        let batch = client.execute(&process, &[&BATCH]).await.context("a batch")?;
        if batch == 0 {
            break;
        }
        if rows == 0 {
            (first, began) = (batch, Instant::now());
        }
        (rows, last) = (rows + batch, began.elapsed());
    }
    println!(
        "{}",
        json!({ "rows": rows, "first": first, "seconds": last.as_secs_f64() })
    );
    Ok(())
}
