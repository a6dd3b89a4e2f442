//! Requests for frames by place, and for contiguous frames anywhere.

use framewright::{AllocError, Allocator, Gfp, MigrateType, Order, Pfn, PfnRange};
use framewright_rt::Solo;

use crate::language::{Handle, Outcome, Terms, Wrong};
use crate::oracle::ranges::{RangeVerdict, free_range, range_verdict};
use crate::oracle::reach::Call;
use crate::oracle::rights::contradict;
use crate::play::player::{FAULT, Player};

impl<'h> Player<'h> {
    pub(super) fn alloc_at(&self, name: Handle, pfn: Pfn, order: Order, gfp: Gfp) -> Result<Outcome, Wrong> {
        let range = PfnRange::block(pfn, order);
        let max = self.pages.geometry().max_order;
        let wrong = match order {
            _ if order > max => Some(AllocError::BadOrder { order, max }),
            _ if !pfn.is_aligned(order) => Some(AllocError::Misaligned(pfn, order)),
            _ => contradict(gfp).then_some(AllocError::BadFlags),
        };
        self.take(name, range, gfp, wrong, |pages| match pages.alloc_at(pfn, order, gfp) {
            Ok(at) if at != pfn => unreachable!("asked for {pfn}, got {at}"),
            result => result.map(drop),
        })
    }

    /// Allocates exactly the frames of a range; `wrong` is the error of an invalid request.
    pub(super) fn take(
        &self,
        name: Handle,
        range: PfnRange,
        gfp: Gfp,
        wrong: Option<AllocError>,
        call: impl FnOnce(&Allocator<'h, Solo<'h>>) -> Result<(), AllocError>,
    ) -> Result<Outcome, Wrong> {
        if self.oracle.borrow().is_held(name) {
            return Ok(Outcome::Skipped);
        }
        let (fired, asked) = (self.fired(), self.hooks.borrow().migrations);
        let verdict = range_verdict(self.oracle.borrow().memory(), range, gfp.may_reclaim());
        let result = call(self.pages);
        let disturbed = self.disturbed_since(fired);
        let wrong = wrong.or(if let RangeVerdict::Bad(error) = verdict { Some(error) } else { None });
        if wrong.is_some() || result.is_err() {
            let moved = self.hooks.borrow().migrations != asked;
            return self.not_taken(range, result, (verdict, wrong), (disturbed, moved));
        }
        // What was in the way must be gone by now, or this fails.
        let movable = gfp.migratetype() == MigrateType::Movable;
        self.oracle.borrow_mut().hold_range(name, range, movable)?;
        Ok(Outcome::Done)
    }

    /// Judges why a range was not allocated.
    pub(crate) fn not_taken(
        &self,
        range: PfnRange,
        result: Result<(), AllocError>,
        (verdict, wrong): (RangeVerdict, Option<AllocError>),
        (disturbed, moved): (bool, bool),
    ) -> Result<Outcome, Wrong> {
        match (result, wrong) {
            (Err(error), Some(wrong)) if error == wrong => Ok(Outcome::NotServed(error)),
            (result, Some(wrong)) => Err(format!("answered {result:?}, should be {wrong:?}")),
            (Err(AllocError::Busy { .. } | AllocError::Contended { .. }), None)
                if verdict == RangeVerdict::Serve && !disturbed =>
            {
                Err(format!("all of {range} was free, but it was not taken: {result:?}"))
            }
            (Err(error @ (AllocError::Busy { pfn } | AllocError::Contended { pfn })), None) => {
                if !range.contains(pfn) {
                    return Err(format!("answered {error:?}, which is not in {range}"));
                }
                let is_held = self.oracle.borrow().block_at(pfn).is_some();
                if !disturbed && !moved && !is_held {
                    return Err(format!("answered {error:?}, but nothing there is in use"));
                }
                Ok(Outcome::NotServed(error))
            }
            (result, None) => Err(format!("answered {result:?} to a range that makes sense")),
        }
    }

    pub(super) fn contig(&self, name: Handle, frames: u64, align: Order, terms: Terms) -> Result<Outcome, Wrong> {
        if self.oracle.borrow().is_held(name) {
            return Ok(Outcome::Skipped);
        }
        let (fired, begun, asked) = (self.fired(), self.begun(), self.hooks.borrow().migrations);
        let turn = self.turn();
        let result = self.pages.alloc_contig(frames, align, &terms.request(Order(0)));
        // An owner that frees a block instead of moving it may free a range that was already passed.
        let disturbed = self.disturbed_since(fired) || self.hooks.borrow().migrations != asked;
        let geometry = self.pages.geometry();
        let order = Order(frames.saturating_sub(1).checked_ilog2().map_or(0, |log| log as u8 + 1)).max(align);
        // Up to the largest order it is an ordinary request whose tail is freed.
        let small = order <= geometry.max_order;
        let request = terms.request(if small { order } else { Order(0) });
        let refusal = if frames == 0 {
            Some(AllocError::BadRange(PfnRange::new(0, 0)))
        } else if align.0 >= 52 {
            Some(AllocError::BadAlignment { align, max: Order(51) })
        } else {
            self.judge(request, false, |judge| judge.refusal())
        };
        if refusal.is_none() && result.err() != FAULT.err() {
            self.take_turns(request, Some(1));
        }
        match (result, refusal) {
            (Ok(range), None) => {
                if range.frames() != frames || !range.start.is_aligned(align) {
                    return Err(format!("got {range}, asked for {frames} frames aligned to order {align}"));
                }
                let movable = terms.gfp.migratetype() == MigrateType::Movable;
                self.oracle.borrow_mut().hold_range(name, range, movable)?;
                self.judge_turn(request, turn, false, |judge| judge.placed(range))?;
                if small {
                    self.count_served(range.start);
                    self.judge_turn(request, turn, false, |judge| {
                        self.count_turn(judge, range.start);
                        judge.mobility(range)
                    })?;
                }
                Ok(Outcome::Range(range))
            }
            (Err(error), Some(refusal)) if error == refusal => Ok(Outcome::NotServed(error)),
            (Err(error), None) => {
                if small {
                    let faulted = self.failed_after(begun);
                    self.judge_turn(request, turn, disturbed, |judge| {
                        judge.failed(error, (faulted, Call::Ordinary))?;
                        judge.scattered(error, frames, align)
                    })?;
                } else if !matches!(error, AllocError::NoMemory { .. }) {
                    return Err(format!("answered {error:?} to a request that makes sense"));
                } else if !disturbed {
                    let free =
                        self.judge_turn(request, turn, false, |judge| free_range(judge, frames, align, |_, _| true));
                    free.map_or(Ok(()), |range| Err(format!("answered {error:?}, but {range} is free")))?;
                }
                Ok(Outcome::NotServed(error))
            }
            (result, Some(refusal)) => Err(format!("answered {result:?}, should be {refusal:?}")),
        }
    }
}
