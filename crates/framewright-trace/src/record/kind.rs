//! The kinds of events, with the fields of their tracepoints.

use framewright::request::Gfp;
use framewright::units::{MigrateType, Order, Pfn};

use super::tracepoint::Tracepoint;

/// An event, with the fields of its tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// `mm_page_alloc`: a request was served, or failed if `pfn` is none.
    Alloc {
        /// First frame of the block.
        pfn: Option<Pfn>,
        /// Order of the block.
        order: Order,
        /// Mobility asked for.
        migratetype: MigrateType,
        /// Flags of the request.
        gfp: Gfp,
    },
    /// `mm_page_free`: a block was freed.
    Free {
        /// First frame of the block.
        pfn: Pfn,
        /// Order of the block, which can be smaller than the one that it was allocated with.
        order: Order,
    },
    /// `mm_page_free_batched`: a page was freed as one of a list.
    ///
    /// A [`Kind::Free`] of the page comes with it.
    FreeBatched {
        /// The page.
        pfn: Pfn,
    },
    /// `page_migrate`: the object at `old` is now at `new`.
    ///
    /// This is a probe on the function that moves a page's identity.
    Move {
        /// Where the object was.
        old: Pfn,
        /// Where it is now.
        new: Pfn,
    },
    /// `mm_page_alloc_extfrag`: a request was served from the free lists of another mobility.
    ExtFrag {
        /// First frame of the block that was found.
        pfn: Pfn,
        /// Order asked for.
        alloc_order: Order,
        /// Order of the block that was found.
        fallback_order: Order,
        /// Order of a pageblock.
        pageblock_order: Order,
        /// Mobility asked for.
        alloc_migratetype: MigrateType,
        /// Mobility of the list that the block was on.
        fallback_migratetype: MigrateType,
        /// Whether the block was smaller than a pageblock, so that the pageblock now mixes mobilities.
        fragmenting: bool,
        /// Whether the pageblock now has the mobility asked for.
        change_ownership: bool,
    },
    /// `mm_page_pcpu_drain`: a block went from a per-CPU list back to the zone.
    PcpuDrain {
        /// First frame of the block.
        pfn: Pfn,
        /// Order of the block.
        order: Order,
        /// Mobility of its pageblock.
        migratetype: MigrateType,
    },
    /// `mm_page_alloc_zone_locked`: a block was taken from the zone, or none was there.
    AllocZoneLocked {
        /// First frame of the block.
        pfn: Option<Pfn>,
        /// Order of the block.
        order: Order,
        /// Mobility asked for.
        migratetype: MigrateType,
        /// Whether the block goes to a per-CPU list.
        percpu_refill: bool,
    },
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
