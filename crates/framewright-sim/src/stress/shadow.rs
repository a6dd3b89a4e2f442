//! The owner of each frame, recorded apart from the allocator.
//!
//! The allocator's own records cannot show that they are wrong. In this table of the test each frame has one owner or
//! none. An allocation is noted after the call returned, and a free before the call. So another CPU may get the frame
//! at any time in between.

use std::collections::BTreeMap;

use framewright::{FrameCounts, Order, Pfn, PfnRange};
use framewright_ops::memory::{Memory, Use};
use framewright_ops::{Handle, Shape};

use super::wrong::{Kind, Wrong};

/// Blocks of one handle.
pub(crate) type Blocks = Vec<(Pfn, Order)>;

/// The owner of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    Hole,
    Nobody,
    Held(Handle),
    Withheld,
}

/// The owners of all frames.
pub(crate) struct Shadow {
    /// By frame.
    owners: Vec<Owner>,
    /// Held blocks, and the CPU that got them. A handle that a CPU works on is not here.
    held: BTreeMap<Handle, (usize, Blocks)>,
    present: u64,
    allocated: u64,
    withheld: Blocks,
    max_order: Order,
}

impl Shadow {
    pub(crate) fn new(shape: &Shape) -> Shadow {
        let end = shape.regions.iter().map(|region| region.range.end.0).max().unwrap_or(0);
        let memory = Memory::new(shape);
        let mut shadow = Shadow {
            owners: vec![Owner::Hole; end as usize],
            held: BTreeMap::new(),
            present: memory.present(),
            allocated: 0,
            withheld: Vec::new(),
            max_order: memory.max_order(),
        };
        for (pfn, known) in memory.all() {
            let owner = match known.used {
                Use::Withheld { head, order } => {
                    shadow.withheld.extend((head == pfn).then_some((head, order)));
                    Owner::Withheld
                }
                _ => Owner::Nobody,
            };
            shadow.mark(PfnRange::block(pfn, Order(0)), owner);
        }
        shadow
    }

    fn mark(&mut self, range: PfnRange, owner: Owner) {
        let frames = self.owners.get_mut(range.start.0 as usize..range.end.0 as usize);
        frames.unwrap_or_default().fill(owner);
    }

    /// Returns whether a frame is memory.
    pub(crate) fn is_memory(&self, pfn: Pfn) -> bool {
        self.owners.get(pfn.0 as usize).is_some_and(|owner| *owner != Owner::Hole)
    }

    /// Notes that a block was handed out; fails if a frame of it has an owner.
    pub(crate) fn hold(&mut self, cpu: usize, handle: Handle, (pfn, order): (Pfn, Order)) -> Result<(), Wrong> {
        self.keep(handle, &[(pfn, order)])?;
        let (from, blocks) = self.held.entry(handle).or_default();
        *from = cpu;
        blocks.push((pfn, order));
        Ok(())
    }

    /// Sets the owner of blocks; fails if a frame has one.
    fn keep(&mut self, handle: Handle, blocks: &[(Pfn, Order)]) -> Result<(), Wrong> {
        for &(pfn, order) in blocks {
            let block = PfnRange::block(pfn, order);
            for frame in block.start.0..block.end.0 {
                let owner = self.owners.get(frame as usize).copied().unwrap_or(Owner::Hole);
                let whose = match owner {
                    Owner::Nobody => continue,
                    Owner::Held(owner) => format!("{owner} has it"),
                    Owner::Withheld => "it is offline".to_owned(),
                    Owner::Hole => "it is no memory".to_owned(),
                };
                let text = format!("frame {} of order {order} was handed out to {handle}, but {whose}", Pfn(frame));
                return Err(Wrong { kind: Kind::HandOut, text });
            }
            self.mark(block, Owner::Held(handle));
            self.allocated += order.frames();
        }
        Ok(())
    }

    /// Notes that the frames of a range were handed out, in the largest blocks.
    pub(crate) fn hold_range(&mut self, cpu: usize, handle: Handle, range: PfnRange) -> Result<(), Wrong> {
        range.blocks(self.max_order).try_for_each(|block| self.hold(cpu, handle, block))
    }

    /// Takes the blocks of a handle out, and the CPU that got them.
    ///
    /// No other CPU can work on the handle meanwhile.
    pub(crate) fn take(&mut self, handle: Handle) -> Option<(usize, Blocks)> {
        self.held.remove(&handle)
    }

    /// Returns a handle with blocks: the first from this number on.
    pub(crate) fn any_from(&self, number: u32) -> Option<Handle> {
        self.held.range(Handle(number)..).next().or(self.held.first_key_value()).map(|(&handle, _)| handle)
    }

    /// Returns whether a handle has blocks.
    pub(crate) fn has(&self, handle: Handle) -> bool {
        self.held.contains_key(&handle)
    }

    /// Puts blocks back that were taken out.
    pub(crate) fn put(&mut self, cpu: usize, handle: Handle, blocks: Blocks) {
        if !blocks.is_empty() {
            self.held.insert(handle, (cpu, blocks));
        }
    }

    /// Notes that frames that were taken out are about to be freed.
    pub(crate) fn release(&mut self, range: PfnRange) {
        self.mark(range, Owner::Nobody);
        self.allocated -= range.frames();
    }

    /// Removes `part`, which is about to be freed, from blocks that were taken out.
    ///
    /// Returns the rest in the largest blocks.
    pub(crate) fn cut(&mut self, blocks: Blocks, part: PfnRange) -> Blocks {
        self.release(part);
        let mut rest = Vec::with_capacity(blocks.len());
        for (pfn, order) in blocks {
            let block = PfnRange::block(pfn, order);
            let inside = block.intersect(part);
            if inside.is_empty() {
                rest.push((pfn, order));
                continue;
            }
            rest.extend(PfnRange { start: block.start, end: inside.start }.blocks(self.max_order));
            rest.extend(PfnRange { start: inside.end, end: block.end }.blocks(self.max_order));
        }
        rest
    }

    /// Notes that a range is offline; returns what is wrong if it was not free.
    pub(crate) fn withhold(&mut self, range: PfnRange) -> Option<Wrong> {
        let mut frames = range.start.0..range.end.0;
        let taken = frames.find(|&frame| self.owners.get(frame as usize) != Some(&Owner::Nobody));
        self.mark(range, Owner::Withheld);
        self.withheld.extend(range.blocks(self.max_order));
        taken.map(|frame| {
            let text = format!("{range} was taken offline, but frame {} in it was not free", Pfn(frame));
            Wrong { kind: Kind::HandOut, text }
        })
    }

    /// Notes that the offline blocks in a range are about to be free; returns their frames.
    pub(crate) fn restore(&mut self, range: PfnRange) -> u64 {
        let (back, rest) = std::mem::take(&mut self.withheld)
            .into_iter()
            .partition(|&(pfn, order)| PfnRange::block(pfn, order).intersect(range) == PfnRange::block(pfn, order));
        self.withheld = rest;
        let back: Blocks = back;
        back.iter().for_each(|&(pfn, order)| self.mark(PfnRange::block(pfn, order), Owner::Nobody));
        back.iter().map(|(_, order)| order.frames()).sum()
    }

    /// Returns every handle with blocks.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.held.keys().copied().collect()
    }

    /// Returns every held block.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (Pfn, Order)> {
        self.held.values().flat_map(|(_, blocks)| blocks).copied()
    }

    /// Compares the allocator's census with this table. No handle may be taken out.
    pub(crate) fn compare(&self, census: &FrameCounts) -> Result<(), Wrong> {
        let offline = self.withheld.iter().map(|(_, order)| order.frames()).sum();
        let rest = self.present - self.allocated - offline;
        let rows = [
            ("present", self.present, census.present),
            ("allocated", self.allocated, census.allocated),
            ("offline", offline, census.offline),
            // A block that an NMI freed may wait with its zone until the lock is next taken.
            ("free, on per-CPU lists or deferred", rest, census.free + census.pcp + census.in_flight),
            ("isolated", 0, census.isolated),
            ("quarantined", 0, census.quarantined),
        ];
        match rows.into_iter().find(|(_, ours, theirs)| ours != theirs) {
            None => Ok(()),
            Some((part, ours, theirs)) => {
                Err(Wrong { kind: Kind::Census, text: format!("{theirs} frames are {part}, should be {ours}") })
            }
        }
    }
}
