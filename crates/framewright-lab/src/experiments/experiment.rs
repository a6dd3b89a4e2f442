//! An experiment: its machine, its runs, and what they come to.

use anyhow::bail;
use clap::ValueEnum;
use framewright_sim::machine::{self, Spec};

use crate::reproduce::check::Check;
use crate::reproduce::found::Reproduction;
use crate::reproduce::headline::Headline;
use crate::reproduce::plan::Plan as _;
use crate::reproduce::runs::{Change, Progress};
use crate::reproduce::{fragmentation, irq_safe, numa_stats, zone_layout, zone_lock};

/// Published tables.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Experiment {
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

/// What is asked of an experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Ask<'a> {
    /// Shorter and fewer runs, none with the machine's numbers changed.
    pub quick: bool,
    /// Runs that only the page shows, and the page.
    pub page: bool,
    /// Seed of all that is random.
    pub seed: u64,
    /// Memory of a socket, in MiB; of [`Experiment::Fragmentation`] alone.
    pub mib: Option<u32>,
    /// Seeds; of [`Experiment::Fragmentation`] alone.
    pub seeds: Option<u64>,
    /// What is changed about the machine.
    pub change: Change<'a>,
}

/// What came of an experiment.
pub struct Made {
    /// Which.
    pub experiment: Experiment,
    /// For a terminal of 100 columns.
    pub text: String,
    /// As JSON.
    pub json: String,
    /// As a page for a browser, if that was asked for.
    pub page: Option<String>,
    /// The figures to look at first, without bands.
    pub headline: Headline,
    /// What had to hold.
    pub checks: Vec<Check>,
}

impl Experiment {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 5] = [Self::ZoneLock, Self::NumaStats, Self::ZoneLayout, Self::IrqSafe, Self::Fragmentation];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZoneLock => "zone-lock",
            Self::ZoneLayout => "zone-layout",
            Self::NumaStats => "numa-stats",
            Self::IrqSafe => "irq-safe",
            Self::Fragmentation => "fragmentation",
        }
    }

    /// The machine that the table is from.
    pub fn machine(self) -> &'static str {
        match self {
            Self::ZoneLock => "skylake-2x28",
            Self::ZoneLayout => "ivybridge-ex-4x15",
            Self::NumaStats => "broadwell-2x22",
            Self::IrqSafe => "haswell-2x18",
            Self::Fragmentation => "skylake-desktop",
        }
    }

    /// About how long a quick one takes, beside the others: seconds of a CPU, on a machine of 2020.
    pub fn weight(self) -> u64 {
        match self {
            Self::ZoneLock => 30,
            Self::ZoneLayout => 20,
            Self::NumaStats => 18,
            Self::IrqSafe => 3,
            Self::Fragmentation => 30,
        }
    }

    /// Whether some of it is measured on the host, where whatever else runs would show.
    pub fn measures_the_host(self) -> bool {
        self == Self::IrqSafe
    }

    /// Runs it. `command` is the one that makes the same again.
    ///
    /// # Errors
    /// The first run that failed, and which it was; an option that is not for this experiment.
    pub fn make(self, ask: &Ask<'_>, command: &str, progress: Progress<'_>) -> anyhow::Result<Made> {
        let only =
            [("--mib", ask.mib.is_some()), ("--seeds", ask.seeds.is_some())].into_iter().find(|(_, given)| *given);
        if let Some((option, _)) = only.filter(|_| self != Self::Fragmentation) {
            bail!("{option} is for fragmentation alone, not for {}; leave it out", self.name());
        }
        match self {
            Self::ZoneLock => zone_lock(ask, command, progress),
            Self::ZoneLayout => zone_layout(ask, command, progress),
            Self::NumaStats => numa_stats(ask, command, progress),
            Self::IrqSafe => irq_safe(ask, command, progress),
            Self::Fragmentation => fragmentation(ask, command, progress),
        }
    }

    /// Its machine, with what is changed.
    ///
    /// # Errors
    /// What is to be changed is no number of it.
    pub fn spec(self, change: Change<'_>) -> anyhow::Result<Spec> {
        let machine = machine::named(self.machine())?;
        Ok(change.map_or(Ok(machine.clone()), |(path, factor)| machine.scaled(path, factor))?)
    }

    fn of(self, found: &Reproduction, ask: &Ask<'_>, machines: &[&Spec]) -> anyhow::Result<Made> {
        Ok(Made {
            experiment: self,
            text: found.text(),
            json: serde_json::to_string_pretty(found)? + "\n",
            page: ask.page.then(|| found.page(machines)).transpose()?,
            headline: found.headline.clone(),
            checks: found.checks.clone(),
        })
    }
}

fn zone_lock(ask: &Ask<'_>, command: &str, progress: Progress<'_>) -> anyhow::Result<Made> {
    use zone_lock::{KernelPreset, MemoryScale, ZoneLockLengths, ZoneLockPlan, ZoneLockTable, plan};
    let (published, machine) = (&ZoneLockTable::built_in()?, &Experiment::ZoneLock.spec(ask.change)?);
    let curve = if ask.quick { &plan::FEW[..] } else { &plan::CURVE };
    let with_lru = published.lru.iter().map(|row| row.name.clone());
    let plan = ZoneLockPlan {
        machine,
        published,
        kernels: KernelPreset::all(published),
        with_lru: with_lru.filter(|_| !ask.quick).collect(),
        presets: if ask.quick { Vec::new() } else { KernelPreset::presets(published) },
        cpus: published.cpus,
        curve: if ask.page { curve.to_vec() } else { Vec::new() },
        seed: ask.seed,
        scale: MemoryScale::of(published),
        lengths: if ask.quick { ZoneLockLengths::QUICK } else { ZoneLockLengths::FULL },
    };
    let found = zone_lock::found(&plan, &plan.run(progress)?, command);
    Experiment::ZoneLock.of(&found, ask, &[machine])
}

fn zone_layout(ask: &Ask<'_>, command: &str, progress: Progress<'_>) -> anyhow::Result<Made> {
    use zone_layout::{ZoneLayoutLengths, ZoneLayoutPlan, ZoneLayoutTable, plan};
    let (published, machine) = (&ZoneLayoutTable::built_in()?, &Experiment::ZoneLayout.spec(ask.change)?);
    let lengths = if ask.quick { ZoneLayoutLengths::QUICK } else { ZoneLayoutLengths::FULL };
    let cpus = if ask.quick { plan::FEW.to_vec() } else { plan::CURVE.to_vec() };
    let plan = ZoneLayoutPlan { machine, published, workload: plan::workload(), cpus, seed: ask.seed, lengths };
    let found = zone_layout::found(&plan, &plan.run(progress)?, command);
    Experiment::ZoneLayout.of(&found, ask, &[machine])
}

fn numa_stats(ask: &Ask<'_>, command: &str, progress: Progress<'_>) -> anyhow::Result<Made> {
    use numa_stats::{NumaStatsLengths, NumaStatsPlan, NumaStatsTable};
    let (published, machine) = (NumaStatsTable::built_in()?, &Experiment::NumaStats.spec(ask.change)?);
    let lengths = if ask.quick { NumaStatsLengths::QUICK } else { NumaStatsLengths::FULL };
    let plan = NumaStatsPlan::new(machine, &published, ask.seed, lengths)?;
    let found = numa_stats::found(&plan, &plan.run(progress)?, command)?;
    Experiment::NumaStats.of(&found, ask, &[machine])
}

fn irq_safe(ask: &Ask<'_>, command: &str, progress: Progress<'_>) -> anyhow::Result<Made> {
    use irq_safe::{IrqSafeLengths, IrqSafePlan, IrqSafeTables};
    let (published, machine) = (&IrqSafeTables::built_in()?, &Experiment::IrqSafe.spec(ask.change)?);
    let desktop = &machine::named("skylake-desktop")?;
    let lengths = if ask.quick { IrqSafeLengths::QUICK } else { IrqSafeLengths::FULL };
    let plan = IrqSafePlan { machine, desktop, published, seed: ask.seed, lengths };
    let found = irq_safe::found(&plan, (&plan.run(progress)?, &plan.native()?), command)?;
    Experiment::IrqSafe.of(&found, ask, &[machine])
}

fn fragmentation(ask: &Ask<'_>, command: &str, progress: Progress<'_>) -> anyhow::Result<Made> {
    use fragmentation::{FragmentationLengths, FragmentationPlan, FragmentationTables, plan};
    let (published, skylake) = (&FragmentationTables::built_in()?, &Experiment::Fragmentation.spec(ask.change)?);
    let machines = [skylake, &machine::named(plan::MACHINES[1].name)?];
    let lengths = if ask.quick { FragmentationLengths::QUICK } else { FragmentationLengths::FULL };
    let (mib, seeds) = (ask.mib.unwrap_or(lengths.mib), ask.seeds.unwrap_or(lengths.seeds));
    let lengths = FragmentationLengths { mib, seeds, few: lengths.few.min(seeds), ..lengths };
    let plan = FragmentationPlan { machines, published, seed: ask.seed, lengths };
    let found = fragmentation::found(&plan, &plan.run(progress)?, command);
    Experiment::Fragmentation.of(&found, ask, &machines)
}
