//! The kinds of events, with the fields of their tracepoints.

use framewright::request::Gfp;
use framewright::units::{MigrateType, Order, Pfn};

use super::tracepoint::Tracepoint;

/// An event, with the fields of its tracepoint.
///
/// `pfn` is the first frame of a block, `order` its order, `alloc_` what was asked for, and `fallback_` what was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the fields are those of the tracepoints")]
pub enum Kind {
    /// `mm_page_alloc`: a request for this mobility was served, or failed if `pfn` is none.
    Alloc { pfn: Option<Pfn>, order: Order, migratetype: MigrateType, gfp: Gfp },
    /// `mm_page_free`: a block was freed, perhaps a part of one that was allocated.
    Free { pfn: Pfn, order: Order },
    /// `mm_page_free_batched`: a page was freed as one of a list.
    ///
    /// A [`Kind::Free`] of the page comes with it.
    FreeBatched { pfn: Pfn },
    /// `page_migrate`: the object at `old` is now at `new`.
    ///
    /// This is a probe on the function that moves a page's identity.
    Move { old: Pfn, new: Pfn },
    /// `mm_page_alloc_extfrag`: a request was served from the free lists of another mobility.
    ExtFrag {
        pfn: Pfn,
        alloc_order: Order,
        fallback_order: Order,
        pageblock_order: Order,
        alloc_migratetype: MigrateType,
        fallback_migratetype: MigrateType,
        /// Whether the block was smaller than a pageblock, so that the pageblock now mixes mobilities.
        fragmenting: bool,
        /// Whether the pageblock now has the mobility asked for.
        change_ownership: bool,
    },
    /// `mm_page_pcpu_drain`: a block of a pageblock of this mobility went from a per-CPU list back to the zone.
    PcpuDrain { pfn: Pfn, order: Order, migratetype: MigrateType },
    /// `mm_page_alloc_zone_locked`: a block was taken from the zone, perhaps for a per-CPU list, or none was there.
    AllocZoneLocked { pfn: Option<Pfn>, order: Order, migratetype: MigrateType, percpu_refill: bool },
    /// `mm_vmscan_direct_reclaim_begin`: the thread reclaims memory for its own request of this order.
    ///
    /// Its frees up to the next [`Kind::ReclaimEnd`] are of pages that could be reclaimed.
    ReclaimBegin { order: Order },
    /// `mm_vmscan_direct_reclaim_end`: the thread has reclaimed this number of frames.
    ReclaimEnd { reclaimed: u64 },
}

impl Kind {
    /// Number of kinds.
    pub const COUNT: usize = Tracepoint::ALL.len();
    /// Names of the tracepoints, by [`Kind::index`].
    pub const NAMES: [&'static str; Kind::COUNT] = Tracepoint::NAMES;

    /// The tracepoint of this kind.
    pub(crate) const fn tracepoint(&self) -> Tracepoint {
        match self {
            Kind::Alloc { .. } => Tracepoint::Alloc,
            Kind::Free { .. } => Tracepoint::Free,
            Kind::FreeBatched { .. } => Tracepoint::FreeBatched,
            Kind::Move { .. } => Tracepoint::Move,
            Kind::ExtFrag { .. } => Tracepoint::ExtFrag,
            Kind::PcpuDrain { .. } => Tracepoint::PcpuDrain,
            Kind::AllocZoneLocked { .. } => Tracepoint::AllocZoneLocked,
            Kind::ReclaimBegin { .. } => Tracepoint::ReclaimBegin,
            Kind::ReclaimEnd { .. } => Tracepoint::ReclaimEnd,
        }
    }

    /// Position of the kind in tables by kind.
    pub const fn index(&self) -> usize {
        self.tracepoint() as usize
    }

    /// Name of the tracepoint.
    pub const fn name(&self) -> &'static str {
        self.tracepoint().name()
    }

    /// Whether a replay carries this out: an allocation, a free or a move.
    ///
    /// The other kinds show how the allocator went about it.
    pub const fn is_request(&self) -> bool {
        matches!(self, Kind::Alloc { .. } | Kind::Free { .. } | Kind::Move { .. })
    }
}
