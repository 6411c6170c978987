//! Adding submissions.

use std::time::Duration;

use database::DatabaseError;
use time::OffsetDateTime;
use tokio_postgres::types::{ToSql, Type};

use super::{Submissions, query, seconds};
use crate::record::Submission;

/// A submission that was recorded without its id gets the id that is known now, unless another submission has it.
const KNOWN_NOW: &str = "
with given as (
  select distinct on (g.task_id) g.task_id, g.key
    from unnest($1::text[], $2::text[]) g (task_id, key)
   where g.task_id is not null and g.key is not null
     and not exists (select from submitted_tasks s where s.task_id = g.task_id)), waiting as (
  select distinct on (g.key) s.submission_id, g.task_id
    from given g
    join submitted_tasks s on s.idempotency_key = g.key
   where s.task_id is null and s.state <> 'SETTLED'
   order by g.key, s.submission_id)
update submitted_tasks s
   set task_id = w.task_id
  from waiting w
 where s.submission_id = w.submission_id";

/// A task is recorded once, and so is a key whose task is not known yet.
const RECORD: &str = "
insert into submitted_tasks (task_id, idempotency_key, created_at, next_check_at)
select distinct on (g.task_id, case when g.task_id is null then g.key end)
       g.task_id, g.key, coalesce(g.created_at, now()), coalesce(g.created_at, now()) + make_interval(secs => $4)
  from unnest($1::text[], $2::text[], $3::timestamptz[]) g (task_id, key, created_at)
 where g.task_id is not null
    or not exists (select from submitted_tasks s
                    where s.task_id is null and s.state <> 'SETTLED' and s.idempotency_key = g.key)
    on conflict (task_id) do nothing
returning submission_id";

/// How many were recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Now.
    pub new: u64,
    /// Before, or twice now.
    pub known: u64,
}

impl Submissions {
    /// Records submissions, each first due so long after its creation.
    ///
    /// # Errors
    /// When the database fails. Nothing is recorded then.
    pub async fn record(
        &self,
        submissions: &[Submission],
        first_check_after: Duration,
    ) -> Result<Recorded, DatabaseError> {
        let attempt = "recording submissions";
        let ids: Vec<Option<&str>> = submissions
            .iter()
            .map(|one| one.task_id.as_ref().map(|id| id.as_str()))
            .collect();
        let keys: Vec<Option<&str>> = submissions
            .iter()
            .map(|one| one.idempotency_key.as_ref().map(|key| key.as_str()))
            .collect();
        let created: Vec<Option<OffsetDateTime>> = submissions.iter().map(|one| one.created_at).collect();
        let after = seconds(first_check_after);
        self.database
            .transaction(async |client, _| {
                let given: [(&(dyn ToSql + Sync), Type); 4] = [
                    (&ids, Type::TEXT_ARRAY),
                    (&keys, Type::TEXT_ARRAY),
                    (&created, Type::TIMESTAMPTZ_ARRAY),
                    (&after, Type::FLOAT8),
                ];
                query(client, attempt, KNOWN_NOW, &given[..2]).await?;
                let new = query(client, attempt, RECORD, &given).await?.len();
                Ok(Recorded {
                    new: new as u64,
                    known: (submissions.len() - new) as u64,
                })
            })
            .await
    }
}
