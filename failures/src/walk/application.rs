//! The submitting application: it records what it has submitted, and again what a database has lost.

use std::collections::HashSet;
use std::time::Duration;

use crate::world::World;

/// As [`World::record`], of tasks whose ids are not known.
const RECORD_KEYS: &str = "
insert into submitted_tasks (idempotency_key, next_check_at)
select key, now() + make_interval(secs => $2)
  from unnest($1::text[]) t (key)
 where not exists (select from submitted_tasks s where s.idempotency_key = key)";

/// Two seconds: long enough that nearly every result comes by itself, and short enough that the reconcilers ask for some that
/// are on their way.
const FIRST_CHECK_AFTER: Duration = Duration::from_secs(2);

/// What the application knows.
#[derive(Debug, Default)]
pub(super) struct Application {
    /// So many tasks of the provider are recorded, the first ones.
    recorded: usize,
    /// Tasks whose ids it never learned.
    nameless: HashSet<String>,
}

impl Application {
    /// The answer to the creation of this task was lost.
    pub(super) fn never_learns(&mut self, id: &str) {
        self.nameless.insert(id.to_owned());
    }

    pub(super) fn knows_no_id_of(&self, id: &str) -> bool {
        self.nameless.contains(id)
    }

    /// The database has lost what was recorded, or a part of it.
    pub(super) fn begin_again(&mut self) {
        self.recorded = 0;
    }

    /// Records what is new.
    pub(super) async fn record(&mut self, world: &World) {
        let tasks: Vec<(String, Option<String>)> = world.account.with(|provider| {
            let new = provider.tasks()[self.recorded..].iter();
            new.map(|task| (task.id.clone(), task.request.idempotency_key.clone()))
                .collect()
        });
        self.recorded += tasks.len();
        let (nameless, named): (Vec<_>, Vec<_>) =
            tasks.into_iter().partition(|(id, _)| self.knows_no_id_of(id));
        let ids: Vec<String> = named.into_iter().map(|(id, _)| id).collect();
        if !ids.is_empty() {
            world.record(&ids, FIRST_CHECK_AFTER).await;
        }
        let keys: Vec<String> = nameless.into_iter().filter_map(|(_, key)| key).collect();
        if !keys.is_empty() {
            let sql = world.sql().await;
            sql.execute(RECORD_KEYS, &[&keys, &FIRST_CHECK_AFTER.as_secs_f64()])
                .await
                .unwrap_or_else(|e| panic!("recording submissions by key: {e}"));
        }
    }
}
