//! `framewright calibrate`: what instructions cost on this machine, and what that predicts.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use framewright_bench::command::Bar;
use framewright_lab::calibrate::calibrate;
use framewright_sim::machine::{self, Written};

use super::file;
use super::output::{Format, print_as};

/// Rounds, and rounds of a quick calibration.
const ROUNDS: (usize, usize) = (100, 20);

/// Measure what instructions cost on this machine, and check what the simulated one predicts from that.
#[derive(Args)]
#[command(
    after_help = "Two numbers are fitted, both to order 0 in batches of 64 pages: the time of an instruction and that of a pin. \
The other paths are predicted: measured natively and simulated side by side, which shows how far off a simulated time can be.

Examples:
  framewright calibrate
      what each path costs here, and how near the simulated machine comes
  framewright calibrate --out mine.toml
      and then framewright sim --machine mine.toml --workload page-fault1"
)]
pub(crate) struct Calibrate {
    /// Form of the output.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Write the calibrated machine to this file, which ends in .toml.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How often each path is measured [default: 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rounds: Option<u16>,
    /// Measure a fifth as often.
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    /// Machine, or file, that all other numbers are taken from.
    #[arg(long, value_name = "MACHINE", default_value = "this")]
    machine: String,
}

impl Calibrate {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if let Some(out) = self.out.as_ref().filter(|out| out.extension().is_none_or(|extension| extension != "toml")) {
            bail!("--out {}: a machine's file ends in .toml", out.display());
        }
        if let Some(out) = &self.out {
            file::check(out, file::Over::Any)?;
        }
        let base = machine::load(&self.machine)?;
        let rounds = self.rounds.map_or(if self.quick { ROUNDS.1 } else { ROUNDS.0 }, usize::from);
        let bar = Bar::new()?;
        let calibration = calibrate(&base, rounds, &mut |what, share| bar.show(what, share))?;
        drop(bar);
        if let Some(out) = &self.out {
            let text = Written(&calibration.spec).to_string();
            file::replace(out, &text)?;
        }
        print_as(self.format, &calibration, &calibration)
    }
}
