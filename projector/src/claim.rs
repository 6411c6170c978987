//! What the consumer's acknowledgments are worth, and starting the consumer anew when they are worth nothing.
//!
//! An acknowledgment says that a message is in the tables. Of which database? One that was restored from a backup, or
//! failed over to a standby that lagged, has lost rows whose messages are acknowledged. Comparing how far the
//! consumer and the database have come finds that only when the loss is large against the usual difference. So the consumer
//! carries a *claim* in its metadata: the life of the database (see [`Life`]) that its acknowledgments stand for. Every
//! transaction asks which life it is in; a message is acknowledged only after a commit in the life that was claimed.
//!
//! When the claim is not of the database at hand, nothing that the consumer says about acknowledged messages holds
//! here. What does hold is the floor in `projection`: it was written to this very database, after the commits that it stands for.
//! So the consumer is made anew after the floor. The work done twice is what was committed since the floor was last written, a few
//! seconds' worth; a mere restart of the database costs as much, and needs no operator.
//!
//! All of this happens under the lock of the row in `projection`, so of many projectors one does it and the others find
//! it done.

use schemas::job_key::Rules;
use schemas::timestamp::cut_to_microseconds;
use schemas::version::{self, SchemaMismatch};
use stream::consume::{ApiError, Start, Steward, StreamState};
use thiserror::Error;
use time::OffsetDateTime;
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use tracing::{info, warn};

use crate::database::{Database, Life};
use crate::trouble::DatabaseError;

/// What the projector may rely on until something fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The life of the database that acknowledgments stand for.
    pub life: Life,
    /// When the stream was created.
    pub stream_created: OffsetDateTime,
    /// The floor at the time of the claim.
    pub floor: u64,
    /// What is wrong with the stream, if it is not the one that the rows came from.
    pub stream_mismatch: Option<String>,
    /// As it stands in the consumer's metadata.
    pub text: String,
}

/// What making a claim did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// The consumer's claim was the right one.
    Held,
    /// The consumer is new, or was made anew.
    Started,
}

/// Whose settings the consumer should have, where they matter little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settings {
    /// This process's: it has just been started, and so with the newest ones.
    Ours,
    /// Any: of several processes with different settings each would correct the other for ever.
    Any,
}

/// Why there is no claim.
#[derive(Debug, Error)]
pub enum ClaimError {
    /// The database is not fit to be projected into. It will not get fit by waiting.
    #[error("the database cannot be used")]
    Unfit(#[from] Unfit),
    /// The database does not do what it should.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The broker does not do what it should.
    #[error(transparent)]
    Broker(#[from] ApiError),
    /// The stream is gone.
    #[error("there is no stream {0}")]
    NoStream(String),
    /// Somebody made a consumer of our name at the same moment.
    #[error("the consumer {0} was made by somebody else at the same moment")]
    Contested(String),
}

/// Why a database cannot be projected into.
#[derive(Debug, Error)]
pub enum Unfit {
    /// The schema is of another version.
    #[error(transparent)]
    Schema(#[from] SchemaMismatch),
    /// Text would be lost in it.
    #[error("its encoding is {0}; it must be UTF8")]
    Encoding(String),
    /// Its rows were made under other rules.
    #[error(
        "its rows were made with {found}, and this projector is set to {wanted}: set RERUN_SUFFIX as it was, or rebuild"
    )]
    Rules {
        /// What the rows were made with.
        found: String,
        /// The setting.
        wanted: String,
    },
}

const VERSION_TABLE: &str = "select to_regclass('refinery_schema_history') is not null";
const ENCODING: &str = "select current_setting('server_encoding')";

const REMEMBER: &str = "
insert into projection (stream, stream_created, floor_seq, floor_msg_id, rules) values ($1, $2, 0, null, $3)
    on conflict (stream) do nothing";

const RECALL: &str = "
select stream_created, floor_seq, floor_msg_id, rules from projection where stream = $1 for update";

const RAISE: &str = "
update projection set floor_seq = $2, floor_msg_id = $3 where stream = $1 and floor_seq < $2";

/// The row of `projection`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Remembered {
    stream_created: OffsetDateTime,
    floor: u64,
    floor_msg_id: Option<String>,
    rules: Rules,
    /// It was not there before.
    new: bool,
}

/// Makes sure that the consumer exists and that its acknowledgments stand for this database as it is now.
///
/// # Errors
/// See [`ClaimError`]. Whatever was done by then is done again by the next attempt.
pub async fn claim(
    database: &Database,
    steward: &Steward,
    rules: Rules,
    settings: Settings,
) -> Result<(Claim, Claimed), ClaimError> {
    let stream = steward
        .stream_state()
        .await?
        .ok_or_else(|| ClaimError::NoStream(steward.stream().to_owned()))?;
    database
        .transaction(async |client, life| {
            check_schema(client).await?;
            let row = remember(client, steward, &stream, rules).await?;
            let mismatch = mismatch(steward, &stream, &row).await?;
            let claim = Claim {
                life: life.clone(),
                stream_created: stream.created,
                floor: row.floor,
                text: match &mismatch {
                    None => life.to_string(),
                    // A replay from the first message, once for every such row.
                    Some(_) => format!("{life} replay {} {}", row.stream_created, row.floor),
                },
                stream_mismatch: mismatch,
            };
            let claimed = start(steward, &claim, row.new, settings).await?;
            Ok((claim, claimed))
        })
        .await
}

async fn check_schema(client: &Client) -> Result<(), ClaimError> {
    let migrated: bool = one(client, VERSION_TABLE).await?;
    let found = if migrated {
        one(client, version::QUERY).await?
    } else {
        None
    };
    version::check(found).map_err(Unfit::from)?;
    let encoding: String = one(client, ENCODING).await?;
    if encoding != "UTF8" {
        return Err(Unfit::Encoding(encoding).into());
    }
    Ok(())
}

async fn one<T: tokio_postgres::types::FromSqlOwned>(
    client: &Client,
    query: &str,
) -> Result<T, DatabaseError> {
    let attempt = "checking the schema";
    let row = client
        .query_typed_one(query, &[])
        .await
        .map_err(DatabaseError::of(attempt))?;
    row.try_get(0).map_err(DatabaseError::of(attempt))
}

async fn remember(
    client: &Client,
    steward: &Steward,
    stream: &StreamState,
    rules: Rules,
) -> Result<Remembered, ClaimError> {
    let name = &steward.stream();
    let created = cut_to_microseconds(stream.created);
    let rules_json = serde_json::to_value(rules).expect("rules are plain data");
    let added = client
        .execute_typed(
            REMEMBER,
            &[
                (name, Type::TEXT),
                (&created, Type::TIMESTAMPTZ),
                (&rules_json, Type::JSONB),
            ],
        )
        .await
        .map_err(DatabaseError::of("adding the row of this stream to `projection`"))?;
    let mut row = recall(client, name).await?.ok_or(DatabaseError::Unexpected(
        "the row of this stream in `projection` is gone",
    ))?;
    row.new = added == 1;
    if row.rules != rules {
        let text = |rules: Rules| format!("rerun_suffix = {}", rules.rerun_suffix);
        return Err(Unfit::Rules {
            found: text(row.rules),
            wanted: text(rules),
        }
        .into());
    }
    Ok(row)
}

/// Reads the row and locks it.
async fn recall(client: &Client, stream: &str) -> Result<Option<Remembered>, DatabaseError> {
    let attempt = "reading `projection`";
    let rows = client
        .query_typed(RECALL, &[(&stream, Type::TEXT)])
        .await
        .map_err(DatabaseError::of(attempt))?;
    let Some(row) = rows.first() else { return Ok(None) };
    let read = || -> Result<_, tokio_postgres::Error> {
        Ok((
            row.try_get(0)?,
            row.try_get::<_, i64>(1)?,
            row.try_get(2)?,
            row.try_get(3)?,
        ))
    };
    let (stream_created, floor, floor_msg_id, rules) = read().map_err(DatabaseError::of(attempt))?;
    Ok(Some(Remembered {
        stream_created,
        floor: u64::try_from(floor).unwrap_or_default(),
        floor_msg_id,
        rules: serde_json::from_value(rules).map_err(|_| {
            DatabaseError::Unexpected("`projection.rules` holds no rules that this build knows")
        })?,
        new: false,
    }))
}

/// Whether the stream is another than the one that the rows came from, in words for an operator.
async fn mismatch(
    steward: &Steward,
    stream: &StreamState,
    row: &Remembered,
) -> Result<Option<String>, ApiError> {
    if row.stream_created != cut_to_microseconds(stream.created) {
        return Ok(Some(format!(
            "the rows came from a stream created at {}, and this one was created at {}",
            row.stream_created, stream.created
        )));
    }
    if stream.last_seq < row.floor {
        return Ok(Some(format!(
            "the rows reach to sequence {}, and the stream ends at {}: it has lost its end",
            row.floor, stream.last_seq
        )));
    }
    if row.floor > 0
        && let Some(expected) = &row.floor_msg_id
        && let Some(found) = steward.message_id(row.floor).await?
        && found != *expected
    {
        return Ok(Some(format!(
            "at sequence {} the stream holds another message than the rows came from: it has lost its end and grown a new one",
            row.floor
        )));
    }
    Ok(None)
}

/// Lets the consumer be as it is when its claim is the right one; else makes it anew.
async fn start(
    steward: &Steward,
    claim: &Claim,
    new_database: bool,
    settings: Settings,
) -> Result<Claimed, ClaimError> {
    let found = steward.find().await?;
    if let Some(found) = &found
        && found.claim.as_ref() == Some(&claim.text)
        && found.skipping.is_empty()
        && !new_database
    {
        if settings == Settings::Ours && !found.changeable.is_empty() {
            let fields = found.changeable.join(", ");
            warn!(fields, "the consumer is not as the settings say; correcting it");
            steward.correct(found).await?;
        }
        return Ok(Claimed::Held);
    }
    // With a wrong stream no sequence in the database means anything.
    let floor = if claim.stream_mismatch.is_none() {
        claim.floor
    } else {
        0
    };
    match found {
        None => info!("there is no consumer yet; projecting starts after sequence {floor}"),
        Some(found) => {
            let fields = found.skipping.join(", ");
            match &found.claim {
                None => warn!(
                    fields,
                    "a consumer of our name, not of our making, is replaced; projecting starts after sequence {floor}"
                ),
                Some(_) if new_database => {
                    info!("the database knows nothing of this stream; projecting all of it")
                }
                Some(text) if *text == claim.text => warn!(
                    fields,
                    "somebody changed the consumer; it is made anew, and projecting goes on after sequence {floor}"
                ),
                Some(_) => info!(
                    consumer.floor = found.progress.ack_floor,
                    "the database was restarted, restored or replaced; projecting again after sequence {floor}"
                ),
            }
            steward.delete().await?;
        }
    }
    let start = if floor == 0 {
        Start::First
    } else {
        Start::After(floor)
    };
    if !steward.create(start, &claim.text).await? {
        return Err(ClaimError::Contested(steward.durable().to_owned()));
    }
    Ok(Claimed::Started)
}

/// What raising the floor found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raised {
    /// The floor is this now.
    To(u64),
    /// The row says less than it did before, or is gone: somebody put an older state of it back. The consumer is
    /// deleted, so that a new claim starts it after what the row says now.
    WentBack,
    /// The database is in another life, so the acknowledgments are not of it.
    OtherLife,
}

/// Notes in the database that it holds everything up to `floor`, the consumer's acknowledgment floor under `claim`, read after
/// the claim was made. `before` is the greatest floor that this process knows to have been in the row.
///
/// # Errors
/// When the database or the broker does not do it.
pub async fn raise_floor(
    database: &Database,
    steward: &Steward,
    claim: &Claim,
    before: u64,
    floor: u64,
) -> Result<Raised, ClaimError> {
    let msg_id = if floor > before {
        steward.message_id(floor).await?
    } else {
        None
    };
    database
        .transaction(async |client, life| {
            if *life != claim.life {
                return Ok(Raised::OtherLife);
            }
            let name = &steward.stream();
            let row = recall(client, name).await?;
            let created = cut_to_microseconds(claim.stream_created);
            let Some(row) = row.filter(|row| row.stream_created == created && row.floor >= before) else {
                steward.delete().await?;
                return Ok(Raised::WentBack);
            };
            if row.floor >= floor {
                return Ok(Raised::To(row.floor));
            }
            let seq = i64::try_from(floor).unwrap_or(i64::MAX);
            client
                .execute_typed(
                    RAISE,
                    &[(name, Type::TEXT), (&seq, Type::INT8), (&msg_id, Type::TEXT)],
                )
                .await
                .map_err(DatabaseError::of("raising the floor in `projection`"))?;
            Ok(Raised::To(floor))
        })
        .await
}
