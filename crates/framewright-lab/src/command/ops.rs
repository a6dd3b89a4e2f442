//! `framewright ops`: lists of operations, run one step after the other and judged.

mod fuzz;
mod shrink;
mod shown;
mod list;

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};
use framewright::Mechanisms;
use framewright_ops::Scenario;
use framewright_ops::run::Kind;

use super::ended::Violated;
use super::output::{Format, print};
use framewright_lab::mechanisms;
use list::{checks, is_input, name, read};
use shown::ListRun;

/// Run lists of operations, and compare what comes of each step with what the list states.
///
/// A list (.ops) describes a machine and says what is done on it, a line for each step. One thread plays all CPUs. An
/// oracle judges every answer, every invariant is checked after each step, and at the end no frame may be missing. Ends
/// with status 1 if a step is not as the list states or anything is wrong, and with 2 if a list cannot be read.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  framewright ops list.ops
      what came of each step
  framewright ops *.ops --quiet
      only what is not as stated, and a table of all lists
  framewright ops list.ops -m baseline -m linux-6.1
      the same list under other mechanisms than its own
  framewright ops shrink list.ops -o small.ops
      the smallest list found that fails as this one does
  framewright ops fuzz --seconds 60
      generated lists, as many as there is time for

docs/ops.md has the language, word by word."
)]
pub(crate) struct Ops {
    #[command(subcommand)]
    command: Option<OpsCommand>,
    /// Lists of operations; - is standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Presets and switches instead of the list's, as `baseline,fallback=claim-steal`, or a TOML file; repeat for more
    /// runs.
    #[arg(long, short, value_name = "LIST|FILE.toml")]
    mechanisms: Vec<String>,
    /// Check invariants and the census after every N steps; 0 at the end only [default: as often as takes about a
    /// second].
    #[arg(long, value_name = "N")]
    check_every: Option<usize>,
    /// Print only steps that are not as stated, and the sums.
    #[arg(long, short)]
    quiet: bool,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Subcommand)]
enum OpsCommand {
    Shrink(shrink::Shrink),
    Fuzz(fuzz::Fuzz),
}

impl Ops {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match &self.command {
            None => self.run_lists(),
            Some(OpsCommand::Shrink(shrink)) => shrink.run(),
            Some(OpsCommand::Fuzz(fuzz)) => fuzz.run(),
        }
    }

    fn run_lists(&self) -> anyhow::Result<()> {
        if self.files.iter().filter(|file| is_input(file)).count() > 1 {
            bail!("- is standard input, and can be read once");
        }
        // A slip in the last list is told before the first is run.
        let lists: Vec<Scenario> = self.files.iter().map(|file| read(file)).collect::<anyhow::Result<_>>()?;
        let others: Vec<Mechanisms> =
            self.mechanisms.iter().map(|text| mechanisms::parse(text)).collect::<anyhow::Result<_>>()?;
        let mut runs = Vec::new();
        for (file, mut list) in self.files.iter().zip(lists) {
            let choices = if others.is_empty() { vec![list.shape.mechanisms] } else { others.clone() };
            for mechanisms in choices {
                list.shape.mechanisms = mechanisms;
                runs.push(self.run_list(&name(file), &list)?);
            }
        }
        if self.format == Format::Json {
            print(&shown::json(&runs)?)?;
        } else if runs.len() > 1 {
            print(&shown::table(&runs))?;
        }
        if runs.iter().all(ListRun::is_as_stated) { Ok(()) } else { Err(Violated.into()) }
    }

    fn run_list(&self, name: &str, list: &Scenario) -> anyhow::Result<ListRun> {
        let run = shown::run(name, list, checks(list, self.check_every), self.quiet);
        if let Some(wrong) = run.wrong.as_ref().filter(|wrong| wrong.kind == Kind::Boot) {
            bail!("{name}: the machine cannot be booted: {}", wrong.what);
        }
        if self.format == Format::Text {
            print(&run.text())?;
        }
        Ok(run)
    }
}
