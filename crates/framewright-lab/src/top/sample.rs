//! The state of a source at one moment, and the events between two moments.
//!
//! All three kinds of source show Linux's files (`zoneinfo`, `buddyinfo`, `pagetypeinfo`, `vmstat`): the kernel has
//! them, a process with an exported arena answers with them, and the simulated machine's allocator prints them. So
//! there is one way to a [`Sample`]: [`Texts`], read by the parsers that a replay uses. Facts that are in none of those
//! files are passed beside them, or the reason why they are not known ([`Known`]).
//!
//! Sizes are frames. Time is the source's own: seconds since its first sample, on the wall's clock or on the simulated
//! one.

use std::sync::Arc;

use framewright::units::{MigrateType, Order, PfnRange};
use framewright_trace::error::TraceError;
use framewright_trace::proc::{BuddyInfo, PageSet, PageTypeInfo, VmStat, ZoneInfo, ZoneState};

use super::map::Map;

/// Order of a pageblock on x86.
const USUAL_PAGEBLOCK: Order = Order(9);

/// Something, or why there is nothing.
pub type Known<T> = Result<T, String>;

/// Files as the source printed them.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    /// `zoneinfo`.
    pub zoneinfo: String,
    /// `buddyinfo`.
    pub buddyinfo: String,
    /// `pagetypeinfo`, which a kernel shows to root alone.
    pub pagetypeinfo: Option<String>,
    /// `vmstat`.
    pub vmstat: String,
}

/// The state of a source at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When, in seconds of the source's clock.
    pub at: f64,
    /// Zones with memory, in the files' order.
    pub zones: Vec<Zone>,
    /// Order of a pageblock; that of most machines where the source does not tell.
    pub pageblock: Order,
    /// The counters.
    pub counts: Counts,
    /// Every lock, with what was counted since the source began.
    pub locks: Known<Arc<[LockCount]>>,
    /// The pageblocks.
    pub map: Known<Arc<Map>>,
}

/// One zone's memory.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Zone {
    /// Its node.
    pub node: u32,
    /// Its name, as `Normal`.
    pub name: String,
    /// The frames from its first to its last.
    pub range: PfnRange,
    /// Frames that the allocator was given.
    pub managed: u64,
    /// Frames on the buddy lists.
    pub free: u64,
    /// The watermarks min, low and high, in frames, as the file has them.
    pub marks: [u64; 3],
    /// Frames by which the watermarks are raised for now.
    pub boost: u64,
    /// Free blocks by order.
    pub blocks: Vec<u64>,
    /// Free blocks by order, and by [`MigrateType::index`], if the source tells.
    pub types: Option<Vec<[u64; MigrateType::COUNT]>>,
    /// Lists of each CPU.
    pub pcps: Vec<PageSet>,
}

impl Zone {
    /// How it is called on the screen: `0 Normal`.
    pub fn title(&self) -> String {
        format!("{} {}", self.node, self.name)
    }

    /// Free frames of each order.
    pub fn free_frames(&self) -> impl Iterator<Item = u64> {
        self.blocks.iter().zip(0..).map(|(&blocks, order)| blocks << order)
    }

    /// Adds another zone's memory, for a view of all of them. Lists of one CPU are added up.
    fn add(&mut self, other: &Zone) {
        self.managed += other.managed;
        self.free += other.free;
        self.boost += other.boost;
        self.marks.iter_mut().zip(other.marks).for_each(|(sum, mark)| *sum += mark);
        self.blocks.resize(self.blocks.len().max(other.blocks.len()), 0);
        self.blocks.iter_mut().zip(&other.blocks).for_each(|(sum, blocks)| *sum += blocks);
        match (&mut self.types, &other.types) {
            (Some(sums), Some(types)) => {
                sums.resize(sums.len().max(types.len()), [0; MigrateType::COUNT]);
                for (sum, types) in sums.iter_mut().zip(types) {
                    sum.iter_mut().zip(types).for_each(|(sum, blocks)| *sum += blocks);
                }
            }
            (types, _) => *types = None,
        }
        for set in &other.pcps {
            match self.pcps.iter_mut().find(|known| known.cpu == set.cpu) {
                Some(sum) => (sum.count, sum.high) = (sum.count + set.count, sum.high + set.high),
                None => self.pcps.push(*set),
            }
        }
    }

    /// All zones as one.
    pub fn all(zones: &[Zone]) -> Zone {
        let types = zones.iter().all(|zone| zone.types.is_some()).then(Vec::new);
        let empty = Zone { name: "all zones".to_owned(), types, ..Zone::default() };
        zones.iter().fold(empty, |mut sum, zone| {
            sum.add(zone);
            sum
        })
    }
}

/// Counts of one lock since the source began.
#[derive(Clone, Debug, PartialEq)]
pub struct LockCount {
    /// Its name, as `zone lock, Node 0, zone Normal`.
    pub name: String,
    /// Times it was taken.
    pub taken: u64,
    /// Acquisitions that found it taken.
    pub contended: u64,
    /// How long all CPUs waited for it, in seconds.
    pub waited: f64,
}

/// Counters that a source keeps, by the row of [`EVENTS`]; none where it does not.
pub type Counts = [Option<u64>; EVENTS.len()];

/// A row of the panel of events.
#[derive(Debug)]
pub struct Event {
    /// Its name on the screen.
    pub name: &'static str,
    /// The counters of `vmstat` that it is the sum of.
    counters: &'static [&'static str],
}

/// The events on the screen, the most telling first. The first two are pages, the others events unless they say pages.
pub const EVENTS: [Event; 15] = [
    Event {
        name: "pages allocated",
        counters: &["pgalloc_dma", "pgalloc_dma32", "pgalloc_normal", "pgalloc_movable", "pgalloc_device"],
    },
    Event { name: "pages freed", counters: &["pgfree"] },
    Event { name: FALLBACKS, counters: &[] },
    Event { name: FRAGMENTING, counters: &[] },
    Event {
        name: "direct reclaims",
        counters: &["allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable"],
    },
    Event { name: "kswapd runs", counters: &["pageoutrun"] },
    Event { name: "compactions", counters: &["compact_stall"] },
    Event { name: "  that failed", counters: &["compact_fail"] },
    Event { name: "kcompactd wakes", counters: &["compact_daemon_wake"] },
    Event { name: "pages moved", counters: &["pgmigrate_success"] },
    Event { name: "numa misses", counters: &["numa_miss"] },
    Event { name: "page faults", counters: &["pgfault"] },
    Event { name: "huge faults", counters: &["thp_fault_alloc"] },
    Event { name: "  served small", counters: &["thp_fault_fallback"] },
    Event { name: "pages reclaimed", counters: &["pgsteal_kswapd", "pgsteal_direct"] },
];

/// Requests served from another mobility's lists. No file of Linux counts them.
const FALLBACKS: &str = "fallbacks";
/// Of those, the ones that split a pageblock's memory between mobilities.
const FRAGMENTING: &str = "  fragmenting";

/// The counters of `vmstat`, and the fallbacks, all and fragmenting, if the source knows them.
fn counts(vmstat: &VmStat, fallbacks: Option<(u64, u64)>) -> Counts {
    EVENTS.each_ref().map(|event| match event.name {
        FALLBACKS => fallbacks.map(|(all, _)| all),
        FRAGMENTING => fallbacks.map(|(_, fragmenting)| fragmenting),
        _ => event.counters.iter().filter_map(|name| vmstat.get(name)).reduce(u64::wrapping_add),
    })
}

impl Sample {
    /// Reads what a source printed. `fallbacks` are all and the fragmenting ones.
    ///
    /// # Errors
    /// The file that is malformed, and its line.
    pub fn read(at: f64, texts: &Texts, fallbacks: Option<(u64, u64)>) -> Result<Sample, TraceError> {
        let zoneinfo = ZoneInfo::parse(&texts.zoneinfo, "zoneinfo")?;
        let buddyinfo = BuddyInfo::parse(&texts.buddyinfo, "buddyinfo")?;
        let types = texts.pagetypeinfo.as_deref().map(|text| PageTypeInfo::parse(text, "pagetypeinfo")).transpose()?;
        let vmstat = VmStat::parse(&texts.vmstat, "vmstat")?;
        let zone = |state: ZoneState| {
            let row = buddyinfo.row(state.node, &state.name)?;
            let by_type = types.as_ref().map(|types| by_order(types, &state, row.free.len()));
            Some(Zone {
                node: state.node,
                range: state.range(),
                managed: state.managed,
                free: state.free,
                marks: [state.min, state.low, state.high],
                boost: state.boost,
                blocks: row.free.clone(),
                types: by_type,
                name: state.name,
                pcps: state.pagesets,
            })
        };
        let zones = zoneinfo.zones.into_iter().filter(|zone| zone.present > 0).filter_map(zone).collect();
        let pageblock = types.as_ref().map_or(USUAL_PAGEBLOCK, |types| types.pageblock_order);
        let counts = counts(&vmstat, fallbacks);
        Ok(Sample { at, zones, pageblock, counts, locks: Err(String::new()), map: Err(String::new()) })
    }

    /// Frames that the allocator was given, that are on its lists, and that lie in CPUs' lists.
    pub fn memory(&self) -> (u64, u64, u64) {
        let lists = |zone: &Zone| zone.pcps.iter().map(|set| set.count).sum::<u64>();
        self.zones.iter().fold((0, 0, 0), |(managed, free, listed), zone| {
            (managed + zone.managed, free + zone.free, listed + lists(zone))
        })
    }
}

/// A zone's free blocks by order and mobility.
fn by_order(types: &PageTypeInfo, zone: &ZoneState, orders: usize) -> Vec<[u64; MigrateType::COUNT]> {
    let mut table = vec![[0; MigrateType::COUNT]; orders];
    for row in types.free.iter().filter(|row| row.node == zone.node && row.zone == zone.name) {
        for (by_type, &blocks) in table.iter_mut().zip(&row.free) {
            by_type[row.migratetype.index()] += blocks;
        }
    }
    table
}

/// The events between two samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Between {
    /// Seconds of the source's clock.
    pub seconds: f64,
    /// Events in a second, by the row of [`EVENTS`]; none where the source does not count, or restarted its count.
    pub rates: [Option<f64>; EVENTS.len()],
    /// Locks that were taken in between, the most waited-for first.
    pub locks: Vec<LockCount>,
}

impl Between {
    /// From `before` to `after`; none if no time went by.
    pub fn of(before: &Sample, after: &Sample) -> Option<Between> {
        let seconds = after.at - before.at;
        if seconds <= 0.0 {
            return None;
        }
        let rate = |row: usize| {
            let grown = after.counts[row]?.checked_sub(before.counts[row]?)?;
            Some(grown as f64 / seconds)
        };
        let locks = match (&before.locks, &after.locks) {
            (Ok(before), Ok(after)) => taken(before, after),
            _ => Vec::new(),
        };
        Some(Between { seconds, rates: std::array::from_fn(rate), locks })
    }
}

fn taken(before: &[LockCount], after: &[LockCount]) -> Vec<LockCount> {
    let known: std::collections::HashMap<&str, &LockCount> =
        before.iter().map(|lock| (lock.name.as_str(), lock)).collect();
    let grown = |lock: &LockCount| {
        let Some(before) = known.get(lock.name.as_str()) else { return lock.clone() };
        LockCount {
            name: lock.name.clone(),
            taken: lock.taken.saturating_sub(before.taken),
            contended: lock.contended.saturating_sub(before.contended),
            waited: (lock.waited - before.waited).max(0.0),
        }
    };
    let mut locks: Vec<LockCount> = after.iter().map(grown).filter(|lock| lock.taken > 0).collect();
    locks.sort_by(|a, b| b.waited.total_cmp(&a.waited).then(b.taken.cmp(&a.taken)).then_with(|| a.name.cmp(&b.name)));
    locks
}
