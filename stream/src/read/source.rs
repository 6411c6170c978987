//! The two ways to read many events, and which of them is taken.

use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use super::bulk::{Bulk, EVENTS, Served};
use super::delivered::{Delivery, Unavailable};
use super::{ReadEvent, Reader};
use crate::connect::Settings;

/// For less than this a consumer is not worth making.
const WORTHWHILE: u64 = 2 * EVENTS;
/// Between two attempts to get the consumer that somebody else has.
const PAUSE: Duration = Duration::from_secs(5);
/// After so many deliveries in a row that broke at their beginning there are no more of them.
const MOST_BREAKS: u32 = 2;

/// Reads many events at a time.
#[derive(Debug)]
pub(super) enum Source {
    Delivery(Box<Delivery>),
    Direct(Box<Bulk>),
}

/// What was learnt about the ways.
#[derive(Debug, Default)]
pub(super) struct Ways {
    no_deliveries: bool,
    /// When the consumer was found taken.
    taken: Option<Instant>,
    breaks: u32,
}

impl Ways {
    /// The best way at the moment; None when there is no broker.
    pub(super) async fn open(
        &mut self,
        reader: &Reader,
        settings: &Settings,
        first: u64,
        last: u64,
    ) -> Option<Source> {
        if let Some(delivery) = self.delivery(reader, settings, first, last).await {
            return Some(Source::Delivery(delivery));
        }
        Some(Source::Direct(Box::new(
            Bulk::open(settings, reader.stream()).await?,
        )))
    }

    /// A consumer, when it is worth while and can be had.
    pub(super) async fn delivery(
        &mut self,
        reader: &Reader,
        settings: &Settings,
        first: u64,
        last: u64,
    ) -> Option<Box<Delivery>> {
        let tried = self.taken.is_some_and(|taken| taken.elapsed() < PAUSE);
        if self.no_deliveries || tried || last - first < WORTHWHILE {
            return None;
        }
        match Delivery::open(reader, settings, first).await {
            Ok(delivery) => Some(Box::new(delivery)),
            Err(unavailable) => {
                debug!(?unavailable, "no consumer to read through");
                match unavailable {
                    Unavailable::Taken => self.taken = Some(Instant::now()),
                    Unavailable::Forbidden => self.no_deliveries = true,
                    Unavailable::NoBroker => {}
                }
                None
            }
        }
    }

    /// A delivery broke; whether events had come of it.
    pub(super) fn broke(&mut self, with_events: bool) {
        self.breaks = if with_events { 0 } else { self.breaks + 1 };
        self.no_deliveries |= self.breaks >= MOST_BREAKS;
    }
}

impl Source {
    /// The events from `next` to `last`, or the first of them, into `events`.
    pub(super) async fn receive(&mut self, next: u64, last: u64, events: &mut Vec<ReadEvent>) -> Served {
        match self {
            Self::Delivery(delivery) => delivery.receive(events).await,
            Self::Direct(bulk) => {
                bulk.ask(next, last).await;
                bulk.receive(events).await
            }
        }
    }

    /// Has the broker begin with what is read next.
    pub(super) async fn look_ahead(&mut self, next: u64, last: u64) {
        match self {
            // It always does.
            Self::Delivery(_) => {}
            Self::Direct(bulk) => bulk.ask(next, last).await,
        }
    }

    /// Leaves nothing behind.
    pub(super) async fn close(self) {
        if let Self::Delivery(delivery) = self {
            delivery.close().await;
        }
    }
}
