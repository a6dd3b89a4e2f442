//! Requests for blocks: by order, from any context, and many at once.

use framewright::request::__GFP_NOMEMALLOC;
use framewright::{AllocError, Order, Pfn, Request, Why};

use crate::language::{Handle, Outcome, Wrong};
use crate::oracle::reach::Call;
use crate::play::player::{FAULT, Player};

impl Player<'_> {
    pub(super) fn alloc(&self, name: Handle, request: Request) -> Result<Outcome, Wrong> {
        if self.oracle.borrow().is_held(name) {
            return Ok(Outcome::Skipped);
        }
        let (fired, begun) = (self.fired(), self.begun());
        let turn = self.turn();
        let (request, result) = self.alloc_block(name, request);
        let refusal = self.judge(request, false, |judge| judge.refusal());
        if refusal.is_none() && result != FAULT {
            self.take_turns(request, Some(1));
        }
        match (result, refusal) {
            (Ok(pfn), None) => {
                let disturbed = self.disturbed_since(fired);
                self.given(name, pfn, (request, turn), disturbed).map(|()| Outcome::Block(pfn))
            }
            (Err(error), Some(refusal)) if error == refusal => Ok(Outcome::NotServed(error)),
            (Err(error), None) => {
                let disturbed = self.disturbed_since(fired);
                let faulted = self.failed_after(begun);
                self.judge_turn(request, turn, disturbed, |judge| judge.failed(error, (faulted, Call::Ordinary)))?;
                Ok(Outcome::NotServed(error))
            }
            (result, Some(refusal)) => Err(format!("answered {result:?}, should be {refusal:?}")),
        }
    }

    /// Allocates a block as from any context.
    ///
    /// No lock is held here, so the answer must not be that one is. Zones that an address limit runs through are left
    /// out.
    pub(super) fn alloc_nolock(&self, name: Handle, request: Request) -> Result<Outcome, Wrong> {
        if self.oracle.borrow().is_held(name) {
            return Ok(Outcome::Skipped);
        }
        let (fired, begun) = (self.fired(), self.begun());
        let result = self.pages.alloc_nolock(&request);
        let disturbed = self.disturbed_since(fired);
        let is_kept = request.order < Order(4) || request.order == self.pages.geometry().pageblock_order;
        let not_kept = (!is_kept).then_some(AllocError::NotKept(request.order));
        let refusal = self.judge(request, false, |judge| judge.refusal()).or(not_kept);
        match (result, refusal) {
            (Ok(pfn), None) => self.given(name, pfn, (request, Some(0)), disturbed).map(|()| Outcome::Block(pfn)),
            (Err(error), Some(refusal)) if error == refusal => Ok(Outcome::NotServed(error)),
            (Err(error @ AllocError::NoMemory { .. }), None) if request.below.is_some() => {
                Ok(Outcome::NotServed(error))
            }
            (Err(error), None) => {
                let faulted = self.failed_after(begun);
                // A request from any context may use no reserve.
                let judged = Request { gfp: request.gfp | __GFP_NOMEMALLOC, ..request };
                self.judge_turn(judged, Some(0), disturbed, |judge| judge.failed(error, (faulted, Call::Nolock)))?;
                Ok(Outcome::NotServed(error))
            }
            (result, Some(refusal)) => Err(format!("answered {result:?}, should be {refusal:?}")),
        }
    }

    pub(super) fn bulk(&self, name: Handle, count: u32, request: Request) -> Result<Outcome, Wrong> {
        if self.oracle.borrow().is_held(name) {
            return Ok(Outcome::Skipped);
        }
        const UNTOUCHED: Pfn = Pfn(u64::MAX);
        let mut blocks = vec![UNTOUCHED; count as usize];
        let fired = self.fired();
        let result = self.pages.alloc_bulk(&request, &mut blocks);
        let disturbed = self.disturbed_since(fired);
        let refusal = self.judge(request, false, |judge| judge.refusal());
        let served = result.unwrap_or(0);
        if blocks.iter().position(|&pfn| pfn == UNTOUCHED).unwrap_or(blocks.len()) != served
            || blocks.iter().skip(served).any(|&pfn| pfn != UNTOUCHED)
        {
            return Err(format!("answered {result:?} and wrote {blocks:?}"));
        }
        // Draining or merging for one block makes room that the others did not have, and a zone is chosen for several
        // at once.
        let is_alone = count == 1;
        let turn = self.turn();
        let turn_of = |index: usize| turn.map(|turn| turn.wrapping_add(index as u32));
        let mut given = blocks.iter().take(served).enumerate();
        given.try_for_each(|(index, &pfn)| self.given(name, pfn, (request, turn_of(index)), disturbed || !is_alone))?;
        if refusal.is_none() {
            let is_short = served < count as usize;
            // The request that ended the bulk took a turn, unless it was made to fail.
            let is_known = !is_short || self.fired() == fired;
            self.take_turns(request, is_known.then_some(served as u32 + u32::from(is_short)));
        }
        match (result, refusal) {
            (Ok(0), None) if count != 0 => Err("no block was allocated, and no error says why".into()),
            (Ok(served), None) => {
                let short = served < count as usize && !disturbed;
                match self.judge_turn(request, turn_of(served), disturbed, |judge| judge.within_reach(Call::Ordinary)) {
                    Some(zone) if short => Err(format!(
                        "{served} of {count} blocks allocated, but {} on node {} could serve more",
                        zone.kind(),
                        zone.node().0
                    )),
                    _ => Ok(Outcome::Blocks(served)),
                }
            }
            (Err(error), Some(refusal)) if error == refusal => Ok(Outcome::NotServed(error)),
            // The point is reached twice: once for what the per-CPU list may serve, once for the first block.
            (Err(AllocError::NoMemory { why: Why::Fault, .. }), None) if self.fired() != fired => {
                Ok(Outcome::NotServed(AllocError::no_memory(Why::Fault)))
            }
            (Err(error), None) => {
                self.judge_turn(request, turn, disturbed, |judge| judge.failed(error, (false, Call::Ordinary)))?;
                Ok(Outcome::NotServed(error))
            }
            (result, Some(refusal)) => Err(format!("answered {result:?}, should be {refusal:?}")),
        }
    }
}
