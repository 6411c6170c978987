//! Bringing events and the rows that name them together, by the sequence. What agrees is done with; what is left over on either
//! side goes to the side tables.

use std::ops::Range;

use bytes::Bytes;
use database::{DatabaseError, Target};

use super::RebuildError;
use super::copy::{self, CopyRows, Field};
use super::in_order::RowsInOrder;
use super::sql;
use crate::decode::Decoded;
use crate::rows::ResultRow;
use crate::statements::sequence;

/// The results of a stretch, as the database gives the rows that name them: of two of these that agree, the bytes do.
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

/// What did not agree, ready for the side tables.
#[derive(Debug)]
pub(super) struct LeftOver {
    /// Results that not both tables have a row for.
    pub(super) results: Option<Bytes>,
    /// Rows of `answers` that are not the event that they name.
    pub(super) odd_answers: Option<Bytes>,
    /// The same of `winners`.
    pub(super) odd_winners: Option<Bytes>,
}

/// The rows of both tables, at one moment, as far as no event was brought together with them.
pub(super) struct Pairing {
    answers: Side,
    winners: Side,
}

impl Pairing {
    /// Begins with the first event.
    pub(super) async fn begin(target: &Target, moment: &str) -> Result<Self, RebuildError> {
        let (answers, winners) = tokio::try_join!(
            RowsInOrder::open(target, moment, sql::ANSWERS_IN_ORDER),
            RowsInOrder::open(target, moment, sql::WINNERS_IN_ORDER),
        )?;
        Ok(Self {
            answers: Side::of(answers),
            winners: Side::of(winners),
        })
    }

    /// Goes on with the next stretch.
    pub(super) async fn pair(&mut self, results: &Results) -> Result<LeftOver, DatabaseError> {
        let mut left = CopyRows::new(sql::RESULT_COLUMNS);
        for (answer, winner) in results.answers.iter().zip(results.winners.iter()) {
            let in_answers = self.answers.holds(answer).await?;
            let in_winners = self.winners.holds(winner).await?;
            if !(in_answers && in_winners) {
                left.whole(answer).boolean(in_answers).boolean(in_winners);
            }
        }
        Ok(self.left_over(left))
    }

    /// Behind the last event: all rows that are left name none that was replayed.
    pub(super) async fn end(&mut self) -> Result<LeftOver, DatabaseError> {
        self.answers.end().await?;
        self.winners.end().await?;
        Ok(self.left_over(CopyRows::new(sql::RESULT_COLUMNS)))
    }

    fn left_over(&mut self, results: CopyRows) -> LeftOver {
        LeftOver {
            results: results.finish(),
            odd_answers: self.answers.take_odd(),
            odd_winners: self.winners.take_odd(),
        }
    }
}

/// One of the tables.
struct Side {
    rows: RowsInOrder,
    odd: CopyRows,
}

impl Side {
    fn of(rows: RowsInOrder) -> Self {
        Self {
            rows,
            odd: CopyRows::new(sql::ODD_COLUMNS),
        }
    }

    /// Whether a row stands as this event says. Rows that name it and say otherwise are odd, and so are those before it, which
    /// no event was there for.
    async fn holds(&mut self, event: &[u8]) -> Result<bool, DatabaseError> {
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
        }
        Ok(held)
    }

    async fn end(&mut self) -> Result<(), DatabaseError> {
        while let Some(row) = self.rows.peek().await? {
            self.odd.row().bigint(row.seq).bytes(row.key()?);
            self.rows.advance();
        }
        Ok(())
    }

    fn take_odd(&mut self) -> Option<Bytes> {
        std::mem::replace(&mut self.odd, CopyRows::new(sql::ODD_COLUMNS)).finish()
    }
}
