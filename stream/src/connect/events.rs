//! What the client says about its connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::Event;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

/// A server that refuses every message says so for every message; this is the time between two lines about it.
const BETWEEN_REPORTS: Duration = Duration::from_secs(10);

/// What the connection events add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) connected: bool,
    pub(super) connects: u64,
}

/// Turns the client's events into state, and into one log line a change.
pub(super) struct EventLog {
    link: watch::Sender<Link>,
    /// Reconnecting failed and it was said; every further failure of the same outage is the same news.
    failing: AtomicBool,
    /// When an error of the server was last reported, and how many were not since.
    reports: Mutex<(Option<Instant>, u64)>,
}

impl EventLog {
    pub(super) fn new(link: watch::Sender<Link>) -> Self {
        Self {
            link,
            failing: AtomicBool::new(false),
            reports: Mutex::default(),
        }
    }

    pub(super) fn on(&self, event: Event) {
        match event {
            Event::Connected => {
                self.failing.store(false, Ordering::Relaxed);
                let mut connects = 0;
                self.link.send_modify(|link| {
                    link.connected = true;
                    link.connects += 1;
                    connects = link.connects;
                });
                if connects > 1 {
                    info!(connects, "reconnected to NATS");
                }
            }
            Event::Disconnected => {
                self.link.send_modify(|link| link.connected = false);
                warn!("lost the connection to NATS; reconnecting");
            }
            Event::Closed => {
                self.link.send_modify(|link| link.connected = false);
                debug!("the NATS client is closed");
            }
            Event::ClientError(error) => {
                if !self.failing.swap(true, Ordering::Relaxed) {
                    warn!(%error, "cannot reconnect to NATS yet; trying on");
                }
            }
            Event::ServerError(error) => {
                if let Some(more) = self.report_is_due() {
                    warn!(%error, more, "the NATS server reports an error");
                }
            }
            Event::SlowConsumer(subscription) => {
                warn!(
                    subscription,
                    "messages were dropped: a NATS subscription is not read fast enough"
                );
            }
            Event::LameDuckMode => info!("the NATS server is about to shut down"),
            Event::Draining => debug!("the NATS client is draining"),
        }
    }

    /// `Some` when a line about an error of the server is due, with the number of those held back since the last.
    fn report_is_due(&self) -> Option<u64> {
        // Nothing panics while it holds the lock.
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, held_back) = &mut *reports;
        if last.is_some_and(|last| last.elapsed() < BETWEEN_REPORTS) {
            *held_back += 1;
            return None;
        }
        *last = Some(Instant::now());
        Some(std::mem::take(held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn errors_of_the_server_are_reported_once_in_a_while() {
        let log = EventLog::new(watch::Sender::default());
        let due = || log.report_is_due();
        assert_eq!([due(), due(), due()], [Some(0), None, None]);
        tokio::time::advance(BETWEEN_REPORTS).await;
        assert_eq!([due(), due()], [Some(2), None]);
    }
}
