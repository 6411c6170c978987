//! Reading the body that creates a task.

use serde_json::{Map, Value};

use super::answer::{Problem, Violation};
use crate::provider::task::{NewTask, TASK_TYPES};

/// The longest prompt, in characters.
const LONGEST_PROMPT: usize = 10_000;
/// The longest idempotency key, in characters.
const LONGEST_KEY: usize = 255;

/// Reads `{"taskType", "priority"?, "idempotencyKey"?, "payload": {"prompt", …}}`. Fields that it does not know are
/// ignored, as the provider does; every field that is wrong is named.
pub(super) fn read(body: &[u8]) -> Result<NewTask, Problem> {
    let mut wrong = Vec::new();
    let Ok(Value::Object(body)) = serde_json::from_slice(body) else {
        return Err(Problem::Invalid(vec![Violation {
            field: "body",
            message: "must be a JSON object".to_owned(),
        }]));
    };
    let task_type = task_type(&body, &mut wrong);
    let priority = priority(&body, &mut wrong);
    let idempotency_key = key(&body, &mut wrong);
    prompt(&body, &mut wrong);
    if !wrong.is_empty() {
        return Err(Problem::Invalid(wrong));
    }
    Ok(NewTask {
        task_type,
        priority,
        idempotency_key,
    })
}

fn task_type(body: &Map<String, Value>, wrong: &mut Vec<Violation>) -> &'static str {
    let asked = body.get("taskType").and_then(Value::as_str);
    let known = TASK_TYPES.iter().find(|known| Some(**known) == asked);
    known.copied().unwrap_or_else(|| {
        wrong.push(Violation {
            field: "taskType",
            message: format!("must be one of {}", TASK_TYPES.join(", ")),
        });
        ""
    })
}

/// 1 is the lowest and what a task has that does not ask for another.
fn priority(body: &Map<String, Value>, wrong: &mut Vec<Violation>) -> u8 {
    let asked = match body.get("priority") {
        None | Some(Value::Null) => Some(1),
        Some(value) => value.as_u64().filter(|number| (1..=10).contains(number)),
    };
    asked
        .and_then(|number| u8::try_from(number).ok())
        .unwrap_or_else(|| {
            wrong.push(Violation {
                field: "priority",
                message: "must be a whole number from 1 to 10".to_owned(),
            });
            1
        })
}

fn key(body: &Map<String, Value>, wrong: &mut Vec<Violation>) -> Option<String> {
    match body.get("idempotencyKey") {
        None | Some(Value::Null) => return None,
        Some(Value::String(key)) if (1..=LONGEST_KEY).contains(&key.chars().count()) => {
            return Some(key.clone());
        }
        Some(_) => {}
    }
    wrong.push(Violation {
        field: "idempotencyKey",
        message: format!("must be a text of 1 to {LONGEST_KEY} characters"),
    });
    None
}

fn prompt(body: &Map<String, Value>, wrong: &mut Vec<Violation>) {
    let prompt = body.get("payload").and_then(|payload| payload.get("prompt"));
    let length = prompt
        .and_then(Value::as_str)
        .map_or(0, |text| text.chars().count());
    if !(1..=LONGEST_PROMPT).contains(&length) {
        wrong.push(Violation {
            field: "payload.prompt",
            message: format!("must be a text of 1 to {LONGEST_PROMPT} characters"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_fields(body: &str) -> Vec<&'static str> {
        match read(body.as_bytes()) {
            Err(Problem::Invalid(violations)) => violations.iter().map(|wrong| wrong.field).collect(),
            read => panic!("{body} gave {read:?}"),
        }
    }

    #[test]
    fn the_least_that_a_task_needs_is_an_engine_and_a_prompt() {
        let read = read(br#"{"taskType":"GEMINI","payload":{"prompt":"kettles?"},"webhook":{}}"#).unwrap();
        assert_eq!(
            (read.task_type, read.priority, read.idempotency_key),
            ("GEMINI", 1, None)
        );
    }

    #[test]
    fn key_and_priority_are_taken_as_they_are() {
        let body = r#"{"taskType":"GROK","priority":10,"idempotencyKey":" a|b ","payload":{"prompt":"x"}}"#;
        let read = read(body.as_bytes()).unwrap();
        assert_eq!(
            (read.priority, read.idempotency_key.as_deref()),
            (10, Some(" a|b "))
        );
    }

    #[test]
    fn everything_that_is_wrong_is_named() {
        let bodies = ["", "[]", "\"x\"", "{\"taskType\":"];
        assert!(bodies.iter().all(|body| wrong_fields(body) == ["body"]));
        assert_eq!(wrong_fields("{}"), ["taskType", "payload.prompt"]);
        let all = r#"{"taskType":"gemini","priority":11,"idempotencyKey":"","payload":{"prompt":7}}"#;
        assert_eq!(
            wrong_fields(all),
            ["taskType", "priority", "idempotencyKey", "payload.prompt"]
        );
        let long = format!(
            r#"{{"taskType":"GROK","priority":1.5,"payload":{{"prompt":"{}"}}}}"#,
            "x".repeat(LONGEST_PROMPT + 1)
        );
        assert_eq!(wrong_fields(&long), ["priority", "payload.prompt"]);
    }
}
