//! Finds the allocations whose memory the kernel reclaimed later.
//!
//! An allocation is known by its number among those that the kernel served, an object from before the trace by its
//! frame. Each frame has the number of the allocation that it belongs to. The number follows the object when the
//! kernel moves it. A free by a thread that reclaims marks the number. So the next pass knows at the allocation that
//! the kernel will reclaim it.
//!
//! Only an object that is freed as a whole is marked: a huge page that reclaim split is not. Nor is an object from
//! before the trace that the kernel moved. Both make the result smaller than the truth.
//!
//! Costs four bytes a frame during the first pass, and a bit for each allocation after it.

use std::ops::Range;

use fixedbitset::FixedBitSet;

/// The allocations whose memory the kernel reclaimed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reclaimed {
    /// Frames, by position in the span, of objects from before the trace.
    pub(super) initial: FixedBitSet,
    /// Served allocations by number.
    pub(super) allocations: FixedBitSet,
    /// Frames that were freed by threads that reclaimed.
    pub(super) frames: u64,
    /// Of these, frames of objects that are marked.
    pub(super) marked: u64,
}

/// An owner: an object from before the trace, in the frame that it had then.
const INITIAL: u32 = 0;
/// An owner that is not followed.
const NOBODY: u32 = 1;
/// The owner with the first number.
const FIRST: u32 = 2;

/// The owners of frames during the first pass.
#[derive(Default)]
pub(super) struct Lifetimes {
    owners: Vec<u32>,
    served: u32,
    pub(super) reclaimed: Reclaimed,
}

impl Lifetimes {
    /// Grows the tables by `more` frames at position `at`.
    pub(super) fn grow(&mut self, at: usize, more: usize) {
        self.owners.splice(at..at, std::iter::repeat_n(INITIAL, more));
        let mut wider = FixedBitSet::with_capacity(self.owners.len());
        self.reclaimed.initial.ones().for_each(|index| wider.insert(if index < at { index } else { index + more }));
        self.reclaimed.initial = wider;
    }

    /// The kernel served a request with these frames.
    pub(super) fn alloc(&mut self, frames: Range<usize>) {
        let owner = self.served.checked_add(FIRST).unwrap_or(NOBODY);
        self.owners[frames].fill(owner);
        self.served = self.served.saturating_add(1);
    }

    /// These frames were freed, as a `whole` object or not, by a thread that reclaims or not.
    pub(super) fn free(&mut self, frames: Range<usize>, whole: bool, reclaims: bool) {
        if reclaims {
            self.reclaimed.frames += frames.len() as u64;
            self.mark(frames.clone(), whole);
        }
        self.owners[frames].fill(NOBODY);
    }

    fn mark(&mut self, frames: Range<usize>, whole: bool) {
        let Some(&owner) = self.owners.get(frames.start) else { return };
        if owner >= FIRST && whole {
            self.reclaimed.allocations.grow_and_insert((owner - FIRST) as usize);
            self.reclaimed.marked += frames.len() as u64;
        }
        // Each frame from before the trace is an object of its own.
        for index in frames.filter(|&index| self.owners[index] == INITIAL) {
            self.reclaimed.initial.insert(index);
            self.reclaimed.marked += 1;
        }
    }

    /// The kernel moved an object.
    pub(super) fn moved(&mut self, old: Range<usize>, new: Range<usize>) {
        for (old, new) in old.zip(new) {
            let owner = std::mem::replace(&mut self.owners[old], NOBODY);
            self.owners[new] = if owner == INITIAL { NOBODY } else { owner };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reclaimed_is_known_from_its_allocation() {
        let mut lifetimes = Lifetimes::default();
        lifetimes.grow(0, 16);
        // Number 0 is moved and reclaimed, number 1 is freed by its user, number 2 in parts, number 3 reclaimed.
        lifetimes.alloc(0..1);
        lifetimes.alloc(1..2);
        lifetimes.alloc(4..8);
        lifetimes.moved(0..1, 2..3);
        lifetimes.free(0..1, true, true);
        lifetimes.alloc(0..1);
        lifetimes.free(1..2, true, false);
        lifetimes.free(4..6, false, true);
        lifetimes.free(2..3, true, true);
        lifetimes.free(0..1, true, true);
        // Objects from before the trace: one freed twice, one moved, one freed by its user.
        lifetimes.free(8..9, true, true);
        lifetimes.free(8..9, true, true);
        lifetimes.moved(9..10, 10..11);
        lifetimes.free(10..11, true, true);
        lifetimes.free(12..13, true, false);
        lifetimes.grow(4, 100);
        let Reclaimed { initial, allocations, frames, marked } = lifetimes.reclaimed;
        assert_eq!(allocations.ones().collect::<Vec<_>>(), [0, 3]);
        assert_eq!(initial.ones().collect::<Vec<_>>(), [108]);
        assert_eq!((frames, marked), (8, 3));
    }
}
