//! `framewright machine check`: this machine as a file of the simulator.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, Subcommand};
use framewright_bench::checker::{Host, SYSFS, check};
use framewright_bench::command::Bar;
use framewright_lab::machine_check::Checked;
use framewright_sim::machine::{self, Written};

use super::file;
use super::output::{Format, print_as};

/// Measure this machine for the simulator.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright machine check mine.toml
      measures this machine and writes its file
  framewright machine check mine.toml --quick
      some seconds, with fewer rounds

docs/simulator.md says what the file is good for.")]
pub(crate) struct Machine {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Check(Check),
}

/// Measure latencies, transfers, bandwidths and locks of this machine, and write its file.
#[derive(Args)]
#[command(
    after_help = "The file says of each number how it was measured, or from which machine it is taken over. Numbers are best on a machine \
without other work, outside of a virtual machine.

Examples:
  framewright machine check mine.toml
      and then framewright sim --machine ./mine.toml --workload page-fault1
  framewright machine check mine.toml --quick
      some seconds, with fewer rounds
  framewright machine check mine.toml --machine skylake-2x28
      what cannot be measured is taken from that machine"
)]
struct Check {
    /// File to write, which ends in .toml; an existing one is replaced.
    file: PathBuf,
    /// Form of the output.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Measure fewer rounds, with less memory.
    #[arg(long)]
    quick: bool,
    /// Machine, or file, that all other numbers are taken from.
    #[arg(long, value_name = "MACHINE", default_value = "generic")]
    machine: String,
}

impl Machine {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match &self.what {
            What::Check(check) => check.run(),
        }
    }
}

impl Check {
    fn run(&self) -> anyhow::Result<()> {
        let base = machine::load(&self.machine)?;
        let name = self.file.display().to_string();
        if self.file.extension().is_none_or(|extension| extension != "toml") {
            bail!("{name}: a machine's file ends in .toml");
        }
        file::check(&self.file, file::Over::Any)?;
        let host = Host::read(Path::new(SYSFS))?;
        let bar = Bar::new()?;
        let readings = check(&host, self.quick, &mut |what, share| bar.show(what, share))?;
        drop(bar);
        let checked = Checked::new(&name, (host, readings), &base)?;
        file::replace(&self.file, &Written(&checked.spec).to_string())?;
        print_as(self.format, &checked, &checked)
    }
}
