//! Units: a type of its own for each quantity that the allocator counts.
//!
//! Bytes, frames, blocks and zones therefore cannot be mixed up. A *frame* is one page of physical memory; its size is
//! `1 << page_shift` bytes, set at boot. A *block* is `1 << order` frames, aligned to its own size.
//!
//! Two numberings of frames exist; `map.rs` translates between them.
//!
//! | type | used by | range | holes |
//! |---|---|---|---|
//! | [`Pfn`] | the caller | address divided by the page size, up to 52 bits | included |
//! | `Frame` | the core | 32-bit index into the descriptor arrays | whole holes are skipped |
//!
//! Every block of the largest order stays aligned as a `Frame`, so buddy arithmetic works on it unchanged.

use core::fmt;
use core::ops::Range;

/// Page frame number: the address of a page divided by the page size.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pfn(pub u64);

impl Pfn {
    /// Returns the frame number `frames` higher; saturates.
    pub const fn add(self, frames: u64) -> Pfn {
        Pfn(self.0.saturating_add(frames))
    }

    /// Returns the last frame at or below this one where a block may start.
    ///
    /// `order` is the order of that block.
    pub const fn align_down(self, order: Order) -> Pfn {
        Pfn(self.0 & !order.mask())
    }

    /// Returns the first frame at or above this one where a block may start.
    ///
    /// `order` is the order of that block.
    ///
    /// Saturates.
    pub const fn align_up(self, order: Order) -> Pfn {
        self.add(order.mask()).align_down(order)
    }

    /// Returns whether a block of `order` may start here.
    pub const fn is_aligned(self, order: Order) -> bool {
        self.0 & order.mask() == 0
    }
}

impl fmt::Debug for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{:#x}", self.0)
    }
}

impl fmt::Display for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Half-open range of page frame numbers.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PfnRange {
    /// First frame of the range.
    pub start: Pfn,
    /// First frame after the range.
    pub end: Pfn,
}

impl PfnRange {
    /// Returns the range from `start` up to, not including, `end`.
    pub const fn new(start: u64, end: u64) -> PfnRange {
        PfnRange { start: Pfn(start), end: Pfn(end) }
    }

    /// Returns the frames that lie wholly between two addresses, for memory that is usable.
    ///
    /// Addresses are in bytes, and a frame has 2^`page_shift` of them.
    pub const fn within_bytes(start: u64, end: u64, page_shift: u8) -> PfnRange {
        PfnRange::new(frames_up(start, page_shift), frames_down(end, page_shift))
    }

    /// Returns the frames that lie at least in part between two addresses, for memory that is in use.
    pub const fn around_bytes(start: u64, end: u64, page_shift: u8) -> PfnRange {
        PfnRange::new(frames_down(start, page_shift), frames_up(end, page_shift))
    }

    /// Returns the addresses of the frames, in bytes; saturates.
    ///
    /// A frame has 2^`page_shift` bytes.
    pub const fn bytes(self, page_shift: u8) -> Range<u64> {
        Range { start: bytes(self.start.0, page_shift), end: bytes(self.end.0, page_shift) }
    }

    /// Returns the range of the block of `order` at `pfn`.
    pub const fn block(pfn: Pfn, order: Order) -> PfnRange {
        PfnRange { start: pfn, end: pfn.add(order.frames()) }
    }

    /// Returns the number of frames.
    pub const fn frames(self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }

    /// Returns whether the range has no frame.
    pub const fn is_empty(self) -> bool {
        self.end.0 <= self.start.0
    }

    /// Returns whether `pfn` lies in the range.
    pub const fn contains(self, pfn: Pfn) -> bool {
        self.start.0 <= pfn.0 && pfn.0 < self.end.0
    }

    /// Returns the part that both ranges share; it may be empty.
    #[inline]
    pub fn intersect(self, other: PfnRange) -> PfnRange {
        let start = self.start.max(other.start);
        PfnRange { start, end: self.end.min(other.end).max(start) }
    }

    /// Returns the largest naturally aligned blocks that tile the range, in ascending order.
    ///
    /// No block is larger than `max_order`.
    pub fn blocks(self, max_order: Order) -> Blocks {
        Blocks { rest: self, max_order }
    }
}

impl fmt::Debug for PfnRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{:#x}..{:#x}", self.start.0, self.end.0)
    }
}

impl fmt::Display for PfnRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

const fn frames_down(bytes: u64, page_shift: u8) -> u64 {
    match bytes.checked_shr(page_shift as u32) {
        Some(frames) => frames,
        None => 0,
    }
}

const fn frames_up(bytes: u64, page_shift: u8) -> u64 {
    let down = frames_down(bytes, page_shift);
    let is_whole = bytes.trailing_zeros() >= page_shift as u32;
    if is_whole { down } else { down.saturating_add(1) }
}

const fn bytes(frames: u64, page_shift: u8) -> u64 {
    match 1_u64.checked_shl(page_shift as u32) {
        Some(page) => frames.saturating_mul(page),
        None => u64::MAX,
    }
}

/// Iterator over the blocks that tile a range; see [`PfnRange::blocks`].
#[derive(Clone, Debug)]
pub struct Blocks {
    rest: PfnRange,
    max_order: Order,
}

impl Iterator for Blocks {
    type Item = (Pfn, Order);

    fn next(&mut self) -> Option<(Pfn, Order)> {
        let frames = self.rest.frames();
        if frames == 0 {
            return None;
        }
        let start = self.rest.start;
        // Both are below 64, so the casts lose nothing.
        let by_align = start.0.trailing_zeros() as u8;
        let by_size = (63 - frames.leading_zeros().min(63)) as u8;
        let order = Order(by_align.min(by_size).min(self.max_order.0));
        self.rest.start = start.add(order.frames());
        Some((start, order))
    }
}

// Both ends yield the same blocks: each block that lies in the range, and in no larger block inside the range.
impl DoubleEndedIterator for Blocks {
    fn next_back(&mut self) -> Option<(Pfn, Order)> {
        let frames = self.rest.frames();
        if frames == 0 {
            return None;
        }
        let by_align = self.rest.end.0.trailing_zeros() as u8;
        let by_size = (63 - frames.leading_zeros().min(63)) as u8;
        let order = Order(by_align.min(by_size).min(self.max_order.0));
        self.rest.end = Pfn(self.rest.end.0.wrapping_sub(order.frames()));
        Some((self.rest.end, order))
    }
}

/// Binary logarithm of a block's size in frames.
///
/// Any number is accepted. The calls of the allocator check it against the largest order set at boot. They return
/// `BadOrder` instead of shifting too far.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Order(pub u8);

impl Order {
    /// The largest order that any configuration can have: 1 GiB blocks of 4 KiB pages.
    pub const LIMIT: Order = Order(18);
    /// Number of orders that the tables have room for.
    pub const COUNT: usize = Order::LIMIT.0 as usize + 1;

    /// Returns the frames in a block of this order; 0 if the shift would overflow.
    pub const fn frames(self) -> u64 {
        if self.0 < 64 { 1 << self.0 } else { 0 }
    }

    /// Returns the bits of a frame number below the alignment of this order.
    pub const fn mask(self) -> u64 {
        self.frames().wrapping_sub(1)
    }

    /// Returns the next larger order.
    pub const fn up(self) -> Order {
        Order(self.0.saturating_add(1))
    }

    /// Returns the next smaller order; 0 stays 0.
    pub const fn down(self) -> Order {
        Order(self.0.saturating_sub(1))
    }

    /// Returns every order from `self` to `last`, ascending.
    pub fn up_to(self, last: Order) -> impl DoubleEndedIterator<Item = Order> {
        (self.0..=last.0).map(Order)
    }

    /// Returns the index into a table by order.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a NUMA node, counted from 0 without gaps.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct NodeId(pub u8);

impl NodeId {
    /// Largest number of nodes in one allocator.
    pub const LIMIT: usize = 64;

    /// Returns the index into a table by node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a CPU, counted from 0 without gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct CpuId(pub u16);

impl CpuId {
    /// No CPU.
    pub const NONE: CpuId = CpuId(u16::MAX);

    /// Returns the index into a table by CPU.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Kind of a zone, in the order of rising addresses.
///
/// A request may use its own kind and the kinds below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum ZoneKind {
    /// Memory that the most limited devices reach (16 MiB on x86).
    Dma,
    /// Memory that 32-bit devices reach (4 GiB on x86).
    Dma32,
    /// All other memory.
    #[default]
    Normal,
    /// Memory that holds nothing that cannot move.
    Movable,
}

impl ZoneKind {
    /// All kinds, lowest first.
    pub const ALL: [ZoneKind; 4] = [ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal, ZoneKind::Movable];
    /// Number of kinds, and thus of zones in a node.
    pub const COUNT: usize = 4;

    /// Returns the position in [`ZoneKind::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name that `/proc` prints.
    pub const fn name(self) -> &'static str {
        match self {
            ZoneKind::Dma => "DMA",
            ZoneKind::Dma32 => "DMA32",
            ZoneKind::Normal => "Normal",
            ZoneKind::Movable => "Movable",
        }
    }
}

impl fmt::Display for ZoneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Position of a zone in the allocator's table: `node * 4 + kind`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ZoneIdx(pub u16);

impl ZoneIdx {
    /// No zone: fills the unused end of a list.
    pub const NONE: ZoneIdx = ZoneIdx(u16::MAX);

    /// Returns the zone of `kind` on `node`.
    pub const fn of(node: NodeId, kind: ZoneKind) -> ZoneIdx {
        ZoneIdx((node.0 as u16) << 2 | kind as u16)
    }

    /// Returns the node that the zone belongs to.
    pub const fn node(self) -> NodeId {
        NodeId((self.0 >> 2) as u8)
    }

    /// Returns the zone's kind.
    pub const fn kind(self) -> ZoneKind {
        match self.0 & 3 {
            0 => ZoneKind::Dma,
            1 => ZoneKind::Dma32,
            2 => ZoneKind::Normal,
            _ => ZoneKind::Movable,
        }
    }

    /// Returns the index into a table by zone.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

const _: () = assert!(NodeId::LIMIT * ZoneKind::COUNT <= 256);

/// Position of a frame in the descriptor arrays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Frame(pub(crate) u32);

impl Frame {
    /// Largest number of frames that one allocator can describe: 16 TiB less 4 MiB, in pages of 4 KiB.
    ///
    /// Link words use numbers above it for list heads.
    pub(crate) const LIMIT: u64 = 0xffff_fc00;

    /// Returns the block that merges with the block of `order` at this frame.
    pub(crate) const fn buddy(self, order: Order) -> Frame {
        Frame(self.0 ^ order.frames() as u32)
    }

    /// Returns the first frame of the block of `order` that contains this frame.
    pub(crate) const fn align_down(self, order: Order) -> Frame {
        Frame(self.0 & !(order.mask() as u32))
    }

    /// Returns the frame number `frames` higher.
    pub(crate) const fn add(self, frames: u64) -> Frame {
        Frame(self.0.wrapping_add(frames as u32))
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Half-open range of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameRange {
    pub(crate) start: Frame,
    pub(crate) end: Frame,
}

impl FrameRange {
    /// Returns the frames of the block of `order` at `start`.
    pub(crate) const fn block(start: Frame, order: Order) -> FrameRange {
        FrameRange { start, end: start.add(order.frames()) }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "F{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buddy_is_an_involution_that_stays_in_its_parent() {
        for order in Order(0).up_to(Order(17)) {
            for frame in [Frame(0), Frame(3 << 18), Frame(0x00ab_c000)] {
                let frame = frame.align_down(order);
                assert_eq!(frame.buddy(order).buddy(order), frame);
                assert_eq!(frame.buddy(order).align_down(order.up()), frame.align_down(order.up()));
            }
        }
    }

    #[test]
    fn bytes_are_rounded_to_frames() {
        for (start, end, within, around) in [
            (0x1000, 0x3000, (1, 3), (1, 3)),
            (0x1001, 0x2fff, (2, 2), (1, 3)),
            (0, 0x9fc00, (0, 0x9f), (0, 0xa0)),
            (0x1fff, 0x2001, (2, 2), (1, 3)),
            (5, 9, (1, 0), (0, 1)),
            (0, u64::MAX, (0, u64::MAX >> 12), (0, (u64::MAX >> 12) + 1)),
        ] {
            assert_eq!(
                PfnRange::within_bytes(start, end, 12),
                PfnRange::new(within.0, within.1),
                "{start:#x}..{end:#x}"
            );
            assert_eq!(
                PfnRange::around_bytes(start, end, 12),
                PfnRange::new(around.0, around.1),
                "{start:#x}..{end:#x}"
            );
        }
        assert_eq!(PfnRange::within_bytes(1, 9, 64), PfnRange::new(1, 0));
        assert!(PfnRange::within_bytes(5, 9, 12).is_empty());
        assert_eq!(PfnRange::new(1, 3).bytes(12), 0x1000..0x3000);
        assert_eq!(PfnRange::new(1, u64::MAX).bytes(12), 0x1000..u64::MAX);
        assert_eq!(PfnRange::new(1, 1).bytes(64), u64::MAX..u64::MAX);
    }

    #[test]
    fn blocks_tile_a_range_with_aligned_blocks() {
        let range = PfnRange::new(1, 4096 + 7);
        let mut next = range.start;
        for (pfn, order) in range.blocks(Order(10)) {
            assert_eq!(pfn, next);
            assert!(pfn.is_aligned(order) && order <= Order(10));
            next = pfn.add(order.frames());
        }
        assert_eq!(next, range.end);
        for (start, end) in (0..40).flat_map(|start| (start..40).map(move |end| (start, end))) {
            let blocks = PfnRange::new(start, end).blocks(Order(3));
            // Each block counted from the start is the block with the matching position counted from the end.
            let count = blocks.clone().count();
            let from_back = |index: usize| blocks.clone().rev().nth(count - 1 - index);
            assert!(blocks.clone().enumerate().all(|(index, block)| from_back(index) == Some(block)), "{start}..{end}");
        }
        assert_eq!(PfnRange::new(5, 5).blocks(Order(10)).count(), 0);
        assert_eq!(PfnRange::new(9, 5).blocks(Order(10)).count(), 0);
    }

    #[test]
    fn no_order_overflows() {
        for order in [0, 18, 63, 64, 255] {
            let order = Order(order);
            assert_eq!(order.frames() == 0, order.0 >= 64);
            let _ = Pfn(u64::MAX).is_aligned(order);
            let _ = PfnRange::block(Pfn(u64::MAX), order).frames();
        }
    }

    #[test]
    fn zone_index_round_trips() {
        for node in 0..64 {
            for kind in ZoneKind::ALL {
                let idx = ZoneIdx::of(NodeId(node), kind);
                assert_eq!((idx.node(), idx.kind()), (NodeId(node), kind));
            }
        }
    }
}
