//! An account of the provider, shared.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::provider::Provider;

/// An account that several parties work on: tests or an API create tasks, a runner ends them, a sender delivers.
#[derive(Debug, Clone)]
pub struct Account(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    provider: Mutex<Provider>,
    changed: watch::Sender<()>,
}

impl Account {
    /// Shares an account.
    pub fn new(provider: Provider) -> Self {
        Self(Arc::new(Shared {
            provider: Mutex::new(provider),
            changed: watch::Sender::new(()),
        }))
    }

    /// Looks at the account or changes it; everybody who waits for changes takes notice. Nobody else can look or change
    /// meanwhile, so be brief.
    pub fn with<T>(&self, work: impl FnOnce(&mut Provider) -> T) -> T {
        let result = self.change(work);
        self.announce();
        result
    }

    /// Looks at the account; nobody takes notice.
    pub(crate) fn look<T>(&self, work: impl FnOnce(&Provider) -> T) -> T {
        work(&lock(&self.0.provider))
    }

    /// Changes it, and leaves it to the caller to [announce](Self::announce) that where it concerns others.
    pub(crate) fn change<T>(&self, work: impl FnOnce(&mut Provider) -> T) -> T {
        work(&mut lock(&self.0.provider))
    }

    /// Lets everybody who waits for changes take notice.
    pub(crate) fn announce(&self) {
        self.0.changed.send_replace(());
    }

    /// The changes from now on.
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.0.changed.subscribe())
    }
}

/// Tells of changes of an account.
pub(crate) struct Changes(watch::Receiver<()>);

impl Changes {
    /// Returns once the account was changed since the last time.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // Nobody is left who could change it.
            std::future::pending::<()>().await;
        }
    }
}

/// What a panic left behind is still a consistent model: every step on it is done whole before it returns.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
