//! Holding the tables, as they are at one moment, against the stream.

use database::Session;
use futures_util::{TryStreamExt, pin_mut};
use tokio_postgres::types::Timestamp;
use tracing::info;

use super::RebuildError;
use super::compare::{Bounds, Compared, compare};
use super::ground::Ground;
use super::pair::Pairing;
use super::replay::{Tally, replay};
use super::report::Replayed;
use super::side::{SideRows, SideTables};
use crate::config::RebuildConfig;
use crate::progress::Progress;
use crate::statements::sequence;

/// What came of it.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) replayed: Replayed,
    /// Everything up to here must be in the tables.
    pub(super) floor: u64,
    pub(super) compared: Compared,
}

/// Replays the stream beside the rows in the order of their events, and judges what does not agree. The rows are those of a moment
/// at the beginning: what projectors bring from there on is not looked at. Everything up to `brought_in` must be in the tables,
/// whatever the projectors say.
pub(super) async fn beside(
    ground: &Ground,
    config: &RebuildConfig,
    deep: bool,
    brought_in: u64,
) -> Result<Beside, RebuildError> {
    let target = &config.reach.rows.database;
    // It only grows, so it held at the moment that follows.
    let floor = ground.floor().await?.max(brought_in);
    let (side, moment) = SideTables::create(&ground.session).await?;
    let last = ground.last().await?;
    let mut pairing = Pairing::begin(target, &moment, &side).await?;
    // One that shows what the rows are at each time: a row that is replaced meanwhile names another event.
    let reading = match deep {
        true => Some(Session::open_another(target, "projector").await?),
        false => None,
    };
    let stretches = replay(&ground.log, &ground.decoder, 1, ground.end, move |stretch| {
        SideRows::of(stretch, deep)
    });
    pin_mut!(stretches);
    let mut tally = Tally::default();
    let mut progress = Progress::new("replaying", 1, ground.end);
    while let Some((stretch, rows)) = stretches.try_next().await? {
        tally.add(&stretch);
        pairing.pair(&rows.results).await?;
        if let (Some(session), Some(responses)) = (&reading, &rows.responses) {
            side.add_unlike(responses.unlike(session).await?).await?;
        }
        side.add(rows).await?;
        if !stretch.gone.is_empty() {
            side.add_gone(&stretch.gone).await?;
        }
        progress.at(stretch.last);
    }
    pairing.end().await?;
    drop((progress, reading));
    side.analyze().await?;
    let replayed = replayed(ground, tally).await?;
    info!("comparing");
    let bounds = Bounds {
        end: sequence(ground.end),
        floor: sequence(floor),
        last: sequence(last),
        begin: ground.begin().map_or(Timestamp::PosInfinity, Timestamp::Value),
        created: ground.created,
    };
    Ok(Beside {
        replayed,
        floor,
        compared: compare(&ground.session, &bounds).await?,
    })
}

/// What was replayed, once it is known that the stream does not hold more. A replica that lags would look like one from which
/// events were deleted.
pub(super) async fn replayed(ground: &Ground, tally: Tally) -> Result<Replayed, RebuildError> {
    if let Some(state) = ground.log.reader.state().await?
        && tally.gone.total() > state.last_seq.saturating_sub(state.events)
    {
        return Err(RebuildError::Incomplete {
            end: ground.end,
            seen: tally.events,
        });
    }
    Ok(Replayed {
        stream: ground.log.reader.stream().to_owned(),
        created: ground.created,
        end: ground.end,
        events: tally.events,
        results: tally.results,
        to_park: tally.parked,
        nonfinal: tally.nonfinal,
        gone: tally.gone,
    })
}
