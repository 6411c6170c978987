//! The report for people.

use std::fmt;

use super::{Counts, Finding, RANGES, Report, TableReport};
use crate::print::{Table, count, moment};

impl Finding {
    fn in_words(self) -> &'static str {
        match self {
            Self::NotOnStream => "not on the stream",
            other => other.as_str(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replayed = &self.replayed;
        writeln!(
            f,
            "stream {} of {}, up to sequence {}: {} events, {} results, {} to park, {} not final",
            replayed.stream,
            moment(replayed.created),
            replayed.end,
            count(replayed.events),
            count(replayed.results),
            count(replayed.to_park),
            count(replayed.nonfinal),
        )?;
        self.write_gone(f)?;
        if let Some(why) = &self.forced {
            writeln!(f, "gone on by force: {why}")?;
        }
        if self.refused > 0 {
            let refused = count(self.refused);
            writeln!(f, "{refused} results were refused by the database and are parked")?;
        }
        if self.rekeyed > 0 {
            let rekeyed = count(self.rekeyed);
            writeln!(f, "{rekeyed} rows belong to other jobs under these rules")?;
        }
        if self.loaded && self.answers.repaired.is_none() {
            writeln!(f, "the tables were empty and were filled")?;
            self.write_tables(f)?;
        } else {
            if self.loaded {
                writeln!(
                    f,
                    "there were few rows, so every event was brought in before the tables were compared"
                )?;
            }
            writeln!(
                f,
                "everything up to sequence {} must be in the tables",
                self.floor
            )?;
            self.write_tables(f)?;
            self.write_examples(f)?;
        }
        if self.referenced > 0 {
            let referenced = count(self.referenced);
            writeln!(
                f,
                "{referenced} rows should go and stay: another table refers to them"
            )?;
        }
        let kept = self.invented_and_kept();
        if self.command == "rebuild" && kept > 0 {
            let kept = count(kept);
            writeln!(
                f,
                "{kept} rows name events behind the end of the stream and stay: when it has lost its end, they are the only copies. \
                 --prune takes them away"
            )?;
        }
        let verdict = match (self.command, self.equal) {
            ("rebuild", true) => "the tables are what the stream says now",
            (_, true) => "the tables are what the stream says",
            (_, false) => "the tables are not what the stream says",
        };
        writeln!(
            f,
            "{verdict}  ({:.1} s, {} events a second)",
            self.seconds,
            count(self.events_per_second as u64)
        )
    }
}

impl Report {
    fn tables(&self) -> [(&'static str, &TableReport); 3] {
        [
            ("answers", &self.answers),
            ("winners", &self.winners),
            ("parked", &self.parked),
        ]
    }

    /// Rows that name events behind the end of the stream and were not put right.
    fn invented_and_kept(&self) -> u64 {
        let kept = |report: &TableReport| {
            let repaired = report.repaired.map_or(0, |repaired| repaired.invented);
            report.found.invented.saturating_sub(repaired)
        };
        self.tables().iter().map(|(_, report)| kept(report)).sum()
    }

    fn write_gone(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gone = &self.replayed.gone;
        if gone.total() == 0 {
            return Ok(());
        }
        let ranges: Vec<String> = gone
            .ranges
            .iter()
            .map(|range| match range.first == range.last {
                true => range.first.to_string(),
                false => format!("{} to {}", range.first, range.last),
            })
            .collect();
        writeln!(
            f,
            "the stream no longer holds {} of them, {} at its head: {}{}",
            count(gone.total()),
            count(gone.head),
            ranges.join(", "),
            if gone.ranges.len() == RANGES { ", …" } else { "" }
        )
    }

    fn write_tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut head = vec!["", "rows"];
        head.extend(Finding::ALL.map(Finding::in_words));
        let mut table = Table::new(&head);
        let cells = |name: &str, rows: String, counts: &Counts| {
            let counts = Finding::ALL.map(|finding| count(counts.of(finding)));
            [name.to_owned(), rows]
                .into_iter()
                .chain(counts)
                .collect::<Vec<_>>()
        };
        for (name, report) in self.tables() {
            table.row(cells(name, count(report.rows), &report.found));
            if let Some(repaired) = &report.repaired {
                table.row(cells("  put right", String::new(), repaired));
            }
        }
        write!(f, "{table}")
    }

    fn write_examples(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&["for example", "", "key", "row names", "stream says"]);
        let mut any = false;
        for (name, report) in self.tables() {
            for example in report
                .examples
                .iter()
                .filter(|example| example.finding != Finding::Pending)
            {
                any = true;
                let seq = |seq: Option<u64>| seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
                table.row([
                    name.to_owned(),
                    example.finding.in_words().to_owned(),
                    example.key.clone(),
                    seq(example.row_seq),
                    seq(example.event_seq),
                ]);
            }
        }
        if any { write!(f, "{table}") } else { Ok(()) }
    }
}
