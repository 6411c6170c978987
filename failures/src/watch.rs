//! What each program said of itself over time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandbox::program::{Readiness, readiness};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::world::Who;

/// The time between two questions to one program.
const PAUSE: Duration = Duration::from_millis(50);

/// Something that a program said, and kept saying until the next that is seen of it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// When it was first heard.
    pub at: Instant,
    /// What it said.
    pub said: Readiness,
}

/// Asks every program again and again whether it is ready, from the start of the world to its end.
#[derive(Debug)]
pub struct Watch {
    heard: Heard,
    // The questions end with it.
    _questions: JoinSet<()>,
}

type Heard = Arc<Mutex<BTreeMap<Who, Vec<Seen>>>>;

impl Watch {
    pub(crate) fn over(programs: impl IntoIterator<Item = (Who, SocketAddr)>) -> Self {
        let heard = Heard::default();
        let mut questions = JoinSet::new();
        for (who, admin) in programs {
            questions.spawn(ask(who, admin, Arc::clone(&heard)));
        }
        Self {
            heard,
            _questions: questions,
        }
    }

    /// What `who` said last; `None` before the first answer.
    pub fn last(&self, who: Who) -> Option<Readiness> {
        lock(&self.heard).get(&who)?.last().map(|seen| seen.said.clone())
    }

    /// Everything that `who` said from `mark` on, beginning with what it was saying then.
    pub fn since(&self, who: Who, mark: Instant) -> Vec<Seen> {
        let heard = lock(&self.heard);
        let all = heard.get(&who).map(Vec::as_slice).unwrap_or_default();
        let before = all.partition_point(|seen| seen.at <= mark).saturating_sub(1);
        all[before..].to_vec()
    }

    /// Everything that `who` said, a line each, with seconds from the first.
    pub fn story(&self, who: Who) -> String {
        let heard = lock(&self.heard);
        let all = heard.get(&who).map(Vec::as_slice).unwrap_or_default();
        let Some(first) = all.first() else {
            return "nothing\n".to_owned();
        };
        let line = |seen: &Seen| format!("{:8.2} {:?}\n", (seen.at - first.at).as_secs_f64(), seen.said);
        all.iter().map(line).collect()
    }
}

async fn ask(who: Who, admin: SocketAddr, heard: Heard) {
    loop {
        let said = readiness(admin).await;
        {
            let mut heard = lock(&heard);
            let all = heard.entry(who).or_default();
            if all.last().is_none_or(|last| last.said != said) {
                all.push(Seen {
                    at: Instant::now(),
                    said,
                });
            }
        }
        sleep(PAUSE).await;
    }
}

/// What a panic left behind is whole: a line is pushed or not.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
