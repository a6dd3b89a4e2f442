//! `framewright reproduce`: published tables beside ours.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use framewright_bench::command::Bar;
use framewright_lab::html::{fragmentation_page, irq_safe_page, numa_stats_page, zone_layout_page, zone_lock_page};
use framewright_lab::reproduce::check::{Check, all_hold};
use framewright_lab::reproduce::fragmentation;
use framewright_lab::reproduce::irq_safe;
use framewright_lab::reproduce::numa_stats;
use framewright_lab::reproduce::runs::Progress;
use framewright_lab::reproduce::zone_layout;
use framewright_lab::reproduce::zone_lock::{Kernel, Lengths, Plan, Published, Reproduction, Scale, plan};
use framewright_sim::machine;
use serde::Serialize;

use super::{Format, Violated, folder, print, quoted};

/// Make a published table again on the simulated machine: theirs, ours, why, and what of it is fitted.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright reproduce zone-lock
      page faults on 112 CPUs under six kernels of 2018 and under our default, with bands
  framewright reproduce zone-lock --quick
      the same without bands, in some seconds
  framewright reproduce numa-stats
      an allocation and its free on 88 CPUs, by how much of the NUMA counters a CPU keeps
  framewright reproduce zone-layout
      aim7 on 120 CPUs with the lock on the lists' cache line and behind them, and from how many CPUs on that matters
  framewright reproduce irq-safe
      a page's cycles with interrupts held off and without, packets whose pages interrupts allocate; some of it natively
  framewright reproduce fragmentation
      what mixes mobilities, and who gets huge pages, under four kernels of 2018 and our default, with ten seeds each
  framewright reproduce zone-lock --format json --report out
      for programs; and a page with plots, in out/index.html

Exit code: 0 if every check holds, 1 if not. The same command prints the same bytes, but for what irq-safe measures
natively. docs/fidelity.md says what a reproduced table is worth.")]
pub(crate) struct Reproduce {
    /// Which table.
    #[arg(value_enum)]
    experiment: Experiment,
    /// Shorter runs, and none with the machine's numbers changed: no bands. Of fragmentation: three seeds, a quarter of the memory, and one machine.
    #[arg(long)]
    quick: bool,
    /// Seed of all that is random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Memory of a socket, in MiB; of fragmentation alone. [default: 1024; 256 if quick]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(64..=65536))]
    mib: Option<u32>,
    /// Seeds, from the first on; of fragmentation alone. [default: 10; 3 if quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: Option<u64>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write a page with plots and tables, and the JSON, into this folder. Runs on fewer CPUs are added to zone-lock for it.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// Published tables.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// Zone lock scalability, 2018: page faults on 112 CPUs, under six kernels.
    ZoneLock,
    /// The zone's lock beside the order-0 lists or behind all lists, 2015: aim7 on 120 CPUs.
    ZoneLayout,
    /// NUMA statistics, 2017: an allocation and its free on 88 CPUs, by how much of the counters a CPU keeps.
    NumaStats,
    /// Per-CPU lists and interrupts, 2017: a page's cycles, aim9, and packets.
    IrqSafe,
    /// Fragmentation avoidance, 2018: what mixes mobilities, and who gets huge pages, on one socket and on two.
    Fragmentation,
}

impl Experiment {
    /// The machine that the table is from.
    fn machine(self) -> &'static str {
        match self {
            Experiment::ZoneLock => "skylake-2x28",
            Experiment::ZoneLayout => "ivybridge-ex-4x15",
            Experiment::NumaStats => "broadwell-2x22",
            Experiment::IrqSafe => "haswell-2x18",
            Experiment::Fragmentation => "skylake-desktop",
        }
    }
}

impl Reproduce {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let only =
            [("--mib", self.mib.is_some()), ("--seeds", self.seeds.is_some())].into_iter().find(|(_, given)| *given);
        if let Some((option, _)) = only.filter(|_| self.experiment != Experiment::Fragmentation) {
            bail!("{option} is for fragmentation alone, not for {}; leave it out", self.name());
        }
        match self.experiment {
            Experiment::ZoneLock => self.zone_lock(),
            Experiment::ZoneLayout => self.zone_layout(),
            Experiment::NumaStats => self.numa_stats(),
            Experiment::IrqSafe => self.irq_safe(),
            Experiment::Fragmentation => self.fragmentation(),
        }
    }

    fn zone_lock(&self) -> anyhow::Result<()> {
        let published = Published::built_in()?;
        let machine = machine::named(self.experiment.machine())?;
        let plan = Plan {
            machine: &machine,
            kernels: Kernel::all(&published),
            with_lru: published.lru.iter().map(|row| row.name.clone()).collect(),
            presets: Kernel::presets(&published),
            cpus: published.cpus,
            curve: if self.report.is_some() { plan::CURVE.to_vec() } else { Vec::new() },
            seed: self.seed,
            scale: Scale::of(&published),
            lengths: if self.quick { Lengths::QUICK } else { Lengths::FULL },
        };
        let runs = self.progress(|progress| plan.run(progress))?;
        let found = Reproduction::new(&published, &plan, &runs, &self.command());
        self.tell(&found, &found.checks, || zone_lock_page(&found, &machine))
    }

    fn zone_layout(&self) -> anyhow::Result<()> {
        let published = zone_layout::Published::built_in()?;
        let machine = machine::named(self.experiment.machine())?;
        let lengths = if self.quick { zone_layout::Lengths::QUICK } else { zone_layout::Lengths::FULL };
        let (workload, cpus) = (zone_layout::plan::workload(), zone_layout::plan::CURVE.to_vec());
        let plan = zone_layout::Plan { machine: &machine, workload, cpus, seed: self.seed, lengths };
        let runs = self.progress(|progress| plan.run(progress))?;
        let found = zone_layout::Reproduction::new(&published, &plan, &runs, &self.command());
        self.tell(&found, &found.checks, || zone_layout_page(&found, &machine))
    }

    fn numa_stats(&self) -> anyhow::Result<()> {
        let published = numa_stats::Published::built_in()?;
        let machine = machine::named(self.experiment.machine())?;
        let lengths = if self.quick { numa_stats::Lengths::QUICK } else { numa_stats::Lengths::FULL };
        let plan = numa_stats::Plan { machine: &machine, published: &published, seed: self.seed, lengths };
        let runs = self.progress(|progress| plan.run(progress))?;
        let found = numa_stats::Reproduction::new(&plan, &runs, &self.command());
        self.tell(&found, &found.checks, || numa_stats_page(&found, &machine))
    }

    fn irq_safe(&self) -> anyhow::Result<()> {
        let published = irq_safe::Published::built_in()?;
        let (machine, desktop) = (machine::named(self.experiment.machine())?, machine::named("skylake-desktop")?);
        let lengths = if self.quick { irq_safe::Lengths::QUICK } else { irq_safe::Lengths::FULL };
        let plan =
            irq_safe::Plan { machine: &machine, desktop: &desktop, published: &published, seed: self.seed, lengths };
        let runs = self.progress(|progress| plan.run(progress))?;
        let found = irq_safe::Reproduction::new(&plan, &runs, &self.command())?;
        self.tell(&found, &found.checks, || irq_safe_page(&found, &machine))
    }

    fn fragmentation(&self) -> anyhow::Result<()> {
        let published = fragmentation::Published::built_in()?;
        let [skylake, haswell] = fragmentation::plan::MACHINES.map(|machine| machine::named(machine.name));
        let (skylake, haswell) = (skylake?, haswell?);
        let lengths = if self.quick { fragmentation::Lengths::QUICK } else { fragmentation::Lengths::FULL };
        let (mib, seeds) = (self.mib.unwrap_or(lengths.mib), self.seeds.unwrap_or(lengths.seeds));
        let lengths = fragmentation::Lengths { mib, seeds, few: lengths.few.min(seeds), ..lengths };
        let machines = [&skylake, &haswell];
        let plan = fragmentation::Plan { machines, published: &published, seed: self.seed, lengths };
        let runs = self.progress(|progress| plan.run(progress))?;
        let found = fragmentation::Reproduction::new(&plan, &runs, &self.command());
        self.tell(&found, &found.checks, || fragmentation_page(&found, machines))
    }

    /// Runs something with a progress bar. What cannot be written to in the end is not begun.
    fn progress<T>(&self, run: impl FnOnce(Progress<'_>) -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.report.as_deref().map_or(Ok(()), folder::prepare)?;
        let bar = Bar::new()?;
        run(&mut |done, total| bar.show(&self.name(), done as f64 / total.max(1) as f64))
    }

    /// Prints what was found, as text or JSON, and writes the page if one is wanted.
    fn tell<F: fmt::Display + Serialize>(
        &self,
        found: &F,
        checks: &[Check],
        page: impl FnOnce() -> Result<String, minijinja::Error>,
    ) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(found)? + "\n";
        if let Some(folder) = &self.report {
            folder::write(folder, &page().context("the page")?, (&format!("{}.json", self.name()), &json))?;
        }
        match self.format {
            Format::Text => print(&(found.to_string() + &self.written()))?,
            Format::Json => print(&json)?,
        }
        if all_hold(checks) { Ok(()) } else { Err(Violated.into()) }
    }

    /// The experiment's name.
    fn name(&self) -> String {
        self.experiment.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// Where the page is, if there is one.
    fn written(&self) -> String {
        self.report.iter().map(|folder| folder::told(folder)).collect()
    }

    /// The command that prints the same.
    fn command(&self) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let mib = self.mib.map_or(String::new(), |mib| format!(" --mib {mib}"));
        let seeds = self.seeds.map_or(String::new(), |seeds| format!(" --seeds {seeds}"));
        let json = if self.format == Format::Json { " --format json" } else { "" };
        let report = self.report.iter().map(|folder| format!(" --report {}", quoted(&folder.display().to_string())));
        let experiment = self.name();
        format!(
            "framewright reproduce {experiment}{quick}{mib}{seeds} --seed {}{json}{}",
            self.seed,
            report.collect::<String>()
        )
    }
}
