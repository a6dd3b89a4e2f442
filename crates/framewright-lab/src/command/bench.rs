//! `framewright bench`: page-frame allocators side by side, natively, with their limit; the speed of the
//! simulator; and the instructions of a kernel's calls.

use anyhow::bail;
use clap::Args;
use framewright_bench::command::{Bar, Format, Options};
use framewright_bench::contenders;
use framewright_bench::instructions::{BATCHES, kernel_work};
use framewright_sim::speed;

use super::output::{note, print, print_coloured};
use framewright_lab::mechanisms;

/// Accesses of one row and round of the simulator's speed.
const ACCESSES: u64 = 48_000_000;

/// Measure the allocator on this machine, beside others and the limit of what a call can cost.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright bench
      every workload and allocator, on 1 thread and on all CPUs
  framewright bench --quick --workload repeat,batch,rand --allocator framewright
      the project's own allocator and the limits alone
  framewright bench --format json
      every number with the machine that it is from, for programs
  framewright bench --format benchstat > new.txt
      for benchstat old.txt new.txt; page_bench and mmtests are other forms
  framewright bench --sim
      how fast the simulated machine is, and what it takes of this one's memory
  framewright bench --kernel
      instructions of a kernel's calls, on x86-64 Linux

docs/benchmarks.md says what each workload and limit is. Allocators built from C take part in
`cargo run --release -p framewright-peers`, which has the same options.")]
pub(crate) struct Bench {
    /// Measure the simulated machine instead: accesses a second, and memory for each CPU.
    #[arg(long, conflicts_with_all = ["workload", "allocator", "threads", "mechanisms", "seed"])]
    sim: bool,
    /// Count the instructions of a kernel's calls instead, by single steps of the processor.
    #[arg(long, conflicts_with_all = ["sim", "workload", "allocator", "threads", "mechanisms", "seed"])]
    kernel: bool,
    /// Do the work of a variant of --kernel: the process that is counted.
    #[arg(long, hide = true, requires = "rounds", value_name = "VARIANT")]
    counted: Option<String>,
    #[command(flatten)]
    options: Options,
}

impl Bench {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if let Some(variant) = &self.counted {
            return kernel_work(variant, self.options.rounds_or(BATCHES)).map_err(anyhow::Error::msg);
        }
        if self.kernel {
            return self.kernel();
        }
        if self.sim {
            return self.simulator();
        }
        let mut out = Vec::new();
        let run = self.options.run(mechanisms::parse, &contenders(), &mut out, &mut note);
        print_coloured(&String::from_utf8(out)?)?;
        run
    }

    fn simulator(&self) -> anyhow::Result<()> {
        if self.options.format().foreign().is_some() {
            bail!("--sim measures accesses of the simulated machine: it has --format text and json");
        }
        let bar = Bar::new()?;
        let speed = speed::measure((self.options.rounds_or(5), ACCESSES), |share| bar.show("simulator", share))?;
        drop(bar);
        match self.options.format() {
            Format::Json => print(&(serde_json::to_string_pretty(&speed)? + "\n")),
            _ => print(&speed.to_string()),
        }
    }

    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn kernel(&self) -> anyhow::Result<()> {
        use anyhow::Context;
        use framewright_bench::instructions::KernelReport;
        use std::process::{Command, Stdio};

        if self.options.format().foreign().is_some() {
            bail!("--kernel counts instructions: it has --format text and json");
        }
        let batches = self.options.rounds_or(BATCHES);
        let program = std::env::current_exe()?;
        let counted = |variant: &str| {
            let mut command = Command::new(&program);
            command.args(["bench", "--rounds", &batches.to_string(), "--counted", variant]).stdout(Stdio::null());
            command
        };
        let bar = Bar::new()?;
        let report = KernelReport::measure(batches, counted, |variant, share| bar.show(variant, share));
        drop(bar);
        let report = report.context("instructions are counted through ptrace, which fails here")?;
        match self.options.format() {
            Format::Json => print(&(serde_json::to_string_pretty(&report)? + "\n")),
            _ => print(&report.to_string()),
        }
    }

    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    fn kernel(&self) -> anyhow::Result<()> {
        bail!("--kernel counts instructions of x86-64, through the ptrace of Linux: not on this machine")
    }
}
