//! How an account is set up.

use http::{HeaderName, Uri};
use schemas::signature::Scheme;

use super::life::Life;
use super::schedule::Schedule;

/// The most tasks that can be queued at a time.
const QUEUE_LIMIT: usize = 100_000;
/// Redeliveries by hand that an account has in an hour. The provider gives no number; it says that they suit a handful
/// of failures.
const REDELIVERIES: usize = 20;

/// The scheme of the provider: one header, `t=…,v1=…`.
pub fn own_scheme() -> Scheme {
    Scheme::StripeList {
        header: HeaderName::from_static("webhook-signature"),
    }
}

/// How an account is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where results are delivered.
    pub url: Uri,
    /// Whether loopback URLs are delivered to, over plain http as well.
    pub allow_loopback: bool,
    /// How deliveries are signed.
    pub scheme: Scheme,
    /// When failed deliveries are tried again.
    pub schedule: Schedule,
    /// How long tasks wait, run and are kept.
    pub life: Life,
    /// The most tasks that can be queued at a time.
    pub queue_limit: usize,
    /// The most tasks that run at a time; no limit when `None`.
    pub concurrency: Option<usize>,
    /// The most redeliveries by hand in [`Life::redelivery_window`].
    pub redeliveries: usize,
}

impl Settings {
    /// The provider's own scheme, its real retry schedule and its real limits, for a receiver on this machine.
    pub fn loopback(url: Uri) -> Self {
        Self {
            url,
            allow_loopback: true,
            scheme: own_scheme(),
            schedule: Schedule::default(),
            life: Life::default(),
            queue_limit: QUEUE_LIMIT,
            concurrency: None,
            redeliveries: REDELIVERIES,
        }
    }
}
