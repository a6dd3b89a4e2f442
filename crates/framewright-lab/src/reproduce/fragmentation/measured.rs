//! What runs with several seeds show.

use framewright_sim::report::LockReport;
use framewright_sim::thpfioscale::Outcome;
use framewright_sim::thpfioscale::outcome::{Block, Phase};
use serde::Serialize;

use super::published::ByType;
use crate::reproduce::estimate::Estimate;
use framewright_table::figures::{duration, share};

/// Names of the mobilities that requests ask for, by their number.
pub const TYPES: [&str; 3] = ["unmovable", "movable", "reclaimable"];
/// The mobility of what can be moved, by its number.
pub const MOVABLE: usize = 1;
/// The phase in which files are read and huge pages wanted.
pub const READING: &str = "read and fault";

/// Means over seeds.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Measured {
    /// How many seeds.
    pub seeds: usize,
    /// Requests served from a block of another mobility smaller than a pageblock.
    pub events: Estimate,
    /// Counts of these events by the type of the request.
    pub events_by_type: ByType<Estimate>,
    /// Faults that got a huge page, in percent.
    pub huge_percent: Estimate,
    /// Mean time of the others, in microseconds; none if there were none.
    pub fault_base_us: Option<Estimate>,
    /// Mean time of those that did, in microseconds; none if there were none.
    pub fault_huge_us: Option<Estimate>,
    /// Requests that waited rather than mix mobilities.
    pub stalls: Estimate,
    /// How long all of them waited, in microseconds.
    pub stalled_us: Estimate,
    /// Pages that background reclaim looked at.
    pub kswapd_scanned: Estimate,
    /// Pages that readers got in a second, from the cache or not, while huge pages were wanted.
    pub read_pages_per_s: Estimate,
    /// For how long the zone lock that was taken most was held, 999 times of 1000, in microseconds.
    pub zone_lock_held_p999_us: Estimate,
    /// For how long any zone lock was held at most, in microseconds.
    pub zone_lock_held_max_us: Estimate,
    /// Pages that compaction moved.
    pub moved: Estimate,
    /// Movable pageblocks with pages in them that cannot move, when reading ends.
    pub mixed_pageblocks: Estimate,
}

impl Measured {
    /// Of runs that differ in their seed; none of none.
    pub fn of(outcomes: &[&Outcome]) -> Option<Self> {
        let mean = |value: &dyn Fn(&Outcome) -> f64| Estimate::of(outcomes.iter().map(|outcome| value(outcome)));
        let some = |value: &dyn Fn(&Outcome) -> Option<f64>| {
            Estimate::of(outcomes.iter().filter_map(|outcome| value(outcome)))
        };
        let asked = |kind: usize| mean(&|outcome| outcome.events.fragmenting()[kind] as f64);
        let [unmovable, movable, reclaimable] = [asked(0)?, asked(1)?, asked(2)?];
        Some(Self {
            seeds: outcomes.len(),
            events: mean(&|outcome| outcome.events.total() as f64)?,
            events_by_type: ByType { unmovable, movable, reclaimable },
            huge_percent: mean(&|outcome| outcome.faults.percent())?,
            fault_base_us: some(&|outcome| (outcome.faults.base != 0).then_some(outcome.faults.base_us)),
            fault_huge_us: some(&|outcome| (outcome.faults.huge != 0).then_some(outcome.faults.huge_us)),
            stalls: mean(&|outcome| outcome.counters.fragment_stalls as f64)?,
            stalled_us: mean(&|outcome| outcome.counters.fragment_stall_ns as f64 / 1e3)?,
            kswapd_scanned: mean(&|outcome| outcome.kswapd.scanned as f64)?,
            read_pages_per_s: mean(&|outcome| {
                let [pages, seconds] = reading(outcome)
                    .fold([0.0, 0.0], |[pages, seconds], phase| [pages + phase.pages as f64, seconds + phase.seconds]);
                if seconds > 0.0 { pages / seconds } else { 0.0 }
            })?,
            zone_lock_held_p999_us: mean(&|outcome| {
                zone_locks(outcome).max_by_key(|lock| lock.taken).map_or(0.0, |lock| lock.holding.p999_ns / 1e3)
            })?,
            zone_lock_held_max_us: mean(&|outcome| {
                zone_locks(outcome).map(|lock| lock.holding.max_ns / 1e3).fold(0.0, f64::max)
            })?,
            moved: mean(&|outcome| outcome.moves.pgmigrate_success.unwrap_or(0) as f64)?,
            mixed_pageblocks: mean(&|outcome| reading(outcome).last().map_or(0, mixed) as f64)?,
        })
    }
}

/// Phases in which files were read, by round.
pub fn reading(outcome: &Outcome) -> impl Iterator<Item = &Phase> {
    outcome.phases.iter().filter(|phase| phase.name == READING)
}

fn zone_locks(outcome: &Outcome) -> impl Iterator<Item = &LockReport> {
    outcome.locks.iter().filter(|lock| lock.kind == "zone" && lock.taken != 0)
}

/// Whether a pageblock for what can be moved has something in it that cannot.
pub fn is_mixed(block: &Block) -> bool {
    usize::from(block.migratetype) == MOVABLE && block.fixed != 0
}

fn mixed(phase: &Phase) -> usize {
    phase.blocks.iter().filter(|block| is_mixed(block)).count()
}

/// Which requests took whose blocks, in a sentence.
pub fn why(outcomes: &[&Outcome]) -> String {
    let count = outcomes.len().max(1) as f64;
    let mut parts = vec![mixers(outcomes)];
    let blocks: usize = outcomes.iter().filter_map(|outcome| reading(outcome).last()).map(mixed).sum();
    if blocks != 0 {
        parts.push(format!("unmovable pages in {:.0} movable pageblocks after reading", blocks as f64 / count));
    }
    let stalls: u64 = outcomes.iter().map(|outcome| outcome.counters.fragment_stalls).sum();
    if stalls != 0 {
        let waited: u64 = outcomes.iter().map(|outcome| outcome.counters.fragment_stall_ns).sum();
        let mean = duration(waited as f64 / stalls as f64);
        parts.push(format!("{:.0} waits of {mean}", stalls as f64 / count));
    }
    parts.join("; ")
}

/// Writes which type took most blocks from which, and how many blocks were small.
fn mixers(outcomes: &[&Outcome]) -> String {
    let mut from = [[0; TYPES.len()]; TYPES.len()];
    let mut small = 0;
    for events in outcomes.iter().map(|outcome| &outcome.events) {
        for (sum, count) in from.iter_mut().flatten().zip(events.from.iter().flatten()) {
            *sum += count;
        }
        small += events.by_order.iter().flat_map(|orders| &orders[..3]).sum::<u64>();
    }
    let all: u64 = from.iter().flatten().sum();
    let cells = (0..TYPES.len()).flat_map(|asked| (0..TYPES.len()).map(move |found| (asked, found)));
    let Some((asked, found)) = cells.max_by_key(|&(asked, found)| from[asked][found]).filter(|_| all != 0) else {
        return "nothing was mixed".to_owned();
    };
    let [most, small] = [from[asked][found], small].map(|part| share(part as f64, all as f64));
    format!(
        "{most:.0} % of what mixes are {} requests that took {} blocks; {small:.0} % took blocks of 4 pages or less",
        TYPES[asked], TYPES[found]
    )
}
