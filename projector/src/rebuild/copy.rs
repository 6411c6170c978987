//! Rows in the binary format of COPY.

use bytes::{BufMut, Bytes, BytesMut};
use time::OffsetDateTime;

/// What every such text begins with: a signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// In place of the number of columns: no more rows.
const TRAILER: i16 = -1;
/// In place of a length.
const NULL: i32 = -1;
/// Microseconds from the epoch of Unix to that of Postgres, 2000-01-01.
const EPOCH: i128 = 946_684_800_000_000;

/// Rows of one table, to be sent at once.
#[derive(Debug)]
pub(super) struct CopyRows {
    out: BytesMut,
    columns: i16,
    any: bool,
}

impl CopyRows {
    /// For rows of so many columns.
    pub(super) fn new(columns: i16) -> Self {
        let mut out = BytesMut::with_capacity(64 << 10);
        out.put_slice(HEADER);
        Self {
            out,
            columns,
            any: false,
        }
    }

    /// Begins a row. Its columns follow, each of them once and in their order.
    pub(super) fn row(&mut self) -> &mut Self {
        self.any = true;
        self.out.put_i16(self.columns);
        self
    }

    /// `text`
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    /// `text`, or null.
    pub(super) fn text_or_null(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.text(text),
            None => self.null(),
        }
    }

    /// `bytea`
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.length(bytes.len());
        self.out.put_slice(bytes);
        self
    }

    /// `bigint`
    pub(super) fn bigint(&mut self, number: i64) -> &mut Self {
        self.length(8);
        self.out.put_i64(number);
        self
    }

    /// `timestamptz`. What is finer than a microsecond is cut.
    pub(super) fn moment(&mut self, at: OffsetDateTime) -> &mut Self {
        let micros = at.unix_timestamp_nanos().div_euclid(1_000) - EPOCH;
        self.bigint(i64::try_from(micros).expect("ten thousand years are few microseconds"))
    }

    /// `timestamptz`, or null.
    pub(super) fn moment_or_null(&mut self, at: Option<OffsetDateTime>) -> &mut Self {
        match at {
            Some(at) => self.moment(at),
            None => self.null(),
        }
    }

    /// `jsonb`, or null.
    pub(super) fn json_or_null(&mut self, text: Option<&Bytes>) -> &mut Self {
        let Some(text) = text else { return self.null() };
        self.length(text.len() + 1);
        self.out.put_u8(1); // the version of the format
        self.out.put_slice(text);
        self
    }

    fn null(&mut self) -> &mut Self {
        self.out.put_i32(NULL);
        self
    }

    fn length(&mut self, bytes: usize) {
        let length = i32::try_from(bytes).expect("no message of a stream is that large");
        self.out.put_i32(length);
    }

    /// All of it, ended; `None` when there is nothing to send.
    pub(super) fn finish(mut self) -> Option<Bytes> {
        self.out.put_i16(TRAILER);
        self.any.then(|| self.out.freeze())
    }
}
