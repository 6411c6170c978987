//! Rows in the binary format of COPY: <https://www.postgresql.org/docs/current/sql-copy.html>, "Binary Format".

use bytes::{Buf, BufMut, Bytes, BytesMut};
use time::OffsetDateTime;

/// What every such text begins with: a signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// For rows of which there are some.
const ROOM: usize = 64 << 10;
/// So many bytes are better sent than kept.
const MUCH: usize = 1 << 20;
/// In place of the number of columns: no more rows.
const TRAILER: i16 = -1;
/// In place of a length.
const NULL: i32 = -1;
/// Microseconds from the epoch of Unix to that of Postgres, 2000-01-01.
const EPOCH: i128 = 946_684_800_000_000;

/// Rows of one table, to be sent at once.
#[derive(Debug)]
pub(crate) struct CopyRows {
    out: BytesMut,
    columns: i16,
    any: bool,
}

impl CopyRows {
    /// For rows of so many columns.
    pub(crate) fn new(columns: i16) -> Self {
        Self {
            out: BytesMut::new(),
            columns,
            any: false,
        }
    }

    /// Adds a row that stands in this format already, with columns of this one's own behind it.
    pub(crate) fn whole(&mut self, row: &[u8]) -> &mut Self {
        let columns = size_of_val(&self.columns);
        self.row().out.put_slice(&row[columns..]);
        self
    }

    /// Begins a row. Its columns follow, each of them once and in their order.
    pub(crate) fn row(&mut self) -> &mut Self {
        if !self.any {
            self.any = true;
            self.out.reserve(ROOM);
            self.out.put_slice(HEADER);
        }
        self.out.put_i16(self.columns);
        self
    }

    /// `text`
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    /// `text`, or null.
    pub(crate) fn text_or_null(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.text(text),
            None => self.null(),
        }
    }

    /// `bytea`
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.length(bytes.len());
        self.out.put_slice(bytes);
        self
    }

    /// `boolean`
    pub(crate) fn boolean(&mut self, truth: bool) -> &mut Self {
        self.bytes(&[truth.into()])
    }

    /// `bigint`
    pub(crate) fn bigint(&mut self, number: i64) -> &mut Self {
        self.length(8);
        self.out.put_i64(number);
        self
    }

    /// `timestamptz`. What is finer than a microsecond is cut.
    pub(crate) fn moment(&mut self, at: OffsetDateTime) -> &mut Self {
        let micros = at.unix_timestamp_nanos().div_euclid(1_000) - EPOCH;
        self.bigint(i64::try_from(micros).expect("ten thousand years are few microseconds"))
    }

    /// `timestamptz`, or null.
    pub(crate) fn moment_or_null(&mut self, at: Option<OffsetDateTime>) -> &mut Self {
        match at {
            Some(at) => self.moment(at),
            None => self.null(),
        }
    }

    /// `jsonb`, or null.
    pub(crate) fn json_or_null(&mut self, text: Option<&Bytes>) -> &mut Self {
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

    /// Whether there is so much of it that it should go before more is added.
    pub(crate) fn is_much(&self) -> bool {
        self.out.len() >= MUCH
    }

    /// All of it, ended; `None` when there is nothing to send.
    pub(crate) fn finish(mut self) -> Option<Bytes> {
        self.any.then(|| {
            self.out.put_i16(TRAILER);
            self.out.freeze()
        })
    }
}

/// Takes the header away from the beginning; false when not all of it is there.
pub(crate) fn skip_header(text: &mut Bytes) -> bool {
    // Its last four bytes say how much of it follows, for versions to come.
    let extension = |header: &[u8]| i32::from_be_bytes([header[15], header[16], header[17], header[18]]);
    let Some(header) = text.get(..HEADER.len()) else {
        return false;
    };
    let length = HEADER.len() + usize::try_from(extension(header)).unwrap_or(0);
    let whole = text.len() >= length;
    if whole {
        text.advance(length);
    }
    whole
}

/// How long the first row is; None when not all of it is there, or there are no more.
pub(crate) fn row_length(text: &[u8]) -> Option<usize> {
    let (columns, mut rest) = text.split_first_chunk()?;
    for _ in 0..u16::try_from(i16::from_be_bytes(*columns)).ok()? {
        let (length, behind) = rest.split_first_chunk()?;
        rest = behind.get(usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0)..)?;
    }
    // Only the trailer says that there are no columns.
    (rest.len() + 2 < text.len()).then(|| text.len() - rest.len())
}

/// The columns of a row.
pub(crate) fn fields(row: &[u8]) -> impl Iterator<Item = Field<'_>> {
    let mut rest = row.get(2..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk()?;
        match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(length) => {
                let (value, behind) = behind.split_at_checked(length)?;
                rest = behind;
                Some(Field(Some(value)))
            }
            Err(_) => {
                rest = behind;
                Some(Field(None))
            }
        }
    })
}

/// A column of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field<'r>(Option<&'r [u8]>);

impl<'r> Field<'r> {
    /// Its bytes; None when it is null.
    pub(crate) fn value(self) -> Option<&'r [u8]> {
        self.0
    }

    /// What it says as a `bigint`.
    pub(crate) fn bigint(self) -> Option<i64> {
        Some(i64::from_be_bytes(self.0?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_again_as_they_were_written() {
        let mut rows = CopyRows::new(3);
        rows.row().bigint(7).text("a").text_or_null(None);
        rows.row().bigint(-8).text("").boolean(true);
        let mut text = rows.finish().expect("there are two rows");
        assert!(!skip_header(&mut text.slice(..18)));
        assert!(skip_header(&mut text));
        for (number, word, last) in [(7, "a", None), (-8, "", Some(&b"\x01"[..]))] {
            let length = row_length(&text).expect("the row is whole");
            for part in 0..length {
                assert_eq!(row_length(&text[..part]), None);
            }
            let row = text.split_to(length);
            let fields: Vec<_> = fields(&row).collect();
            assert_eq!(fields.len(), 3);
            assert_eq!(fields[0].bigint(), Some(number));
            assert_eq!(fields[1].value(), Some(word.as_bytes()));
            assert_eq!(fields[2].value(), last);
        }
        assert_eq!(row_length(&text), None);
        assert_eq!(text, TRAILER.to_be_bytes()[..]);
    }

    #[test]
    fn a_whole_row_gets_further_columns() {
        let mut narrow = CopyRows::new(1);
        narrow.row().text("a");
        let mut text = narrow.finish().expect("there is a row");
        assert!(skip_header(&mut text));
        let length = row_length(&text).expect("the row is whole");
        let mut wide = CopyRows::new(2);
        wide.whole(&text[..length]).bigint(3);
        let mut again = CopyRows::new(2);
        again.row().text("a").bigint(3);
        assert_eq!(wide.finish(), again.finish());
    }
}
