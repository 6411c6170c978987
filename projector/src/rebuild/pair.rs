//! Bringing events and the rows that name them together, by the sequence. What agrees is done with; what is left over on either
//! side goes to the side tables.

use std::ops::Range;

use bytes::Bytes;
use database::{DatabaseError, Target};

use super::RebuildError;
use super::in_order::RowsInOrder;
use super::side::SideTables;
use super::sql;
use crate::copy_rows::{self as copy, CopyRows, Field};
use crate::decode::Decoded;
use crate::rows::ResultRow;
use crate::statements::sequence;

/// The results of a stretch, in the bytes in which the database sends the rows that name them, so that equal means equal bytes.
#[derive(Debug)]
pub(super) struct Results {
    answers: Rows,
    winners: Rows,
}

/// Rows behind each other.
#[derive(Debug)]
struct Rows {
    bytes: Bytes,
    places: Vec<Range<usize>>,
}

impl Results {
    /// Takes processor time: not for a thread that serves others.
    pub(super) fn of(events: &[Decoded]) -> Self {
        let mut answers = CopyRows::new(sql::ANSWER_COLUMNS);
        let mut winners = CopyRows::new(sql::WINNER_COLUMNS);
        for decoded in events {
            if let Decoded::Result(row) = decoded {
                put_answer(&mut answers, row);
                put_winner(&mut winners, row);
            }
        }
        Self {
            answers: Rows::of(answers),
            winners: Rows::of(winners),
        }
    }
}

impl Rows {
    fn of(rows: CopyRows) -> Self {
        let mut bytes = rows.finish().unwrap_or_default();
        copy::skip_header(&mut bytes);
        let mut places = Vec::new();
        let mut at = 0;
        while let Some(length) = copy::row_length(&bytes[at..]) {
            places.push(at..at + length);
            at += length;
        }
        Self { bytes, places }
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|place| &self.bytes[place.clone()])
    }
}

fn put_answer(out: &mut CopyRows, row: &ResultRow) {
    out.row()
        .bigint(sequence(row.provenance.stream_seq))
        .text(row.task_id.as_str())
        .text(&row.job_key)
        .text_or_null(row.idempotency_key.as_deref())
        .text(row.rank.status.as_str())
        .moment_or_null(row.rank.created_at)
        .bytes(row.rank.digest.as_bytes())
        .text_or_null(row.problem.as_deref())
        .text(row.via.as_str())
        .moment(row.provenance.received_at);
}

fn put_winner(out: &mut CopyRows, row: &ResultRow) {
    out.row()
        .bigint(sequence(row.provenance.stream_seq))
        .text(&row.job_key)
        .text(row.task_id.as_str())
        .text(row.rank.status.as_str())
        .moment_or_null(row.rank.created_at);
}

/// The rows of both tables, at one moment, as far as no event was brought together with them.
pub(super) struct Pairing<'s> {
    side: &'s SideTables<'s>,
    answers: Standing,
    winners: Standing,
}

impl<'s> Pairing<'s> {
    /// Begins with the first event. What does not agree goes to `side`.
    pub(super) async fn begin(
        target: &Target,
        moment: &str,
        side: &'s SideTables<'s>,
    ) -> Result<Self, RebuildError> {
        let (answers, winners) = tokio::try_join!(
            RowsInOrder::open(target, moment, sql::ANSWERS_IN_ORDER),
            RowsInOrder::open(target, moment, sql::WINNERS_IN_ORDER),
        )?;
        Ok(Self {
            side,
            answers: Standing::of(answers, sql::COPY_ODD_ANSWERS),
            winners: Standing::of(winners, sql::COPY_ODD_WINNERS),
        })
    }

    /// Goes on with the next stretch.
    pub(super) async fn pair(&mut self, results: &Results) -> Result<(), DatabaseError> {
        let mut left = CopyRows::new(sql::RESULT_COLUMNS);
        for (answer, winner) in results.answers.iter().zip(results.winners.iter()) {
            let in_answers = self.answers.holds(answer, self.side).await?;
            let in_winners = self.winners.holds(winner, self.side).await?;
            if !(in_answers && in_winners) {
                left.whole(answer).boolean(in_answers).boolean(in_winners);
            }
        }
        self.side.copy(sql::COPY_RESULTS, left.finish()).await
    }

    /// Behind the last event: all rows that are left name none that was replayed.
    pub(super) async fn end(mut self) -> Result<(), DatabaseError> {
        self.answers.end(self.side).await?;
        self.winners.end(self.side).await
    }
}

/// The rows of one table that stand before the next event, or name it.
struct Standing {
    rows: RowsInOrder,
    /// Those that are not the event that they name, on their way to the side tables.
    odd: CopyRows,
    copy_odd: &'static str,
}

impl Standing {
    fn of(rows: RowsInOrder, copy_odd: &'static str) -> Self {
        Self {
            rows,
            odd: CopyRows::new(sql::ODD_COLUMNS),
            copy_odd,
        }
    }

    /// Whether a row stands as this event says. Rows that name it and say otherwise are odd, and so are those before it, which
    /// no event was there for.
    async fn holds(&mut self, event: &[u8], side: &SideTables<'_>) -> Result<bool, DatabaseError> {
        let seq = copy::fields(event).next().and_then(Field::bigint);
        let mut held = false;
        while let Some(row) = self.rows.peek().await?
            && Some(row.seq) <= seq
        {
            if row.bytes == event {
                held = true;
            } else {
                self.odd.row().bigint(row.seq).bytes(row.key()?);
            }
            self.rows.advance();
            if self.odd.is_much() {
                self.send_odd(side).await?;
            }
        }
        Ok(held)
    }

    async fn end(&mut self, side: &SideTables<'_>) -> Result<(), DatabaseError> {
        while let Some(row) = self.rows.peek().await? {
            self.odd.row().bigint(row.seq).bytes(row.key()?);
            self.rows.advance();
            if self.odd.is_much() {
                self.send_odd(side).await?;
            }
        }
        self.send_odd(side).await
    }

    /// A stretch without events may have any number of rows, so these are not kept to its end.
    async fn send_odd(&mut self, side: &SideTables<'_>) -> Result<(), DatabaseError> {
        let odd = std::mem::replace(&mut self.odd, CopyRows::new(sql::ODD_COLUMNS));
        side.copy(self.copy_odd, odd.finish()).await
    }
}
