//! What a verify or rebuild stands on: a session that holds the lock, a stream that is the right one, and its end.

use std::sync::Arc;
use std::time::Duration;

use database::{Database, FitError, Life, Session};
use schemas::job_key::Rules;
use schemas::timestamp::cut_to_microseconds;
use time::OffsetDateTime;
use tracing::warn;

use super::RebuildError;
use super::intake::Intake;
use super::origin::{Beginning, Stranger, stranger};
use super::rules;
use super::transact::Transactions;
use crate::config::RebuildConfig;
use crate::decode::Decoder;
use crate::lock::lock;
use crate::reach::{self, Log, ReachError};
use crate::remembered::{Settled, look, settle};

/// How long the session of one that was killed may hold it: its server notices within a second.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// How long a statement that writes may take: live projectors wait for its rows.
const STATEMENT: Duration = Duration::from_secs(20);

/// Everything that was found out before the work begins.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) session: Session,
    pub(super) log: Log,
    pub(super) decoder: Arc<Decoder>,
    /// When the stream was created.
    pub(super) created: OffsetDateTime,
    /// The last sequence at the start.
    pub(super) end: u64,
    /// Why the stream is not the one that the rows came from, when it was gone on by force.
    pub(super) stranger: Option<Stranger>,
    beginning: Beginning,
    database: Database,
    life: Life,
    /// How a key becomes a job key.
    pub(super) rules: Rules,
    /// Rows may have been made under other ones. Nobody writes until they are not.
    pub(super) rules_changed: bool,
    consumer: String,
    /// How far the rows are known to reach on this stream.
    remembered_floor: u64,
}

impl Ground {
    /// Takes the lock, and looks at everything. With `to_write`, puts the rules in force.
    pub(super) async fn prepare(config: &RebuildConfig, to_write: bool) -> Result<Self, RebuildError> {
        let session = Session::open(&config.reach.rows.database, "projector").await?;
        let checked = database::check(session.client()).await;
        checked.map_err(|error| match error {
            FitError::Unfit(unfit) => RebuildError::Unfit(unfit.into()),
            FitError::Database(error) => RebuildError::Database(error),
        })?;
        if !lock(&session, LOCK_PATIENCE).await? {
            return Err(RebuildError::Busy);
        }
        let stream = &config.reach.stream.name;
        let mut log = reach::stream(&config.reach).await?;
        let row = look(session.client(), stream).await?;
        // Nothing is written before all of this is known. A database that is read-only gives no life.
        let database = reach::database(&config.reach.rows).await?;
        let life = database
            .transaction(async |_, life| Ok::<_, RebuildError>(life.clone()))
            .await?;
        let beginning = Beginning::of(&log.reader, &log.state).await?;
        let stranger = stranger(session.client(), &log.reader, &log.state, row.as_ref(), beginning).await?;
        if let Some(stranger) = &stranger {
            if !config.force {
                return Err(RebuildError::Stranger(stranger.clone()));
            }
            warn!("{stranger}; going on by force");
        }
        let mut rules_changed = false;
        if to_write {
            let to = Transactions {
                session: &session,
                statement: STATEMENT,
            };
            rules_changed = rules::enforce(to, stream, row.as_ref(), config.rules).await?;
            if rules_changed {
                // Until now there may have been events projected under the old ones.
                let state = log.reader.state().await?;
                log.state = state.ok_or_else(|| ReachError::NoStream(stream.clone()))?;
            }
        } else if let Some(row) = &row {
            row.check_rules(config.rules)?;
            if row.changing {
                return Err(RebuildError::Changing);
            }
        }
        Ok(Self {
            session,
            decoder: Arc::new(Decoder {
                subjects: log.subjects.clone(),
                rules: config.rules,
            }),
            created: cut_to_microseconds(log.state.created),
            end: log.state.last_seq,
            log,
            beginning,
            database,
            life,
            rules: config.rules,
            rules_changed,
            consumer: config.consumer.clone(),
            remembered_floor: match &stranger {
                None => row.map_or(0, |row| row.floor),
                Some(_) => 0,
            },
            stranger,
        })
    }

    /// The time at which the stream begins; `None` when no row can be said to have come from it.
    pub(super) fn begin(&self) -> Option<OffsetDateTime> {
        self.stranger.is_none().then_some(self.beginning.at)
    }

    /// Up to which sequence everything is in the tables by now: what the projectors have acknowledged for this database, or
    /// what it knows itself.
    pub(super) async fn floor(&self) -> Result<u64, RebuildError> {
        let ours = |claim: &str| {
            let life = self.life.to_string();
            claim
                .strip_prefix(&life)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let acknowledged = self.log.reader.floor_under(&self.consumer, ours).await?;
        Ok(self.remembered_floor.max(acknowledged.unwrap_or(0)).min(self.end))
    }

    /// The last sequence now.
    pub(super) async fn last(&self) -> Result<u64, RebuildError> {
        let state = self.log.reader.state().await?;
        Ok(state.map_or(self.end, |state| state.last_seq))
    }

    /// For bringing events in.
    pub(super) fn intake(&self) -> Intake<'_> {
        Intake {
            to: Transactions {
                session: &self.session,
                statement: STATEMENT,
            },
            log: &self.log,
            created: self.created,
        }
    }

    /// Notes that everything up to `floor` is in the tables. A projector that starts after this begins behind it.
    pub(super) async fn settle(&self, floor: u64) -> Result<(), RebuildError> {
        let event = match floor {
            0 => None,
            floor => self.log.reader.event(floor).await?,
        };
        let settled = Settled {
            stream: self.log.reader.stream(),
            stream_created: self.created,
            floor,
            floor_msg_id: event.and_then(|event| event.msg_id().map(ToOwned::to_owned)),
            rules: self.rules,
            same_stream: self.stranger.is_none(),
        };
        self.database
            .transaction(async |client, life| {
                if *life == self.life {
                    settle(client, &settled).await?;
                }
                // In another life this one's commits may be lost, and the projectors see to that.
                Ok(())
            })
            .await
    }
}
