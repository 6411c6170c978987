//! Waiting until all is quiet, and judging.

use sandbox::eventually;
use sandbox::program::Readiness;
use sandbox::provider::delivery::{Delivery, Reply, State, Subject};

use crate::oracle::{self, Evidence, Sent, Verdict};
use crate::world::{Kind, SOON, STREAM, Who, World};

impl World {
    /// Waits until every program that should run is ready, the provider has nothing left to send, the reconcilers have
    /// nothing left to fetch and the projectors have handled everything; then judges, and has `projector verify` judge too.
    /// Everything that was broken must be repaired before.
    ///
    /// # Panics
    /// When it does not become quiet, when a program has ended by itself, and when the verdict has faults: the message
    /// says which id is where.
    pub async fn settle_and_judge(&mut self) -> Verdict {
        self.settle().await;
        let mut verdict = self.judge().await;
        verdict.faults.extend(self.verdict_of_verify().await);
        assert!(verdict.faults.is_empty(), "seed {}: {verdict}", self.setup.seed.0);
        verdict
    }

    /// [`settle_and_judge`](Self::settle_and_judge), and then stops every program in order: whatever it went through, it
    /// must end with exit code 0. The end of every test.
    pub async fn end(mut self) -> Verdict {
        let verdict = self.settle_and_judge().await;
        let running = self.members.iter().filter(|member| member.meant_to_run);
        let running: Vec<Who> = running.map(|member| member.who).collect();
        for who in running {
            self.stop(who).await;
        }
        verdict
    }

    /// The waiting of [`settle_and_judge`](Self::settle_and_judge).
    pub async fn settle(&mut self) {
        self.programs_are_ready().await;
        self.provider_is_quiet().await;
        if self.some_run(Kind::Reconciler) {
            self.nothing_is_outstanding().await;
        }
        if self.some_run(Kind::Projector) {
            self.everything_is_projected().await;
        }
        // Nothing of this may have cost a program its life.
        self.programs_are_ready().await;
    }

    /// The judging of [`settle_and_judge`](Self::settle_and_judge): the verdict on what is there now.
    ///
    /// # Panics
    /// When stream or tables cannot be read.
    pub async fn judge(&self) -> Verdict {
        let events = oracle::stream::read(&self.broker.url(), STREAM)
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        let tables = oracle::tables::read(&self.sql().await)
            .await
            .unwrap_or_else(|e| panic!("reading the tables: {e}"));
        let evidence = Evidence {
            sent: self.sent(),
            events,
            tables,
        };
        oracle::judge(&evidence, &self.expected)
    }

    fn some_run(&self, kind: Kind) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.meant_to_run && member.who.kind() == kind)
    }

    pub(crate) async fn programs_are_ready(&mut self) {
        let meant = self.members.iter().filter(|member| member.meant_to_run);
        let meant: Vec<Who> = meant.map(|member| member.who).collect();
        for who in meant {
            eventually(&format!("{who} is ready"), SOON, async || {
                self.is_alive(who);
                // Asked anew: what the watch heard last may be from before.
                match sandbox::program::readiness(self.member(who).program.admin()).await {
                    Readiness::Ready => Ok(()),
                    other => Err(other),
                }
            })
            .await;
        }
    }

    pub(crate) async fn provider_is_quiet(&self) {
        eventually("the provider has nothing left to send", SOON, async || {
            self.hasten_retries();
            match self.pending() {
                0 => Ok(()),
                pending => Err(format!("{pending} deliveries are pending")),
            }
        })
        .await;
    }

    async fn everything_is_projected(&self) {
        let stream = self.stream().await;
        let last = stream.cached_info().state.last_sequence;
        eventually("every event is handled and acknowledged", SOON, async || {
            let consumer = self.consumer().await.ok_or("there is no consumer".to_owned())?;
            let (floor, pending, unacknowledged) = (
                consumer.ack_floor.stream_sequence,
                consumer.num_pending,
                consumer.num_ack_pending,
            );
            if (pending, unacknowledged) == (0, 0) && floor >= last {
                Ok(())
            } else {
                Err(format!(
                    "{pending} pending, {unacknowledged} not acknowledged, floor {floor} of {last}"
                ))
            }
        })
        .await;
    }

    /// Everything that was sent in the provider's name.
    fn sent(&self) -> Vec<Sent> {
        let mut sent = self.account.with(|provider| {
            let deliveries = provider.deliveries().iter();
            deliveries
                .map(|delivery| of_delivery(delivery, self.clock_is_true))
                .collect::<Vec<_>>()
        });
        sent.extend(self.posted.iter().enumerate().map(|(number, posted)| Sent {
            name: format!("post {number} by hand"),
            body: posted.body.clone(),
            acknowledged: posted.status.is_some_and(|status| (200..300).contains(&status)),
            acknowledged_by: None,
            owed: false,
            standing: format!("status {:?}", posted.status),
        }));
        sent
    }
}

fn of_delivery(delivery: &Delivery, clock_is_true: bool) -> Sent {
    let replies = delivery
        .attempts
        .iter()
        .filter_map(|attempt| attempt.reply.as_ref());
    let replied: Vec<String> = replies
        .clone()
        .map(|reply| match reply {
            Reply::Status(status) => status.to_string(),
            Reply::Nothing(error) => error.clone(),
        })
        .collect();
    let standing = match delivery.state {
        State::Pending(_) | State::Sending => "pending",
        State::Delivered(_) => "delivered",
        State::Dead => "dead",
    };
    Sent {
        name: delivery.webhook_id.clone(),
        body: delivery.body.clone(),
        acknowledged: replies.clone().any(Reply::is_accepted),
        acknowledged_by: match delivery.state {
            State::Delivered(at) if clock_is_true => Some(at),
            _ => None,
        },
        owed: matches!(delivery.subject, Subject::Task(_)),
        standing: format!("{standing}; attempts: {}", replied.join(", ")),
    }
}
