//! `framewright bench`: page-frame allocators side by side, natively, with their limit.

use std::io;

use clap::Args;
use framewright_bench::command::Options;
use framewright_bench::contenders;

use super::mechanisms;

/// Measure the allocator on this machine, beside others and the limit of what a call can cost.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright bench
      every workload and allocator, on 1 thread and on all CPUs
  framewright bench --quick --workload repeat,batch,rand --allocator framewright
      the project's own allocator and the limits alone
  framewright bench --format json

docs/benchmarks.md says what each workload and limit is. Allocators built from C take part in
`cargo run --release -p framewright-peers`, which has the same options.")]
pub(crate) struct Bench {
    #[command(flatten)]
    options: Options,
}

impl Bench {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        self.options.run(mechanisms::parse, &contenders(), &mut io::stdout().lock())
    }
}
