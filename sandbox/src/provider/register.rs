//! Every task of an account: found by id, bound to its key, in the queue, and with the next limit of its life.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use time::OffsetDateTime;

use super::life::{Fate, Life};
use super::task::{Removal, Status, Task, TaskNumber};

/// All tasks of an account. It knows nothing of deliveries.
#[derive(Debug)]
pub(super) struct Register {
    life: Life,
    /// Every task there ever was, in the order of creation.
    tasks: Vec<Task>,
    /// The tasks that are kept, by id.
    ids: HashMap<String, TaskNumber>,
    /// The tasks that are kept and have a key, by key.
    keys: HashMap<String, TaskNumber>,
    /// What is queued: the highest priority first, then the oldest.
    queue: BTreeSet<(Reverse<u8>, TaskNumber)>,
    processing: usize,
    /// The next limit of each kept task, the earliest first.
    limits: BTreeSet<(OffsetDateTime, TaskNumber)>,
}

impl Register {
    pub(super) fn new(life: Life) -> Self {
        Self {
            life,
            tasks: Vec::new(),
            ids: HashMap::new(),
            keys: HashMap::new(),
            queue: BTreeSet::new(),
            processing: 0,
            limits: BTreeSet::new(),
        }
    }

    pub(super) fn all(&self) -> &[Task] {
        &self.tasks
    }

    pub(super) fn get(&self, number: TaskNumber) -> &Task {
        &self.tasks[number.0]
    }

    /// The number that the next task gets.
    pub(super) fn next_number(&self) -> TaskNumber {
        TaskNumber(self.tasks.len())
    }

    /// A task that is kept.
    pub(super) fn find(&self, id: &str) -> Option<TaskNumber> {
        self.ids.get(id).copied()
    }

    /// The task that a key is bound to.
    pub(super) fn find_key(&self, key: &str) -> Option<TaskNumber> {
        self.keys.get(key).copied()
    }

    /// What is queued, in the order in which it should start.
    pub(super) fn queue(&self) -> impl Iterator<Item = TaskNumber> {
        self.queue.iter().map(|(_, number)| *number)
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn processing(&self) -> usize {
        self.processing
    }

    /// How many tasks are queued at each priority that has any, the highest first.
    pub(super) fn queued_by_priority(&self) -> Vec<(u8, usize)> {
        let mut counts = BTreeMap::<Reverse<u8>, usize>::new();
        for (priority, _) in &self.queue {
            *counts.entry(*priority).or_default() += 1;
        }
        counts
            .into_iter()
            .map(|(Reverse(priority), count)| (priority, count))
            .collect()
    }

    /// The limit that is reached first: when, by which task, and what happens then.
    pub(super) fn next_limit(&self) -> Option<(OffsetDateTime, TaskNumber, Fate)> {
        let (at, number) = *self.limits.first()?;
        Some((at, number, self.life.next(self.get(number)).1))
    }

    pub(super) fn add(&mut self, task: Task) -> TaskNumber {
        let number = self.next_number();
        self.ids.insert(task.id.clone(), number);
        if let Some(key) = &task.request.idempotency_key {
            self.keys.insert(key.clone(), number);
        }
        self.tasks.push(task);
        self.list(number);
        number
    }

    /// Changes a kept task, and its places in the lists with it.
    pub(super) fn change(&mut self, number: TaskNumber, change: impl FnOnce(&mut Task)) {
        self.unlist(number);
        change(&mut self.tasks[number.0]);
        self.list(number);
    }

    /// Deletes the record of a kept task: its id is unknown from now on, and its key free.
    pub(super) fn remove(&mut self, number: TaskNumber, removal: Removal) {
        self.unlist(number);
        let task = &mut self.tasks[number.0];
        task.removed = Some(removal);
        self.ids.remove(&task.id);
        if let Some(key) = &task.request.idempotency_key {
            self.keys.remove(key);
        }
    }

    fn list(&mut self, number: TaskNumber) {
        let task = &self.tasks[number.0];
        match task.status {
            Status::Queued => {
                self.queue.insert((Reverse(task.request.priority), number));
            }
            Status::Processing => self.processing += 1,
            Status::Failed | Status::Completed => {}
        }
        self.limits.insert((self.life.next(task).0, number));
    }

    fn unlist(&mut self, number: TaskNumber) {
        let task = &self.tasks[number.0];
        match task.status {
            Status::Queued => {
                self.queue.remove(&(Reverse(task.request.priority), number));
            }
            Status::Processing => self.processing -= 1,
            Status::Failed | Status::Completed => {}
        }
        self.limits.remove(&(self.life.next(task).0, number));
    }
}
