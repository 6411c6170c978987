use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};

use crate::Stop;

type BoxError = Box<dyn Error + Send + Sync>;

/// The long-lived tasks of one process: it lives as long as all of them do.
///
/// A task that ends before stopping was requested, whether by returning, by an error or by a panic, stops the others
/// and makes [`Tasks::run`] fail, so that no process goes on with a part of it dead.
#[derive(Debug)]
pub struct Tasks {
    stop: Stop,
    main: Group,
    background: Group,
}

#[derive(Debug, Default)]
struct Group {
    tasks: JoinSet<Result<(), BoxError>>,
    names: HashMap<Id, &'static str>,
}

/// Why the tasks did not end well.
#[derive(Debug, thiserror::Error)]
pub enum TaskFailed {
    /// It returned although nobody had asked it to.
    #[error("task `{task}` ended although nobody asked it to")]
    EndedEarly {
        /// The task's name.
        task: &'static str,
    },
    /// It returned an error.
    #[error("task `{task}` failed")]
    Failed {
        /// The task's name.
        task: &'static str,
        /// What it returned.
        source: BoxError,
    },
    /// It panicked. The panic itself was logged when it happened.
    #[error("task `{task}` panicked")]
    Panicked {
        /// The task's name.
        task: &'static str,
    },
    /// It had not ended when the time to stop was over, and was dropped.
    #[error("task `{task}` did not stop in time")]
    Late {
        /// The task's name.
        task: &'static str,
    },
}

impl Tasks {
    /// No tasks yet; they are expected to end once `stop` is requested.
    pub fn new(stop: Stop) -> Self {
        Self {
            stop,
            main: Group::default(),
            background: Group::default(),
        }
    }

    /// Starts a task that ends by itself, and only, after stopping was requested.
    pub fn spawn<E>(&mut self, name: &'static str, task: impl Future<Output = Result<(), E>> + Send + 'static)
    where
        E: Into<BoxError>,
    {
        self.main.spawn(name, async { task.await.map_err(Into::into) });
    }

    /// Starts a task that serves the others until the last of them has ended, and is then dropped.
    pub fn spawn_background<E>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) where
        E: Into<BoxError>,
    {
        self.background
            .spawn(name, async { task.await.map_err(Into::into) });
    }

    /// Waits until stopping is requested or a task ends, then until all have ended, at most `grace` longer.
    ///
    /// # Errors
    /// The first failure; the others are stopped all the same.
    pub async fn run(mut self, grace: Duration) -> Result<(), TaskFailed> {
        let first = tokio::select! {
            biased;
            () = self.stop.requested() => Ok(()),
            Some(ended) = self.main.next_end() => ended.failure(false),
            Some(ended) = self.background.next_end() => ended.failure(false),
        };
        self.stop.request();
        let rest = async {
            let mut rest = Ok(());
            while let Some(ended) = self.main.next_end().await {
                rest = rest.and(ended.failure(true));
            }
            rest
        };
        match tokio::time::timeout(grace, rest).await {
            Ok(rest) => first.and(rest),
            Err(_) => first.and(Err(TaskFailed::Late {
                task: self.main.any(),
            })),
        }
    }
}

/// A task that is over, and how.
struct Ended {
    task: &'static str,
    how: Result<Result<(), BoxError>, JoinError>,
}

impl Ended {
    fn failure(self, asked: bool) -> Result<(), TaskFailed> {
        let task = self.task;
        match self.how {
            Ok(Ok(())) if asked => Ok(()),
            Ok(Ok(())) => Err(TaskFailed::EndedEarly { task }),
            Ok(Err(source)) => Err(TaskFailed::Failed { task, source }),
            Err(_) => Err(TaskFailed::Panicked { task }),
        }
    }
}

impl Group {
    fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), BoxError>> + Send + 'static,
    ) {
        let handle = self.tasks.spawn(task);
        self.names.insert(handle.id(), name);
    }

    async fn next_end(&mut self) -> Option<Ended> {
        let (id, how) = match self.tasks.join_next_with_id().await? {
            Ok((id, result)) => (id, Ok(result)),
            Err(error) => (error.id(), Err(error)),
        };
        let task = self
            .names
            .remove(&id)
            .expect("every task was named when it was spawned");
        Some(Ended { task, how })
    }

    fn any(&self) -> &'static str {
        self.names.values().next().copied().unwrap_or("none")
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io;

    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    fn tasks() -> (Tasks, Stop) {
        let stop = Stop::new();
        let mut tasks = Tasks::new(stop.clone());
        let until_stop = stop.clone();
        tasks.spawn("patient", async move {
            until_stop.requested().await;
            Ok::<_, Infallible>(())
        });
        tasks.spawn_background("for ever", std::future::pending::<Result<(), Infallible>>());
        (tasks, stop)
    }

    #[tokio::test]
    async fn all_end_well_once_asked_to() {
        let (tasks, stop) = tasks();
        stop.request();
        tasks.run(GRACE).await.unwrap();
    }

    #[tokio::test]
    async fn one_that_returns_unasked_stops_the_others() {
        let (mut tasks, stop) = tasks();
        tasks.spawn("hasty", async { Ok::<_, Infallible>(()) });
        assert!(matches!(
            tasks.run(GRACE).await,
            Err(TaskFailed::EndedEarly { task: "hasty" })
        ));
        assert!(stop.is_requested());
    }

    #[tokio::test]
    async fn one_that_fails_stops_the_others_and_its_error_is_kept() {
        let (mut tasks, _) = tasks();
        tasks.spawn("unlucky", async { Err(io::Error::other("disk on fire")) });
        let failed = tasks.run(GRACE).await.unwrap_err();
        assert_eq!(
            crate::Chain(&failed).to_string(),
            "task `unlucky` failed: disk on fire"
        );
    }

    #[tokio::test]
    async fn one_that_panics_stops_the_others_even_in_the_background() {
        let (mut tasks, _) = tasks();
        tasks.spawn_background("clumsy", async {
            assert!(
                tokio::runtime::Handle::try_current().is_err(),
                "this test wants a panic"
            );
            Ok::<_, Infallible>(())
        });
        assert!(matches!(
            tasks.run(GRACE).await,
            Err(TaskFailed::Panicked { task: "clumsy" })
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_stop_is_dropped_when_the_time_is_over() {
        let stop = Stop::new();
        let mut tasks = Tasks::new(stop.clone());
        tasks.spawn("stubborn", std::future::pending::<Result<(), Infallible>>());
        stop.request();
        assert!(matches!(
            tasks.run(GRACE).await,
            Err(TaskFailed::Late { task: "stubborn" })
        ));
    }
}
