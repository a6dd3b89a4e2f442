//! What is run.

use framewright_bench::time_bench::{Primitive, ProtectionPair, protection_pairs, time_bench};
use framewright_sim::machine::Spec;
use framewright_sim::model::Ps;
use framewright_sim::report::Report;
use framewright_sim::workload::{Aim9, Job, Netperf, PageAlloc, PageBench01, Workload};
use serde::Serialize;

use super::published::{IrqSafeTables, Test};
use crate::mechanisms;
use crate::reproduce::plan::{self, Figures, Outcomes, Set, TABLE};
use crate::reproduce::runs::{Change, LISTS, Run, clock};
use crate::reproduce::variation::Round;
use framewright_table::figures::change_percent;

/// Name of the experiment, and of the table that machines' numbers are fitted to.
pub const NAME: &str = "irq-safe";

/// How per-CPU lists are kept from interrupts, and under which mechanisms that is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// As the switch has it.
    pub name: &'static str,
    /// The mechanisms.
    pub mechanisms: &'static str,
}

/// Linux until 2022, the change, Linux since, and ours.
///
/// The kernels count as Linux >= 5.14 does. Counters of 4.10 would make them dearer for a reason that is ours alone: a
/// CPU that comes to the zone without the lists tells it each event at once, while a CPU of 4.10 kept it.
pub const MODES: [Mode; 4] = [
    Mode { name: "interrupts-off", mechanisms: "numa-base,numa-stat=events" },
    Mode { name: "preemption-off", mechanisms: "irqsafe,numa-stat=events" },
    Mode { name: "trylock", mechanisms: "numa-base,numa-stat=events,pcp-protection=trylock" },
    Mode { name: "own-lists", mechanisms: "default" },
];
/// Streams of packets, each on a CPU of its own.
pub(crate) const STREAMS: usize = 8;
/// Bytes of a stream that a page holds where a card fills pages: a packet of 1500 bytes carries 1448 and takes 24
/// lines, so 1536.
const PAGE: f64 = 4096.0 * 1448.0 / 1536.0;
/// Iterations of a test of aim9.
pub const ITERATIONS: u64 = 12;
/// Time between two ticks of a timer, about, in picoseconds.
const TICK: Ps = 250_000_000;
/// Time in which the packets' pages come to lie as they do later, in picoseconds.
const WARM_UP: Ps = 10 * MILLISECOND;
/// Sets of runs besides the packets, which are the table whose bands are asked for. Each has every mode's runs one
/// after another. This one: the batches.
pub const BATCHES: &str = "batches";
/// Iterations of aim9's tests.
pub(crate) const AIM9: &str = "aim9";
/// The pair.
pub(crate) const PAIR_SET: &str = "pair";
/// The change of the packets' throughput.
pub const LOST: &str = "packets";

/// Numbers that restate what is not the allocator's: what they are for, and to which row each was set.
pub(crate) const RESTATED: [(&str, &str); 3] = [
    ("cycles of a call that moves the heap", "brk_test Hmean"),
    ("cycles of a fault", "page_test Hmean"),
    ("cycles of a page of packets", "4.10"),
];
/// Cycles of a call that moves the end of the heap; of a fault; of a page of packets in the driver, and on its way to
/// user space.
const CALL: u32 = 598;
const FAULT: u32 = 1707;
const PACKET: [u32; 2] = [3000, 5674];

/// How long runs are.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct IrqSafeLengths {
    /// Pages of each batch that are allocated and freed, at least.
    pub pages: u32,
    /// Window of the packets, in picoseconds.
    pub packets: Ps,
    /// Window of an iteration of aim9, in picoseconds.
    pub aim9: Ps,
    /// Rounds of native measurements.
    pub rounds: usize,
    /// Whether the machine's numbers are varied.
    pub varied: bool,
}

const MILLISECOND: Ps = 1_000_000_000;

impl IrqSafeLengths {
    /// Lengths of a run whose result may be quoted.
    pub const FULL: Self =
        Self { pages: 100_000, packets: 20 * MILLISECOND, aim9: 20 * MILLISECOND, rounds: 15, varied: true };
    /// A first look.
    pub const QUICK: Self =
        Self { pages: 20_000, packets: 5 * MILLISECOND, aim9: 2 * MILLISECOND, rounds: 5, varied: false };
    /// Windows of the packets' runs with one of the machine's numbers changed, by round.
    pub(super) const VARIED: [Ps; 2] = [3 * MILLISECOND, 10 * MILLISECOND];
}

/// Plan of the experiment's runs.
#[derive(Clone, Debug)]
pub struct IrqSafePlan<'a> {
    /// Machine of the batches, of aim9 and of the packets. The publication does not name them.
    pub machine: &'a Spec,
    /// The machine of the pair.
    pub desktop: &'a Spec,
    /// The tables.
    pub published: &'a IrqSafeTables,
    /// Seed of all that is random.
    pub seed: u64,
    /// How long runs are.
    pub lengths: IrqSafeLengths,
}

/// Measurements on this machine.
#[derive(Clone, PartialEq, Default, Serialize, Debug)]
pub struct Native {
    /// Parts.
    pub time_bench: Vec<Primitive>,
    /// A pair.
    pub pairs: Vec<ProtectionPair>,
}

impl IrqSafePlan<'_> {
    /// Measures the parts and a pair on this machine.
    ///
    /// # Errors
    /// The allocator could not be set up.
    pub fn native(&self) -> anyhow::Result<Native> {
        let rounds = self.lengths.rounds;
        let pairs = protection_pairs(&["baseline", "default"], rounds).map_err(anyhow::Error::msg)?;
        Ok(Native { time_bench: time_bench(rounds), pairs })
    }

    /// A batch in each mode. A page takes some hundred cycles.
    fn batch(&self, batch: u32) -> anyhow::Result<Vec<Run<'static>>> {
        let cycles = f64::from(self.lengths.pages.max(4 * batch)) * 500.0;
        let window = (cycles / clock(self.machine) * 1e12) as Ps;
        self.in_modes(&Workload::PageAlloc(PageAlloc { batch }), 1, |run| {
            (run.job.warm_up, run.job.window) = (window / 4, window);
        })
    }

    /// Iterations of aim9's tests, each in all modes.
    fn aim9(&self) -> anyhow::Result<Vec<Run<'static>>> {
        let mut all = Vec::new();
        for test in Test::ALL {
            let workload = Workload::Aim9(Aim9 { touch: test == Test::PageTest, call: CALL, fault: FAULT });
            for iteration in 0..ITERATIONS {
                all.extend(self.in_modes(&workload, 1, |run| {
                    (run.job.warm_up, run.job.window) = (self.lengths.aim9 / 10, self.lengths.aim9);
                    (run.job.seed, run.job.interrupts) = (self.seed + iteration, Some(TICK));
                })?);
            }
        }
        Ok(all)
    }

    /// The packets in each mode.
    fn packets<'p>(&self, window: Ps, change: Change<'p>) -> anyhow::Result<Vec<Run<'p>>> {
        let [receive, copy] = PACKET;
        let workload = Workload::Netperf(Netperf { receive, copy, ..Netperf::default() });
        self.in_modes(&workload, STREAMS, |run| {
            (run.job.warm_up, run.job.window, run.change) = (WARM_UP, window, change);
        })
    }

    /// A workload in each mode. `set` says what is not as usual. A run weighs its virtual time on all CPUs.
    fn in_modes<'p>(
        &self,
        workload: &Workload,
        cpus: usize,
        set: impl Fn(&mut Run<'p>),
    ) -> anyhow::Result<Vec<Run<'p>>> {
        let of = |mode: &Mode| {
            let mut job = Job::new(workload.clone(), mechanisms::parse(mode.mechanisms)?, cpus);
            job.seed = self.seed;
            job.lists = job.lists.map(|_| LISTS);
            let mut run = Run { name: format!("{workload}, {}", mode.name), job, change: None, weight: 0 };
            set(&mut run);
            let time = (run.job.warm_up + run.job.window).max(MILLISECOND / 4);
            Ok(Run { weight: cpus as u64 * time / 1_000_000, ..run })
        };
        MODES.iter().map(of).collect()
    }

    /// Cycles of a page's allocation and of its free, of a report of a batch.
    pub(crate) fn page_cycles(&self, report: &Report) -> Option<[f64; 2]> {
        let clock = clock(self.machine);
        Some([report.figure("an allocation")?, report.figure("a free")?].map(|ns| ns * clock / 1e9))
    }
}

impl plan::Plan for IrqSafePlan<'_> {
    const CHOSEN: usize = 6;

    fn machine(&self) -> &Spec {
        self.machine
    }

    fn sets(&self) -> anyhow::Result<Vec<Set<'_>>> {
        let batches = self.published.batches().into_iter().map(|batch| self.batch(batch));
        let of = |name, machine, runs| Set { name, machine, runs };
        Ok(vec![
            of(BATCHES, self.machine, batches.collect::<anyhow::Result<Vec<_>>>()?.concat()),
            of(AIM9, self.machine, self.aim9()?),
            of(TABLE, self.machine, self.packets(self.lengths.packets, None)?),
            of(PAIR_SET, self.desktop, self.in_modes(&Workload::PageBench01(PageBench01::default()), 1, |_| {})?),
        ])
    }

    /// The packets in the first two modes.
    fn varied<'p>(&self, change: Change<'p>, round: Round) -> anyhow::Result<Vec<Run<'p>>> {
        if !self.lengths.varied {
            return Ok(Vec::new());
        }
        let packets = self.packets(IrqSafeLengths::VARIED[round as usize], change)?;
        Ok(packets.into_iter().take(2).collect())
    }

    fn figures(&self, table: &Outcomes) -> Figures {
        let [(_, first), (_, second), ..] = table else { return Figures::new() };
        Figures::from([(LOST.to_owned(), lost(&first.report, &second.report))])
    }
}

/// Returns the second run's loss against the first, as a change in percent.
pub fn lost(first: &Report, second: &Report) -> f64 {
    change_percent(first.per_second, second.per_second)
}

/// Megabits a second of the packets.
pub(crate) fn mbit(report: &Report) -> f64 {
    report.per_second * PAGE * 8.0 / 1e6
}
