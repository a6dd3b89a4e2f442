//! The player's second half: what goes back, and what is neither given nor taken.
//!
//! Frees by handle must succeed. Raw frees are predicted: the oracle names the error, or says that the free is right after
//! all (the place may have been given out again), and then it is one.

use framewright::report::Source;
use framewright::{AllocError, CpuId, FreeError, MigrateType, Order, Pfn, PfnRange};

use crate::judge::{RangeVerdict, range_verdict};
use crate::op::{Handle, Place};
use crate::outcome::{Outcome, Wrong};
use crate::player::Player;
use crate::row::zones;

impl Player<'_> {
    /// Carries an operation out at a place, if the place means something.
    pub(crate) fn at(&self, place: Place, call: impl FnOnce(Pfn) -> Result<Outcome, Wrong>) -> Result<Outcome, Wrong> {
        let pfn = self.oracle.borrow().resolve(place);
        pfn.map_or(Ok(Outcome::Skipped), call)
    }

    pub(crate) fn free(&self, handle: Handle) -> Result<Outcome, Wrong> {
        let blocks = self.oracle.borrow().blocks(handle);
        let Some(&(first, order)) = blocks.first() else { return Ok(Outcome::Skipped) };
        if blocks.len() == 1 {
            let result = self.free_block(first, order);
            result.map_err(|error| format!("a right free of {first} was refused: {error}"))?;
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
            let result = self.pages.free_nolock(pfn, order);
            result.map_err(|error| format!("a right free of {pfn} was refused: {error}"))?;
            self.oracle.borrow_mut().release(PfnRange::block(pfn, order))?;
            let expected = FreeError::AlreadyFree(pfn);
            match self.pages.free_nolock(pfn, order) {
                Err(error) if error == expected => _ = self.refused(error)?,
                result => return Err(format!("a second free answered {result:?}, should be {expected:?}")),
            }
        }
        Ok(if blocks.is_empty() { Outcome::Skipped } else { Outcome::Blocks(blocks.len()) })
    }

    /// Frees blocks of several orders by the ranges that they make up.
    fn free_runs(&self, handle: Handle) -> Result<Outcome, Wrong> {
        let mut frames = 0;
        loop {
            let run = self.oracle.borrow().lowest_run(handle);
            if run.is_empty() {
                return Ok(Outcome::Frames(frames));
            }
            let result = self.pages.free_range(run);
            result.map_err(|error| format!("a right free of {run} was refused: {error}"))?;
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
        let result = self.pages.free_range(part);
        result.map_err(|error| format!("a right free of {part} was refused: {error}"))?;
        self.oracle.borrow_mut().release(part)?;
        Ok(Outcome::Frames(part.frames()))
    }

    pub(crate) fn split(&self, handle: Handle, to: Order) -> Result<Outcome, Wrong> {
        let blocks = self.oracle.borrow().blocks(handle);
        let larger: Vec<_> = blocks.into_iter().filter(|block| block.1 > to).collect();
        for &(pfn, order) in &larger {
            let result = self.pages.split(pfn, order, to);
            result.map_err(|error| format!("a right split of {pfn} was refused: {error}"))?;
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

    /// A refused split is no refused free: it is not counted.
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

    /// Notes a refused free, which must be counted.
    fn refused(&self, error: FreeError) -> Result<Outcome, Wrong> {
        self.refused.set(self.refused.get() + 1);
        Ok(Outcome::Refused(error))
    }

    /// Checks that the lists of one CPU, or of all, are empty after a drain.
    pub(crate) fn drained(&self, cpu: Option<CpuId>, frames: u64) -> Result<Outcome, Wrong> {
        let cpus: Vec<CpuId> = match cpu {
            Some(cpu) => vec![cpu],
            None => (0..self.pages.cpus()).map(|cpu| CpuId(cpu as u16)).collect(),
        };
        for zone in zones(self.pages.nodes()) {
            let left = cpus.iter().filter_map(|&cpu| self.pages.pcp(zone, cpu)).find(|pcp| pcp.count != 0);
            if let Some(left) = left {
                return Err(format!("after a drain CPU {} still has {} frames", left.cpu.0, left.count));
            }
        }
        Ok(Outcome::Frames(frames))
    }

    pub(crate) fn take_offline(&self, range: PfnRange) -> Result<Outcome, Wrong> {
        let (fired, asked) = (self.fired(), self.hooks.borrow().migrations);
        let verdict = range_verdict(self.oracle.borrow().memory(), range, true);
        let result = self.pages.take_offline(range);
        let disturbed = self.disturbed_since(fired);
        let wrong = if let RangeVerdict::Bad(error) = verdict { Some(error) } else { None };
        if wrong.is_some() || result.is_err() {
            let moved = self.hooks.borrow().migrations != asked;
            return self.not_taken(range, result, (verdict, wrong), (disturbed, moved));
        }
        self.oracle.borrow_mut().withhold(range)?;
        self.offline.borrow_mut().push(range);
        Ok(Outcome::Done)
    }

    pub(crate) fn bring_online(&self, range: PfnRange) -> Result<Outcome, Wrong> {
        let frames = self.pages.bring_online(range);
        let expected = self.oracle.borrow_mut().restore(range);
        if frames == expected {
            Ok(Outcome::Frames(frames))
        } else {
            Err(format!("{frames} frames came online, should be {expected}"))
        }
    }

    pub(crate) fn set_type(&self, pfn: Pfn, migratetype: MigrateType) -> Result<Outcome, Wrong> {
        let (known, around) = {
            let oracle = self.oracle.borrow();
            let memory = oracle.memory();
            (memory.known(pfn).is_some(), memory.frames_in(memory.pageblock(pfn)).next().is_some())
        };
        self.reserved.set(self.reserved.get() || migratetype == MigrateType::HighAtomic);
        match self.pages.set_pageblock_type(pfn, migratetype) {
            Ok(()) if around && migratetype != MigrateType::Isolate => {
                self.oracle.borrow_mut().retyped(pfn);
                match self.pages.pageblock_type(pfn) {
                    Some(found) if found == migratetype => Ok(Outcome::Done),
                    found => Err(format!("the pageblock's type is {found:?} now")),
                }
            }
            // A hole inside of a pageblock may be taken for the pageblock or for no memory.
            Err(error @ AllocError::BadType(MigrateType::Isolate)) if migratetype == MigrateType::Isolate => {
                Ok(Outcome::NotServed(error))
            }
            Err(error @ AllocError::Foreign(at)) if at == pfn && !known => Ok(Outcome::NotServed(error)),
            result => Err(format!("answered {result:?}")),
        }
    }
}

/// The errors of which one is right, in words.
fn one_of(errors: &[FreeError]) -> String {
    match errors {
        [] => "done".into(),
        errors => errors.iter().map(|error| format!("{error:?}")).collect::<Vec<_>>().join(" or "),
    }
}
