//! The rows of a table in the order of the events that they name, read as the replay goes along, all of one moment.

use std::pin::Pin;

use bytes::{Buf, Bytes, BytesMut};
use database::{DatabaseError, Session, Target};
use futures_util::StreamExt;
use futures_util::stream::Fuse;
use tokio_postgres::CopyOutStream;

use super::RebuildError;
use super::sql;
use crate::copy_rows::{self as copy, Field};

const ATTEMPT: &str = "reading the rows of a table";

/// Rows to come, over a session of their own. No more of them are in memory than the connection has under way; whoever takes them
/// must not keep them either.
pub(super) struct RowsInOrder {
    rows: Pin<Box<Fuse<CopyOutStream>>>,
    /// What arrived and was not taken.
    arrived: Bytes,
    /// The length of the first row in it.
    row: usize,
    begun: bool,
    /// Ends with it.
    _session: Session,
}

/// A row, in the binary format of COPY.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'r> {
    /// All of it.
    pub(super) bytes: &'r [u8],
    /// Its first column: the sequence of the event that it names.
    pub(super) seq: i64,
}

impl<'r> Row<'r> {
    /// Its second column: its key.
    pub(super) fn key(&self) -> Result<&'r [u8], DatabaseError> {
        copy::fields(self.bytes).nth(1).and_then(Field::value).ok_or(ODD)
    }
}

const ODD: DatabaseError = DatabaseError::Unexpected("a row without a sequence or a key");

impl RowsInOrder {
    /// Begins to read by `copy` what the tables were at `moment`.
    pub(super) async fn open(target: &Target, moment: &str, copy: &str) -> Result<Self, RebuildError> {
        let session = Session::open_another(target, "projector").await?;
        let client = session.client();
        let begun = client.batch_execute(&sql::begin_reading(moment)).await;
        begun.map_err(DatabaseError::of("looking at the moment of another session"))?;
        let rows = client.copy_out(copy).await.map_err(DatabaseError::of(ATTEMPT))?;
        Ok(Self {
            rows: Box::pin(rows.fuse()),
            arrived: Bytes::new(),
            row: 0,
            begun: false,
            _session: session,
        })
    }

    /// The row that is next; None at the end.
    pub(super) async fn peek(&mut self) -> Result<Option<Row<'_>>, DatabaseError> {
        while self.row == 0 {
            if !self.begun && copy::skip_header(&mut self.arrived) {
                self.begun = true;
            }
            match copy::row_length(&self.arrived).filter(|_| self.begun) {
                Some(length) => self.row = length,
                None => match self.rows.next().await {
                    Some(more) => self.arrive(more.map_err(DatabaseError::of(ATTEMPT))?),
                    // What is left is the word that there are no more.
                    None => return Ok(None),
                },
            }
        }
        let bytes = &self.arrived[..self.row];
        let seq = copy::fields(bytes).next().and_then(Field::bigint).ok_or(ODD)?;
        Ok(Some(Row { bytes, seq }))
    }

    /// Goes on to the row behind it.
    pub(super) fn advance(&mut self) {
        self.arrived.advance(self.row);
        self.row = 0;
    }

    /// As a rule a row comes whole and alone.
    fn arrive(&mut self, more: Bytes) {
        if self.arrived.is_empty() {
            self.arrived = more;
        } else {
            let mut both = BytesMut::from(std::mem::take(&mut self.arrived));
            both.extend_from_slice(&more);
            self.arrived = both.freeze();
        }
    }
}
