use std::future::Future;

use tokio_util::sync::CancellationToken;

/// A request to stop, shared by its clones. Once made it stands; making it again changes nothing.
#[derive(Debug, Clone, Default)]
pub struct Stop(CancellationToken);

impl Stop {
    /// One that nobody has requested yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everybody who holds a clone to stop.
    pub fn request(&self) {
        self.0.cancel();
    }

    /// Whether stopping was requested.
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits for the request; returns at once when it was made before.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// Awaits `work` unless stopping is requested first, which drops `work` and gives `None`.
    pub async fn unless_requested<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.0.run_until_cancelled(work).await
    }
}
