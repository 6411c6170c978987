//! The deeds of the provider, of its customer, and of whoever holds the secret.

use rand::Rng;
use sandbox::provider::delivery::{State as Standing, Subject};
use sandbox::provider::task::Task;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use super::operation::{Deed, Ill, Side};
use super::walker::Walker;
use crate::world::{Kind, Who};

impl Walker {
    pub(super) async fn send(&mut self, deed: Deed) {
        self.deeds += 1;
        let number = self.deeds;
        let rng = &mut self.seed.rng("deed", number);
        let pick: u64 = rng.random();
        match deed {
            Deed::Burst(tasks) => drop(self.world.finish_tasks(tasks.into())),
            Deed::Lose(tasks) => drop(self.world.lose_tasks(tasks.into())),
            Deed::Reverse => {
                let key = format!("reverse-{number}");
                let first = self.world.create_task(&key);
                let second = self.world.create_task(&format!("{key}-r1"));
                self.world.end_task(&second, self.world.answered(number));
                self.world.end_task(&first, self.world.answered(number + 1));
            }
            Deed::SubmitByKey => {
                let id = self.world.create_task(&format!("by-key-{number}"));
                self.application.never_learns(&id);
                self.world.end_task(&id, self.world.answered(number));
            }
            Deed::TestDelivery => self.world.send_test_delivery(),
            Deed::Redeliver => self.redeliver(pick),
            Deed::NonFinal => {
                let Some(task) = self.some_task(pick) else { return };
                let status = ["QUEUED", "PROCESSING", "SLEEPING"][number as usize % 3];
                self.post(result(&task, status, Value::Null)).await;
            }
            Deed::Unreadable => {
                let body = match number % 4 {
                    0 => format!("no json {}", number % 3),
                    1 => json!({"task": {"status": "COMPLETED"}, "response": {"result": number}}).to_string(),
                    2 => format!("\u{feff}{{\"task\":{{\"id\":\"bom-{number}\"}}}}"),
                    _ => format!("{{\"task\":{{\"id\":\"a\",\"id\":\"b-{number}\",\"status\":\"FAILED\"}}}}"),
                };
                self.post(body).await;
            }
            Deed::Divergent(false) => {
                let Some(task) = self.some_task(pick) else { return };
                self.post(other_result(&task, number)).await;
            }
            Deed::Divergent(true) => {
                let id = self.world.create_task(&format!("divergent-{number}"));
                let task = self.world.account.with(|provider| {
                    let number = provider.find(&id).expect("it was created a moment ago");
                    provider.task(number).clone()
                });
                self.post(other_result(&task, number)).await;
                self.world.end_task(&id, self.world.answered(number));
            }
            Deed::DeleteConsumer
            | Deed::ChangeConsumer(_)
            | Deed::EndSessions
            | Deed::BackUp
            | Deed::PutBack
            | Deed::PowerCut
            | Deed::Corrupt
            | Deed::Rebuild(_) => {
                unreachable!("{deed:?} sends nothing")
            }
        }
    }

    /// Any task that there ever was.
    fn some_task(&self, pick: u64) -> Option<Task> {
        self.world.account.with(|provider| {
            let tasks = provider.tasks();
            let place = pick.checked_rem(tasks.len() as u64)?;
            tasks.get(usize::try_from(place).ok()?).cloned()
        })
    }

    /// Sends any delivery again that is not refused.
    fn redeliver(&self, pick: u64) {
        let now = self.world.clock.now();
        self.world.account.with(|provider| {
            let deliveries = provider.deliveries();
            let Some(place) = pick.checked_rem(deliveries.len() as u64) else {
                return;
            };
            let number = deliveries[usize::try_from(place).expect("a place in a list")].number;
            // One that is pending is refused, and that is that.
            let _ = provider.redeliver(number, now);
        });
    }

    /// Sends the deliveries again that are dead and that no reconciler can make good, because nobody knows the ids.
    pub(super) fn redeliver_what_nobody_can_fetch(&self) -> usize {
        let now = self.world.clock.now();
        self.world.account.with(|provider| {
            let nameless = |subject: Subject| match subject {
                Subject::Task(task) => self.application.knows_no_id_of(&provider.task(task).id),
                Subject::Test => false,
            };
            let dead: Vec<_> = provider
                .deliveries()
                .iter()
                .filter(|delivery| delivery.state == Standing::Dead && nameless(delivery.subject))
                .map(|delivery| delivery.number)
                .collect();
            for number in &dead {
                let sent = provider.redeliver(*number, now);
                sent.unwrap_or_else(|e| panic!("redelivering {number:?}: {e}"));
            }
            dead.len()
        })
    }

    /// Posts to an ingress that can be reached, if there is one.
    async fn post(&mut self, body: String) {
        let reachable = |who: &&Who| {
            let hook = self.state.link(**who, Side::Hook);
            who.kind() == Kind::Ingress && self.state.runs(**who) && matches!(hook, None | Some(Ill::Slow))
        };
        let to = self.state.programs().iter().find(reachable).copied();
        if let Some(to) = to {
            self.world.post(to, body).await;
        }
    }
}

fn other_result(task: &Task, number: u64) -> String {
    if number.is_multiple_of(2) {
        result(
            task,
            "COMPLETED",
            json!({"result": {"text": format!("another answer, {number}")}}),
        )
    } else {
        result(
            task,
            "FAILED",
            json!({"error": {"code": "ANOTHER", "message": format!("{number}")}}),
        )
    }
}

fn result(task: &Task, status: &str, response: Value) -> String {
    let created = task.created_at.format(&Rfc3339).expect("a year of four digits");
    json!({
        "task": {
            "id": task.id,
            "status": status,
            "createdAt": created,
            "idempotencyKey": task.request.idempotency_key,
        },
        "response": response,
    })
    .to_string()
}
