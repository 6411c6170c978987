//! Which calls of the API meet a fault, and which fault.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rand::Rng;

use super::calls::Operation;
use super::fault::Fault;
use crate::account::lock;
use crate::seed::Seed;

/// A fault, and the calls that it befalls.
#[derive(Debug, Clone)]
pub struct Rule {
    fault: Fault,
    operation: Option<Operation>,
    task: Option<String>,
    left: Option<u32>,
    takes_effect: bool,
}

impl Rule {
    /// Befalls every call.
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            operation: None,
            task: None,
            left: None,
            takes_effect: false,
        }
    }

    /// Only calls of this kind.
    pub fn on(mut self, operation: Operation) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Only calls about this task.
    pub fn for_task(mut self, id: impl Into<String>) -> Self {
        self.task = Some(id.into());
        self
    }

    /// Only the next `calls` of those.
    pub fn times(mut self, calls: u32) -> Self {
        self.left = Some(calls);
        self
    }

    /// The call is carried out and only its answer lost, as when creating a task times out and the task exists.
    pub fn after_taking_effect(mut self) -> Self {
        self.takes_effect = true;
        self
    }

    fn befalls(&self, operation: Operation, task: Option<&str>) -> bool {
        self.operation.is_none_or(|only| only == operation)
            && self.task.as_deref().is_none_or(|only| task == Some(only))
    }
}

/// Faults that follow from a seed: the n-th call about a task meets the same fault in every run, whatever else is asked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What the plan follows from.
    pub seed: Seed,
    /// The share of calls that meet a fault, in [0, 1].
    pub share: f64,
    /// What they meet, each as often as the others.
    pub faults: Vec<Fault>,
    /// The most faults in a row about one task, so that everything comes to an end.
    pub most_in_a_row: u32,
}

/// What is wrong with the API now. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    rules: Vec<Rule>,
    plan: Option<Plan>,
    /// Under the plan: the calls so far about each subject, and how many of the last ones met a fault.
    seen: HashMap<(Operation, Option<String>), (u64, u32)>,
}

/// What befalls a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) fault: Fault,
    /// Whether the call is carried out.
    pub(super) takes_effect: bool,
}

impl Faults {
    /// Adds a rule. Of several that befall a call, the one that was added first is followed.
    pub fn add(&self, rule: Rule) {
        lock(&self.0).rules.push(rule);
    }

    /// Every call about this task meets `fault` from now on.
    pub fn task(&self, id: impl Into<String>, fault: Fault) {
        self.add(Rule::new(fault).for_task(id));
    }

    /// The next `calls` calls meet `fault`.
    pub fn next(&self, calls: u32, fault: Fault) {
        self.add(Rule::new(fault).times(calls));
    }

    /// Every call meets `fault` from now on.
    pub fn all(&self, fault: Fault) {
        self.add(Rule::new(fault));
    }

    /// Calls that no rule befalls follow this plan from now on.
    pub fn plan(&self, plan: Plan) {
        let mut script = lock(&self.0);
        script.plan = Some(plan);
        script.seen.clear();
    }

    /// Nothing is wrong any more.
    pub fn clear(&self) {
        *lock(&self.0) = Script::default();
    }

    /// What befalls a call that comes now.
    pub(super) fn choose(&self, operation: Operation, task: Option<&str>) -> Option<Chosen> {
        let mut script = lock(&self.0);
        let found = script
            .rules
            .iter()
            .position(|rule| rule.left != Some(0) && rule.befalls(operation, task));
        let Some(found) = found else {
            return script.planned(operation, task);
        };
        let rule = &mut script.rules[found];
        rule.left = rule.left.map(|left| left - 1);
        Some(Chosen {
            fault: rule.fault.clone(),
            takes_effect: rule.takes_effect || rule.fault.needs_the_truth(),
        })
    }
}

impl Script {
    fn planned(&mut self, operation: Operation, task: Option<&str>) -> Option<Chosen> {
        let plan = self.plan.as_ref()?;
        let subject = (operation, task.map(str::to_owned));
        let (calls, in_a_row) = self.seen.entry(subject).or_default();
        let purpose = format!("{operation:?} {}", task.unwrap_or_default());
        let mut rng = plan.seed.rng(&purpose, *calls);
        *calls += 1;
        let meets = *in_a_row < plan.most_in_a_row && !plan.faults.is_empty() && rng.random_bool(plan.share);
        if !meets {
            *in_a_row = 0;
            return None;
        }
        *in_a_row += 1;
        let fault = plan.faults[rng.random_range(0..plan.faults.len())].clone();
        let takes_effect = fault.needs_the_truth();
        Some(Chosen { fault, takes_effect })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(faults: &Faults, operation: Operation, task: Option<&str>) -> Option<Fault> {
        faults.choose(operation, task).map(|chosen| chosen.fault)
    }

    #[test]
    fn the_first_rule_that_befalls_a_call_is_followed_until_it_is_used_up() {
        let faults = Faults::default();
        faults.add(Rule::new(Fault::Html).on(Operation::Get).for_task("a").times(1));
        faults.next(2, Fault::Empty);
        faults.all(Fault::NoContent);
        let seen = [
            fault(&faults, Operation::Status, None),
            fault(&faults, Operation::Get, Some("a")),
            fault(&faults, Operation::Get, Some("a")),
            fault(&faults, Operation::Get, Some("b")),
        ];
        let expected = [Fault::Empty, Fault::Html, Fault::Empty, Fault::NoContent];
        assert_eq!(seen, expected.map(Some));
        faults.clear();
        assert_eq!(fault(&faults, Operation::Get, Some("a")), None);
    }

    #[test]
    fn a_call_takes_effect_when_its_fault_is_made_of_the_truth_or_when_told() {
        let faults = Faults::default();
        faults.next(1, Fault::Silence);
        faults.next(1, Fault::Cut);
        faults.add(Rule::new(Fault::Silence).after_taking_effect());
        let effects: Vec<bool> = (0..3)
            .filter_map(|_| faults.choose(Operation::Create, None))
            .map(|chosen| chosen.takes_effect)
            .collect();
        assert_eq!(effects, [false, true, true]);
    }

    #[test]
    fn a_plan_follows_from_its_seed_and_never_goes_on_for_ever() {
        let met = |seed, order: &[&str]| {
            let faults = Faults::default();
            faults.plan(Plan {
                seed: Seed(seed),
                share: 0.7,
                faults: vec![Fault::Html, Fault::Empty],
                most_in_a_row: 3,
            });
            let mut met: HashMap<String, Vec<Option<Fault>>> = HashMap::new();
            for task in order {
                let fault = fault(&faults, Operation::Get, Some(task));
                met.entry((*task).to_owned()).or_default().push(fault);
            }
            met
        };
        let (mixed, sorted) = (
            ["a", "b"].repeat(40),
            [["a"].repeat(40), ["b"].repeat(40)].concat(),
        );
        assert_eq!(met(7, &mixed), met(7, &sorted));
        assert_ne!(met(7, &mixed), met(8, &mixed));
        for calls in met(7, &mixed).values() {
            assert!(calls.windows(4).all(|four| four.contains(&None)), "{calls:?}");
            assert!(calls.iter().flatten().count() > 15, "{calls:?}");
        }
    }
}
