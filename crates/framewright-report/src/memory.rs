//! The state of memory as a report shows it: zones, marks and free blocks.
//!
//! All sizes are in frames. A number that a report does not print is `None`: the decision (`decision/`) then works with
//! its bounds.

use std::fmt;

use framewright_trace::flags::KernelVersion;
use serde::Serialize;

/// The type of a free list, as the letters of a report name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListType {
    /// `U`
    Unmovable,
    /// `M`
    Movable,
    /// `E`
    Reclaimable,
    /// `R`: the blocks that kernels before 4.4 kept for the last moment; every request may take one.
    Reserve,
    /// `H`: the reserve for high orders, since 4.4.
    HighAtomic,
    /// `C`
    Cma,
    /// `I`
    Isolate,
}

impl ListType {
    /// Every type.
    pub const ALL: [ListType; 7] = [
        ListType::Unmovable,
        ListType::Movable,
        ListType::Reclaimable,
        ListType::Reserve,
        ListType::HighAtomic,
        ListType::Cma,
        ListType::Isolate,
    ];

    /// Returns the letter that `show_mem` prints for the type.
    pub const fn letter(self) -> char {
        match self {
            ListType::Unmovable => 'U',
            ListType::Movable => 'M',
            ListType::Reclaimable => 'E',
            ListType::Reserve => 'R',
            ListType::HighAtomic => 'H',
            ListType::Cma => 'C',
            ListType::Isolate => 'I',
        }
    }
}

/// A set of list types.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Types(u8);

impl Types {
    /// Returns the set that the letters name; `None` if one of them names no type.
    pub fn of_letters(letters: &str) -> Option<Types> {
        letters.chars().try_fold(Types(0), |set, letter| {
            let found = ListType::ALL.into_iter().find(|one| one.letter() == letter)?;
            Some(set.with(found))
        })
    }

    /// Returns the set with `one` in it.
    pub const fn with(self, one: ListType) -> Types {
        Types(self.0 | 1 << one as u8)
    }

    /// Returns whether `one` is in the set.
    pub const fn contains(self, one: ListType) -> bool {
        self.0 >> one as u8 & 1 != 0
    }

    /// Returns the types of the set.
    pub fn iter(self) -> impl Iterator<Item = ListType> {
        ListType::ALL.into_iter().filter(move |&one| self.contains(one))
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|one| write!(f, "{}", one.letter()))
    }
}

impl fmt::Debug for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({self})")
    }
}

impl Serialize for Types {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Free blocks of one order in a zone.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct OrderFree {
    /// Number of free blocks.
    pub blocks: u64,
    /// Types whose lists have a block; `None` if the report has no letters (kernels before 3.8).
    pub types: Option<Types>,
    /// Blocks of each type, in the order of [`ListType::ALL`], where the source tells (`pagetypeinfo`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_type: Option<[u64; ListType::ALL.len()]>,
}

/// One zone. All sizes are in frames.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Zone {
    /// Node that it belongs to.
    pub node: u32,
    /// Name, such as `DMA32`.
    pub name: String,
    /// Free frames.
    pub free: u64,
    /// The min mark, boost included.
    pub min: u64,
    /// The low mark, boost included.
    pub low: u64,
    /// The high mark, boost included.
    pub high: u64,
    /// Frames by which the marks are raised for now.
    pub boost: Option<u64>,
    /// Frames of the pageblocks in the reserve for high orders, free or not.
    pub reserved_highatomic: Option<u64>,
    /// Free frames of the reserve for high orders.
    pub free_highatomic: Option<u64>,
    /// Free frames of contiguous memory areas.
    pub free_cma: Option<u64>,
    /// Frames that the allocator manages.
    pub managed: Option<u64>,
    /// Frames that exist.
    pub present: Option<u64>,
    /// Frames on all CPUs' lists.
    pub free_pcp: Option<u64>,
    /// Frames on the lists of the CPU that wrote the report.
    pub local_pcp: Option<u64>,
    /// Frames of the page cache on this zone's LRU lists.
    pub file: Option<u64>,
    /// Frames of reclaimable slabs in this zone, where the kernel counts them by zone (before 4.8).
    pub slab_reclaimable: Option<u64>,
    /// Frames that requests must leave, by their highest zone.
    pub lowmem_reserve: Option<Vec<u64>>,
    /// Free blocks by order; empty if the report does not show them.
    pub orders: Vec<OrderFree>,
}

impl Zone {
    /// Returns the frames in free blocks that hold `wanted`, counted as few and as many as the letters allow.
    ///
    /// An order with several letters has at least one block of each of them.
    pub fn frames_of(&self, wanted: ListType) -> (u64, u64) {
        let mut sum = (0_u64, 0_u64);
        for (order, free) in self.orders.iter().enumerate() {
            let (least, most) = free.blocks_of(wanted);
            let frames = |blocks: u64| blocks.saturating_mul(1 << order.min(63));
            sum = (sum.0.saturating_add(frames(least)), sum.1.saturating_add(frames(most)));
        }
        sum
    }

    /// Returns the frames that the allocator manages, or those that exist where the kernel does not say (before 3.9).
    pub fn size(&self) -> Option<u64> {
        self.managed.or(self.present)
    }

    /// Returns the frames in all free blocks.
    pub fn frames_in_blocks(&self) -> u64 {
        let frames = self.orders.iter().enumerate().map(|(order, free)| free.blocks.saturating_mul(1 << order.min(63)));
        frames.fold(0, u64::saturating_add)
    }
}

impl OrderFree {
    /// Returns the least and the greatest number of blocks of a type.
    pub fn blocks_of(&self, wanted: ListType) -> (u64, u64) {
        if let Some(by_type) = &self.by_type {
            let exact = by_type[wanted as usize];
            return (exact, exact);
        }
        match self.types {
            None => (0, self.blocks),
            Some(types) if !types.contains(wanted) => (0, 0),
            Some(types) => {
                let others = types.iter().count().saturating_sub(1) as u64;
                if others == 0 { (self.blocks, self.blocks) } else { (1, self.blocks.saturating_sub(others).max(1)) }
            }
        }
    }
}

/// Memory at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Bytes of a frame; `None` if nothing shows it.
    pub page_size: Option<u64>,
    /// Version of the kernel, if it is known.
    pub kernel: Option<KernelVersion>,
    /// The zones, by node and then as the report has them.
    pub zones: Vec<Zone>,
    /// Free frames of the whole machine.
    pub free: Option<u64>,
    /// Frames of the whole machine.
    pub ram: Option<u64>,
    /// Frames in zone HighMem, or in Movable.
    pub highmem: Option<u64>,
    /// Frames of the page cache of the whole machine.
    pub file: Option<u64>,
    /// Reclaimable slab frames of the whole machine.
    pub slab_reclaimable: Option<u64>,
}

impl Memory {
    /// Returns the nodes, each once, ascending.
    pub fn nodes(&self) -> Vec<u32> {
        let mut nodes: Vec<u32> = self.zones.iter().map(|zone| zone.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Returns whether the kernel has a zone HighMem, though perhaps without a line of its own.
    ///
    /// Since 6.0 a report leaves out zones above the request's highest. Then the lowest zone keeps a
    /// reserve from memory that has no line.
    pub fn has_highmem(&self) -> bool {
        let is_seen = |name: &str| self.zones.iter().any(|zone| zone.name == name);
        let is_wide = is_seen("Movable") || is_seen("DMA32");
        let is_hidden = !is_seen("Normal")
            && self.zones.iter().any(|zone| {
                zone.name == "DMA" && matches!(zone.lowmem_reserve.as_deref(), Some([_, 0, above, _]) if *above > 0)
            });
        is_seen("HighMem") || (!is_wide && (is_hidden || self.highmem.is_some_and(|frames| frames > 0)))
    }

    /// Returns the KiB of a frame; 4 if nothing shows it.
    pub fn page_kib(&self) -> u64 {
        self.page_size.map_or(4, |bytes| (bytes / 1024).max(1))
    }
}
