//! Taking a task away: its events, then its rows, until nothing more of it comes.

use database::{Database, DatabaseError, Trouble};
use schemas::job_key::Rules;
use schemas::timestamp::cut_to_microseconds;
use stream::consume::StreamState;
use tokio_postgres::Client;

use super::hands::Hands;
use super::look::{Seen, Target, look};
use super::report::Outcome;
use super::{EraseError, events};
use crate::config::EraseConfig;
use crate::decode::{Decoded, Decoder, Message};
use crate::reach::Log;
use crate::remembered::rules_stand;
use crate::removals::{others, take};
use crate::rows::Folded;
use crate::statements::{Crowned, apply, crown};

/// So often what came meanwhile is erased as well; a task that keeps coming is not done with.
const MOST_ROUNDS: u32 = 5;
/// Deadlocks and the like are over as soon as one side gives way.
const MOST_CONTENTIONS: u32 = 5;

/// What is to be taken away, and from where.
pub(super) struct Erasure<'e> {
    pub(super) config: &'e EraseConfig,
    pub(super) log: &'e Log,
    pub(super) database: &'e Database,
    pub(super) rules: Rules,
}

impl Erasure<'_> {
    /// Takes away what was seen, and what came meanwhile: a projector may have made a row of that already, which goes with the
    /// others. Until nothing more comes, within bounds.
    pub(super) async fn run(&self, seen: &mut Seen, wins: &[String]) -> Result<Outcome, EraseError> {
        let (stream, rules) = (self.log.reader.stream(), self.rules);
        let stand = self
            .database
            .snapshot(async |client| rules_stand(client, stream, rules).await);
        if !stand.await? {
            return Err(EraseError::Rules);
        }
        // What the database does not let go must show before the stream has forgotten it.
        self.forget(seen, Ending::Undone).await?;
        let hands = Hands::new(self.log, self.config);
        let (mut settled, mut touched) = (true, false);
        let (mut log, mut done) = (self.log.clone(), 0);
        for _ in 0..MOST_ROUNDS {
            let seqs: Vec<u64> = seen.events[done..].iter().map(|event| event.seq).collect();
            let Some(before) = hands.empty(&seqs).await? else {
                break;
            };
            for seq in &seqs {
                let erased = self.log.reader.erase(*seq).await;
                erased.map_err(|source| EraseError::Event { seq: *seq, source })?;
            }
            settled &= hands.stayed_empty(before, &seqs).await?;
            done = seen.events.len();
            self.forget(seen, Ending::Kept).await?;
            touched = true;
            if !self.look_on(&mut log, seen, wins).await? {
                return Ok(if settled {
                    Outcome::Erased
                } else {
                    Outcome::Unsettled
                });
            }
        }
        if !touched {
            return Ok(Outcome::Waiting);
        }
        self.bring_back(seen.events.split_off(done)).await?;
        Ok(Outcome::Unsettled)
    }

    /// Looks at what came behind the last look; whether the task was among it.
    async fn look_on(&self, log: &mut Log, seen: &mut Seen, wins: &[String]) -> Result<bool, EraseError> {
        let state = log.reader.state().await.map_err(EraseError::State)?;
        let Some(state) = state.filter(|state| state.last_seq > log.state.last_seq) else {
            return Ok(false);
        };
        log.state = StreamState {
            first_seq: log.state.last_seq + 1,
            ..state
        };
        let more = look(log, self.rules, &self.config.task_id, wins, self.config.mentions).await?;
        let found = !more.events.is_empty();
        seen.add(more);
        Ok(found)
    }

    /// Makes the rows again of events that stay after all: the projectors have acknowledged them.
    async fn bring_back(&self, events: Vec<Target>) -> Result<(), EraseError> {
        let decoder = Decoder {
            subjects: self.log.subjects.clone(),
            rules: self.rules,
        };
        for event in events {
            let found = self
                .log
                .reader
                .event(event.seq)
                .await
                .map_err(EraseError::State)?;
            let decoded = found.map(|event| decoder.decode(Message::from(event)));
            let folded = Folded::of(
                decoded.iter().filter_map(Decoded::result),
                decoded.iter().filter_map(Decoded::parked),
            );
            let created = cut_to_microseconds(self.log.state.created);
            self.in_transaction(async |client| {
                apply(client, created, &folded).await?;
                Ok(Ending::Kept)
            })
            .await?;
        }
        Ok(())
    }

    /// Takes the task out of the tables, and gives the jobs that it won to others.
    async fn forget(&self, seen: &Seen, ending: Ending) -> Result<(), EraseError> {
        let (task, events) = (&self.config.task_id, events(self.log, &self.config.task_id, seen));
        self.in_transaction(async |client| {
            let taken = take(client, task, &events).await?;
            let mut best = seen.contenders.clone();
            for (job, rank, seq) in others(client, &taken.wins, task).await? {
                best.offer(&job, rank, seq);
            }
            let crowned: Vec<Crowned<'_>> = taken
                .wins
                .iter()
                .filter_map(|job| {
                    best.of(job).map(|(rank, stream_seq)| Crowned {
                        job,
                        rank,
                        stream_seq,
                    })
                })
                .collect();
            crown(client, &crowned).await?;
            if !rules_stand(client, self.log.reader.stream(), self.rules).await? {
                return Err(EraseError::Rules);
            }
            Ok(ending)
        })
        .await
    }

    async fn in_transaction(
        &self,
        work: impl AsyncFn(&Client) -> Result<Ending, EraseError>,
    ) -> Result<(), EraseError> {
        let mut contentions = 0;
        loop {
            let done = self
                .database
                .transaction(async |client, _| match work(client).await {
                    Ok(Ending::Kept) => Ok(()),
                    Ok(Ending::Undone) => {
                        // A key that is looked at with the commit refuses now.
                        let looked = client.batch_execute("set constraints all immediate").await;
                        looked.map_err(DatabaseError::of("trying to erase the rows of the task"))?;
                        Err(End::Undone)
                    }
                    Err(error) => Err(End::Failed(error)),
                });
            match done.await {
                Ok(()) | Err(End::Undone) => return Ok(()),
                Err(End::Failed(EraseError::Database(error)))
                    if error.trouble() == Trouble::Contention && contentions < MOST_CONTENTIONS =>
                {
                    contentions += 1;
                }
                Err(End::Failed(error)) => return Err(error),
            }
        }
    }
}

/// What is to become of a transaction that went well.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Kept,
    /// It was a trial.
    Undone,
}

/// Why a transaction was not committed.
#[derive(Debug)]
enum End {
    Undone,
    Failed(EraseError),
}

impl From<DatabaseError> for End {
    fn from(error: DatabaseError) -> Self {
        Self::Failed(error.into())
    }
}
