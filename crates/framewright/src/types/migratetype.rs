//! Mobility of memory: the key by which free lists and pageblocks are grouped.
//!
//! Blocks that can move are kept apart from blocks that cannot. One unmovable page then does not spoil a whole
//! pageblock.

use core::fmt;

use crate::types::units::Order;

/// Free list of a zone: that of blocks of one order and type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListId {
    pub(crate) order: Order,
    pub(crate) migratetype: MigrateType,
}

/// Mobility of a block; numbered as Linux ≥ 4.4 numbers it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum MigrateType {
    /// Stays in place until freed.
    #[default]
    Unmovable,
    /// Its contents can be moved elsewhere.
    Movable,
    /// Cannot move, but can be reclaimed.
    Reclaimable,
    /// Reserve for high-order requests that may not wait.
    HighAtomic,
    /// Kept for large contiguous requests; lent to movable requests.
    Cma,
    /// Free memory that no request may allocate.
    Isolate,
}

impl MigrateType {
    /// All types, in the order of their numbers.
    pub const ALL: [MigrateType; 6] = [
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
        MigrateType::HighAtomic,
        MigrateType::Cma,
        MigrateType::Isolate,
    ];
    /// Number of types.
    pub const COUNT: usize = 6;
    /// Number of types that requests ask for and per-CPU lists hold.
    ///
    /// They are the first ones of [`Self::ALL`].
    pub const PCP_COUNT: usize = 3;

    /// Returns the type with this number, in the numbering of Linux ≥ 4.4 with CMA.
    pub const fn from_index(index: usize) -> Option<MigrateType> {
        match index {
            0 => Some(MigrateType::Unmovable),
            1 => Some(MigrateType::Movable),
            2 => Some(MigrateType::Reclaimable),
            3 => Some(MigrateType::HighAtomic),
            4 => Some(MigrateType::Cma),
            5 => Some(MigrateType::Isolate),
            _ => None,
        }
    }

    /// Returns the type's number.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the type under which per-CPU lists hold a free block of this type.
    ///
    /// `None` if no such list may hold it. A block of a reserve serves movable requests while it is cached.
    pub(crate) const fn pcp_index(self) -> Option<usize> {
        match self {
            MigrateType::Isolate => None,
            MigrateType::HighAtomic | MigrateType::Cma => Some(MigrateType::Movable as usize),
            other => Some(other as usize),
        }
    }

    /// Returns whether free blocks above the pageblock order may merge across this type.
    pub const fn is_mergeable(self) -> bool {
        self.index() < MigrateType::PCP_COUNT
    }

    /// Returns the name that `/proc/pagetypeinfo` prints.
    pub const fn name(self) -> &'static str {
        match self {
            MigrateType::Unmovable => "Unmovable",
            MigrateType::Movable => "Movable",
            MigrateType::Reclaimable => "Reclaimable",
            MigrateType::HighAtomic => "HighAtomic",
            MigrateType::Cma => "CMA",
            MigrateType::Isolate => "Isolate",
        }
    }
}

impl fmt::Display for MigrateType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
