//! `framewright sweep merge`: results of all processes as one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, ValueEnum};
use framewright_lab::sweep::csv::csv;
use framewright_lab::sweep::merge::Merged;
use framewright_lab::sweep::plan::SweepPlan;
use framewright_lab::sweep::results::{Outcome, ResultsContent};
use framewright_lab::sweep::table::SweepTable;
use framewright_table::figures::counted;

use super::super::ended::Violated;
use super::super::file::{Over, check, replace};
use super::super::output::{note, print};

/// Put the results of all processes together, in the plan's order.
///
/// The output depends on the results only, not on who ran which cell when. Cells that were run more than once have to
/// have come out equal. Ends with status 1 if some did not, if one failed, or if one of the plan is missing; what there
/// is is written anyway.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright sweep merge plan.results*.jsonl --plan plan.jsonl
      tables, and on the standard error what is missing
  framewright sweep merge plan.results*.jsonl --plan plan.jsonl --format csv -o all.csv
      a row for each cell, for a spreadsheet or a data frame")]
pub(super) struct Merging {
    /// Files that `framewright sweep run` or tools/sweep_ray.py appended to.
    #[arg(value_name = "RESULTS", required = true)]
    results: Vec<PathBuf>,
    /// The plan, to know what is missing and what is not of it.
    #[arg(long, value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// Where the output goes [default: the standard output].
    #[arg(long, short, value_name = "OUT")]
    out: Option<PathBuf>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = MergeForm::Text)]
    format: MergeForm,
}

/// Form of the output.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MergeForm {
    /// Tables for people: throughput by mechanisms and CPUs, with its spread over seeds.
    Text,
    /// A line of JSON for each cell, as in the results.
    Jsonl,
    /// One JSON document.
    Json,
    /// A row for each cell.
    Csv,
}

/// Rows of a list on the standard error at most.
const SHOWN: usize = 10;

impl Merging {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        self.check_output()?;
        let plan = self.plan.as_deref().map(SweepPlan::read).transpose()?;
        let contents: Vec<ResultsContent> =
            self.results.iter().map(|path| ResultsContent::read(path)).collect::<Result<_, _>>()?;
        let merged = Merged::of(&contents, plan.as_ref());
        let text = match self.format {
            MergeForm::Text => SweepTable(&merged.lines).to_string(),
            MergeForm::Jsonl => merged.jsonl()?,
            MergeForm::Json => merged.json()?,
            MergeForm::Csv => csv(&merged.lines)?,
        };
        match &self.out {
            Some(path) => replace(path, &text)?,
            None => print(&text)?,
        }
        note(&self.remarks(&merged));
        if merged.is_whole() { Ok(()) } else { Err(Violated.into()) }
    }

    /// Results are never written over.
    fn check_output(&self) -> anyhow::Result<()> {
        let Some(out) = &self.out else { return Ok(()) };
        let is_out = |path: &&PathBuf| {
            *path == out || fs::canonicalize(path).ok().zip(fs::canonicalize(out).ok()).is_some_and(|(a, b)| a == b)
        };
        if let Some(path) = self.results.iter().chain(&self.plan).find(is_out) {
            bail!("{} is read, and would be written over: name another file with -o", path.display());
        }
        check(out, Over::Any)
    }

    /// The notes of a merge.
    fn remarks(&self, merged: &Merged) -> String {
        let mut text = format!("{} of {}", counted(merged.lines.len(), "cell"), counted(self.results.len(), "file"));
        if merged.repeated > 0 {
            text += &format!(", {} more than once and equal", merged.repeated);
        }
        text += &to(self.out.as_deref());
        for file in &merged.torn {
            text += &format!("{file}: the last line was not written to its end and is left out\n");
        }
        for foreign in &merged.foreign {
            let results = counted(foreign.lines, "result");
            text += &format!("{}: {results} of version {} not of this plan, left out\n", foreign.file, foreign.version);
        }
        let versions = merged.versions();
        if versions.len() > 1 {
            text +=
                &format!("results of {} versions, each of cells of its own: {}\n", versions.len(), versions.join(", "));
        }
        for differing in merged.differing.iter().take(SHOWN) {
            text += &format!("\nDIFFERENT RESULTS of {}, both left out:\n", differing.cell.described());
            for (file, number, line) in &differing.places {
                text += &format!("{file}:{number}: {line}");
            }
        }
        text += &list("more different results", merged.differing.len().saturating_sub(SHOWN), std::iter::empty());
        let failed = merged.failed().map(|line| match &line.outcome {
            Outcome::Failure(failure) => {
                format!(
                    "{}: {}\n    {}\n    again: {}",
                    line.index,
                    line.cell.described(),
                    failure.error,
                    failure.again
                )
            }
            Outcome::Result(_) => String::new(),
        });
        text += &list("failed", merged.failed().count(), failed);
        let missing = merged.missing.iter().map(|(index, cell)| format!("{index}: {}", cell.described()));
        text + &list("missing", merged.missing.len(), missing)
    }
}

fn to(out: Option<&Path>) -> String {
    out.map_or("\n".to_owned(), |path| format!(": {}\n", path.display()))
}

/// A list of cells under its head, if there are any.
fn list(what: &str, number: usize, rows: impl Iterator<Item = String>) -> String {
    if number == 0 {
        return String::new();
    }
    let rows: String = rows.take(SHOWN).map(|row| format!("  {row}\n")).collect();
    let more =
        if number > SHOWN && !rows.is_empty() { format!("  and {} more\n", number - SHOWN) } else { String::new() };
    format!("{} {what}\n{rows}{more}", counted(number, "cell"))
}
