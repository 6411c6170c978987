//! What the facts come to, in a word and in a sentence.

use super::facts::{Contender, JobFacts, Place, Standing, Story, Verdict, WinnerFacts};

/// The word and the sentence.
pub(super) fn of(story: &Story) -> (Verdict, String) {
    let verdict = match (&story.task_id, story.jobs.as_slice()) {
        _ if is_inconsistent(story) => Verdict::Inconsistent,
        (Some(task), _) => of_task(story, task),
        (None, jobs) => of_job(story, jobs),
    };
    let mut summary = sentence(story, verdict);
    for more in remarks(story, verdict) {
        summary.push_str("; ");
        summary.push_str(&more);
    }
    (verdict, summary)
}

/// Whether an event that must be in the tables is not, or not as it is, or a winner is less than a task that it should be greater
/// than; whichever task that is: then the winner is not the one that it should be.
fn is_inconsistent(story: &Story) -> bool {
    let absent = story
        .events
        .iter()
        .any(|event| matches!(event.standing, Standing::Missing | Standing::Contradicted));
    let mut tasks = story.jobs.iter().flat_map(|job| &job.tasks);
    absent || tasks.any(|one| one.place == Place::Contradicts)
}

/// The tasks of the jobs, as far as the question was about them.
fn contenders(story: &Story) -> impl Iterator<Item = &Contender> {
    let all = story.jobs.iter().flat_map(|job| &job.tasks);
    all.filter(|one| story.task_id.as_ref().is_none_or(|task| one.task_id == *task))
}

fn of_task(story: &Story, task: &str) -> Verdict {
    if story.answers.is_empty() {
        return without_row(story);
    }
    let wins = contenders(story).any(|one| one.task_id == task && one.place == Place::Wins);
    if wins {
        Verdict::Answers
    } else {
        Verdict::Outranked
    }
}

fn of_job(story: &Story, jobs: &[JobFacts]) -> Verdict {
    if jobs.iter().any(|job| job.winner.is_some()) {
        Verdict::Answers
    } else {
        without_row(story)
    }
}

fn without_row(story: &Story) -> Verdict {
    let any =
        |standing: &dyn Fn(&Standing) -> bool| story.events.iter().any(|event| standing(&event.standing));
    if any(&|standing| *standing == Standing::Pending) {
        Verdict::Pending
    } else if !story.parked.is_empty() {
        Verdict::Parked
    } else if any(&|standing| *standing == Standing::NotFinal) {
        Verdict::NotFinal
    } else if !story.submissions.is_empty() {
        Verdict::Submitted
    } else {
        Verdict::Unknown
    }
}

fn sentence(story: &Story, verdict: Verdict) -> String {
    let of_task = story.task_id.is_some();
    let text = match verdict {
        Verdict::Answers if of_task => match story.answers.first().map(|row| row.status.as_str()) {
            Some("COMPLETED") => "it has its row and answers its job",
            _ => "it has its row, and its failure is the best that there is for its job",
        },
        Verdict::Answers => match winner(story).map(|winner| winner.status.as_str()) {
            Some("COMPLETED") => "it is answered",
            _ => "every task of it has failed so far",
        },
        Verdict::Outranked => match (winner(story), lost_by(story)) {
            (Some(winner), Some(rule)) => {
                return format!(
                    "it has its row; task {} answers its job, by {rule}",
                    winner.task_id
                );
            }
            _ => "it has its row, and another task answers its job",
        },
        Verdict::Pending => "the stream holds it, and no projector has seen to it yet",
        Verdict::Parked => "it could not become a row and is set aside",
        Verdict::NotFinal => "the provider has told that it has not ended, and nothing since",
        Verdict::Submitted => "it was submitted, and neither a webhook nor a poll has brought a result",
        Verdict::Inconsistent => {
            "the tables do not hold what follows from the stream: `projector verify` says what else differs"
        }
        Verdict::Unknown => match &story.stream {
            Some(_) => {
                "nothing is known of it: it was not submitted, and neither the stream nor the tables hold anything of it"
            }
            None => "the tables know nothing of it; the stream was not looked at",
        },
    };
    text.to_owned()
}

fn winner(story: &Story) -> Option<&WinnerFacts> {
    story.jobs.iter().find_map(|job| job.winner.as_ref())
}

fn lost_by(story: &Story) -> Option<&'static str> {
    contenders(story).find_map(|one| match one.place {
        Place::Loses { rule } => Some(rule),
        Place::Wins | Place::Contradicts => None,
    })
}

/// What else is worth a word.
fn remarks(story: &Story, verdict: Verdict) -> Vec<String> {
    let mut remarks = Vec::new();
    let count = |wanted: &dyn Fn(&Standing) -> bool| {
        story
            .events
            .iter()
            .filter(|event| wanted(&event.standing))
            .count()
    };
    let pending = count(&|standing| *standing == Standing::Pending);
    if pending > 0 && verdict != Verdict::Pending {
        remarks.push(format!("{pending} more of its events wait to be projected"));
    }
    if !story.parked.is_empty() && verdict != Verdict::Parked {
        remarks.push(format!("{} of its events are parked", story.parked.len()));
    }
    if let (Some(stream), Some(_), [row]) = (&story.stream, &story.task_id, story.answers.as_slice())
        && count(&|standing| *standing == Standing::Row) == 0
        && verdict != Verdict::Inconsistent
        && pending == 0
    {
        remarks.push(format!(
            "the stream {} does not hold the event that its row came from: {} is none of its events there",
            stream.name, row.stream_seq
        ));
    }
    if let Some(stream) = story.stream.as_ref().filter(|stream| stream.is_another) {
        remarks.push(format!(
            "the rows came from another stream {} than the one that is there",
            stream.name
        ));
    }
    remarks
}
