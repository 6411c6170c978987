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
use stream::consume::{ApiError, Progress, Start, Steward, StreamState};
use thiserror::Error;
use time::OffsetDateTime;
use tracing::{info, warn};

use crate::fit::{FitError, Unfit};
use crate::mismatch::Mismatch;
use crate::remembered::remember;
use database::DatabaseError;
use database::{Database, Life};

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

impl From<FitError> for ClaimError {
    fn from(error: FitError) -> Self {
        match error {
            FitError::Unfit(unfit) => Self::Unfit(unfit),
            FitError::Database(error) => Self::Database(error),
        }
    }
}

/// How many events may come again without need before that is put right. The broker writes acknowledgments down a moment after
/// it has them, so a restart brings some hundreds back; those are projected again sooner than a consumer is made.
const WORTH_A_NEW_CONSUMER: u64 = 10_000;

/// Whether the consumer is about to deliver what this database is known to hold up to `floor`: the broker has lost
/// acknowledgments, or a rebuild was faster.
pub fn is_behind(consumer: &Progress, floor: u64) -> bool {
    consumer.ack_floor.saturating_add(WORTH_A_NEW_CONSUMER) < floor
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
    let stream = stream_state(steward).await?;
    database
        .transaction(async |client, life| {
            database::check(client).await.map_err(FitError::from)?;
            let created = cut_to_microseconds(stream.created);
            let row = remember(client, steward.stream(), created, rules).await?;
            // Asked again under the lock: the floor may have been raised past the end that was seen before.
            let stream = stream_state(steward).await?;
            let at_floor = async |seq| steward.message_id(seq).await;
            let mismatch = Mismatch::of(&stream, &row, at_floor)
                .await?
                .map(|it| it.to_string());
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

async fn stream_state(steward: &Steward) -> Result<StreamState, ClaimError> {
    let state = steward.stream_state().await?;
    state.ok_or_else(|| ClaimError::NoStream(steward.stream().to_owned()))
}

/// Lets the consumer be as it is when its claim is the right one; else makes it anew.
async fn start(
    steward: &Steward,
    claim: &Claim,
    new_database: bool,
    settings: Settings,
) -> Result<Claimed, ClaimError> {
    // With a wrong stream no sequence in the database means anything.
    let floor = if claim.stream_mismatch.is_none() {
        claim.floor
    } else {
        0
    };
    let found = steward.find().await?;
    if let Some(found) = &found
        && found.claim.as_ref() == Some(&claim.text)
        && found.skipping.is_empty()
        && !new_database
        && !is_behind(&found.progress, floor)
    {
        if settings == Settings::Ours && !found.changeable.is_empty() {
            let fields = found.changeable.join(", ");
            warn!(fields, "the consumer is not as the settings say; correcting it");
            steward.correct(found).await?;
        }
        return Ok(Claimed::Held);
    }
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
                Some(text) if *text == claim.text && is_behind(&found.progress, floor) => warn!(
                    consumer.floor = found.progress.ack_floor,
                    "the consumer is far behind what the database holds; it is made anew, and projecting goes on after sequence {floor}"
                ),
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
