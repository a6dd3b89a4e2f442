//! `framewright compare`: results of other commands beside each other.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, ValueEnum};
use framewright_lab::compare::lines::{go, page_bench, will_it_scale};
use framewright_lab::compare::read::read;
use framewright_lab::compare::tables::{Lkp, Mmtests};
use framewright_lab::compare::text::Text;
use framewright_lab::compare::{By, Choice, Comparison, Side};

use super::ended::Violated;
use super::output::{note, print, printable};

/// Compare results: what changed from one file to the next, by how much, and whether that may be chance.
///
/// Files are what `sim`, `bench`, `reproduce` and `replay` print with `--format json`. The first is the base. Runs
/// with several seeds are one sample: append them to one file, or name files with commas between them.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright compare old.json new.json
      medians, changes and how sure they are, as benchstat prints them
  framewright compare old=a1.json,a2.json new=b1.json,b2.json
      two files each, under names of their own
  framewright compare runs.json --by mechanisms --format mmtests
      one file of framewright sim -m baseline -m default, a column for each set of mechanisms
  framewright compare old.json new.json --only page-fault1 --fail-over 5
      for a check: exit code 1 if something got worse by more than 5 %, and not by chance
  framewright compare old.json new.json --format benchstat | benchstat -col side -
      Go's own tool does the statistics
  framewright compare sim.json --format will-it-scale > page_fault1.csv
      a curve of one file, for what reads will-it-scale's results

docs/compare.md says what each number and format means.")]
pub(crate) struct Compare {
    /// Files to compare: FILE, or several of one sample as FILE,FILE; NAME=FILE gives the column a name.
    #[arg(required = true, value_name = "[NAME=]FILE[,FILE]")]
    files: Vec<String>,
    /// What makes a column [default: each argument; of one file each set of mechanisms].
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Show rows with this in their name, their figure's, or its unit, alone.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Show all figures, not only those that matter most.
    #[arg(long)]
    all: bool,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = CompareForm::Text)]
    format: CompareForm,
    /// End with exit code 1 if something got worse by more than this, in percent, and not by chance; with 2 if there
    /// are too few runs to tell.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_over: Option<f64>,
}

/// Form of the output.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompareForm {
    /// For people, in the style of benchstat.
    Text,
    /// For programs.
    Json,
    /// Tables of mmtests.
    Mmtests,
    /// As the 0-day robot (LKP) prints what it found.
    Lkp,
    /// Go's benchmark lines, for benchstat.
    Benchstat,
    /// CSV of will-it-scale, of files of sim.
    WillItScale,
    /// Lines of the kernel's page_bench modules, of some workloads of sim and bench.
    #[value(name = "page_bench")]
    PageBench,
}

impl Compare {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let sides = self.files.iter().map(|argument| side(argument)).collect::<anyhow::Result<Vec<_>>>()?;
        if let Some(twice) = (1..sides.len()).find(|&at| sides[..at].iter().any(|side| side.name == sides[at].name)) {
            bail!("{}: two columns have this name; give each its own, as NAME=FILE", sides[twice].name);
        }
        // These two put together figures that are not shown otherwise.
        let all = self.all || matches!(self.format, CompareForm::WillItScale | CompareForm::PageBench);
        let choice = Choice { by: self.by, all, only: self.only.as_deref() };
        let comparison = Comparison::new(&sides, choice)?;
        let text = match self.format {
            CompareForm::Text => Text(&comparison).to_string(),
            CompareForm::Json => serde_json::to_string_pretty(&comparison)? + "\n",
            CompareForm::Mmtests => Mmtests(&comparison).to_string(),
            CompareForm::Lkp => Lkp(&comparison).to_string(),
            CompareForm::Benchstat => go(&comparison),
            CompareForm::WillItScale => will_it_scale(&comparison)?,
            CompareForm::PageBench => page_bench(&comparison)?,
        };
        if !matches!(self.format, CompareForm::Text | CompareForm::Json) {
            // These forms have no place for them.
            comparison.warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
        }
        // Names in the files are foreign text.
        print(&if self.format == CompareForm::Text { printable(&text) + "\n" } else { text })?;
        self.verdict(&comparison)
    }

    /// Whether something got too bad.
    fn verdict(&self, comparison: &Comparison) -> anyhow::Result<()> {
        let Some(most) = self.fail_over else { return Ok(()) };
        let worse = comparison.worse_by(most);
        if worse.is_empty() {
            // A check that cannot fail has found nothing.
            return Ok(comparison.judgeable()?);
        }
        note(&format!("worse by more than {most} %, and not by chance:"));
        worse.iter().for_each(|row| note(&format!("  {row}")));
        Err(Violated.into())
    }
}

/// An argument: a file, several with commas, or either with a name. A file whose own name has these characters is
/// itself.
fn side(argument: &str) -> anyhow::Result<Side> {
    let (name, files) = match argument.split_once('=') {
        Some((name, files)) if !name.is_empty() && !Path::new(argument).exists() => (name, files),
        _ => (argument, argument),
    };
    let paths: Vec<PathBuf> = match Path::new(files).exists() {
        true => vec![files.into()],
        false => files.split(',').map(PathBuf::from).collect(),
    };
    if paths.iter().any(|path| path.as_os_str().is_empty()) {
        bail!("{argument}: a name between its commas is empty");
    }
    let documents = paths.iter().map(|path| Ok(read(path)?)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Side { name: name.to_owned(), documents: documents.into_iter().flatten().collect() })
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if (0.0..=1e6).contains(&percent) => Ok(percent),
        _ => Err("is no number of percent, as 5 or 2.5".to_owned()),
    }
}
