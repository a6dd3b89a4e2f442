//! `framewright ops shrink`: the smallest list that fails as a list does.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use framewright_bench::command::Bar;
use framewright_ops::run::Kind;
use framewright_ops::symptom::{Effort, is_right, shrink_failure};
use framewright_ops::{Failure, Scenario, run_with};
use framewright_table::figures::counted;

use super::list::{checks, name, read};
use crate::command::file;
use crate::command::output::{note, print};
use framewright_lab::mechanisms;

/// The mark of a list that was written here.
pub(super) const MARK: &str = "# framewright ops: ";

/// Find the smallest list that fails as this one does.
///
/// Steps are left out, then the machine and the operands made simpler, for as long as the first thing that is wrong
/// stays the same: its kind, and the invariant or the step. Where it is only that something is not as stated, the step
/// stays as it is, and as much memory must be free before it as in the list.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright ops shrink list.ops
      prints the small list
  framewright ops shrink list.ops --right-under linux-6.1 -o small.ops
      keeps it a list of which only other mechanisms do what it states")]
pub(super) struct Shrink {
    /// The list; - is standard input.
    file: PathBuf,
    /// Write the small list to this file instead.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Presets and switches instead of the list's, or a TOML file.
    #[arg(long, short, value_name = "LIST|FILE.toml")]
    mechanisms: Option<String>,
    /// Keep it a list that is right under these mechanisms.
    #[arg(long, value_name = "LIST|FILE.toml")]
    right_under: Option<String>,
    /// Smaller lists to try at most.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    tries: usize,
    /// Check invariants and the census after every N steps; 0 at the end only [default: as often as takes about a
    /// second].
    #[arg(long, value_name = "N")]
    check_every: Option<usize>,
}

impl Shrink {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let (mut list, name) = (read(&self.file)?, name(&self.file));
        if let Some(text) = &self.mechanisms {
            list.shape.mechanisms = mechanisms::parse(text)?;
        }
        let right_under = self.right_under.as_deref().map(mechanisms::parse).transpose()?;
        if let Some(out) = &self.out {
            file::check(out, file::Over::Ours(MARK))?;
        }
        let checks = checks(&list, self.check_every);
        let failure = match run_with(&list, checks) {
            Ok(_) => bail!("{name} does not fail, so there is nothing to make small"),
            Err(failure) if failure.kind == Kind::Boot => {
                bail!("{name}: the machine cannot be booted: {}", failure.wrong)
            }
            Err(failure) => failure,
        };
        if right_under.is_some_and(|mechanisms| !is_right(&list, mechanisms, checks)) {
            bail!("{name} fails under the mechanisms of --right-under too");
        }
        let small = small(&list, &failure, &Effort { tries: self.tries, right_under, checks })?;
        let text = text(&small);
        match &self.out {
            None => {
                note(&told(&list, &small));
                print(&text)
            }
            Some(out) => {
                file::replace(out, &text)?;
                print(&format!("{}\nagain: framewright ops {}\n", told(&list, &small), out.display()))
            }
        }
    }
}

/// The list made small, with a bar on a terminal.
pub(super) fn small(list: &Scenario, failure: &Failure, effort: &Effort) -> anyhow::Result<Scenario> {
    let bar = Bar::new()?;
    Ok(shrink_failure(list, failure, effort, &mut |left, share| bar.show(&counted(left, "operation"), share)))
}

/// The first failure of a list that is known to fail.
fn wrong(list: &Scenario) -> String {
    run_with(list, checks(list, None)).err().map_or_else(String::new, |failure| failure.summary().replace('\n', " "))
}

/// Says how small the list became.
pub(super) fn told(list: &Scenario, small: &Scenario) -> String {
    let operations = counted(small.steps.len(), "operation");
    format!("{operations} of {} are left: {}", list.steps.len(), wrong(small))
}

/// The file's content.
pub(super) fn text(small: &Scenario) -> String {
    format!("{MARK}{}\n{small}", wrong(small))
}

/// Writes the small list of a failure.
pub(super) fn write(path: &Path, small: &Scenario) -> anyhow::Result<()> {
    file::replace(path, &text(small))
}
