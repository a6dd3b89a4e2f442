//! An experiment: its machine, its runs, and what they come to.

use anyhow::bail;
use clap::ValueEnum;
use framewright_sim::machine::{self, Spec};

use crate::reproduce::check::Check;
use crate::reproduce::found::Reproduction;
use crate::reproduce::headline::Headline;
use crate::reproduce::plan::Plan as _;
use crate::reproduce::published::Published as _;
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

/// Options of an experiment.
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
    /// Change of the machine.
    pub change: Change<'a>,
}

/// Results of an experiment.
pub struct Made {
    /// The experiment.
    pub experiment: Experiment,
    /// For a terminal of 100 columns.
    pub text: String,
    /// As JSON.
    pub json: String,
    /// As a page for a browser, if that was asked for.
    pub page: Option<String>,
    /// The figures to look at first, without bands.
    pub headline: Headline,
    /// Checks of the results.
    pub checks: Vec<Check>,
}

impl Experiment {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 5] = [Self::ZoneLock, Self::NumaStats, Self::ZoneLayout, Self::IrqSafe, Self::Fragmentation];

    /// Its name, the machine that its table is from, and about how long a quick one takes beside the others: seconds of
    /// a CPU, on a machine of 2020.
    fn facts(self) -> (&'static str, &'static str, u64) {
        match self {
            Self::ZoneLock => (zone_lock::plan::NAME, "skylake-2x28", 30),
            Self::ZoneLayout => (zone_layout::plan::NAME, "ivybridge-ex-4x15", 20),
            Self::NumaStats => (numa_stats::NAME, "broadwell-2x22", 18),
            Self::IrqSafe => (irq_safe::plan::NAME, "haswell-2x18", 3),
            Self::Fragmentation => (fragmentation::plan::NAME, fragmentation::plan::MACHINES[0].name, 30),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// About how long a quick one takes, beside the others.
    pub fn weight(self) -> u64 {
        self.facts().2
    }

    /// Whether some of it is measured on the host, where whatever else runs would show.
    pub(crate) fn measures_the_host(self) -> bool {
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
        let mut machines = vec![self.spec(ask.change)?];
        let of = (&machines[0], ask, command);
        let found = match self {
            Self::ZoneLock => zone_lock(of, progress),
            Self::ZoneLayout => zone_layout(of, progress),
            Self::NumaStats => numa_stats(of, progress),
            Self::IrqSafe => irq_safe(of, progress),
            Self::Fragmentation => fragmentation(of, progress),
        }?;
        if self == Self::Fragmentation {
            machines.push(machine::named(fragmentation::plan::MACHINES[1].name)?);
        }
        let headline = found.headline.clone().with(&found.checks, ask.quick);
        let found = if ask.quick { found.in_a_quick_run() } else { found };
        Ok(Made {
            experiment: self,
            text: found.text(),
            json: serde_json::to_string_pretty(&found)? + "\n",
            page: ask.page.then(|| found.page(&machines)).transpose()?,
            headline,
            checks: found.checks,
        })
    }

    /// Its machine, with what is changed; an error if that is no number of it.
    pub(super) fn spec(self, change: Change<'_>) -> anyhow::Result<Spec> {
        let machine = machine::named(self.facts().1)?;
        Ok(change.map_or(Ok(machine.clone()), |(path, factor)| machine.scaled(path, factor))?)
    }
}

/// The machine of an experiment, what is asked of it, and the command that makes the same again.
type ExperimentCall<'a> = (&'a Spec, &'a Ask<'a>, &'a str);

fn zone_lock((machine, ask, command): ExperimentCall<'_>, progress: Progress<'_>) -> anyhow::Result<Reproduction> {
    use zone_lock::{KernelPreset, MemoryScale, ZoneLockLengths, ZoneLockPlan, ZoneLockTable, plan};
    let published = &ZoneLockTable::built_in()?;
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
    Ok(zone_lock::found(&plan, &plan.run(progress)?, command))
}

fn zone_layout((machine, ask, command): ExperimentCall<'_>, progress: Progress<'_>) -> anyhow::Result<Reproduction> {
    use zone_layout::{ZoneLayoutLengths, ZoneLayoutPlan, ZoneLayoutTable, plan};
    let published = &ZoneLayoutTable::built_in()?;
    let lengths = if ask.quick { ZoneLayoutLengths::QUICK } else { ZoneLayoutLengths::FULL };
    let cpus = if ask.quick { plan::FEW.to_vec() } else { plan::CURVE.to_vec() };
    let plan = ZoneLayoutPlan { machine, published, workload: plan::workload(), cpus, seed: ask.seed, lengths };
    Ok(zone_layout::found(&plan, &plan.run(progress)?, command))
}

fn numa_stats((machine, ask, command): ExperimentCall<'_>, progress: Progress<'_>) -> anyhow::Result<Reproduction> {
    use numa_stats::{NumaStatsLengths, NumaStatsPlan, NumaStatsTable};
    let lengths = if ask.quick { NumaStatsLengths::QUICK } else { NumaStatsLengths::FULL };
    let published = &NumaStatsTable::built_in()?;
    let plan = NumaStatsPlan::new(machine, published, ask.seed, lengths)?;
    numa_stats::found(&plan, &plan.run(progress)?, command)
}

fn irq_safe((machine, ask, command): ExperimentCall<'_>, progress: Progress<'_>) -> anyhow::Result<Reproduction> {
    use irq_safe::{IrqSafeLengths, IrqSafePlan, IrqSafeTables};
    let (published, desktop) = (&IrqSafeTables::built_in()?, &machine::named("skylake-desktop")?);
    let lengths = if ask.quick { IrqSafeLengths::QUICK } else { IrqSafeLengths::FULL };
    let plan = IrqSafePlan { machine, desktop, published, seed: ask.seed, lengths };
    irq_safe::found(&plan, (&plan.run(progress)?, &plan.native()?), command)
}

fn fragmentation((skylake, ask, command): ExperimentCall<'_>, progress: Progress<'_>) -> anyhow::Result<Reproduction> {
    use fragmentation::{FragmentationLengths, FragmentationPlan, FragmentationTables, plan};
    let (published, haswell) = (&FragmentationTables::built_in()?, &machine::named(plan::MACHINES[1].name)?);
    let lengths = if ask.quick { FragmentationLengths::QUICK } else { FragmentationLengths::FULL };
    let (mib, seeds) = (ask.mib.unwrap_or(lengths.mib), ask.seeds.unwrap_or(lengths.seeds));
    let lengths = FragmentationLengths { mib, seeds, few: lengths.few.min(seeds), ..lengths };
    let plan = FragmentationPlan { machines: [skylake, haswell], published, seed: ask.seed, lengths };
    Ok(fragmentation::found(&plan, &plan.run(progress)?, command))
}
