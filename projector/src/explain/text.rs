//! The story for people.

use std::fmt::Write as _;

use super::facts::{
    AnswerFacts, Contender, EventFacts, JobFacts, Place, Standing, Story, StreamFacts, Submission,
};
use crate::parked::rows::Parked;
use crate::print::{Table, count, moment, moment_or_dash, plain, plain_lines, short, size};

/// So many tasks of a job are shown: the greatest, and the one that was asked about.
const MOST_TASKS: usize = 20;

/// The whole text.
pub(super) fn of(story: &Story) -> String {
    let mut out = String::new();
    match (&story.task_id, &story.job_key) {
        (Some(task), _) => line(
            &mut out,
            format_args!("task {}: {}", plain(task), plain(&story.summary)),
        ),
        (None, job) => line(
            &mut out,
            format_args!(
                "job {}: {}",
                plain(job.as_deref().unwrap_or_default()),
                plain(&story.summary)
            ),
        ),
    }
    if !story.verdict.is_known() {
        if let Some(stream) = &story.stream {
            line(&mut out, format_args!("  looked through {}", searched(stream)));
        }
        return out;
    }
    submissions(&mut out, &story.submissions);
    if let Some(stream) = &story.stream {
        events(&mut out, stream, story);
    }
    if story.task_id.is_some() {
        rows(&mut out, &story.answers);
    }
    for job in &story.jobs {
        job_of(&mut out, job, story.task_id.as_deref());
    }
    parked(&mut out, &story.parked);
    responses(&mut out, story);
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes everything");
    out.push('\n');
}

fn submissions(out: &mut String, submissions: &[Submission]) {
    line(out, format_args!("\nsubmissions"));
    if submissions.is_empty() {
        line(out, format_args!("  none recorded"));
        return;
    }
    let mut table = Table::new(&[
        "SUBMITTED",
        "STATE",
        "TASK",
        "KEY",
        "CHECKS",
        "NEXT CHECK",
        "SETTLED",
        "APPENDED",
        "LAST ERROR",
    ]);
    for one in submissions {
        let waits = matches!(one.state.as_str(), "OPEN" | "OVERDUE");
        table.row([
            moment(one.submitted_at),
            one.state.clone(),
            or_dash(one.task_id.as_deref()),
            or_dash(one.idempotency_key.as_deref()),
            one.checks.to_string(),
            moment_or_dash(one.next_check_at.filter(|_| waits)),
            moment_or_dash(one.settled_at),
            or_dash(one.appended_seq.map(|seq| seq.to_string()).as_deref()),
            or_dash(one.last_error.as_deref()),
        ]);
    }
    out.push_str(&table.to_string());
}

fn searched(stream: &StreamFacts) -> String {
    if stream.searched == 0 {
        return format!("{}, which is empty", stream.name);
    }
    format!(
        "{} events of {}, sequences {} to {}",
        count(stream.searched),
        stream.name,
        stream.first_seq,
        stream.last_seq
    )
}

fn events(out: &mut String, stream: &StreamFacts, story: &Story) {
    let floor = match (stream.floor_seq, stream.is_another) {
        (Some(floor), _) => format!("; everything up to {floor} is in the tables"),
        (None, true) => "; the rows came from another stream".to_owned(),
        (None, false) => "; nothing of it is known to be in the tables".to_owned(),
    };
    line(out, format_args!("\nevents, among {}{floor}", searched(stream)));
    if story.events.is_empty() {
        line(out, format_args!("  none"));
        return;
    }
    let of_job = story.task_id.is_none();
    let mut head = vec![
        "SEQ",
        "TIME",
        "VIA",
        "STATUS",
        "CREATED",
        "SIZE",
        "DIGEST",
        "MESSAGE ID",
    ];
    if of_job {
        head.push("TASK");
    }
    head.push("WHAT CAME OF IT");
    let mut table = Table::new(&head);
    for event in &story.events {
        let mut cells = vec![
            event.seq.to_string(),
            moment(event.time),
            or_dash(event.via),
            or_dash(event.status),
            moment_or_dash(event.created_at),
            size(event.bytes),
            or_dash(event.response_digest.as_deref().map(short)),
            or_dash(event.msg_id.as_deref()),
        ];
        if of_job {
            cells.push(or_dash(event.task_id.as_deref()));
        }
        cells.push(what_came(event));
        table.row(cells);
    }
    out.push_str(&table.to_string());
}

fn what_came(event: &EventFacts) -> String {
    match &event.standing {
        Standing::Row => "gives the row".to_owned(),
        Standing::Copy { against } => format!("a copy of {against}"),
        Standing::Outranked { against, rule } => format!("{against} is greater, by {rule}"),
        Standing::Parked {
            reason,
            readable: true,
            ..
        } => format!(
            "parked: {reason}; `projector parked retry {}` can make a row of it now",
            event.seq
        ),
        Standing::Parked { reason, .. } => format!("parked: {reason}"),
        Standing::NotFinal => "not final, counted".to_owned(),
        Standing::Pending => "pending: not in the tables yet".to_owned(),
        Standing::Missing => "missing in the tables".to_owned(),
        Standing::Contradicted => "the row names it, and says something else".to_owned(),
    }
}

fn rows(out: &mut String, answers: &[AnswerFacts]) {
    line(out, format_args!("\nrow"));
    if answers.is_empty() {
        line(out, format_args!("  none"));
    }
    for row in answers {
        let response = match (row.has_response, &row.response) {
            (true, None) => "kept; --response prints it".to_owned(),
            (true, Some(_)) => "below".to_owned(),
            (false, _) => "none".to_owned(),
        };
        let facts: [(&str, String); 10] = [
            ("status", row.status.clone()),
            ("created", moment_or_dash(row.created_at)),
            ("received", moment(row.received_at)),
            ("via", row.via.clone()),
            ("event", row.stream_seq.to_string()),
            ("key", or_dash(row.idempotency_key.as_deref())),
            ("job", row.job_key.clone()),
            ("digest", row.response_digest.clone()),
            ("response", response),
            ("problem", or_dash(row.problem.as_deref())),
        ];
        for (name, value) in facts {
            line(out, format_args!("  {name:<9} {}", plain(&value)));
        }
    }
}

fn job_of(out: &mut String, job: &JobFacts, asked: Option<&str>) {
    line(out, format_args!("\njob {}", plain(&job.job_key)));
    match &job.winner {
        Some(winner) => line(
            out,
            format_args!(
                "  answered by task {} ({})",
                plain(&winner.task_id),
                plain(&winner.status)
            ),
        ),
        None => line(out, format_args!("  nothing answers it")),
    }
    let mut table = Table::new(&["TASK", "STATUS", "CREATED", "EVENT", "WHY"]);
    let shown =
        |(place, one): &(usize, &Contender)| *place < MOST_TASKS || Some(one.task_id.as_str()) == asked;
    let listed: Vec<_> = job.tasks.iter().enumerate().filter(shown).collect();
    for (_, one) in &listed {
        table.row([
            one.task_id.clone(),
            one.status.to_owned(),
            moment_or_dash(one.created_at),
            one.stream_seq.to_string(),
            why(one, job.tasks.len()),
        ]);
    }
    if !listed.is_empty() {
        out.push_str(&table.to_string());
    }
    if listed.len() < job.tasks.len() {
        let more = (job.tasks.len() - listed.len()) as u64;
        line(
            out,
            format_args!("  and {} lesser ones; --json has them all", count(more)),
        );
    }
}

fn why(one: &Contender, tasks: usize) -> String {
    match one.place {
        Place::Wins if tasks == 1 => "wins: the only one".to_owned(),
        Place::Wins => "wins".to_owned(),
        Place::Loses { rule } => format!("loses by {rule}"),
        Place::Contradicts => "should answer the job, and does not".to_owned(),
    }
}

fn parked(out: &mut String, parked: &[Parked]) {
    if parked.is_empty() {
        return;
    }
    line(out, format_args!("\nparked"));
    let mut table = Table::new(&["SEQ", "TIME", "REASON", "SIZE", "DETAIL"]);
    for row in parked {
        let detail = or_dash(row.detail.as_deref());
        let detail = if row.is_of_older_stream {
            format!("of an older stream; {detail}")
        } else {
            detail
        };
        table.row([
            row.stream_seq.to_string(),
            moment(row.parked_at),
            row.reason.clone(),
            size(row.bytes),
            detail,
        ]);
    }
    out.push_str(&table.to_string());
}

fn responses(out: &mut String, story: &Story) {
    let of_events = story.events.iter().filter_map(|event| {
        let response = event.response.as_ref()?;
        Some((format!("event {}", event.seq), response))
    });
    let of_rows = story.answers.iter().filter_map(|row| {
        let response = row.response.as_ref()?;
        Some((format!("the row of task {}", row.task_id), response))
    });
    for (what, response) in of_events.chain(of_rows) {
        line(out, format_args!("\nresponse of {}", plain(&what)));
        line(out, format_args!("{}", plain_lines(response.get())));
    }
}

fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}
