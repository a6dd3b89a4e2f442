//! The owner of each frame, recorded apart from the allocator, and the blocks that callers hold.
//!
//! The allocator's own records cannot show that they are wrong. In this table each frame has one owner or none. An
//! allocation is noted after the call returned, a free before the call: another thread may get the frame in between.
//!
//! A block that a thread works on is *out*: its frames keep their owner, but no other thread can pick it.

use framewright::{FrameCounts, Order, Pfn, PfnRange};
use framewright_ops::Shape;
use framewright_ops::memory::{Memory, Use};

use crate::wrong::{Symptom, Wrong};

/// No memory.
const HOLE: u32 = 0;
const FREE: u32 = 1;
const WITHHELD: u32 = 2;
const QUARANTINED: u32 = 3;
/// Number of the first block, in the word of a frame.
const FIRST: u32 = 8;

/// A block that a caller holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub(crate) pfn: Pfn,
    pub(crate) order: Order,
    pub(crate) movable: bool,
}

impl Block {
    pub(crate) fn range(self) -> PfnRange {
        PfnRange::block(self.pfn, self.order)
    }
}

#[derive(Clone, Copy)]
struct Slot {
    block: Block,
    /// Position among the blocks that can be picked; `OUT` for one that is out.
    position: u32,
}

const OUT: u32 = u32::MAX;

/// The table.
pub(crate) struct Frames {
    base: u64,
    owners: Vec<u32>,
    slots: Vec<Slot>,
    unused: Vec<u32>,
    /// Blocks that can be picked.
    held: Vec<u32>,
    withheld: Vec<(Pfn, Order)>,
    pub(crate) present: u64,
    pub(crate) allocated: u64,
    pub(crate) quarantined: u64,
    max_order: Order,
}

impl Frames {
    /// Returns the table after boot, and `None` if memory is spread too far for a table.
    pub(crate) fn new(shape: &Shape, most: u64) -> Option<Frames> {
        let first = shape.regions.first()?.range.start.0;
        let last = shape.regions.last()?.range.end.0;
        if last - first > most {
            return None;
        }
        let memory = Memory::new(shape);
        let mut frames = Frames {
            base: first,
            owners: vec![HOLE; (last - first) as usize],
            slots: Vec::new(),
            unused: Vec::new(),
            held: Vec::new(),
            withheld: Vec::new(),
            present: memory.present(),
            allocated: 0,
            quarantined: 0,
            max_order: memory.max_order(),
        };
        for (pfn, known) in memory.all() {
            let owner = match known.used {
                Use::Withheld { head, order } => {
                    frames.withheld.extend((head == pfn).then_some((head, order)));
                    WITHHELD
                }
                _ => FREE,
            };
            frames.mark(PfnRange::block(pfn, Order(0)), owner);
        }
        Some(frames)
    }

    fn words(&mut self, range: PfnRange) -> Option<&mut [u32]> {
        let (start, end) = (range.start.0.checked_sub(self.base)?, range.end.0.checked_sub(self.base)?);
        self.owners.get_mut(start as usize..end as usize)
    }

    fn mark(&mut self, range: PfnRange, owner: u32) {
        self.words(range).unwrap_or_default().fill(owner);
    }

    fn owner(&self, pfn: Pfn) -> u32 {
        let at = pfn.0.checked_sub(self.base).map(|at| at as usize);
        at.and_then(|at| self.owners.get(at)).copied().unwrap_or(HOLE)
    }

    /// Returns the first and the last frame number that the table covers.
    pub(crate) fn span(&self) -> PfnRange {
        PfnRange::new(self.base, self.base + self.owners.len() as u64)
    }

    pub(crate) fn is_memory(&self, pfn: Pfn) -> bool {
        self.owner(pfn) != HOLE
    }

    /// Returns the frames that are not withheld.
    pub(crate) fn usable(&self) -> u64 {
        self.present - self.withheld_frames()
    }

    pub(crate) fn withheld_frames(&self) -> u64 {
        self.withheld.iter().map(|(_, order)| order.frames()).sum()
    }

    /// Notes that a block was handed out, and lets others pick it.
    pub(crate) fn hold(&mut self, block: Block) -> Result<(), Wrong> {
        let id = self.take_slot(block);
        self.claim(block.range(), id)?;
        self.put(id);
        Ok(())
    }

    /// Notes that the frames of a range were handed out, in the largest blocks.
    pub(crate) fn hold_range(&mut self, range: PfnRange, movable: bool) -> Result<(), Wrong> {
        range.blocks(self.max_order).try_for_each(|(pfn, order)| self.hold(Block { pfn, order, movable }))
    }

    fn take_slot(&mut self, block: Block) -> u32 {
        let slot = Slot { block, position: OUT };
        match self.unused.pop() {
            Some(id) => {
                self.slots[id as usize] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Gives free frames an owner.
    fn claim(&mut self, range: PfnRange, id: u32) -> Result<(), Wrong> {
        let frames = range.frames();
        let words = self.words(range).unwrap_or_default();
        if words.len() as u64 == frames && words.iter().all(|owner| *owner == FREE) {
            words.fill(id + FIRST);
            self.allocated += frames;
            return Ok(());
        }
        let mut taken = (range.start.0..range.end.0).map(Pfn).filter(|pfn| self.owner(*pfn) != FREE);
        let pfn = taken.next().unwrap_or(range.start);
        let what = match self.owner(pfn) {
            HOLE => "is no memory".to_owned(),
            WITHHELD => "is withheld".to_owned(),
            QUARANTINED => "is in quarantine".to_owned(),
            owner => format!(
                "is a part of {:?}",
                self.slots.get((owner.saturating_sub(FIRST)) as usize).map(|slot| slot.block)
            ),
        };
        Err(Wrong::new(Symptom::HandOut, format!("{range} was handed out, but frame {pfn} {what}")))
    }

    /// Returns the number of blocks that can be picked.
    pub(crate) fn count(&self) -> u64 {
        self.held.len() as u64
    }

    /// Takes out the n-th block that can be picked, modulo their number.
    pub(crate) fn take(&mut self, number: u64) -> Option<(u32, Block)> {
        let at = number.checked_rem(self.held.len() as u64)? as usize;
        let id = self.held.swap_remove(at);
        if let Some(&moved) = self.held.get(at) {
            self.slots[moved as usize].position = at as u32;
        }
        self.slots[id as usize].position = OUT;
        Some((id, self.slots[id as usize].block))
    }

    /// Takes out the block that starts at `pfn`, if it can be picked.
    pub(crate) fn take_at(&mut self, pfn: Pfn, order: Order) -> Option<(u32, Block)> {
        let id = self.owner(pfn).checked_sub(FIRST)?;
        let slot = self.slots.get(id as usize)?;
        let is_it = slot.position != OUT && slot.block.pfn == pfn && slot.block.order == order;
        if is_it { self.take(u64::from(slot.position)) } else { None }
    }

    /// Puts a block back that was out.
    pub(crate) fn put(&mut self, id: u32) {
        self.slots[id as usize].position = self.held.len() as u32;
        self.held.push(id);
    }

    /// Notes that a block that is out is about to be freed.
    pub(crate) fn release(&mut self, id: u32) {
        let block = self.slots[id as usize].block;
        self.mark(block.range(), FREE);
        self.allocated -= block.order.frames();
        self.unused.push(id);
    }

    /// Notes that `part` of a block that is out is about to be freed.
    pub(crate) fn begin_cut(&mut self, part: PfnRange) {
        self.mark(part, FREE);
        self.allocated -= part.frames();
    }

    /// Notes that the rest of a block, of which `part` was freed, consists of the largest blocks.
    pub(crate) fn end_cut(&mut self, id: u32, part: PfnRange) -> Result<(), Wrong> {
        let block = self.slots[id as usize].block;
        let whole = block.range();
        let below = PfnRange { start: whole.start, end: part.start };
        let above = PfnRange { start: part.end, end: whole.end };
        self.unused.push(id);
        for rest in [below, above] {
            self.begin_cut(rest);
            self.hold_range(rest, block.movable)?;
        }
        Ok(())
    }

    /// Notes that a free block that was written to is never handed out.
    pub(crate) fn quarantine(&mut self, pfn: Pfn, order: Order) {
        self.mark(PfnRange::block(pfn, order), QUARANTINED);
        self.quarantined += order.frames();
    }

    /// Notes that a range is offline.
    pub(crate) fn withhold(&mut self, range: PfnRange) -> Result<(), Wrong> {
        let taken = (range.start.0..range.end.0).map(Pfn).find(|pfn| self.owner(*pfn) != FREE);
        self.mark(range, WITHHELD);
        self.withheld.extend(range.blocks(self.max_order));
        let text = |pfn| format!("{range} was taken offline, but frame {pfn} in it was not free");
        taken.map_or(Ok(()), |pfn| Err(Wrong::new(Symptom::HandOut, text(pfn))))
    }

    /// Notes that the withheld blocks in a range are about to be free; returns their frames.
    pub(crate) fn restore(&mut self, range: PfnRange) -> u64 {
        let inside = |&(pfn, order): &(Pfn, Order)| {
            let block = PfnRange::block(pfn, order);
            block.intersect(range) == block
        };
        let (back, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.withheld).into_iter().partition(inside);
        self.withheld = rest;
        back.iter().for_each(|&(pfn, order)| self.mark(PfnRange::block(pfn, order), FREE));
        back.iter().map(|(_, order)| order.frames()).sum()
    }

    /// Returns the n-th withheld block, modulo their number.
    pub(crate) fn withheld_block(&self, number: u64) -> Option<(Pfn, Order)> {
        let at = number.checked_rem(self.withheld.len() as u64)? as usize;
        self.withheld.get(at).copied()
    }

    /// Notes that memory is about to be added.
    pub(crate) fn add(&mut self, range: PfnRange) {
        self.mark(range, FREE);
        self.present += range.frames();
    }

    /// Notes that memory was not added after all.
    pub(crate) fn remove(&mut self, range: PfnRange) {
        self.mark(range, HOLE);
        self.present -= range.frames();
    }

    /// Returns every block that can be picked.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Block> {
        self.held.iter().map(|&id| self.slots[id as usize].block)
    }

    /// Compares the allocator's census with this table. No block may be out.
    pub(crate) fn compare(&self, census: &FrameCounts) -> Result<(), Wrong> {
        let offline = self.withheld_frames();
        let rest = self.present - self.allocated - offline - self.quarantined;
        let rows = [
            ("present", self.present, census.present),
            ("allocated", self.allocated, census.allocated),
            ("offline", offline, census.offline),
            // A block that was freed while its zone was locked may wait until the lock is next taken.
            ("free, on per-CPU lists or deferred", rest, census.free + census.pcp + census.in_flight),
            ("isolated", 0, census.isolated),
            ("quarantined", self.quarantined, census.quarantined),
        ];
        match rows.into_iter().find(|(_, ours, theirs)| ours != theirs) {
            None => Ok(()),
            Some((part, ours, theirs)) => {
                let text = format!("{theirs} frames are {part}, should be {ours}");
                Err(Wrong::new(Symptom::Census, text))
            }
        }
    }
}
