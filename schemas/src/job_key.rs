//! The job a task belongs to.
//!
//! Rerunning a task takes a new idempotency key, because the old one stays bound to the old task. By convention
//! it is the old key followed by `-r1`, `-r2`, …; all of these tasks answer the same job.

use serde::{Deserialize, Serialize};

use crate::delivery::TaskId;

/// What is done to an idempotency key to get the job key.
///
/// Stored with the tables (`projection.rules`, as `{"rerun_suffix": true}`): rows made under other rules
/// belong to other jobs, so a projector with other rules must not write beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Whether one rerun suffix, `-r[1-9][0-9]*` at the end, is taken off. A key such as `model-r2` may end
    /// so without being a rerun: then this must be off.
    pub rerun_suffix: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { rerun_suffix: true }
    }
}

/// The job a task belongs to: its idempotency key without its rerun suffix, or the task id where there is no
/// key. A key that is nothing but a suffix (`-r1`) is kept whole, so a job key is never empty.
pub fn job_key<'a>(rules: Rules, key: Option<&'a str>, task_id: &'a TaskId) -> &'a str {
    match key {
        Some(key) => of_key(rules, key),
        None => task_id.as_str(),
    }
}

/// The job of the tasks that were created with this idempotency key.
pub fn of_key(rules: Rules, key: &str) -> &str {
    if rules.rerun_suffix {
        without_rerun_suffix(key)
    } else {
        key
    }
}

fn without_rerun_suffix(key: &str) -> &str {
    let digits = key.len() - key.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (rest, number) = key.split_at(key.len() - digits);
    match rest.strip_suffix("-r") {
        Some(base) if !base.is_empty() && !number.is_empty() && !number.starts_with('0') => base,
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: &str) -> &str {
        without_rerun_suffix(key)
    }

    #[test]
    fn one_rerun_suffix_is_taken_off() {
        assert_eq!(of("kettles|DE-r1"), "kettles|DE");
        assert_eq!(of("kettles|DE-r204"), "kettles|DE");
        assert_eq!(of("x-r1-r2"), "x-r1");
        assert_eq!(of("ключ-r9"), "ключ");
    }

    #[test]
    fn what_only_looks_like_a_rerun_suffix_stays() {
        for key in [
            "x-r0", "x-r01", "x-R1", "x-r", "x-r1a", "xr1", "-r1", "x-r1 ", "x-r١", "", "7",
        ] {
            assert_eq!(of(key), key);
        }
    }

    #[test]
    fn the_rules_decide_and_no_key_means_a_job_of_its_own() {
        let id: TaskId = "task-r1".parse().unwrap();
        let keep = Rules { rerun_suffix: false };
        assert_eq!(job_key(Rules::default(), Some("a-r1"), &id), "a");
        assert_eq!(job_key(keep, Some("a-r1"), &id), "a-r1");
        assert_eq!(job_key(Rules::default(), None, &id), "task-r1");
    }

    #[test]
    fn the_rules_are_stored_as_documented() {
        let json = serde_json::to_string(&Rules::default()).unwrap();
        assert_eq!(json, r#"{"rerun_suffix":true}"#);
        assert!(serde_json::from_str::<Rules>(r#"{"rerun_suffix":true,"fold_case":true}"#).is_err());
    }
}
