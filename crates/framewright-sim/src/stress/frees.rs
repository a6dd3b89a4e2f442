//! Frees and splits: right ones by the call that suits the blocks, and wrong ones, which must be refused.

use framewright::{FreeError, Order, Pfn, PfnRange};
use framewright_ops::{Handle, Place};

use super::player::{Player, Seat};
use super::wrong::Wrong;

impl<'p> Player<'p> {
    pub(super) fn free(&self, (cpu, seat): (usize, &Seat<'p>), handle: Handle) -> Result<bool, Wrong> {
        let Some(blocks) = self.take_or_await(cpu, handle) else { return Ok(false) };
        if handle.0 as usize % self.resting.len() != cpu {
            self.count(|counts| counts.remote_frees += 1);
        }
        self.give_back(seat, &blocks)?;
        if let Some(pool) = &self.pool {
            pool.borrow_mut().freed(&blocks);
        }
        Ok(true)
    }

    /// Frees blocks that were taken out, by the call that suits them.
    pub(super) fn give_back(&self, seat: &Seat<'p>, blocks: &[(Pfn, Order)]) -> Result<(), Wrong> {
        let Some(&(first, order)) = blocks.first() else { return Ok(()) };
        for &(pfn, order) in blocks {
            self.shadow.borrow_mut().release(PfnRange::block(pfn, order));
        }
        let refused = |what: String| Wrong::free(format!("a right free was refused: {what}"));
        let is_run = blocks.windows(2).all(|pair| PfnRange::block(pair[0].0, pair[0].1).end == pair[1].0);
        if blocks.len() == 1 {
            self.free_block(seat, first, order).map_err(|error| refused(error.to_string()))
        } else if blocks.iter().all(|block| block.1 == order) {
            let heads: Vec<Pfn> = blocks.iter().map(|block| block.0).collect();
            let result = self.pages.free_bulk(&heads, order);
            match result.first {
                None if result.freed == heads.len() => Ok(()),
                _ => Err(refused(format!("{result:?}"))),
            }
        } else if is_run {
            let end = blocks.last().map_or(first, |&(pfn, order)| PfnRange::block(pfn, order).end);
            let run = PfnRange { start: first, end };
            self.pages.free_range(run).map_err(|error| refused(error.to_string()))
        } else {
            let mut each = blocks.iter();
            each.try_for_each(|&(pfn, order)| self.pages.free(pfn, order)).map_err(|error| refused(error.to_string()))
        }
    }

    /// Frees a block of no handle by the call for any context.
    pub(super) fn free_nolock(&self, cpu: usize, (pfn, order): (Pfn, Order)) -> Result<(), Wrong> {
        self.shadow.borrow_mut().release(PfnRange::block(pfn, order));
        match self.pages.free_nolock(pfn, order) {
            Ok(()) => Ok(()),
            // Nothing has changed.
            Err(FreeError::Busy(_)) => self.stash(cpu, (pfn, order)),
            Err(error) => Err(Wrong::free(format!("a right free was refused: {error}"))),
        }
    }

    /// Puts a block into a CPU's stash, from which only its interrupts and NMIs free.
    pub(super) fn stash(&self, cpu: usize, block: (Pfn, Order)) -> Result<(), Wrong> {
        let owner = Handle(u32::MAX - cpu as u32);
        let mut shadow = self.shadow.borrow_mut();
        shadow.hold(cpu, owner, block)?;
        let (_, blocks) = shadow.take(owner).unwrap_or_default();
        self.stashes[cpu].borrow_mut().extend(blocks);
        Ok(())
    }

    pub(super) fn free_part(&self, cpu: usize, handle: Handle, skip: u64, frames: u64) -> Result<bool, Wrong> {
        let Some(blocks) = self.take(cpu, handle) else { return Ok(false) };
        let first = PfnRange::block(blocks[0].0, blocks[0].1);
        let start = Pfn(first.start.0.saturating_add(skip));
        let part = PfnRange { start, end: Pfn(start.0.saturating_add(frames)) }.intersect(first);
        if part.is_empty() {
            self.shadow.borrow_mut().put(cpu, handle, blocks);
            return Ok(false);
        }
        let rest = self.shadow.borrow_mut().cut(blocks, part);
        let result = self.pages.free_range(part);
        self.shadow.borrow_mut().put(cpu, handle, rest);
        let refused = |error| Wrong::free(format!("a right free of {part} was refused: {error}"));
        result.map(|()| true).map_err(refused)
    }

    pub(super) fn split(&self, cpu: usize, handle: Handle, to: Order) -> Result<bool, Wrong> {
        let Some(blocks) = self.take(cpu, handle) else { return Ok(false) };
        let mut parts = Vec::with_capacity(blocks.len());
        let mut wrong = None;
        for (pfn, order) in blocks {
            if order <= to {
                parts.push((pfn, order));
                continue;
            }
            if let Err(error) = self.pages.split(pfn, order, to) {
                wrong = Some(Wrong::free(format!("a right split of {pfn} was refused: {error}")));
            }
            parts.extend((0..order.frames() >> to.0).map(|part| (pfn.add(part << to.0), to)));
        }
        self.shadow.borrow_mut().put(cpu, handle, parts);
        wrong.map_or(Ok(true), Err)
    }

    /// Makes a free that must be refused: inside a held block, of the wrong order, or of no memory.
    ///
    /// No other CPU touches the block meanwhile, so the answer is certain.
    pub(super) fn free_wrongly(
        &self,
        (cpu, seat): (usize, &Seat<'p>),
        place: Place,
        order: Order,
    ) -> Result<bool, Wrong> {
        let (pfn, taken) = match place {
            Place::At(pfn) if self.shadow.borrow().is_memory(pfn) => return Ok(false),
            Place::At(pfn) => (pfn, None),
            Place::In(handle, skip) => {
                let Some(blocks) = self.take(cpu, handle) else { return Ok(false) };
                let (head, actual) = blocks[0];
                if skip >= actual.frames() || (skip == 0 && order == actual) {
                    self.shadow.borrow_mut().put(cpu, handle, blocks);
                    return Ok(false);
                }
                (head.add(skip), Some((handle, blocks)))
            }
        };
        let result = self.free_block(seat, pfn, order);
        if let Some((handle, blocks)) = taken {
            self.shadow.borrow_mut().put(cpu, handle, blocks);
        }
        self.count(|counts| counts.refused += 1);
        match result {
            Err(_) => Ok(true),
            Ok(()) => Err(Wrong::free(format!("a free of {pfn} with order {order}, which is wrong, was not refused"))),
        }
    }

    fn free_block(&self, seat: &Seat<'p>, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        seat.as_ref().map_or_else(|| self.pages.free(pfn, order), |local| local.free(pfn, order))
    }
}
