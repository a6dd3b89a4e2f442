//! The results of a run, as data.

use framewright::Counters;
use framewright::report::VmEvents;
use serde::Serialize;

use crate::report::LockReport;

/// Orders that a block of a free list can have.
const ORDERS: usize = 11;
/// Order of a pageblock: a fallback to a smaller block mixes mobilities.
pub(super) const PAGEBLOCK: usize = 9;
/// Mobilities that requests ask for: unmovable, movable, reclaimable.
const TYPES: usize = 3;

/// Requests served from the free lists of another type (`mm_page_alloc_extfrag`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Events {
    /// By what was asked for (unmovable, movable, reclaimable) and the order of the block that was found.
    pub by_order: [[u64; ORDERS]; TYPES],
    /// Those that mix mobilities, by what was asked for and the block's type.
    pub from: [[u64; TYPES]; TYPES],
    /// Those after which the pageblock has the type that was asked for.
    pub claimed: u64,
}

impl Events {
    /// Returns those that mix mobilities, by what was asked for.
    pub fn fragmenting(&self) -> [u64; TYPES] {
        self.by_order.map(|orders| orders[..PAGEBLOCK].iter().sum())
    }

    /// Returns the events since `before`.
    pub(super) fn since(&self, before: &Events) -> Events {
        let mut events = *self;
        for (now, before) in events.by_order.iter_mut().flatten().zip(before.by_order.iter().flatten()) {
            *now -= before;
        }
        for (now, before) in events.from.iter_mut().flatten().zip(before.from.iter().flatten()) {
            *now -= before;
        }
        events.claimed -= before.claimed;
        events
    }

    /// Those that mix mobilities.
    pub fn total(&self) -> u64 {
        self.fragmenting().iter().sum()
    }
}

/// Counts of one kind of reclaim.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Reclaim {
    /// Its calls.
    pub runs: u64,
    /// Pages of the lists that were scanned.
    pub scanned: u64,
    /// Frames that were freed.
    pub freed: u64,
}

/// The machine at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Sample {
    /// When, in virtual milliseconds.
    pub ms: u64,
    /// Events so far that mixed mobilities.
    pub events: u64,
    /// Free frames.
    pub free: u64,
    /// Dirty pages and pages under writeback.
    pub dirty: u64,
    /// Pages of files on inactive lists.
    pub inactive: u64,
    /// Pages of files on active lists.
    pub active: u64,
    /// Frames of slabs that no shrinker frees.
    pub unmovable_slab: u64,
    /// Frames of slabs that a shrinker frees.
    pub reclaimable_slab: u64,
}

/// One pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Block {
    /// Its type, by number ([`framewright::MigrateType::index`]).
    pub migratetype: u8,
    /// Frames that are free, on per-CPU lists too.
    pub free: u16,
    /// Frames in use whose contents can move.
    pub movable: u16,
    /// Other frames in use.
    pub fixed: u16,
}

/// One phase of a run.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// How long it took, in virtual seconds.
    pub seconds: f64,
    /// Pages that were written or read in it, whether cached or not.
    pub pages: u64,
    /// Events in it.
    pub events: Events,
    /// Faults in it.
    pub faults: Faults,
    /// Pageblocks at its end, from the lowest.
    pub blocks: Vec<Block>,
    /// Objects in use at its end, by kind.
    ///
    /// Inodes, names, page nodes, log copies, log items, extents, open files, disk requests, metadata buffers, sockets,
    /// heads of sent data.
    pub objects: Vec<u64>,
    /// Frames of slabs at its end: those that no shrinker frees, and the others.
    pub slab: [u64; 2],
}

/// Faults of the threads that want huge pages.
#[derive(Clone, Copy, PartialEq, Default, Serialize, Debug)]
pub struct Faults {
    /// Those that got one.
    pub huge: u64,
    /// Those that got base pages instead.
    pub base: u64,
    /// Mean time of a huge fault, writing to all of it included, in microseconds.
    pub huge_us: f64,
    /// Mean time of 512 base pages, in microseconds.
    pub base_us: f64,
}

impl Faults {
    /// Returns the faults that got a huge page, in percent.
    pub fn percent(&self) -> f64 {
        self.huge as f64 * 100.0 / (self.huge + self.base).max(1) as f64
    }
}

/// The result of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct FioOutcome {
    /// Writing, reading with faults, and what follows, of each round.
    pub phases: Vec<Phase>,
    /// Of all rounds.
    pub faults: Faults,
    /// Events of all rounds.
    pub events: Events,
    /// Over time.
    pub samples: Vec<Sample>,
    /// Background reclaim.
    pub kswapd: Reclaim,
    /// Reclaim by the requests themselves.
    pub direct: Reclaim,
    /// Objects that shrinkers scanned.
    pub shrunk: u64,
    /// Pages read again after their eviction, and those of them that became active at once.
    pub refaults: [u64; 2],
    /// Requests that failed and were made again.
    pub retries: u64,
    /// Counts of the allocator's slow paths.
    pub counters: Counters,
    /// Moved pages, and what compaction did.
    pub moves: VmEvents,
    /// Locks of the allocator.
    pub locks: Vec<LockReport>,
    /// Accesses of virtual CPUs to shared memory, a measure of the host's work.
    pub accesses: u64,
    /// Switches between virtual CPUs.
    pub switches: u64,
}

/// Counts of a run.
#[derive(Clone, Default, Debug)]
pub(super) struct Tally {
    pub(super) events: Events,
    pub(super) kswapd: Reclaim,
    pub(super) direct: Reclaim,
    pub(super) shrunk: u64,
    pub(super) retries: u64,
    /// Pages written to the disk.
    pub(super) written: u64,
    /// Pages that were written or read.
    pub(super) pages: u64,
    pub(super) huge: (u64, u64),
    pub(super) base: (u64, u64),
    pub(super) samples: Vec<Sample>,
}

impl Tally {
    pub(super) fn note(&mut self, (asked, found): (usize, usize), order: usize, claimed: bool) {
        if asked >= TYPES || order >= ORDERS {
            return;
        }
        self.events.by_order[asked][order] += 1;
        self.events.claimed += u64::from(claimed);
        if order < PAGEBLOCK && found < TYPES {
            self.events.from[asked][found] += 1;
        }
    }

    /// Returns the faults since `before`.
    pub(super) fn faults(&self, before: &Tally) -> Faults {
        let since = |now: (u64, u64), before: (u64, u64)| (now.0 - before.0, now.1 - before.1);
        let [huge, base] = [since(self.huge, before.huge), since(self.base, before.base)];
        let mean = |(count, time): (u64, u64)| time as f64 / 1e6 / count.max(1) as f64;
        Faults { huge: huge.0, base: base.0, huge_us: mean(huge), base_us: mean(base) }
    }
}
