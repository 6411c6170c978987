//! An account of the provider, shared.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::provider::Provider;

/// An account that several parties work on: tests or an API create tasks, a sender delivers.
#[derive(Debug, Clone)]
pub struct Account(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    provider: Mutex<Provider>,
    changed: Notify,
}

impl Account {
    /// Shares an account.
    pub fn new(provider: Provider) -> Self {
        Self(Arc::new(Shared {
            provider: Mutex::new(provider),
            changed: Notify::new(),
        }))
    }

    /// Looks at the account or changes it; its sender takes notice. Nobody else can meanwhile, so be brief.
    pub fn with<T>(&self, work: impl FnOnce(&mut Provider) -> T) -> T {
        let result = work(&mut lock(&self.0.provider));
        self.0.changed.notify_one();
        result
    }

    /// Looks at the account; nobody takes notice.
    pub(super) fn look<T>(&self, work: impl FnOnce(&Provider) -> T) -> T {
        work(&lock(&self.0.provider))
    }

    /// Changes it on behalf of the sender, which takes no notice of itself.
    pub(super) fn change<T>(&self, work: impl FnOnce(&mut Provider) -> T) -> T {
        work(&mut lock(&self.0.provider))
    }

    /// Returns once somebody has changed the account since the last time.
    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }
}

/// What a panic left behind is still a consistent model: every step on it is done whole before it returns.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
