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

use crate::api::fast_path::HeadChange;
use crate::frame::head::Head;
use crate::frame::map::Run;
use crate::pcp::ring::{Ring, RingId};
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::shared::CallCx;
use crate::types::units::{Frame, Order, Pfn};
use crate::zonelist::world::World;

/// A pageblock that a row of blocks is freed to.
struct Row<'a, M: Machine> {
    /// Its first frame, and that frame's descriptor.
    base: u64,
    first: u32,
    heads: &'a [M::U8],
    word: u32,
    ring: &'a Ring<M>,
}

impl<'a, M: Machine> World<'a, M> {
    /// Pops blocks off a ring of the running CPU into `out`, the top first; returns how many.
    pub(crate) fn alloc_all_from_ring(&self, ring: &Ring<M>, change: HeadChange, out: &mut [Pfn]) -> usize {
        let mut entries = ring.pop_front_all(&self.shared.machine, self.pcps.slots, out.len());
        let (mut done, mut damaged) = (0_usize, 0_u64);
        while let Some((top, below)) = entries.split_last() {
            let run = self.shared.frames.map.run_at(Frame(top.load(Ordering::Relaxed)));
            let taken =
                run.map_or(0, |run| self.take_run(entries, run, change, out.get_mut(done..).unwrap_or_default()));
            if taken == 0 {
                (entries, damaged) = (below, damaged.wrapping_add(1));
                continue;
            }
            done = done.saturating_add(taken);
            entries = entries.get(..entries.len().saturating_sub(taken)).unwrap_or_default();
        }
        ring.count_all_taken(done as u64);
        if damaged != 0 {
            ring.count_moved(damaged.wrapping_neg());
        }
        done
    }

    /// Allocates the entries at the top that are blocks of one run of memory; returns how many.
    #[inline(always)]
    fn take_run(&self, entries: &[M::U32], run: Run, change: HeadChange, out: &mut [Pfn]) -> usize {
        let heads =
            self.shared.frames.heads.get(run.first as usize..).and_then(|heads| heads.get(..run.frames as usize));
        let heads = heads.unwrap_or_default();
        let mut taken = 0_usize;
        for (entry, pfn) in entries.iter().rev().zip(out) {
            self.shared.machine.step(Step::Alloc);
            let distance = entry.load(Ordering::Relaxed).wrapping_sub(run.first);
            let Some(word) = heads.get(distance as usize) else { break };
            if word.load(Ordering::Relaxed) != change.listed.0 {
                break;
            }
            word.store(change.allocated.0, Ordering::Relaxed);
            *pfn = Pfn(run.pfn.0.wrapping_add(distance.into()));
            taken = taken.wrapping_add(1);
        }
        taken
    }

    /// Frees blocks of one order to the running CPU's lists, the first ones, as far as these accept them.
    ///
    /// Returns how many. The block after them needs another stage, or is no allocated block.
    pub(crate) fn free_all_fast(&self, cx: CallCx<'_, 'a, M>, blocks: &[Pfn], order: Order) -> usize {
        if !cx.own.has_fast_path || self.shared.machine.traces() {
            return 0;
        }
        let mut rest = blocks.iter();
        let mut row = None;
        while let Some(&first) = rest.as_slice().first()
            && let Some(next) = self.row_of(cx, first, order, row)
        {
            let pushed = next.ring.push_front_all(self.pcps.slots, || {
                self.shared.machine.step(Step::Free);
                let distance = rest.as_slice().first()?.0.wrapping_sub(next.base);
                let word = next.heads.get(usize::try_from(distance).ok()?)?;
                if !Head(word.load(Ordering::Relaxed)).is_allocated_of(order) {
                    return None;
                }
                rest.next();
                word.store(Head::pcp(order).0, Ordering::Relaxed);
                Some(Frame(next.first.wrapping_add(distance as u32)))
            });
            if pushed == 0 {
                break;
            }
            row = Some(next);
        }
        blocks.len().saturating_sub(rest.len())
    }

    /// Finds the pageblock of a block and the ring for it, which is often that of the last row.
    fn row_of(&self, cx: CallCx<'_, 'a, M>, pfn: Pfn, order: Order, last: Option<Row<'a, M>>) -> Option<Row<'a, M>> {
        let frames = &self.shared.frames;
        let (frame, pageblock_order) = (frames.frame(pfn)?, frames.geometry.pageblock_order);
        let pageblock = frames.pageblock(frame);
        let ring = match last.filter(|last| last.word == pageblock.0) {
            Some(last) => last.ring,
            None => {
                let id = RingId::with_lists(order, pageblock.lists()?, pageblock_order)?;
                self.pcps.record(cx.cpu, pageblock.zone_index())?.ring(id)?
            }
        };
        let within = u64::from(frame.0) & pageblock_order.mask();
        let first = frame.0.wrapping_sub(within as u32);
        let heads = frames.heads.get(first as usize..)?.get(..pageblock_order.frames() as usize)?;
        Some(Row { base: pfn.0.wrapping_sub(within), first, heads, word: pageblock.0, ring })
    }
}
