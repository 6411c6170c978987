//! Doing the operations of a walk.

use async_nats::jetstream::consumer;
use nix::sys::signal::Signal;
use sandbox::api::{Fault, RetryAfter};
use sandbox::eventually;
use sandbox::program::Readiness;
use sandbox::servers::Link;
use std::time::Duration;

use super::operation::{Breakage, Change, Deed, Ill, Operation, Side, Wrong};
use super::state::Truth;
use super::walker::Walker;
use crate::world::{SOON, Who, World};

/// How long a stop may take: more than the grace of any program of a world.
const STOPPING: Duration = Duration::from_secs(30);
/// What a slow link adds each way.
const SLOW: Duration = Duration::from_millis(60);

impl Walker {
    /// Does one operation, to its end.
    pub(super) async fn perform(&mut self, operation: Operation) {
        match operation {
            Operation::Do(deed) => self.act(deed).await,
            Operation::Break(breakage) => {
                self.broke(breakage);
                self.damage(breakage).await;
            }
            Operation::Mend(breakage) => self.mend(breakage).await,
            Operation::Look => self.look().await,
        }
    }

    async fn act(&mut self, deed: Deed) {
        match deed {
            Deed::Burst(_)
            | Deed::Lose(_)
            | Deed::Reverse
            | Deed::SubmitByKey
            | Deed::TestDelivery
            | Deed::NonFinal
            | Deed::Unreadable
            | Deed::Divergent(_)
            | Deed::Redeliver => self.send(deed).await,
            // Between two deletions there may be no consumer.
            Deed::DeleteConsumer => drop(self.world.stream().await.delete_consumer("projector").await),
            Deed::ChangeConsumer(change) => change_consumer(&self.world, change).await,
            Deed::EndSessions => {
                let end = "select pg_terminate_backend(pid) from pg_stat_activity
                            where datname = current_database() and pid <> pg_backend_pid()";
                let ended = self.world.sql().await.query(end, &[]).await;
                ended.unwrap_or_else(|e| panic!("ending sessions: {e}"));
                self.unlock_rows();
            }
            Deed::BackUp => {
                self.backup = Some(self.world.back_up_database().await);
                self.state.backed_up = true;
                self.backup_is_corrupted = self.corrupted;
            }
            Deed::PutBack => {
                let backup = self.backup.as_ref().expect("it was backed up");
                self.world.put_back_database(backup).await;
                self.corrupted = self.backup_is_corrupted;
                // It runs, its settings are those of then, and nobody has a session.
                self.state.mended(Breakage::DatabaseKilled);
                self.state.mended(Breakage::ReadOnly);
                self.unlock_rows();
                self.application.begin_again();
            }
            Deed::Corrupt => {
                self.deeds += 1;
                let turn = i32::try_from(self.deeds % 8).expect("it is less than eight");
                self.world.corrupt(turn).await;
                self.corrupted = true;
            }
            Deed::Rebuild(hundredths) => {
                let time = Duration::from_millis(10 * u64::from(hundredths));
                self.world.rebuild_killed_after(time).await;
            }
            Deed::PowerCut => {
                let programs = self.state.programs().to_vec();
                let running = programs.into_iter().filter(|who| self.state.runs(*who));
                let mut victims: Vec<Breakage> = running.map(Breakage::Killed).collect();
                victims.extend(self.state.broker_runs().then_some(Breakage::BrokerKilled));
                victims.extend(self.state.database_writes().then_some(Breakage::DatabaseKilled));
                for victim in victims {
                    self.broke(victim);
                    self.damage(victim).await;
                }
            }
        }
    }

    pub(super) fn broke(&mut self, breakage: Breakage) {
        self.state.broke(breakage);
        if let Some(victim) = breakage.kills() {
            self.story.0.killed(victim);
        }
    }

    async fn damage(&mut self, breakage: Breakage) {
        let world = &mut self.world;
        match breakage {
            Breakage::Killed(who) => world.kill(who),
            Breakage::Stopped(who) => {
                world.signal(who, Signal::SIGTERM);
                world.member(who).meant_to_run = false;
            }
            Breakage::Frozen(who) => world.member(who).program.freeze(),
            Breakage::Link(who, side, ill) => match (link(world, who, side), ill) {
                (link, Ill::Cut) => link.cut().await,
                (link, Ill::Mute) => link.mute().await,
                (link, Ill::AnswersHeld) => link.hold_answers().await,
                (link, Ill::RequestsHeld) => link.hold_requests().await,
                (link, Ill::Slow) => link.delay(SLOW),
            },
            Breakage::BrokerKilled => world.kill_broker(),
            Breakage::BrokerFrozen => world.broker.pause(),
            Breakage::StreamFull => {
                let held = world.stream().await.cached_info().state.bytes;
                world.limit_stream(i64::try_from(held).unwrap_or(i64::MAX)).await;
            }
            Breakage::DiskFull => self.disk.fill().unwrap_or_else(|e| panic!("{e}")),
            Breakage::DatabaseKilled => {
                world.kill_database();
                self.unlock_rows();
            }
            Breakage::RowsLocked => {
                let sql = world.sql().await;
                let lock = "begin; lock table answers, winners in exclusive mode";
                let locked = sql.batch_execute(lock).await;
                locked.unwrap_or_else(|e| panic!("locking the rows: {e}"));
                self.lock = Some(sql);
            }
            Breakage::DatabaseFrozen => world.postgres().pause(),
            Breakage::ReadOnly => world.set_read_only(true).await,
            Breakage::ApiAway => world.api.stop().await,
            Breakage::ApiWrong(wrong, times) => world.api.faults().next(times.into(), fault(wrong)),
            Breakage::Rotation(order) => self.begin_rotation(order).await,
        }
    }

    /// Puts right what was broken.
    pub(super) async fn mend(&mut self, breakage: Breakage) {
        let world = &mut self.world;
        match breakage {
            Breakage::Killed(who) => world.begin(who),
            Breakage::Stopped(who) => {
                world.stopped(who, STOPPING).await;
                world.begin(who);
            }
            Breakage::Frozen(who) => world.signal(who, Signal::SIGCONT),
            Breakage::Link(who, side, Ill::Slow) => link(world, who, side).delay(Duration::ZERO),
            Breakage::Link(who, side, _) => link(world, who, side).restore().await,
            Breakage::BrokerKilled => world.restart_broker().await,
            Breakage::BrokerFrozen => world.broker.resume(),
            Breakage::StreamFull => world.limit_stream(self.stream_limit).await,
            Breakage::DiskFull => {
                self.disk.clear().unwrap_or_else(|e| panic!("{e}"));
                world.restart_broker().await;
            }
            Breakage::DatabaseKilled => world.restart_database().await,
            Breakage::DatabaseFrozen => world.postgres().resume(),
            Breakage::RowsLocked => self.lock = None,
            Breakage::ReadOnly => world.set_read_only(false).await,
            Breakage::ApiAway => world
                .api
                .restart()
                .await
                .unwrap_or_else(|e| panic!("serving the provider's API again: {e}")),
            Breakage::ApiWrong(..) => world.api.faults().clear(),
            Breakage::Rotation(order) => self.end_rotation(order).await,
        }
        self.state.mended(breakage);
    }

    /// The session that holds the lock is gone.
    fn unlock_rows(&mut self) {
        self.lock = None;
        self.state.mended(Breakage::RowsLocked);
    }

    /// Waits until every program says of itself what is true.
    async fn look(&self) {
        for who in self.state.programs() {
            let truth = self.state.truth(*who);
            eventually(&format!("{who} says that it is {truth:?}"), SOON, async || {
                let said = self.world.watch().last(*who);
                let true_now = matches!(
                    (&said, truth),
                    (_, Truth::Open)
                        | (Some(Readiness::Ready), Truth::Ready)
                        | (Some(Readiness::NotReady(_)), Truth::NotReady)
                        | (Some(Readiness::Silent(_)), Truth::Silent)
                );
                if true_now { Ok(()) } else { Err(said) }
            })
            .await;
        }
    }
}

fn link(world: &mut World, who: Who, side: Side) -> &mut Link {
    match side {
        Side::Broker => world.broker_link(who),
        Side::Database => world.database_link(who),
        Side::Hook => world.hook_link(who),
        Side::Provider => world.provider_link(who),
    }
}

fn fault(wrong: Wrong) -> Fault {
    let second = Duration::from_secs(1);
    match wrong {
        Wrong::TooMany => Fault::Status(429, RetryAfter::Seconds(1)),
        Wrong::TooManyForHowLong => Fault::status(429),
        Wrong::Unavailable => Fault::Status(503, RetryAfter::Date(second)),
        Wrong::Broken => Fault::status(500),
        Wrong::Denied => Fault::status(401),
        Wrong::Unknown => Fault::status(404),
        Wrong::Elsewhere => Fault::Redirect(302, "http://127.0.0.1:9/".to_owned()),
        Wrong::Silence => Fault::Silence,
        Wrong::Cut => Fault::Cut,
        Wrong::OtherTask => Fault::OtherTask,
        Wrong::Test => Fault::MarkedTest,
        Wrong::NotJson => Fault::NotJson,
        Wrong::Nothing => Fault::NoContent,
    }
}

/// As somebody would who means well: the consumer keeps everything else, the claim in its metadata too.
async fn change_consumer(world: &World, change: Change) {
    let Some(info) = world.consumer().await else {
        return;
    };
    let mut config: consumer::Config = info.config;
    match change {
        Change::Filter => config.filter_subject = "answers.result.completed".to_owned(),
        Change::MaxDeliver => config.max_deliver = 3,
        Change::Limits => {
            config.ack_wait = Duration::from_secs(40);
            config.max_ack_pending = 100;
        }
    }
    // It may be gone by now.
    drop(world.stream().await.update_consumer(config).await);
}
