//! The mobility of memory: what free lists and pageblocks are grouped by.

use core::fmt;

/// Mobility of a block, the key that free lists and pageblocks are grouped by; numbered as Linux ≥ 4.4 numbers it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum MigrateType {
    /// Stays where it is until freed.
    #[default]
    Unmovable,
    /// Its contents can be moved elsewhere.
    Movable,
    /// Cannot move, but can be reclaimed.
    Reclaimable,
    /// Reserve for high-order requests that must not wait.
    HighAtomic,
    /// Kept for large contiguous requests; lent to movable ones.
    Cma,
    /// Free memory that nobody may allocate.
    Isolate,
}

impl MigrateType {
    /// All types by number.
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
    /// The first so many types are those that requests ask for and per-CPU lists hold.
    pub const PCP_COUNT: usize = 3;

    /// The type with this number, in the numbering of Linux ≥ 4.4 with CMA.
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

    /// The type's number.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Which of the types of per-CPU lists a free block of this type belongs to; none if it goes to no such list. What lies
    /// in a reserve serves movable requests while it is cached.
    pub(crate) const fn pcp_index(self) -> Option<usize> {
        match self {
            MigrateType::Isolate => None,
            MigrateType::HighAtomic | MigrateType::Cma => Some(MigrateType::Movable as usize),
            other => Some(other as usize),
        }
    }

    /// Whether free blocks above the pageblock order may merge across this type.
    pub const fn is_mergeable(self) -> bool {
        self.index() < MigrateType::PCP_COUNT
    }

    /// Name as `/proc/pagetypeinfo` prints it.
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
