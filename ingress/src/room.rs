//! How much room the stream has left, told before there is none: a full stream refuses every delivery.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::gauge::Gauge;
use service::health::Warning;
use stream::append::{Fill, ProbeError};

/// From here on it is said.
const WARN_AT: f64 = 0.8;
/// Below this it is not said any more. Apart, so that a stream with an age limit that breathes around one of the two does not
/// say it again and again.
const FINE_BELOW: f64 = 0.75;

/// What tells an operator.
#[derive(Debug)]
pub(crate) struct Room {
    warning: Warning,
    ratio: Gauge<f64, AtomicU64>,
}

impl Room {
    pub(crate) fn new(warning: Warning, ratio: Gauge<f64, AtomicU64>) -> Self {
        Self { warning, ratio }
    }

    /// Takes in what a look at the stream found.
    pub(crate) fn looked(&self, probed: &Result<Fill, ProbeError>) {
        match probed {
            Ok(fill) => self.filled(fill),
            // The check fails for it, and says so.
            Err(ProbeError::Full) => {
                self.ratio.set(1.0);
                self.warning.clear();
            }
            // Nothing is known anew.
            Err(_) => {}
        }
    }

    fn filled(&self, fill: &Fill) {
        let ratio = fill.ratio();
        self.ratio.set(ratio);
        if ratio >= WARN_AT || (self.warning.is_raised() && ratio >= FINE_BELOW) {
            self.warning.raise(format!(
                "{:.0} % of its room is taken; when it is full, deliveries get 503",
                (100.0 * ratio).floor()
            ));
        } else {
            self.warning.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use service::health::Health;

    use super::*;

    #[test]
    fn it_is_said_from_80_percent_on_until_it_is_below_75() {
        let health = Health::new();
        let room = Room::new(health.warning("stream"), Gauge::default());
        let said = |percent: u64| {
            room.looked(&Ok(Fill {
                bytes: percent,
                most_bytes: Some(100),
                events: 7,
                most_events: None,
            }));
            assert_eq!(room.ratio.get(), percent as f64 / 100.0);
            health.warnings().first().cloned()
        };
        assert_eq!(said(79), None);
        let first = said(80).unwrap();
        assert!(first.starts_with("stream: 80 % of its room is taken"), "{first}");
        assert!(said(76).unwrap().starts_with("stream: 76 %"));
        assert_eq!(said(74), None);
        assert_eq!(said(79), None);
    }
}
