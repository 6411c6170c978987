//! Tables for a terminal.

use std::fmt::{self, Display};

use crate::bars::Bar;
use crate::demand::Demand;
use crate::figures::{Metric, Section};
use crate::results::Results;
use crate::statistics::Spread;

/// The figures of a section: medians, and how far the ends of a rate are from its median.
pub fn section(results: &Results, section: Section) -> impl Display {
    let (cases, metrics) = results.of(section);
    let mut table = Table::default();
    let mut head = vec![section.to_string(), String::new()];
    for metric in &metrics {
        head.push(metric.head().to_owned());
        if *metric == Metric::Rate {
            head.push("±".to_owned());
        }
    }
    table.row(head);
    for case in cases {
        let mut row = vec![case.subject.name().to_owned(), case.setting.to_string()];
        for metric in &metrics {
            let spread = results.spread(case, *metric);
            row.push(spread.map_or_else(String::new, |spread| number(spread.median)));
            if *metric == Metric::Rate {
                row.push(spread.as_ref().map_or_else(String::new, percent));
            }
        }
        table.row(row);
    }
    table
}

/// All bars beside what was measured.
pub fn bars(results: &Results, bars: &[Bar]) -> impl Display {
    let mut table = Table::default();
    let head = ["bars", "", "from", "to", "bar", "aim", ""];
    table.row(head.map(ToOwned::to_owned).to_vec());
    for bar in bars {
        let (asked, aim) = match bar.demand {
            Demand::AtLeast(bar, aim) | Demand::Below(bar, aim) => (number(bar), number(aim)),
            Demand::Report(aim) => ("report".to_owned(), number(aim)),
        };
        let judged = bar.judge(results);
        let values = match &judged {
            Some(judged) => {
                let spread = judged.spread;
                [spread.median, spread.least, spread.greatest].map(number)
            }
            None => ["-", "-", "-"].map(ToOwned::to_owned),
        };
        let verdict = judged.map_or("not measured", |judged| judged.verdict.as_str());
        let mut row = vec![bar.title.clone()];
        row.extend(values);
        row.extend([asked, aim, verdict.to_owned()]);
        table.row(row);
    }
    table
}

/// Three digits that matter, and all those before the point.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1_000.0 {
        thousands(value.round() as i64)
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

fn thousands(value: i64) -> String {
    let digits = value.abs().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

fn percent(spread: &Spread) -> String {
    format!("{:.0} %", spread.deviation() * 100.0)
}

/// Rows of the same number of cells, the first of them a head. Columns are as wide as they must be; text is on the left, numbers
/// on the right.
#[derive(Debug, Default)]
struct Table(Vec<Vec<String>>);

impl Table {
    fn row(&mut self, cells: Vec<String>) {
        self.0.push(cells);
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.0.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let is_number = |column: usize| {
            let below = self.0.iter().skip(1).filter_map(|row| row.get(column));
            let mut first = below.filter_map(|cell| cell.chars().next());
            first.all(|first| first.is_ascii_digit() || first == '-')
        };
        let shapes: Vec<_> = (0..columns)
            .map(|column| (width(column), is_number(column) && column > 0))
            .collect();
        for row in &self.0 {
            let mut line = String::new();
            for (cell, (width, is_number)) in row.iter().zip(&shapes) {
                line.push_str(&match is_number {
                    true => format!("{cell:>width$}  "),
                    false => format!("{cell:<width$}  "),
                });
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Case, Setting, Subject};

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let numbers = [0.012_34, 1.234, 12.34, 123.4, 12_345.6, 1_234_567.0, -1_000.0];
        let shown = numbers.map(number);
        assert_eq!(
            shown,
            ["0.012", "1.23", "12.3", "123", "12,346", "1,234,567", "-1,000"]
        );
    }

    #[test]
    fn a_section_shows_medians_and_leaves_open_what_was_not_measured() {
        let mut results = Results::default();
        let case = |subject| Case::new(Section::Rates, subject, Setting::PerSecond(100));
        for rate in [90.0, 100.0, 120.0] {
            results.add(case(Subject::RustInbox), Metric::Rate, rate);
        }
        results.add(case(Subject::Sender), Metric::Rate, 7.0);
        results.add(case(Subject::Sender), Metric::P99, 0.25);
        let shown = section(&results, Section::Rates).to_string();
        let expected = "\
rates                       a second     ±  p99 ms
Rust inbox    100 a second       100  20 %
sender alone  100 a second      7.00   0 %   0.250
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_bar_that_was_not_measured_is_shown_as_that() {
        let of = Case::new(Section::Memory, Subject::IngressSync, Setting::Idle(10));
        let bar = Bar {
            title: "memory".to_owned(),
            of,
            against: Vec::new(),
            metric: Metric::Memory,
            demand: Demand::Below(64.0, 40.0),
        };
        let shown = bars(&Results::default(), std::slice::from_ref(&bar)).to_string();
        assert!(shown.lines().nth(1).unwrap().ends_with("not measured"), "{shown}");
        let mut results = Results::default();
        results.add(of, Metric::Memory, 50.0);
        let shown = bars(&results, &[bar]).to_string();
        assert!(shown.lines().nth(1).unwrap().ends_with("held"), "{shown}");
    }
}
