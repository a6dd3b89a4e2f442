//! Frees and splits: by handle, and raw ones that may be wrong.
//!
//! Frees by handle must succeed. For raw frees the oracle predicts the error. A raw free may also be right, because the
//! place may have been allocated again.

use framewright::{FreeError, Order, Pfn, PfnRange};

use crate::language::{Handle, Outcome, Wrong};
use crate::play::player::{Player, granted};

impl Player<'_> {
    pub(crate) fn free(&self, handle: Handle) -> Result<Outcome, Wrong> {
        let blocks = self.oracle.borrow().blocks(handle);
        let Some(&(first, order)) = blocks.first() else { return Ok(Outcome::Skipped) };
        if blocks.len() == 1 {
            granted(self.free_block(first, order), "free", first)?;
        } else if blocks.iter().all(|block| block.1 == order) {
            let heads: Vec<Pfn> = blocks.iter().map(|block| block.0).collect();
            let result = self.pages.free_bulk(&heads, order);
            if result.freed != heads.len() || result.refused != 0 || result.first.is_some() {
                return Err(format!("a right bulk free was refused: {result:?}"));
            }
        } else {
            return self.free_runs(handle);
        }
        let mut oracle = self.oracle.borrow_mut();
        blocks.iter().try_for_each(|&(pfn, order)| oracle.release(PfnRange::block(pfn, order)))?;
        Ok(if blocks.len() == 1 { Outcome::Done } else { Outcome::Blocks(blocks.len()) })
    }

    /// Frees each block as from any context.
    pub(crate) fn free_nolock(&self, handle: Handle) -> Result<Outcome, Wrong> {
        let blocks = self.oracle.borrow().blocks(handle);
        for &(pfn, order) in &blocks {
            granted(self.pages.free_nolock(pfn, order), "free", pfn)?;
            self.oracle.borrow_mut().release(PfnRange::block(pfn, order))?;
            let expected = FreeError::AlreadyFree(pfn);
            match self.pages.free_nolock(pfn, order) {
                Err(error) if error == expected => _ = self.refused(error)?,
                result => return Err(format!("a second free answered {result:?}, should be {expected:?}")),
            }
        }
        Ok(if blocks.is_empty() { Outcome::Skipped } else { Outcome::Blocks(blocks.len()) })
    }

    /// Frees blocks of several orders by the ranges that they form.
    fn free_runs(&self, handle: Handle) -> Result<Outcome, Wrong> {
        let mut frames = 0;
        loop {
            let run = self.oracle.borrow().lowest_run(handle);
            if run.is_empty() {
                return Ok(Outcome::Frames(frames));
            }
            granted(self.pages.free_range(run), "free", run)?;
            self.oracle.borrow_mut().release(run)?;
            frames += run.frames();
        }
    }

    pub(crate) fn free_part(&self, handle: Handle, skip: u64, frames: u64) -> Result<Outcome, Wrong> {
        let run = self.oracle.borrow().lowest_run(handle);
        let start = run.start.add(skip);
        let part = PfnRange { start, end: start.add(frames) }.intersect(run);
        if run.is_empty() || part.is_empty() {
            return Ok(Outcome::Skipped);
        }
        granted(self.pages.free_range(part), "free", part)?;
        self.oracle.borrow_mut().release(part)?;
        Ok(Outcome::Frames(part.frames()))
    }

    pub(crate) fn split(&self, handle: Handle, to: Order) -> Result<Outcome, Wrong> {
        let blocks = self.oracle.borrow().blocks(handle);
        let larger: Vec<_> = blocks.into_iter().filter(|block| block.1 > to).collect();
        for &(pfn, order) in &larger {
            granted(self.pages.split(pfn, order, to), "split", pfn)?;
            self.oracle.borrow_mut().split(pfn, to)?;
        }
        Ok(if larger.is_empty() { Outcome::Skipped } else { Outcome::Blocks(larger.len()) })
    }

    pub(crate) fn raw_free(&self, pfn: Pfn, order: Order) -> Result<Outcome, Wrong> {
        let expected = self.oracle.borrow().refusals(pfn, order);
        match self.free_block(pfn, order) {
            Ok(()) if expected.is_empty() => {
                self.oracle.borrow_mut().release(PfnRange::block(pfn, order))?;
                Ok(Outcome::Done)
            }
            Err(error) if expected.contains(&error) => self.refused(error),
            result => Err(format!("answered {result:?}, should be {}", one_of(&expected))),
        }
    }

    pub(crate) fn raw_free_range(&self, pfn: Pfn, frames: u64) -> Result<Outcome, Wrong> {
        let range = PfnRange { start: pfn, end: pfn.add(frames) };
        let expected = self.oracle.borrow().range_refusal(range);
        match (self.pages.free_range(range), expected) {
            (Ok(()), None) => {
                self.oracle.borrow_mut().release(range)?;
                Ok(Outcome::Frames(frames))
            }
            (Err(error), Some(expected)) if error == expected => self.refused(error),
            (result, expected) => Err(format!("answered {result:?}, should be {expected:?}")),
        }
    }

    /// Splits a block that may not be one. The allocator does not count a refused split.
    pub(crate) fn raw_split(&self, pfn: Pfn, from: Order, to: Order) -> Result<Outcome, Wrong> {
        let mut expected = self.oracle.borrow().refusals(pfn, from);
        if expected.is_empty() && to > from {
            expected.push(FreeError::BadOrder { order: to, max: from });
        }
        match self.pages.split(pfn, from, to) {
            Ok(()) if expected.is_empty() => {
                self.oracle.borrow_mut().split(pfn, to)?;
                Ok(Outcome::Done)
            }
            Err(error) if expected.contains(&error) => Ok(Outcome::Refused(error)),
            result => Err(format!("answered {result:?}, should be {}", one_of(&expected))),
        }
    }
}

/// Returns the errors of which one is right, in words.
fn one_of(errors: &[FreeError]) -> String {
    match errors {
        [] => "done".into(),
        errors => errors.iter().map(|error| format!("{error:?}")).collect::<Vec<_>>().join(" or "),
    }
}
