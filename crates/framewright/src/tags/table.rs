//! The table of tags beside an allocator: recording, clearing, and the walk over all allocated blocks.

use crate::api::allocator::Allocator;
use crate::frame::bad_free::refusal;
use crate::frame::frame::{Frames, Part};
use crate::seam::machine::{Machine, Ordering, Word as _};
use crate::tags::stamp::{Entry, Stamp, Tag};
use crate::types::error::FreeError;
use crate::types::units::{Frame, Order, Pfn, PfnRange};

/// An allocator with the table of its blocks' tags; the description of this module explains it.
///
/// It is two references, and is made for each use.
pub struct Tags<'t, 'a, M: Machine> {
    pages: &'t Allocator<'a, M>,
    words: &'t [M::U64],
}

// Not derived: that would ask for `M: Copy`.
impl<M: Machine> Clone for Tags<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Tags<'_, '_, M> {}

impl<'t, 'a, M: Machine> Tags<'t, 'a, M> {
    /// Returns the number of words that an allocator's table needs: one for each frame of its memory map.
    pub fn words(pages: &Allocator<'a, M>) -> usize {
        frames(pages).heads.len()
    }

    /// Returns the allocator with its table, whose words are zero at first.
    ///
    /// The table is always that of one allocator. A block whose first frame has no word has no tag.
    pub const fn new(pages: &'t Allocator<'a, M>, words: &'t [M::U64]) -> Self {
        Tags { pages, words }
    }

    /// Returns the stamp of a tag at this moment, by the machine's clock.
    pub fn stamp(&self, tag: Tag) -> Stamp {
        Stamp::at(tag, self.pages.machine().now())
    }

    /// Records the stamp of every block in a range; replaces those that are known.
    ///
    /// The range is a block or a number of blocks. Context: the caller owns them.
    ///
    /// # Errors
    /// A frame of the range is not allocated, or is part of a block that reaches out of the range. Nothing is recorded
    /// then.
    pub fn record(&self, range: PfnRange, stamp: Stamp) -> Result<(), FreeError> {
        self.check(range)?;
        self.visit(range, |order, _| Entry::new(stamp, order));
        Ok(())
    }

    /// Forgets the stamps of every block in a range; returns the number of those that were known.
    ///
    /// For blocks that change hands without a free. Context: the caller owns them.
    ///
    /// # Errors
    /// As [`Tags::record`].
    pub fn clear(&self, range: PfnRange) -> Result<u64, FreeError> {
        self.check(range)?;
        let mut known = 0_u64;
        self.visit(range, |order, word| {
            known = known.wrapping_add(word.stamp(order).is_some().into());
            Entry::NOTHING
        });
        Ok(known)
    }

    /// Frees blocks by `free`, whose stamps are forgotten before; returns its result.
    ///
    /// Before, because another CPU may have the block when `free` returns. If the free is refused, the stamps are as
    /// they were. `range` may cut blocks at its ends: the pieces that stay allocated keep the stamp of their block.
    ///
    /// Context: that of the free. Two callers that free parts of one block at once may lose the stamp of what is left,
    /// or give it to the next owner of such a part.
    ///
    /// # Errors
    /// Those of `free`.
    pub fn free<E>(&self, range: PfnRange, free: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let last = Pfn(range.end.0.wrapping_sub(1));
        let stamped = |(head, order)| Some((PfnRange::block(self.pfn(head), order), self.word(head).stamp(order)?));
        let ends = [range.start, last].map(|pfn| self.at(pfn).and_then(stamped));
        self.visit(range, |_, word| word.withdrawn());
        let freed = free();
        if freed.is_err() {
            self.visit(range, |_, word| word.restored());
            return freed;
        }
        for (block, stamp) in ends.into_iter().flatten() {
            for rest in [PfnRange { end: range.start, ..block }, PfnRange { start: range.end, ..block }] {
                // Empty at the other end, and where no block was cut.
                let _ = self.record(rest.intersect(block), stamp);
            }
        }
        freed
    }

    /// Returns the stamp of the allocated block that contains a frame; `None` if it has none.
    pub fn of(&self, pfn: Pfn) -> Option<Stamp> {
        self.at(pfn).and_then(|(head, order)| self.word(head).stamp(order))
    }

    /// Returns every allocated block with its stamp, in the order of frames.
    ///
    /// Takes time in proportion to the number of blocks, free ones included, and to the size of holes. Context: any.
    /// Other CPUs may allocate and free meanwhile: each block was allocated at some moment of the walk.
    pub const fn blocks(&self) -> TaggedBlocks<'t, 'a, M> {
        TaggedBlocks { tags: Tags { pages: self.pages, words: self.words }, next: 0 }
    }

    /// Returns the allocated block that contains a frame.
    fn at(&self, pfn: Pfn) -> Option<(Frame, Order)> {
        let frames = frames(self.pages);
        match frames.part_of(frames.frame(pfn)?) {
            Part::Allocated(head, order) => Some((head, order)),
            _ => None,
        }
    }

    /// Checks that a range consists of whole allocated blocks.
    fn check(&self, range: PfnRange) -> Result<(), FreeError> {
        let frames = frames(self.pages);
        if range.is_empty() {
            return Err(FreeError::BadRange(range));
        }
        let mut pfn = range.start;
        while pfn < range.end {
            let frame = frames.frame(pfn).filter(|frame| frame.index() < self.words.len());
            let frame = frame.ok_or(FreeError::Foreign(pfn))?;
            match frames.part_of(frame) {
                Part::Allocated(head, _) if head != frame => {
                    return Err(FreeError::NotHead { pfn, head: frames.pfn(head) });
                }
                Part::Allocated(_, actual) if PfnRange::block(pfn, actual).end > range.end => {
                    return Err(FreeError::WrongOrder { pfn, actual });
                }
                Part::Allocated(_, order) => pfn = pfn.add(order.frames()),
                other => return Err(refusal(pfn, other)),
            }
        }
        Ok(())
    }

    /// Changes the word of every allocated block that a range has frames of.
    fn visit(&self, range: PfnRange, mut change: impl FnMut(Order, Entry) -> Entry) {
        let mut pfn = range.start;
        while pfn < range.end {
            let Some((head, order)) = self.at(pfn) else { return };
            if let Some(word) = self.words.get(head.index()) {
                // Relaxed: the word of a block is its owner's. A listing needs no more than one whole word.
                word.store(change(order, Entry(word.load(Ordering::Relaxed))).0, Ordering::Relaxed);
            }
            pfn = self.pfn(head).add(order.frames());
        }
    }

    fn pfn(&self, frame: Frame) -> Pfn {
        frames(self.pages).pfn(frame)
    }

    fn word(&self, frame: Frame) -> Entry {
        self.words.get(frame.index()).map_or(Entry::NOTHING, |word| Entry(word.load(Ordering::Relaxed)))
    }
}

fn frames<'f, 'a, M: Machine>(pages: &'f Allocator<'a, M>) -> &'f Frames<'a, M> {
    &pages.world().shared.frames
}

/// An allocated block and its stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaggedBlock {
    /// First frame of the block.
    pub pfn: Pfn,
    /// Order of the block.
    pub order: Order,
    /// Stamp of the block; `None` if none was recorded.
    pub stamp: Option<Stamp>,
}

/// Iterator over the allocated blocks; from [`Tags::blocks`].
pub struct TaggedBlocks<'t, 'a, M: Machine> {
    tags: Tags<'t, 'a, M>,
    /// Number of the next descriptor.
    next: u64,
}

impl<M: Machine> Iterator for TaggedBlocks<'_, '_, M> {
    type Item = TaggedBlock;

    fn next(&mut self) -> Option<TaggedBlock> {
        let frames = frames(self.tags.pages);
        while self.next < frames.heads.len() as u64 {
            let frame = Frame(self.next as u32);
            let part = frames.block_at(frame).unwrap_or(Part::Hole);
            // A damaged descriptor may end anywhere; the walk goes on upwards.
            self.next = u64::from(part.end(frame).0).max(self.next.saturating_add(1));
            if let Part::Allocated(_, order) = part {
                return Some(TaggedBlock { pfn: frames.pfn(frame), order, stamp: self.tags.word(frame).stamp(order) });
            }
        }
        None
    }
}
