//! `framewright bench`: page-frame allocators side by side, natively, with their limit.

use anyhow::bail;
use clap::Args;
use framewright::Mechanisms;
use framewright_bench::command::Options;

use super::{mechanisms, print};

/// Measure the allocator on this machine, beside others and the limit of what a call can cost.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright bench
      every workload and allocator, 1 thread and all CPUs, about two minutes
  framewright bench --quick --workload repeat,batch,rand --allocator framewright
      the project's own allocator and the limits alone
  framewright bench --format json
Numbers are for release builds. docs/benchmarks.md says what each workload and limit is. Allocators that are built from C
take part in `cargo run --release -p framewright-peers`.")]
pub(crate) struct Bench {
    #[command(flatten)]
    options: Options,
    /// Preset and switches of the allocator, as `baseline,fallback=claim-steal`, or a TOML file.
    #[arg(long, short, value_name = "LIST|FILE.toml")]
    mechanisms: Option<String>,
}

impl Bench {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mechanisms = self.mechanisms.as_deref().map_or(Ok(Mechanisms::BASELINE), mechanisms::parse)?;
        let (text, report) = self.options.run(mechanisms, &framewright_bench::contenders())?;
        print(&text)?;
        // A slow allocator is a result; one that fails is not.
        match report.failures.first() {
            Some(failure) => bail!("{failure}"),
            None => Ok(()),
        }
    }
}
