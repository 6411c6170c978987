//! The results as one JSON file.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::bars::Bar;
use crate::config::Effort;
use crate::demand::Demand;
use crate::machine::Machine;
use crate::results::Results;
use crate::statistics::Spread;

/// When and where it was measured.
#[derive(Debug, Serialize)]
pub struct Run {
    /// When it began.
    #[serde(with = "time::serde::rfc3339")]
    pub began: time::OffsetDateTime,
    /// The machine, and what runs on it.
    pub machine: Machine,
    /// How thoroughly.
    pub effort: Effort,
    /// How long each section took, in seconds.
    pub sections: Vec<(String, f64)>,
}

#[derive(Serialize)]
struct File<'r> {
    #[serde(flatten)]
    run: &'r Run,
    bars: Vec<BarRow>,
    figures: Vec<FigureRow>,
}

#[derive(Serialize)]
struct BarRow {
    title: String,
    /// `at least`, `below` or `report`.
    demand: &'static str,
    bar: Option<f64>,
    aim: f64,
    #[serde(flatten)]
    spread: Option<Spread>,
    values: Vec<f64>,
    verdict: &'static str,
}

#[derive(Serialize)]
struct FigureRow {
    section: String,
    subject: &'static str,
    setting: String,
    metric: &'static str,
    #[serde(flatten)]
    spread: Option<Spread>,
    values: Vec<f64>,
}

/// Writes everything to `path`.
///
/// # Errors
/// When it cannot be written there.
pub fn write(path: &Path, run: &Run, results: &Results, bars: &[Bar]) -> Result<()> {
    let file = File {
        run,
        bars: bars.iter().map(|bar| BarRow::of(bar, results)).collect(),
        figures: figures(results),
    };
    let mut text = serde_json::to_string_pretty(&file).context("writing JSON")?;
    text.push('\n');
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

impl BarRow {
    fn of(bar: &Bar, results: &Results) -> Self {
        let (demand, asked, aim) = match bar.demand {
            Demand::AtLeast(bar, aim) => ("at least", Some(bar), aim),
            Demand::Below(bar, aim) => ("below", Some(bar), aim),
            Demand::Report(aim) => ("report", None, aim),
        };
        let judged = bar.judge(results);
        Self {
            title: bar.title.clone(),
            demand,
            bar: asked,
            aim,
            spread: judged.as_ref().map(|judged| judged.spread),
            verdict: judged
                .as_ref()
                .map_or("not measured", |judged| judged.verdict.as_str()),
            values: judged.map(|judged| judged.values).unwrap_or_default(),
        }
    }
}

fn figures(results: &Results) -> Vec<FigureRow> {
    let row = |series: &crate::results::Series| FigureRow {
        section: series.case.section.to_string(),
        subject: series.case.subject.name(),
        setting: series.case.setting.to_string(),
        metric: series.metric.name(),
        spread: Spread::of(&series.values),
        values: series.values.clone(),
    };
    results.all().iter().map(row).collect()
}
