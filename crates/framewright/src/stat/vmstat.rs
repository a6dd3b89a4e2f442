//! Event counters: events per CPU and zone, and events of the slow paths.
//!
//! [`ZoneEvents`] counts the events of every allocation per CPU and zone, by plain additions; a reader adds them up. A
//! reader sees each CPU's counters at a slightly different moment. At a quiescent point the sums are exact. A CPU that
//! goes offline leaves its counts to the zone.
//!
//! [`GlobalEvents`] counts the events of slow paths, with one shared word for each.

use crate::seam::field::record;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::units::{Order, ZoneKind};

/// Events counted per CPU and zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ZoneEvent {
    /// Frames allocated (`pgalloc_*`).
    AllocFrames,
    /// Frames freed (`pgfree`).
    FreeFrames,
    /// Blocks allocated by requests.
    Allocs,
    // `numa_stat.rs` documents which of the following are counted here, and which elsewhere or not at all.
    /// Blocks served for a request that preferred this node (`numa_hit`).
    NumaHit,
    /// Blocks served for a request that preferred another node (`numa_miss`).
    NumaMiss,
    /// Requests that preferred this node and were served elsewhere (`numa_foreign`).
    NumaForeign,
    /// Interleaved requests served by the node whose turn it was (`numa_interleave`).
    NumaInterleave,
    /// Blocks served to CPUs of this node (`numa_local`).
    NumaLocal,
    /// Blocks served to CPUs of other nodes (`numa_other`).
    NumaOther,
}

impl ZoneEvent {
    /// Every event.
    pub(crate) const ALL: [ZoneEvent; 9] = [
        ZoneEvent::AllocFrames,
        ZoneEvent::FreeFrames,
        ZoneEvent::Allocs,
        ZoneEvent::NumaHit,
        ZoneEvent::NumaMiss,
        ZoneEvent::NumaForeign,
        ZoneEvent::NumaInterleave,
        ZoneEvent::NumaLocal,
        ZoneEvent::NumaOther,
    ];

    /// Returns the event of a NUMA counter.
    pub(crate) const fn of(item: NumaItem) -> ZoneEvent {
        match item {
            NumaItem::Hit => ZoneEvent::NumaHit,
            NumaItem::Miss => ZoneEvent::NumaMiss,
            NumaItem::Foreign => ZoneEvent::NumaForeign,
            NumaItem::Interleave => ZoneEvent::NumaInterleave,
            NumaItem::Local => ZoneEvent::NumaLocal,
            NumaItem::Other => ZoneEvent::NumaOther,
        }
    }
}

/// NUMA counters, in Linux's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NumaItem {
    Hit,
    Miss,
    Foreign,
    Interleave,
    Local,
    Other,
}

impl NumaItem {
    pub(crate) const COUNT: usize = 6;
    pub(crate) const ALL: [NumaItem; NumaItem::COUNT] =
        [NumaItem::Hit, NumaItem::Miss, NumaItem::Foreign, NumaItem::Interleave, NumaItem::Local, NumaItem::Other];
}

record! {
    /// Counters of one CPU for one zone, or a zone's counters of offline CPUs.
    pub(crate) struct ZoneEvents<M: Machine> {
        word("{event:?}"; event in ZoneEvent::ALL) counts: [M::U64; ZoneEvent::ALL.len()],
    }
}

impl<M: Machine> ZoneEvents<M> {
    /// Adds `n` to a counter.
    ///
    /// Caller holds: the record that the counters belong to.
    pub(crate) fn count(&self, event: ZoneEvent, n: u64) {
        if let Some(word) = self.counts.get(event as usize) {
            word.store(word.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        }
    }

    /// Counts a block that was not served by a ring.
    ///
    /// A ring counts its own blocks.
    pub(crate) fn count_alloc(&self, order: Order) {
        self.count(ZoneEvent::Allocs, 1);
        self.count(ZoneEvent::AllocFrames, order.frames());
    }

    pub(crate) fn get(&self, event: ZoneEvent) -> u64 {
        self.counts.get(event as usize).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Adds `n` to a counter that CPUs share.
    pub(crate) fn add(&self, event: ZoneEvent, n: u64) {
        if let Some(word) = self.counts.get(event as usize) {
            word.add(n, Ordering::Relaxed);
        }
    }
}

/// Events of the slow paths, counted in shared words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GlobalEvent {
    /// Requests that failed.
    AllocFail,
    /// Frees that were refused.
    BadFree,
    /// Wake-ups of background reclaim (`pageoutrun` counts its runs).
    KswapdWake,
    /// Blocks served from another type's lists by less than a pageblock (fragmenting).
    ExtFragFragmenting,
    /// Blocks served from another type's lists by whole pageblocks.
    ExtFragWhole,
    /// Rebuilds of free lists after a damaged descriptor was found.
    Repairs,
    /// Blocks quarantined because they were written to after they were freed.
    WrittenAfterFree,
    /// Requests that waited to avoid mixing mobilities.
    FragmentStall,
    /// Time that those requests waited, in nanoseconds.
    FragmentStallTime,
    /// Frames whose contents were moved elsewhere (`pgmigrate_success`).
    MigrateSuccess,
    /// Frames whose contents could not be moved (`pgmigrate_fail`).
    MigrateFail,
    /// Frames that compaction scanned for contents to move (`compact_migrate_scanned`).
    CompactMigrateScanned,
    /// Frames that compaction scanned for a free place (`compact_free_scanned`).
    CompactFreeScanned,
    /// Requests that ran compaction themselves (`compact_stall`).
    ///
    /// [`Self::CompactFail`] counts those that gained nothing from it (`compact_fail`), [`Self::CompactSuccess`] those
    /// that gained something (`compact_success`).
    CompactStall,
    CompactFail,
    CompactSuccess,
    /// Runs of background compaction (`compact_daemon_wake`), and its share of the scanned frames.
    CompactDaemonWake,
    CompactDaemonMigrateScanned,
    CompactDaemonFreeScanned,
}

record! {
    /// Shared counters of the allocator.
    // Aligned so that they share no line with words of the allocator that every call reads.
    #[repr(align(128))]
    pub(crate) struct GlobalEvents<M: Machine> {
        word("{event:?}"; event in GlobalEvent::ALL) counts: [M::U64; GlobalEvent::COUNT],
        /// Requests that had to reclaim, by the highest zone they could use (`allocstall_*`).
        word("stalls[{kind}]"; kind in ZoneKind::ALL) stalls: [M::U64; ZoneKind::COUNT],
    }
}

impl GlobalEvent {
    const ALL: [GlobalEvent; GlobalEvent::COUNT] = [
        GlobalEvent::AllocFail,
        GlobalEvent::BadFree,
        GlobalEvent::KswapdWake,
        GlobalEvent::ExtFragFragmenting,
        GlobalEvent::ExtFragWhole,
        GlobalEvent::Repairs,
        GlobalEvent::WrittenAfterFree,
        GlobalEvent::FragmentStall,
        GlobalEvent::FragmentStallTime,
        GlobalEvent::MigrateSuccess,
        GlobalEvent::MigrateFail,
        GlobalEvent::CompactMigrateScanned,
        GlobalEvent::CompactFreeScanned,
        GlobalEvent::CompactStall,
        GlobalEvent::CompactFail,
        GlobalEvent::CompactSuccess,
        GlobalEvent::CompactDaemonWake,
        GlobalEvent::CompactDaemonMigrateScanned,
        GlobalEvent::CompactDaemonFreeScanned,
    ];
    const COUNT: usize = GlobalEvent::CompactDaemonFreeScanned as usize + 1;
}

impl<M: Machine> GlobalEvents<M> {
    pub(crate) fn count(&self, event: GlobalEvent) {
        self.add(event, 1);
    }

    pub(crate) fn add(&self, event: GlobalEvent, by: u64) {
        if let Some(word) = self.counts.get(event as usize) {
            word.add(by, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, event: GlobalEvent) -> u64 {
        self.counts.get(event as usize).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    pub(crate) fn count_stall(&self, highest: ZoneKind) {
        if let Some(word) = self.stalls.get(highest.index()) {
            word.add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn stalls(&self) -> [u64; ZoneKind::COUNT] {
        ZoneKind::ALL.map(|kind| self.stalls.get(kind.index()).map_or(0, |word| word.load(Ordering::Relaxed)))
    }
}
