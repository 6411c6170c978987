//! Tables that are not what the stream says, and whether they are again.

use anyhow::{Context as _, Result, ensure};
use sandbox::servers::Database;
use serde::Deserialize;
use tokio_postgres::Client;

const TABLES: [&str; 2] = ["answers", "winners"];

/// Of each thousand events the rows of one are taken away, in each table.
const LOSE: [&str; 2] = [
    "delete from answers where stream_seq % 1000 = 1",
    "delete from winners where stream_seq % 1000 = 4",
];
/// Those of one are changed.
const CHANGE: [&str; 2] = [
    r#"update answers set response = '{"result": "forged"}' where stream_seq % 1000 = 2"#,
    "update winners set status = 'FAILED', created_at = null where stream_seq % 1000 = 5",
];
/// And those of one have a row made up beside them.
const INVENT: [&str; 2] = [
    "insert into answers
     select 'made up ' || stream_seq, task_id, null, status, created_at, response, response_digest, null, via, stream_seq,
            received_at
       from answers where stream_seq % 1000 = 3",
    "insert into winners
     select 'made up ' || stream_seq, task_id, status, created_at, stream_seq from winners where stream_seq % 1000 = 6",
];

/// What was done to the tables, and what they held before.
#[derive(Debug)]
pub(super) struct Damage {
    session: Client,
    /// Of each table.
    done: [Counts; 2],
    before: [String; 2],
}

/// Rows that are not as the stream says, as the commands call them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Counts {
    missing: u64,
    wrong: u64,
    not_on_stream: u64,
}

#[derive(Deserialize)]
struct Found {
    found: Counts,
    repaired: Option<Counts>,
}

/// As far as it is needed.
#[derive(Deserialize)]
struct Report {
    answers: Found,
    winners: Found,
    equal: bool,
}

impl Damage {
    /// Damages the tables.
    pub(super) async fn make(database: &Database) -> Result<Self> {
        let session = database.connect().await;
        let before = contents(&session).await?;
        let mut done = Vec::new();
        for table in 0..TABLES.len() {
            done.push(Counts {
                missing: changed(&session, LOSE[table]).await?,
                wrong: changed(&session, CHANGE[table]).await?,
                not_on_stream: changed(&session, INVENT[table]).await?,
            });
        }
        Ok(Self {
            session,
            done: [done[0], done[1]],
            before,
        })
    }

    /// Holds that a rebuild which printed `log` found all of it and nothing else, and that the tables are again what they were.
    pub(super) async fn is_repaired(&self, log: &str) -> Result<()> {
        let report = log
            .lines()
            .rev()
            .find_map(|line| serde_json::from_str::<Report>(line).ok());
        let report = report.context("the rebuild printed no report")?;
        ensure!(report.equal, "the rebuild says that the tables are not equal");
        let found = [&report.answers, &report.winners];
        for ((table, done), found) in TABLES.iter().zip(self.done).zip(found) {
            ensure!(
                found.found == done && found.repaired == Some(done),
                "of {table} {done:?} was damaged, {:?} found, and {:?} repaired",
                found.found,
                found.repaired
            );
        }
        ensure!(
            contents(&self.session).await? == self.before,
            "the tables are not what they were before"
        );
        Ok(())
    }
}

async fn changed(session: &Client, statement: &str) -> Result<u64> {
    let changed = session
        .execute(statement, &[])
        .await
        .context("damaging a table")?;
    ensure!(changed > 0, "there was nothing to damage");
    Ok(changed)
}

/// How many rows there are in each table, and a sum over all that is in them.
async fn contents(session: &Client) -> Result<[String; 2]> {
    let mut contents = [String::new(), String::new()];
    for (table, contents) in TABLES.iter().zip(&mut contents) {
        let sum = format!(
            "select count(*) || ' rows, ' || sum(hashtextextended(t::text, 0)::numeric) from {table} t"
        );
        let row = session
            .query_one(&sum, &[])
            .await
            .with_context(|| format!("reading {table}"))?;
        *contents = row.try_get(0)?;
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use sandbox::servers::Postgres;
    use serde_json::json;

    use super::*;

    const ROWS: &str = "
insert into answers
select 'task ' || seq, 'job ' || seq, null, 'COMPLETED', null, '{}', decode(repeat('00', 32), 'hex'), null, 'webhook', seq, now()
  from generate_series(1, 9) s (seq);
insert into winners select job_key, task_id, status, created_at, stream_seq from answers;
";

    fn report(missing: u64) -> String {
        let counts = |missing| json!({ "missing": missing, "wrong": 1, "not_on_stream": 1, "pending": 0 });
        let found = |missing| json!({ "found": counts(missing), "repaired": counts(missing) });
        let report = json!({ "answers": found(missing), "winners": found(1), "equal": true });
        format!("{{\"level\":\"info\"}}\n{report}\n")
    }

    #[tokio::test]
    async fn a_repair_is_believed_when_it_found_all_and_the_tables_are_what_they_were() {
        let database = Postgres::shared().await.fresh_database().await;
        let session = database.connect().await;
        session.batch_execute(ROWS).await.unwrap();
        session
            .batch_execute("create table kept as select * from answers; create table kept_winners as select * from winners")
            .await
            .unwrap();
        let damage = Damage::make(&database).await.unwrap();
        let lies = damage.is_repaired(&report(1)).await.unwrap_err().to_string();
        assert_eq!(lies, "the tables are not what they were before");

        let repair = "delete from answers; insert into answers select * from kept;
                      delete from winners; insert into winners select * from kept_winners";
        session.batch_execute(repair).await.unwrap();
        damage.is_repaired(&report(1)).await.unwrap();
        let few = damage.is_repaired(&report(0)).await.unwrap_err().to_string();
        assert!(few.starts_with("of answers"), "{few}");
        assert!(damage.is_repaired("it ended\n").await.is_err());
    }
}
