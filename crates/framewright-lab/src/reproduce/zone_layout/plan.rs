//! The published table, and what is run.

use anyhow::Context;
use framewright::Mechanisms;
use framewright::mechanisms::{LockPlace, ZoneLock};
use framewright_sim::machine::Spec;
use framewright_sim::report::Report;
use framewright_sim::workload::{Aim7, Job, Passes, Workload};
use serde::{Deserialize, Serialize};

use crate::reproduce::plan::{self, Figures, Outcomes, Set, TABLE};
use crate::reproduce::published::{Published, is_amount, is_change, names_differ};
use crate::reproduce::runs::{Change as Changed, LISTS, Run};
use crate::reproduce::variation::{Round, Varying, passes};
use framewright_table::figures::change_percent;

/// Name of the experiment, and of the table that machines' numbers are fitted to.
pub const NAME: &str = "zone-layout";
/// Numbers of CPUs at which curves have a point; the last is the table's.
pub(crate) const CURVE: [usize; 8] = [1, 2, 4, 8, 15, 30, 60, 120];
/// As `CURVE`, of a first look.
pub const FEW: [usize; 4] = [1, 4, 30, 120];
/// Locks that are compared: theirs, and the one whose waiters wait apart.
pub(super) const LOCKS: [ZoneLock; 2] = [ZoneLock::Ticket, ZoneLock::Queued];
/// Places of the lock, those of the table first.
pub(super) const PLACES: [LockPlace; 3] = [LockPlace::BesideLists, LockPlace::BehindLists, LockPlace::OwnLine];
/// How many times longer runs on few CPUs are at most.
pub(super) const LONGER: f64 = 20.0;
/// Unit of a run's passes.
pub(super) const PASS: &str = "processes of each CPU";
/// The row by which the machine's numbers are chosen: the change of jobs from beside to behind.
pub(super) const REACH: &str = "beside -> separate";
/// The set of runs with other memory of the tasks.
pub(crate) const MEMORY_SET: &str = "memory";

/// Assumptions about tasks' memory: a name, percent of the bursts that go to any node ([`Aim7::elsewhere`]), and of the
/// processes that end on any CPU ([`Aim7::moved`]). How it was is not known; the table is made with the last.
pub const MEMORY: [(&str, u32, u32); 4] = [
    ("of the CPU's node, freed there", 0, 0),
    ("of the CPU's node, freed on any CPU", 0, 100),
    ("of any node, freed there", 100, 0),
    ("of any node, freed on any CPU", 100, 100),
];

/// The published table.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ZoneLayoutTable {
    pub(super) title: String,
    pub(super) source: String,
    #[serde(rename = "workload")]
    _workload: String,
    /// Measured quantities, each before and after a change of the lock's place.
    #[serde(rename = "row")]
    pub rows: Vec<LayoutRow>,
}

/// One measurement.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct LayoutRow {
    /// Its name.
    pub name: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) quantity: Quantity,
    #[serde(flatten)]
    pub(super) change: BeforeAfter,
}

/// Something before and after the lock was moved.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct BeforeAfter {
    pub(super) before: f64,
    pub(super) after: f64,
    /// In percent.
    pub change_percent: f64,
}

/// Measured quantity.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Jobs per minute.
    Jobs,
    /// Seconds that all jobs took.
    Elapsed,
    /// Seconds of CPU time in the kernel.
    System,
    /// Seconds of CPU time outside of it.
    User,
    /// Context switches of tasks that wait.
    VoluntarySwitches,
    /// Context switches of tasks that could go on.
    InvoluntarySwitches,
}

impl Quantity {
    /// Why nothing of the kind comes out of the model; none if something does.
    pub(super) fn unmodelled(self) -> Option<&'static str> {
        match self {
            Self::Jobs | Self::Elapsed | Self::System => None,
            Self::User => Some("not modelled: what a job computes is given, and the same for both"),
            Self::VoluntarySwitches | Self::InvoluntarySwitches => {
                Some("not modelled: there is no scheduler, each CPU runs one process after the other")
            }
        }
    }

    /// Returns this quantity of a run, for a process; none if the model does not have it.
    fn of(self, report: &Report) -> Option<f64> {
        let jobs = report.per_second;
        match self {
            Self::Jobs => Some(jobs),
            Self::Elapsed => Some(1.0 / jobs),
            Self::System => Some(report.cpus as f64 * (1.0 - computing(report) / 100.0) / jobs),
            Self::User | Self::VoluntarySwitches | Self::InvoluntarySwitches => None,
        }
    }
}

pub(super) fn computing(report: &Report) -> f64 {
    report.figure(Aim7::COMPUTING).unwrap_or(f64::NAN)
}

impl Published for ZoneLayoutTable {
    const FILE: &'static str = "zone-layout.toml";
    const TEXT: &'static str = include_str!("../../../data/published/zone-layout.toml");

    fn check(&self) -> anyhow::Result<()> {
        names_differ(self.rows.iter().map(|row| &row.name))?;
        for LayoutRow { name, from, to, change, .. } in &self.rows {
            let BeforeAfter { before, after, change_percent } = *change;
            for place in [from, to] {
                let known = PLACES[..2].iter().any(|known| known.name() == place);
                known.then_some(()).with_context(|| format!("row {name}: no kernel had the lock at {place}"))?;
            }
            is_amount(&format!("row {name}: before"), before)?;
            is_amount(&format!("row {name}: after"), after)?;
            is_change(name, change_percent, (before, after))?;
        }
        Ok(())
    }
}

/// The workload, with the last of [`MEMORY`]. By the published seconds a job is outside of the kernel for one part in
/// 37 of its time where the lock is separate (658 s of 24,506 s). So much of it it computes with 7,000 cycles for 32
/// pages.
pub fn workload() -> Aim7 {
    with_memory(Aim7 { think: 7_000, ..Aim7::default() }, MEMORY[MEMORY.len() - 1])
}

pub(super) fn with_memory(workload: Aim7, (_, elsewhere, moved): (&str, u32, u32)) -> Aim7 {
    Aim7 { elsewhere, moved, ..workload }
}

/// How long runs are, in processes of each CPU; runs on few CPUs are longer.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct ZoneLayoutLengths {
    /// Runs of the table and the curves.
    pub table: Passes,
    /// Runs with one of the machine's numbers, or tasks' memory, changed; none for no such runs.
    pub varied: Option<Varying>,
}

impl ZoneLayoutLengths {
    /// Lengths of a run whose result may be quoted.
    ///
    /// Some twenty processes of each CPU end before the waiters have gathered at one zone. Over twenty more, three
    /// seeds agree on the change within a point and a half.
    pub const FULL: Self = Self {
        table: passes(24.0, 48.0),
        varied: Some(Varying { screen: passes(12.0, 12.0), band: passes(24.0, 72.0) }),
    };
    /// A first look: no variations.
    pub const QUICK: Self = Self { table: passes(5.0, 5.0), varied: None };
}

/// Plan of the experiment's runs.
#[derive(Clone, Debug)]
pub struct ZoneLayoutPlan<'a> {
    /// The machine.
    pub machine: &'a Spec,
    /// The table.
    pub published: &'a ZoneLayoutTable,
    /// Workload of the machine's CPUs.
    pub workload: Aim7,
    /// Numbers of CPUs for curves; the last is the table's.
    pub cpus: Vec<usize>,
    /// Seed of all that is random.
    pub seed: u64,
    /// How long runs are.
    pub lengths: ZoneLayoutLengths,
}

/// A lock and its place.
pub(super) type LockAtPlace = (ZoneLock, LockPlace);

/// Each of them, by lock.
pub(super) fn variants() -> impl Iterator<Item = LockAtPlace> {
    LOCKS.into_iter().flat_map(|lock| PLACES.into_iter().map(move |place| (lock, place)))
}

/// A lock and a place in a word for each.
pub(super) fn variant_name(lock: &str, place: &str) -> String {
    format!("{lock}, {place}")
}

/// The baseline with this lock at this place.
pub(super) fn mechanisms((zone_lock, lock_place): LockAtPlace) -> Mechanisms {
    Mechanisms { zone_lock, lock_place, ..Mechanisms::BASELINE }
}

/// Names a variant's run on `cpus` CPUs.
pub(super) fn run_name(variant: &str, cpus: usize) -> String {
    format!("{variant} on {cpus} CPUs")
}

impl ZoneLayoutPlan<'_> {
    /// CPUs of the table.
    pub(super) fn most(&self) -> usize {
        self.cpus.last().copied().unwrap_or(1)
    }

    fn run_of<'p>(&self, (lock, place): LockAtPlace, cpus: usize, (workload, length): (Aim7, Passes)) -> Run<'p> {
        // So that as many processes end.
        let longer = (self.most() as f64 / cpus as f64).min(LONGER);
        let length = passes(length.warm_up * longer, length.window * longer);
        let mut job = Job::new(Workload::Aim7(workload), mechanisms((lock, place)), cpus);
        (job.seed, job.lists, job.passes) = (self.seed, Some(LISTS), Some(length));
        let weight = (length.warm_up + length.window) * cpus as f64 * 1000.0;
        let name = run_name(&variant_name(lock.name(), place.name()), cpus);
        Run { name, job, change: None, weight: weight as u64 }
    }

    /// Both places of the table with its lock.
    fn pair<'p>(&self, what: (Aim7, Passes)) -> [Run<'p>; 2] {
        [PLACES[0], PLACES[1]].map(|place| self.run_of((LOCKS[0], place), self.most(), what))
    }

    /// Before and after a change of the lock's place, as a row has it.
    pub(super) fn change(&self, row: &LayoutRow, table: &Outcomes) -> Option<BeforeAfter> {
        let at = |place: &str| {
            let name = run_name(&variant_name(LOCKS[0].name(), place), self.most());
            row.quantity.of(&table.iter().find(|(known, _)| *known == name)?.1.report)
        };
        let (before, after) = (at(&row.from)?, at(&row.to)?);
        Some(BeforeAfter { before, after, change_percent: change_percent(before, after) })
    }
}

impl plan::Plan for ZoneLayoutPlan<'_> {
    const CHOSEN: usize = 8;

    fn machine(&self) -> &Spec {
        self.machine
    }

    fn sets(&self) -> anyhow::Result<Vec<Set<'_>>> {
        let table = |variant| {
            self.cpus.iter().map(move |&cpus| self.run_of(variant, cpus, (self.workload, self.lengths.table)))
        };
        let memory =
            |varying: Varying| MEMORY.map(|memory| self.pair((with_memory(self.workload, memory), varying.band)));
        let memory = self.lengths.varied.map(memory).into_iter().flatten().flatten();
        Ok(vec![
            Set { name: TABLE, machine: self.machine, runs: variants().flat_map(table).collect() },
            Set { name: MEMORY_SET, machine: self.machine, runs: memory.collect() },
        ])
    }

    fn varied<'p>(&self, change: Changed<'p>, round: Round) -> anyhow::Result<Vec<Run<'p>>> {
        let pair = |varying: Varying| self.pair((self.workload, varying.of(round))).map(|run| Run { change, ..run });
        Ok(self.lengths.varied.into_iter().flat_map(pair).collect())
    }

    /// The change of each row.
    fn figures(&self, table: &Outcomes) -> Figures {
        let of = |row: &LayoutRow| Some((row.name.clone(), self.change(row, table)?.change_percent));
        self.published.rows.iter().filter_map(of).collect()
    }

    fn reach(&self, still: &Figures, moved: &Figures) -> f64 {
        let of = |figures: &Figures| figures.get(REACH).copied().unwrap_or(f64::NAN);
        (of(moved) - of(still)).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::published::mistake;

    #[test]
    fn the_table_is_read() {
        let table = ZoneLayoutTable::built_in().unwrap();
        let jobs = table.rows.iter().filter(|row| row.quantity == Quantity::Jobs);
        let jobs: Vec<f64> = jobs.map(|row| row.change.change_percent).collect();
        assert_eq!((table.rows.len(), jobs), (11, vec![-46.2, 94.3]));
        assert!(table.rows.iter().all(|row| row.from != row.to));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |from, to| mistake::<ZoneLayoutTable>(from, to);
        assert_eq!(
            wrong("change_percent = -46.2", "change_percent = 46.2"),
            "row separate -> beside: change_percent is 46.2, its numbers say -46.2"
        );
        assert_eq!(wrong("before = 152288", "before = 0"), "row separate -> beside: before is 0");
        assert!(wrong("\"behind-lists\"", "\"own-line\"").contains("own-line"));
        let twice = wrong("name = \"beside -> separate\"", "name = \"separate -> beside\"");
        assert_eq!(twice, "row separate -> beside is there twice");
    }
}
