//! The part of the submitting application and of its operator: what was submitted is recorded, and the provider is asked.

use std::time::Duration;

use http::{HeaderValue, header};
use sandbox::eventually;

use crate::world::{SOON, World, post};

/// As an application does, in whatever transaction it creates the task. Recording again changes nothing.
const RECORD: &str = "
insert into submitted_tasks (task_id, idempotency_key, next_check_at)
select id, key, now() + make_interval(secs => $3)
  from unnest($1::text[], $2::text[]) t (id, key)
    on conflict (task_id) do nothing";

const OUTSTANDING: &str = "
select coalesce(task_id, idempotency_key), state, checks, last_error from submitted_tasks where state in ('OPEN', 'OVERDUE')";

impl World {
    /// Records the tasks `ids` in the table `submitted_tasks`, each first due `due_after` from now.
    ///
    /// # Panics
    /// When the database does not take them, or the provider keeps no task of such an id.
    pub async fn record(&self, ids: &[String], due_after: Duration) {
        let keys: Vec<Option<String>> = self.account.with(|provider| {
            let key = |id: &String| {
                let task = provider.find(id).unwrap_or_else(|e| panic!("{id}: {e}"));
                provider.task(task).request.idempotency_key.clone()
            };
            ids.iter().map(key).collect()
        });
        let sql = self.sql().await;
        sql.execute(RECORD, &[&ids, &keys, &due_after.as_secs_f64()])
            .await
            .unwrap_or_else(|e| panic!("recording submissions: {e}"));
    }

    /// Calls the provider's API with its key, past every link; the answer, which must be JSON with status 200. `what` is
    /// method and path.
    ///
    /// # Panics
    /// When it is not.
    pub async fn ask_provider(&self, what: &str) -> serde_json::Value {
        let key = format!("Bearer {}", self.api.key());
        let key = HeaderValue::try_from(key).expect("letters and digits");
        let headers = [(header::AUTHORIZATION, key)];
        let answer = post::ask(self.api.address(), what, &headers, b"").await;
        let (status, body) = answer.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(status, 200, "{what}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|e| panic!("{what}: {e}: {body}"))
    }

    /// Waits until no submission is outstanding: each is settled, or given up for a reason that its state names.
    pub async fn nothing_is_outstanding(&self) {
        let sql = self.sql().await;
        eventually("no submission is outstanding", SOON, async || {
            let rows = sql.query(OUTSTANDING, &[]).await;
            let rows = rows.map_err(|error| vec![error.to_string()])?;
            let shown = |row: &tokio_postgres::Row| {
                let (task, state, checks): (String, String, i32) = (row.get(0), row.get(1), row.get(2));
                let error: Option<String> = row.get(3);
                format!(
                    "{task} {state} after {checks} checks ({})",
                    error.unwrap_or_default()
                )
            };
            match rows.len() {
                0 => Ok(()),
                count => Err(rows
                    .iter()
                    .take(5)
                    .map(shown)
                    .chain([format!("{count} in all")])
                    .collect::<Vec<_>>()),
            }
        })
        .await;
    }

    /// How many submissions are in `state`.
    pub async fn submissions(&self, state: &str) -> usize {
        let query = "select count(*) from submitted_tasks where state = $1";
        let row = self.sql().await.query_one(query, &[&state]).await;
        let count: i64 = row.unwrap_or_else(|e| panic!("counting submissions: {e}")).get(0);
        usize::try_from(count).expect("a count is not negative")
    }
}
