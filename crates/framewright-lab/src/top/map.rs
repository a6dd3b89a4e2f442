//! A picture of memory in letters: a cell for one pageblock or several, in the order of addresses.
//!
//! A letter says what a cell holds; a capital says that at least half of it is in use; a dot says that all of it is
//! free. So the picture keeps its meaning without colours. Where the source knows a pageblock's type (an allocator of
//! ours), the letter is that type. A kernel tells only the use of each frame (`/proc/kpageflags`), so there the letter
//! is the use that was found. Unmovable frames among movable ones make a pageblock *mixed*: huge pages cannot have such
//! a pageblock.
//!
//! A cell of several pageblocks looks as most of its used frames do.

use framewright::units::MigrateType;

use framewright_trace::proc::flag;

/// The type of a pageblock, or of its content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BlockKind {
    /// Unmovable.
    Unmovable,
    /// Movable.
    Movable,
    /// Reclaimable.
    Reclaimable,
    /// Kept for requests that must not wait.
    HighAtomic,
    /// Contiguous memory area.
    Cma,
    /// Set apart from allocation.
    Isolate,
    /// Unmovable beside movable content.
    Mixed,
    /// In use, for an unknown purpose.
    Other,
    /// Not the allocator's: reserved, or not there.
    Away,
    /// Not looked at yet.
    Unread,
}

impl BlockKind {
    /// All that a pageblock can turn out to be.
    pub const ALL: [BlockKind; 9] = [
        BlockKind::Movable,
        BlockKind::Unmovable,
        BlockKind::Reclaimable,
        BlockKind::Mixed,
        BlockKind::HighAtomic,
        BlockKind::Cma,
        BlockKind::Isolate,
        BlockKind::Other,
        BlockKind::Away,
    ];

    /// Of a pageblock's type.
    pub const fn of(migratetype: MigrateType) -> BlockKind {
        match migratetype {
            MigrateType::Unmovable => BlockKind::Unmovable,
            MigrateType::Movable => BlockKind::Movable,
            MigrateType::Reclaimable => BlockKind::Reclaimable,
            MigrateType::HighAtomic => BlockKind::HighAtomic,
            MigrateType::Cma => BlockKind::Cma,
            MigrateType::Isolate => BlockKind::Isolate,
        }
    }

    /// Its letter where most is in use, the letter's meaning, and a short form of it.
    const fn words(self) -> (char, &'static str, &'static str) {
        match self {
            BlockKind::Unmovable => ('U', "unmovable", "unmov"),
            BlockKind::Movable => ('M', "movable", "mov"),
            BlockKind::Reclaimable => ('R', "reclaimable", "recl"),
            BlockKind::HighAtomic => ('H', "highatomic", "high"),
            BlockKind::Cma => ('C', "CMA", "CMA"),
            BlockKind::Isolate => ('I', "isolated", "isol"),
            BlockKind::Mixed => ('X', "mixed", "mixed"),
            BlockKind::Other => ('?', "not told", "untold"),
            BlockKind::Away => ('-', "not managed", "away"),
            BlockKind::Unread => (' ', "not read yet", "unread"),
        }
    }

    /// Its letter, where most is in use.
    pub const fn letter(self) -> char {
        self.words().0
    }

    /// The letter's meaning, and a short form of it.
    pub const fn name(self) -> (&'static str, &'static str) {
        let (_, name, short) = self.words();
        (name, short)
    }
}

/// A pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its zone, by the place among the sample's; none for what no zone has.
    pub zone: Option<u16>,
    /// Its type, or that of its content.
    pub kind: BlockKind,
    /// Frames that are there.
    pub frames: u32,
    /// Of them, those in use: neither on a buddy list nor out of the allocator's hands.
    pub used: u32,
}

/// All pageblocks, from the lowest.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Map {
    /// Frames of a pageblock.
    pub pageblock: u64,
    /// The pageblocks.
    pub blocks: Vec<Block>,
    /// The meaning of the letters: a pageblock's type, or the use that was found in it.
    pub by_content: bool,
    /// How old the oldest part of it is, in seconds.
    pub age: f64,
}

/// One place of the picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapCell {
    /// Its letter, or a dot.
    pub letter: char,
    /// The use of most of it; none if all of it is free.
    pub kind: Option<BlockKind>,
}

impl Map {
    /// The pageblocks of a zone, or all.
    pub fn of_zone(&self, zone: Option<u16>) -> Vec<Block> {
        self.blocks.iter().filter(|block| zone.is_none() || block.zone == zone).copied().collect()
    }

    /// Pageblocks that were looked at, in percent of all.
    pub fn percent_read(&self) -> f64 {
        let read = self.blocks.iter().filter(|block| block.kind != BlockKind::Unread).count();
        if self.blocks.is_empty() { 100.0 } else { read as f64 * 100.0 / self.blocks.len() as f64 }
    }
}

/// The number of pageblocks in a cell, so that all fit into the cells: a power of two.
pub fn scale(blocks: usize, room: usize) -> usize {
    blocks.div_ceil(room.max(1)).max(1).next_power_of_two()
}

/// The cells, each of `scale` pageblocks.
pub fn cells(blocks: &[Block], scale: usize) -> Vec<MapCell> {
    blocks.chunks(scale.max(1)).map(MapCell::of).collect()
}

impl MapCell {
    fn of(blocks: &[Block]) -> MapCell {
        let frames: u64 = blocks.iter().map(|block| u64::from(block.frames)).sum();
        let used: u64 = blocks.iter().map(|block| u64::from(block.used)).sum();
        if blocks.iter().all(|block| block.kind == BlockKind::Unread) {
            return MapCell { letter: BlockKind::Unread.letter(), kind: Some(BlockKind::Unread) };
        }
        if frames == 0 {
            return MapCell { letter: BlockKind::Away.letter(), kind: Some(BlockKind::Away) };
        }
        let weight = |kind: BlockKind| {
            let of_kind = blocks.iter().filter(|block| block.kind == kind);
            of_kind.map(|block| u64::from(if kind == BlockKind::Away { block.frames } else { block.used })).sum::<u64>()
        };
        // The first of those that have most: the order of `ALL` is turned round for `max_by_key`, which takes the last.
        let most = BlockKind::ALL.into_iter().rev().max_by_key(|&kind| weight(kind)).unwrap_or(BlockKind::Away);
        if weight(most) == 0 {
            return MapCell { letter: '.', kind: None };
        }
        let is_full = 2 * used >= frames || most == BlockKind::Away;
        let letter = if is_full { most.letter() } else { most.letter().to_ascii_lowercase() };
        MapCell { letter, kind: Some(most) }
    }
}

/// The use of a frame, as far as its flags tell.
#[derive(Clone, Copy, Default, Debug)]
struct Held {
    frames: u32,
    free: u32,
    movable: u32,
    unmovable: u32,
}

impl Held {
    fn note(&mut self, flags: u64) {
        if flags & (flag::NOPAGE | flag::OFFLINE | flag::RESERVED) != 0 {
            return;
        }
        self.frames += 1;
        if flags & flag::BUDDY != 0 {
            self.free += 1;
        } else if flags & (flag::LRU | flag::ANON | flag::MMAP | flag::THP) != 0 {
            self.movable += 1;
        } else if flags & (flag::SLAB | flag::PGTABLE) != 0 {
            self.unmovable += 1;
        }
    }
}

/// A pageblock of a kernel, by the flags of its frames.
///
/// Movable is what is on a list for reclaim, or mapped; unmovable are slab and page tables. Other frames in use may
/// belong to a driver, be on their way to such a list, or lie in a CPU's list: they say nothing beside those that have
/// a flag.
pub(crate) fn block_of_flags(flags: impl Iterator<Item = u64>) -> Block {
    let mut held = Held::default();
    flags.for_each(|flags| held.note(flags));
    let used = held.frames - held.free;
    let kind = match (held.movable, held.unmovable) {
        _ if held.frames == 0 => BlockKind::Away,
        (0, 0) => BlockKind::Other,
        (0, _) => BlockKind::Unmovable,
        (_, 0) => BlockKind::Movable,
        _ => BlockKind::Mixed,
    };
    Block { zone: None, kind, frames: held.frames, used }
}
