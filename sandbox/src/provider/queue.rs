//! The steps of tasks: into the queue, out of it, back, to their end, and out of memory.

use bytes::Bytes;
use time::OffsetDateTime;

use super::body::{self, Webhook};
use super::delivery::{DeliveryNumber, Subject};
use super::life::Fate;
use super::outcome::Outcome;
use super::task::{NewTask, Removal, Status, Task, TaskNumber};
use super::{NotFound, Provider, Refused};

/// What waits and what runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStatus {
    /// Tasks that wait for their turn.
    pub queued: usize,
    /// Tasks that run.
    pub processing: usize,
    /// How many wait at each priority that has any, the highest first.
    pub by_priority: Vec<(u8, usize)>,
    /// The most tasks that run at a time, where there is a limit.
    pub concurrency: Option<usize>,
}

impl Provider {
    /// Lets everything happen that time alone brings about until `now`: tasks that waited or ran too long fail, each at
    /// its own time, and tasks older than the retention are forgotten.
    ///
    /// Every step that takes a task or looks for one begins with this, so a caller needs it only to be told in time.
    pub fn advance(&mut self, now: OffsetDateTime) {
        while let Some((at, task, fate)) = self.register.next_limit()
            && at <= now
        {
            match fate {
                Fate::Forgotten => self.register.remove(task, Removal::Expired),
                Fate::QueueWaitExceeded => {
                    self.end(task, Outcome::queue_wait_exceeded(), at);
                }
                Fate::TimedOut => {
                    self.end(task, Outcome::timed_out(), at);
                }
            }
        }
    }

    /// When time alone will bring the next thing about.
    pub fn next_limit(&self) -> Option<OffsetDateTime> {
        self.register.next_limit().map(|(at, ..)| at)
    }

    /// Puts a task into the queue.
    ///
    /// # Errors
    /// [`Refused::KeyTaken`] and [`Refused::QueueFull`].
    pub fn create(&mut self, request: NewTask, now: OffsetDateTime) -> Result<TaskNumber, Refused> {
        self.advance(now);
        if let Some(key) = &request.idempotency_key
            && self.register.find_key(key).is_some()
        {
            return Err(Refused::KeyTaken);
        }
        let limit = self.settings.queue_limit;
        if self.register.queued() >= limit {
            return Err(Refused::QueueFull { limit });
        }
        let mut rng = self.seed.rng("task", self.register.next_number().0 as u64);
        Ok(self.register.add(Task::new(&mut rng, request, now)))
    }

    /// Takes a task out of the queue and runs it.
    ///
    /// # Errors
    /// When it is not queued or no longer kept, or as many tasks run as may.
    pub fn start(&mut self, task: TaskNumber, now: OffsetDateTime) -> Result<(), Refused> {
        match self.kept(task, now)?.status {
            Status::Queued => {}
            status => return Err(Refused::NotQueued(status)),
        }
        if let Some(max) = self.settings.concurrency
            && self.room() == 0
        {
            return Err(Refused::Busy { max });
        }
        self.register.change(task, |task| {
            task.status = Status::Processing;
            task.started_at.get_or_insert(now);
        });
        Ok(())
    }

    /// Puts a running task back into the queue. Its time to run goes on from its first start.
    ///
    /// # Errors
    /// When it does not run or is no longer kept.
    pub fn requeue(&mut self, task: TaskNumber, now: OffsetDateTime) -> Result<(), Refused> {
        match self.kept(task, now)?.status {
            Status::Processing => {
                self.register.change(task, |task| task.status = Status::Queued);
                Ok(())
            }
            status => Err(Refused::NotProcessing(status)),
        }
    }

    /// Ends a task; its delivery is due at once. A task can end without having started: it waited too long.
    ///
    /// # Errors
    /// When it has ended already or is no longer kept.
    pub fn finish(
        &mut self,
        task: TaskNumber,
        outcome: Outcome,
        now: OffsetDateTime,
    ) -> Result<DeliveryNumber, Refused> {
        match self.kept(task, now)?.status {
            status if status.is_final() => Err(Refused::AlreadyEnded(status)),
            _ => Ok(self.end(task, outcome, now)),
        }
    }

    /// What the API answers for a task: what its delivery says, and whether it was delivered.
    ///
    /// # Errors
    /// When no task of this id is kept.
    pub fn get(&mut self, id: &str, now: OffsetDateTime) -> Result<Bytes, NotFound> {
        self.advance(now);
        let task = self.task(self.find(id)?);
        let webhook = match task.delivery.map(|number| self.delivery(number)) {
            Some(delivery) => Webhook::new(&delivery.url, delivery.delivered_at()),
            None => Webhook::new(&self.settings.url, None),
        };
        Ok(body::with_webhook(task, webhook))
    }

    /// What waits and what runs.
    pub fn status(&mut self, now: OffsetDateTime) -> QueueStatus {
        self.advance(now);
        QueueStatus {
            queued: self.register.queued(),
            processing: self.register.processing(),
            by_priority: self.register.queued_by_priority(),
            concurrency: self.settings.concurrency,
        }
    }

    /// How many more tasks may run.
    pub fn room(&self) -> usize {
        let max = self.settings.concurrency.unwrap_or(usize::MAX);
        max.saturating_sub(self.register.processing())
    }

    /// Deletes every task that is queued, at no charge; gives how many there were. What runs or has ended stays.
    pub fn clear_queue(&mut self, now: OffsetDateTime) -> usize {
        self.advance(now);
        let queued: Vec<TaskNumber> = self.queue().collect();
        for task in &queued {
            self.register.remove(*task, Removal::Cleared);
        }
        queued.len()
    }

    /// A task that is still kept at `now`.
    fn kept(&mut self, task: TaskNumber, now: OffsetDateTime) -> Result<&Task, Refused> {
        self.advance(now);
        let task = self.task(task);
        match task.removed {
            None => Ok(task),
            Some(_) => Err(Refused::TaskGone),
        }
    }

    fn end(&mut self, task: TaskNumber, outcome: Outcome, at: OffsetDateTime) -> DeliveryNumber {
        self.register.change(task, |task| task.end(outcome, at));
        let body = self.task(task).body();
        let delivery = self.open(Subject::Task(task), body, at);
        self.register.change(task, |task| task.delivery = Some(delivery));
        delivery
    }
}
