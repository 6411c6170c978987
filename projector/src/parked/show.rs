//! `parked show`.

use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::ParkedError;
use super::rows::{Kept, Parked, with_bodies};
use crate::config::{Form, Rows};
use crate::print::{moment, plain, plain_bytes, print, size};
use crate::reach;

/// An event with its body, for programs.
#[derive(Serialize)]
struct Whole<'k> {
    #[serde(flatten)]
    row: &'k Parked,
    /// The body, when it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'k str>,
    /// The body, when it is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

pub(super) async fn run(seq: u64, form: Form, rows: &Rows) -> Result<ExitCode, ParkedError> {
    let database = reach::database(rows).await?;
    let found = database
        .snapshot(async |client| with_bodies(client, seq).await)
        .await?;
    let Some(newest) = found.first() else {
        eprintln!("nothing is parked with sequence {seq}");
        return Ok(ExitCode::FAILURE);
    };
    match form {
        Form::Raw => print(&newest.body)?,
        Form::Json => print(found.iter().map(json).collect::<String>().as_bytes())?,
        Form::Text => print(found.iter().map(text).collect::<Vec<_>>().join("\n").as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn json(kept: &Kept) -> String {
    let text = std::str::from_utf8(&kept.body);
    let whole = Whole {
        row: &kept.row,
        body: text.ok(),
        body_base64: text.is_err().then(|| STANDARD.encode(&kept.body)),
    };
    serde_json::to_string(&whole).expect("an event is plain data") + "\n"
}

fn text(kept: &Kept) -> String {
    let row = &kept.row;
    let created = if row.is_of_older_stream {
        format!(
            "{}, an older one than the rows follow",
            moment(row.stream_created)
        )
    } else {
        moment(row.stream_created)
    };
    let facts = [
        ("sequence", row.stream_seq.to_string()),
        ("stream", format!("created {created}")),
        ("time", moment(row.parked_at)),
        ("subject", row.subject.clone()),
        ("task", row.task_id.clone().unwrap_or_else(|| "-".to_owned())),
        ("reason", row.reason.clone()),
        ("detail", row.detail.clone().unwrap_or_else(|| "-".to_owned())),
        ("body", size(row.bytes)),
    ];
    let mut text = String::new();
    for (name, value) in facts {
        text.push_str(&format!("{name:<9} {}\n", plain(&value)));
    }
    text.push('\n');
    text.push_str(&plain_bytes(&kept.body));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
