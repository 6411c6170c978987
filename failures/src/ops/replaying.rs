//! The commands that replay the stream, and what they are for: tables that somebody changed behind the programs.

use std::process::Output;
use std::time::Duration;

use crate::world::{Kind, Who, World};

/// Rows deleted, changed and invented, each on some of the keys: `$1` says which, of eight.
const CORRUPT: [&str; 6] = [
    "delete from answers where abs(hashtext(task_id)) % 8 = $1",
    "update answers set response = '{\"result\": \"forged\"}', created_at = now() + interval '1 year'
      where abs(hashtext(task_id)) % 8 = ($1 + 1) % 8",
    "insert into answers
     select 'invented ' || task_id, 'invented ' || job_key, null, status, created_at, response, response_digest, problem, via,
            stream_seq, received_at
       from answers where abs(hashtext(task_id)) % 8 = ($1 + 2) % 8
         on conflict (task_id) do nothing",
    "delete from winners where abs(hashtext(job_key)) % 8 = ($1 + 3) % 8",
    "update winners set task_id = 'invented', created_at = now() + interval '1 year'
      where abs(hashtext(job_key)) % 8 = ($1 + 4) % 8",
    "insert into winners
     select 'invented ' || job_key, task_id, status, created_at, stream_seq
       from winners where abs(hashtext(job_key)) % 8 = ($1 + 5) % 8
         on conflict (job_key) do nothing",
];

impl World {
    /// Deletes, changes and invents rows of `answers` and `winners`, as no program does. Which ones follows from `turn`. Gives how
    /// many of each, in that order, of `answers` and then of `winners`.
    ///
    /// # Panics
    /// When the database does not take it.
    pub async fn corrupt(&self, turn: i32) -> [u64; 6] {
        let sql = self.sql().await;
        let mut changed = [0; 6];
        for (statement, changed) in CORRUPT.iter().zip(&mut changed) {
            let executed = sql.execute(*statement, &[&(turn % 8)]).await;
            *changed = executed.unwrap_or_else(|e| panic!("corrupting the tables: {e}"));
        }
        changed
    }

    /// Compares the tables with the stream by the product's own means.
    pub async fn verify(&mut self) -> Output {
        self.run(Who::Projector(0), &["verify", "--deep"]).await
    }

    /// Makes the tables what the stream says.
    ///
    /// # Panics
    /// When it does not say that they are.
    pub async fn rebuild(&mut self) -> Output {
        let output = self.run(Who::Projector(0), &["rebuild", "--json"]).await;
        assert!(output.status.success(), "{}", told(&output));
        output
    }

    /// The same, killed when it takes longer than that.
    pub async fn rebuild_killed_after(&mut self, time: Duration) {
        // What is dropped is killed.
        drop(tokio::time::timeout(time, self.run(Who::Projector(0), &["rebuild"])).await);
    }

    /// What is wrong with the tables by the product's own means, where it has a projector.
    pub(crate) async fn verdict_of_verify(&mut self) -> Option<String> {
        let mut members = self.members.iter();
        if !members.any(|member| member.meant_to_run && member.who.kind() == Kind::Projector) {
            return None;
        }
        let output = self.verify().await;
        (!output.status.success()).then(|| format!("projector verify --deep: {}", told(&output)))
    }
}

fn told(output: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!("{}\n{out}{err}", output.status)
}
