//! The fast path for many blocks: a part of a ring changes hands as a whole.
//!
//! A bulk request moves the top of a ring once, past as many entries as it wants, and then goes through them. A bulk
//! free writes its entries above the top, and then moves it once. So what a single block pays for its CPU, its ring and
//! the fence is paid once for a visit, and a block costs what is left: its entry, its head byte and its frame number,
//! about a dozen instructions.
//!
//! A free checks in addition which ring a block's pageblock belongs to. It does so once for a row of blocks of one
//! pageblock, whose head bytes it looks at meanwhile. The pageblock may get another type in the middle of the row. The
//! blocks are then on a list of the old type, as a single block is that was freed a moment earlier.
//!
//! Entries that were taken belong to the caller: no other CPU finds them. An entry that turns out not to be a block of
//! the ring's order is dropped, as by a single request (`lists.rs`).

use core::cell::Cell;

use crate::api::fast_path::FastPath;
use crate::api::route::{HeadChange, Route};
use crate::api::seen::Seen;
use crate::frame::frame::Frames;
use crate::frame::head::Head;
use crate::pcp::ring::Ring;
use crate::pcp::stride::{STRIDE, stopped};
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::types::units::{Frame, Order, Pfn};
use crate::zonelist::world::World;

impl<'a, M: Machine> FastPath<'a, M> {
    /// Serves blocks from the top of the CPU's list, the top first; returns how many.
    #[inline]
    pub(crate) fn alloc_all(&self, machine: &M, frames: &Frames<'a, M>, route: Route, out: &mut [Pfn]) -> usize {
        let ring = self.ring(route);
        ring.map_or(0, |ring| ring.alloc_all(machine, frames, self.slots(), &self.taking, route.heads(), out))
    }

    /// Frees blocks of one order to the CPU's lists, the first ones, as far as these accept them.
    ///
    /// Returns how many. The block after them needs another stage, or is no allocated block.
    #[inline]
    pub(crate) fn free_all(&self, world: &World<'a, M>, blocks: &[Pfn], order: Order) -> usize {
        if world.shared.machine.traces_calls() {
            return 0;
        }
        let mut freed = 0_usize;
        while let Some(rest) = blocks.get(freed..).filter(|rest| !rest.is_empty()) {
            match self.free_row(world, rest, order) {
                Some(row) if row != 0 => freed = freed.saturating_add(row),
                _ => break,
            }
        }
        freed
    }

    /// Frees the first blocks, as far as they are of one pageblock.
    fn free_row(&self, world: &World<'a, M>, blocks: &[Pfn], order: Order) -> Option<usize> {
        let distance = self.find(world, *blocks.first()?)?;
        let (seen, pageblock_order) = (self.giving.get(), self.pageblock_order());
        let start = distance.wrapping_sub(distance & pageblock_order.mask());
        let heads = seen.heads.get(usize::try_from(start).ok()?..)?.get(..pageblock_order.frames() as usize)?;
        let (base, first) = (seen.base.wrapping_add(start), seen.first.wrapping_add(start as u32));
        Some(self.ring_of_last(order)?.push_front_all(self.slots(), blocks, Head::pcp(order), |pfn| {
            world.shared.machine.step(Step::Free);
            let distance = pfn.0.wrapping_sub(base);
            let word = heads.get(usize::try_from(distance).ok()?)?;
            if !Head(word.load(Ordering::Relaxed)).is_allocated_of_small(order) {
                return None;
            }
            Some((Frame(first.wrapping_add(distance as u32)), word))
        }))
    }
}

impl<M: Machine> Ring<M> {
    /// Pops blocks for the owner into `out`, the top first; returns how many.
    ///
    /// `seen` is the run of memory that the last block came from.
    #[inline]
    pub(crate) fn alloc_all<'a>(
        &self,
        machine: &M,
        frames: &Frames<'a, M>,
        slots: &[M::U32],
        seen: &Cell<Seen<'a, M>>,
        change: HeadChange,
        out: &mut [Pfn],
    ) -> usize {
        let mut entries = self.pop_front_all(machine, slots, out.len());
        let mut done = 0_usize;
        while let Some((top, below)) = entries.split_last() {
            let taken = take_run(machine, entries, seen, change, out.get_mut(done..).unwrap_or_default());
            entries = entries.get(..entries.len().saturating_sub(taken)).unwrap_or_default();
            done = done.saturating_add(taken);
            if taken == 0 && !seen.get().turn_to(machine, frames, Frame(top.load(Ordering::Relaxed)), seen) {
                // No block of the ring's order: dropped, and found missing by `validate`.
                self.count_moved(u64::MAX);
                entries = below;
            }
        }
        self.count_taken(done as u64);
        done
    }
}

/// Allocates the entries at the top that are blocks of one run of memory; returns how many.
// Out of line, so that its loop has all registers.
#[inline(never)]
fn take_run<M: Machine>(
    machine: &M,
    entries: &[M::U32],
    seen: &Cell<Seen<'_, M>>,
    change: HeadChange,
    out: &mut [Pfn],
) -> usize {
    let Seen { base, first, heads, .. } = seen.get();
    let take = |entry: &M::U32, pfn: &mut Pfn| {
        machine.step(Step::Alloc);
        let distance = entry.load(Ordering::Relaxed).wrapping_sub(first);
        let word = heads.get(distance as usize)?;
        if word.load(Ordering::Relaxed) != change.listed.0 {
            return None;
        }
        word.store(change.allocated.0, Ordering::Relaxed);
        *pfn = Pfn(base.wrapping_add(distance.into()));
        Some(())
    };
    let ((rest, strides), (pfns, _)) = (entries.as_rchunks::<STRIDE>(), out.as_chunks_mut::<STRIDE>());
    let mut taken = 0_usize;
    for (stride, pfns) in strides.iter().rev().zip(pfns) {
        for ((entry, pfn), nth) in stride.iter().rev().zip(pfns).zip(0..) {
            if take(entry, pfn).is_none() {
                return stopped(taken, nth);
            }
        }
        taken = taken.wrapping_add(STRIDE);
    }
    for (entry, pfn) in rest.iter().rev().zip(out.get_mut(taken..).unwrap_or_default()) {
        if take(entry, pfn).is_none() {
            return taken;
        }
        taken = taken.wrapping_add(1);
    }
    taken
}
