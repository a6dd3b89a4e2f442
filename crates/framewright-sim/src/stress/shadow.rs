//! Who has which frame, kept apart from the allocator.
//!
//! The allocator's own records cannot show that they are wrong. This table is what the CPUs of a stress test believe:
//! each frame has one owner, or none. A hand-out is noted when the call has returned and a free before the call, so
//! that another CPU may get the frame at any time in between.

use std::collections::BTreeMap;

use framewright::{Census, Order, Pfn, PfnRange};
use framewright_ops::memory::{Memory, Use};
use framewright_ops::{Handle, Shape};

use super::wrong::{Kind, Wrong};

/// Blocks that belong together.
pub(crate) type Blocks = Vec<(Pfn, Order)>;

/// Whose a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    Hole,
    Nobody,
    Held(Handle),
    Withheld,
}

/// See the module's description.
pub(crate) struct Shadow {
    /// By frame.
    owners: Vec<Owner>,
    /// What is held and at rest, and the CPU that it comes from: who works on a handle has taken it out.
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

    /// Whether a frame is memory.
    pub(crate) fn is_memory(&self, pfn: Pfn) -> bool {
        self.owners.get(pfn.0 as usize).is_some_and(|owner| *owner != Owner::Hole)
    }

    /// Notes that a block was handed out.
    pub(crate) fn hold(&mut self, cpu: usize, handle: Handle, (pfn, order): (Pfn, Order)) -> Result<(), Wrong> {
        self.keep(handle, &[(pfn, order)])?;
        let (from, blocks) = self.held.entry(handle).or_default();
        *from = cpu;
        blocks.push((pfn, order));
        Ok(())
    }

    /// Notes whose the blocks are, which a caller has taken out or is about to put in.
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

    /// Takes all that a handle has, to work on it: nobody else will. Also says which CPU it comes from.
    pub(crate) fn take(&mut self, handle: Handle) -> Option<(usize, Blocks)> {
        self.held.remove(&handle)
    }

    /// A handle that has something: the first from this number on.
    pub(crate) fn any_from(&self, number: u32) -> Option<Handle> {
        self.held.range(Handle(number)..).next().or(self.held.first_key_value()).map(|(&handle, _)| handle)
    }

    /// Whether a handle has anything.
    pub(crate) fn has(&self, handle: Handle) -> bool {
        self.held.contains_key(&handle)
    }

    /// Puts back what was taken.
    pub(crate) fn put(&mut self, cpu: usize, handle: Handle, blocks: Blocks) {
        if !blocks.is_empty() {
            self.held.insert(handle, (cpu, blocks));
        }
    }

    /// Notes that taken frames are about to be free.
    pub(crate) fn release(&mut self, range: PfnRange) {
        self.mark(range, Owner::Nobody);
        self.allocated -= range.frames();
    }

    /// Takes `part` out of taken blocks: it is about to be free. The rest lies in the largest blocks.
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

    /// Notes that a range is offline.
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

    /// Notes that the offline blocks that lie in a range are about to be free. Returns their frames.
    pub(crate) fn restore(&mut self, range: PfnRange) -> u64 {
        let (back, rest) = std::mem::take(&mut self.withheld)
            .into_iter()
            .partition(|&(pfn, order)| PfnRange::block(pfn, order).intersect(range) == PfnRange::block(pfn, order));
        self.withheld = rest;
        let back: Blocks = back;
        back.iter().for_each(|&(pfn, order)| self.mark(PfnRange::block(pfn, order), Owner::Nobody));
        back.iter().map(|(_, order)| order.frames()).sum()
    }

    /// Every handle that has something.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.held.keys().copied().collect()
    }

    /// Every block that is held.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (Pfn, Order)> {
        self.held.values().flat_map(|(_, blocks)| blocks).copied()
    }

    /// Compares the allocator's account with this one. Nothing is taken out.
    pub(crate) fn compare(&self, census: &Census) -> Result<(), Wrong> {
        let offline = self.withheld.iter().map(|(_, order)| order.frames()).sum();
        let rest = self.present - self.allocated - offline;
        let rows = [
            ("present", self.present, census.present),
            ("allocated", self.allocated, census.allocated),
            ("offline", offline, census.offline),
            // What NMIs freed may lie with its zone until somebody takes the lock.
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
