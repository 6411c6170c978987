//! Printing for people: aligned, and with nothing in it that a terminal would obey.

use std::fmt;
use std::io::{self, Write};

use time::OffsetDateTime;
use time::macros::format_description;

/// Text from outside with every character replaced that would move the cursor, change the direction of writing or not show:
/// it is for eyes, and what it says must be what is seen.
pub fn plain(text: &str) -> String {
    printable(text, false)
}

/// As [`plain`], for text of many lines.
pub fn plain_lines(text: &str) -> String {
    printable(text, true)
}

fn printable(text: &str, lines: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' if lines => out.push(c),
            _ if c.is_control() || is_invisible(c) => out.extend(c.escape_unicode()),
            _ => out.push(c),
        }
    }
    out
}

/// Marks of direction, joiners and other characters without a shape.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{AD}' | '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

/// The text of bytes, with what is no text replaced.
pub fn plain_bytes(bytes: &[u8]) -> String {
    plain_lines(&String::from_utf8_lossy(bytes))
}

/// `2026-11-30 12:00:01.418Z`; with microseconds where there are any.
pub fn moment(at: OffsetDateTime) -> String {
    let millis = format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3]Z");
    let micros = format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:6]Z");
    let at = at.to_offset(time::UtcOffset::UTC);
    let text = if at.microsecond().is_multiple_of(1_000) {
        at.format(&millis)
    } else {
        at.format(&micros)
    };
    text.expect("every moment has these parts")
}

/// [`moment`], or a dash.
pub fn moment_or_dash(at: Option<OffsetDateTime>) -> String {
    at.map_or_else(|| "-".to_owned(), moment)
}

/// `2.1 KiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The first digits of a digest: enough to tell two apart by eye.
pub fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// Rows under a head, each column as wide as its widest cell.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// One with this head.
    pub fn new(head: &[&str]) -> Self {
        Self {
            rows: vec![head.iter().map(ToString::to_string).collect()],
        }
    }

    /// Adds a row. Cells are made plain here.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows
            .push(cells.into_iter().map(|cell| plain(&cell)).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("  {cell:<width$}"));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Writes to standard output; a reader that has gone away is no failure of ours.
///
/// # Errors
/// When standard output cannot be written to.
pub fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(plain("a\x1b[31mb\nc\u{9b}d"), r"a\u{1b}[31mb\u{a}c\u{9b}d");
        assert_eq!(plain("\u{202E}abc\u{200B}"), r"\u{202e}abc\u{200b}");
        assert_eq!(plain("Kettle é 🦀 \u{301}"), "Kettle é 🦀 \u{301}");
        assert_eq!(plain_bytes(b"a\nb\t\xff\x07"), "a\nb\t\u{FFFD}\\u{7}");
    }

    #[test]
    fn figures_are_short_and_exact_where_it_matters() {
        assert_eq!(
            moment(datetime!(2026-11-30 12:00:01.418 UTC)),
            "2026-11-30 12:00:01.418Z"
        );
        assert_eq!(
            moment(datetime!(2026-11-30 14:00:01.418001 +2)),
            "2026-11-30 12:00:01.418001Z"
        );
        let sizes: Vec<String> = [0, 1023, 2150, 5 << 20, 3 << 40].map(size).into();
        assert_eq!(sizes, ["0 B", "1023 B", "2.1 KiB", "5.0 MiB", "3.0 TiB"]);
        let counts: Vec<String> = [0, 999, 1000, 1_234_567].map(count).into();
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["SEQ", "TASK"]);
        table.row(["1".to_owned(), "é\n".to_owned()]);
        table.row(["12345".to_owned(), String::new()]);
        assert_eq!(table.to_string(), "  SEQ    TASK\n  1      é\\u{a}\n  12345\n");
    }
}
