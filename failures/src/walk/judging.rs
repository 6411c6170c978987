//! What a walk holds beyond what every test does.

use sandbox::sender;

use super::walker::Walker;
use crate::oracle::Verdict;

/// What ingress may answer to a delivery that is right. 400 only while a secret is replaced.
const ANSWERS: [u16; 4] = [204, 400, 408, 503];

impl Walker {
    pub(super) async fn judge(&mut self) -> Verdict {
        let mut verdict = self.world.judge().await;
        verdict.faults.extend(self.world.verdict_of_verify().await);
        self.answers_were_right(&mut verdict.faults);
        self.submissions_are_settled(&mut verdict.faults).await;
        self.logs_hold_no_panic_and_no_secret(&mut verdict.faults);
        verdict
    }

    fn answers_were_right(&mut self, faults: &mut Vec<String>) {
        let tally = self.world.tally();
        let wrong = tally.wrongly_accepted();
        if wrong > 0 {
            faults.push(format!("{wrong} forged, changed or stale requests were accepted"));
        }
        let kinds = [
            sender::Kind::Attempt,
            sender::Kind::AnswerLost,
            sender::Kind::Copy,
            sender::Kind::FreshReplay,
        ];
        let mut refused = 0;
        for kind in kinds {
            for (status, count) in tally.of(kind).by_status {
                if !ANSWERS.contains(&status) {
                    faults.push(format!("{count} of {kind:?} were answered {status}"));
                }
                refused += if status == 400 { count } else { 0 };
            }
        }
        let more = refused - std::mem::replace(&mut self.refused, refused);
        let excused = std::mem::take(&mut self.refusals_excused);
        if more > 0 && !excused {
            faults.push(format!("{more} right requests were answered 400"));
        }
    }

    /// The provider keeps every task of a walk, so none is given up.
    async fn submissions_are_settled(&self, faults: &mut Vec<String>) {
        let query = "select state, count(*) from submitted_tasks where state <> 'SETTLED' group by state";
        let rows = self.world.sql().await.query(query, &[]).await;
        for row in rows.unwrap_or_else(|e| panic!("counting submissions: {e}")) {
            let (state, count): (String, i64) = (row.get(0), row.get(1));
            faults.push(format!("{count} submissions are {state}"));
        }
    }

    fn logs_hold_no_panic_and_no_secret(&mut self, faults: &mut Vec<String>) {
        let secrets: Vec<_> = (0..=self.rotations)
            .map(|number| self.world.secret_of(number))
            .collect();
        for who in self.state.programs().to_vec() {
            let log = self.world.log(who);
            if let Some(line) = log.lines().find(|line| line.contains("panicked at")) {
                faults.push(format!("{who}: {line}"));
            }
            let shown = |secret: &str| log.contains(secret);
            if shown(self.world.api.key()) || secrets.iter().any(|secret| shown(secret.text())) {
                faults.push(format!("{who} has a secret in its log"));
            }
        }
    }
}
