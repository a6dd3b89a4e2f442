//! Frees and splits: right ones by every call there is, and wrong ones of every kind, which must be refused by name.

use framewright::request::{__GFP_DMA, __GFP_DMA32, GFP_KERNEL};
use framewright::{AllocError, FrameState, FreeError, NodeId, Order, Pfn, PfnRange, Policy, Request};
use framewright_ops::rng::Rng;

use crate::frames::Block;
use crate::kind::Kind;
use crate::plan::{Action, Effort};
use crate::schedule::Schedule;
use crate::world::World;
use crate::wrong::{Symptom, Wrong};

/// What goes into the digest, or what is wrong.
pub(crate) type Answer = Result<u64, Wrong>;

/// Blocks that a bulk free takes at most.
const BULK: usize = 24;

impl World {
    /// Takes out any block.
    pub(crate) fn any_block(&self, rng: &mut Rng) -> Option<(u32, Block)> {
        let mut frames = self.frames.borrow_mut();
        let count = frames.count();
        let number = if rng.one_in(2) { count.checked_sub(1)? } else { rng.below(count) };
        frames.take(number)
    }

    /// Frees what others or this thread allocated, by the call that fits the operation.
    pub(crate) fn free_some(&self, action: Action, rng: &mut Rng) -> Answer {
        if action == Action::Bulk {
            return self.free_bulk(rng);
        }
        let Some((id, block)) = self.any_block(rng) else { return Ok(3) };
        self.frames.borrow_mut().release(id);
        self.log(|| format!("    free {block:?}"));
        if self.spoils_free(false) {
            return Ok(block.pfn.0);
        }
        self.limit_by(Effort::Quick);
        let Block { pfn, order, .. } = block;
        let result = match action {
            Action::Nolock => self.free_nolock(block)?,
            Action::Range => self.pages(|pages| pages.free_range(block.range())),
            _ if rng.one_in(16) => self.pages(|pages| match pages.local() {
                Some(local) => local.free(pfn, order),
                None => pages.free(pfn, order),
            }),
            _ => self.pages(|pages| pages.free(pfn, order)),
        };
        match result {
            Ok(()) => Ok(pfn.0),
            Err(error) => Err(refused(block, error)),
        }
    }

    /// Frees a block, which the table has as free already, by the call for any context.
    pub(crate) fn free_nolock(&self, block: Block) -> Result<Result<(), FreeError>, Wrong> {
        let result = self.pages(|pages| pages.free_nolock(block.pfn, block.order));
        if matches!(result, Err(FreeError::Busy(_))) {
            // Nothing has changed.
            self.frames.borrow_mut().hold(block)?;
            return Ok(Ok(()));
        }
        Ok(result)
    }

    fn free_bulk(&self, rng: &mut Rng) -> Answer {
        let mut blocks: Vec<Block> = Vec::with_capacity(BULK);
        for _ in 0..rng.between(2, BULK as u64) {
            let Some((id, block)) = self.any_block(rng) else { break };
            if self.spoils_free(false) {
                self.frames.borrow_mut().put(id);
                continue;
            }
            self.frames.borrow_mut().release(id);
            blocks.push(block);
        }
        let order = blocks.first().map_or(Order(0), |block| block.order);
        let alike: Vec<Pfn> = blocks.iter().filter(|block| block.order == order).map(|block| block.pfn).collect();
        let others = blocks.iter().filter(|block| block.order != order).map(|block| (block.pfn, block.order));
        let mut done = self.pages(|pages| pages.free_bulk(&alike, order));
        done.add(self.pages(|pages| pages.free_each(others)));
        if done.freed == blocks.len() && done.refused == 0 {
            return Ok(done.freed as u64);
        }
        Err(Wrong::new(Symptom::Free, format!("of {} right frees {done:?}", blocks.len())))
    }

    /// Frees a part of a block, or splits it.
    pub(crate) fn part(&self, rng: &mut Rng) -> Answer {
        let Some((id, block)) = self.any_block(rng) else { return Ok(3) };
        let Block { pfn, order, movable } = block;
        if order.0 != 0 && rng.one_in(2) {
            let to = Order(rng.below(u64::from(order.0)) as u8);
            if let Err(error) = self.pages(|pages| pages.split(pfn, order, to)) {
                return Err(refused(block, error));
            }
            let mut frames = self.frames.borrow_mut();
            frames.release(id);
            let mut parts = 0..order.frames() >> to.0;
            return parts
                .try_for_each(|part| frames.hold(Block { pfn: pfn.add(part << to.0), order: to, movable }))
                .map(|()| pfn.0);
        }
        let start = pfn.0 + rng.below(order.frames());
        let part = PfnRange::new(start, start + 1 + rng.below(pfn.0 + order.frames() - start));
        // The rest can be picked only after the call: until then its blocks do not exist.
        self.frames.borrow_mut().begin_cut(part);
        match self.pages(|pages| pages.free_range(part)) {
            Ok(()) => self.frames.borrow_mut().end_cut(id, part).map(|()| part.start.0),
            Err(error) => Err(refused(block, error)),
        }
    }

    /// Makes a call that must be refused, by its name, and must change nothing.
    pub(crate) fn wrong_call(&self, rng: &mut Rng) -> Answer {
        const KINDS: [Kind; 8] = [
            Kind::DoubleFree,
            Kind::ForeignFree,
            Kind::MisalignedFree,
            Kind::WrongOrderFree,
            Kind::TailFree,
            Kind::OfflineFree,
            Kind::WrongSplit,
            Kind::BadRequest,
        ];
        let kind = *rng.pick(&KINDS);
        if !self.engine.enabled.has(kind) {
            return Ok(4);
        }
        match kind {
            Kind::DoubleFree => self.free_twice(rng),
            Kind::ForeignFree => self.free_foreign(rng),
            Kind::OfflineFree => self.free_withheld(rng),
            Kind::BadRequest => self.bad_request(rng),
            _ => self.free_inside(kind, rng),
        }
    }

    /// Compares the answer to a wrong free with the expected one.
    fn expect(&self, kind: Kind, found: Result<(), FreeError>, is_right: impl Fn(FreeError) -> bool) -> Answer {
        let found = if self.spoils_free(true) { Ok(()) } else { found };
        self.engine.hit(kind);
        match found {
            Err(error) if is_right(error) => Ok(5),
            found => Err(Wrong::new(Symptom::Free, format!("a wrong free, {kind}, was answered by {found:?}"))),
        }
    }

    fn free_twice(&self, rng: &mut Rng) -> Answer {
        // Another thread could get the block between the two frees, so no other may be on its way.
        let is_alone = self.engine.turns.schedule == Schedule::Calls && !self.engine.others_are_inside();
        let Some(thread) = self.engine.thread().filter(|_| is_alone) else { return Ok(4) };
        thread.interrupt_in.set(u64::MAX);
        thread.with(|context| context.armed = None);
        let Some((id, block)) = self.any_block(rng) else { return Ok(3) };
        self.frames.borrow_mut().release(id);
        self.free_now(block)?;
        let again = self.pages(|pages| match rng.below(3) {
            0 => pages.free(block.pfn, block.order),
            1 => pages.free_nolock(block.pfn, block.order),
            _ => pages.free_range(block.range()),
        });
        self.expect(Kind::DoubleFree, again, |error| matches!(error, FreeError::AlreadyFree(_)))
    }

    fn free_foreign(&self, rng: &mut Rng) -> Answer {
        let span = self.frames.borrow().span();
        let pfn = match rng.below(4) {
            0 => Pfn(u64::MAX - rng.below(3)),
            1 => Pfn(span.end.0 + rng.below(1 << 40)),
            _ => Pfn(span.start.0 + rng.below(span.frames())),
        };
        if self.frames.borrow().is_memory(pfn) {
            return Ok(4);
        }
        // Memory may be added there in the middle of the call, but it is not allocated then.
        let result = self.pages(|pages| pages.free(pfn, Order(0)));
        let is_right =
            |error| matches!(error, FreeError::Foreign(_) | FreeError::AlreadyFree(_) | FreeError::Offline(_));
        self.expect(Kind::ForeignFree, result, is_right)
    }

    fn free_withheld(&self, rng: &mut Rng) -> Answer {
        if self.hotplug.replace(true) {
            return Ok(4);
        }
        let block = self.frames.borrow().withheld_block(rng.draw());
        let answer = match block {
            None => Ok(4),
            Some((pfn, order)) => {
                let result = self.pages(|pages| pages.free(pfn, order));
                self.expect(Kind::OfflineFree, result, |error| matches!(error, FreeError::Offline(_)))
            }
        };
        self.hotplug.set(false);
        answer
    }

    /// Frees or splits a held block wrongly; no other thread touches it meanwhile.
    fn free_inside(&self, kind: Kind, rng: &mut Rng) -> Answer {
        let Some((id, block)) = self.any_block(rng) else { return Ok(3) };
        let Block { pfn, order, .. } = block;
        // From any context, a locked zone is not looked at, and the error may be another.
        let nolock = rng.one_in(4);
        let free = |pfn, order| {
            self.pages(|pages| if nolock { pages.free_nolock(pfn, order) } else { pages.free(pfn, order) })
        };
        let answer = match kind {
            _ if order.0 == 0 && kind != Kind::WrongSplit => Ok(4),
            Kind::MisalignedFree => {
                let result = free(pfn.add(1 + rng.below(order.frames() - 1) / 2 * 2), order);
                self.expect(kind, result, |error| nolock || matches!(error, FreeError::Misaligned(..)))
            }
            Kind::WrongOrderFree => {
                let result = free(pfn, Order(rng.below(u64::from(order.0)) as u8));
                self.expect(kind, result, |error| nolock || matches!(error, FreeError::WrongOrder { .. }))
            }
            Kind::TailFree => {
                let result = free(pfn.add(1 + rng.below(order.frames() - 1)), Order(0));
                self.expect(kind, result, |error| nolock || matches!(error, FreeError::NotHead { .. }))
            }
            _ => {
                let from = if order.0 == 0 { order.up() } else { order.down() };
                let result = self.pages(|pages| pages.split(pfn, from, Order(0)));
                self.expect(Kind::WrongSplit, result, |_| true)
            }
        };
        let state = self.pages(|pages| pages.state_of(pfn));
        self.frames.borrow_mut().put(id);
        if answer.is_ok() && state != FrameState::Allocated(pfn, order) {
            let text = format!("after a wrong free, {kind}, {block:?} is {state:?}");
            return Err(Wrong::new(Symptom::Free, text));
        }
        answer
    }

    /// Makes a request that nothing could serve.
    fn bad_request(&self, rng: &mut Rng) -> Answer {
        let max = self.plan.shape.geometry.max_order;
        let any = Request::page(GFP_KERNEL);
        let end = self.frames.borrow().span().end;
        let error = self.guarded(|pages| match rng.below(6) {
            0 => pages.alloc(&Request { order: *rng.pick(&[max.up(), Order(63), Order(64), Order(255)]), ..any }).err(),
            1 => pages.alloc(&Request { gfp: __GFP_DMA | __GFP_DMA32, ..any }).err(),
            2 => pages.alloc(&Request { policy: Policy::Prefer(NodeId(63)), ..any }).err(),
            3 => pages.alloc_range(PfnRange { start: end, end: Pfn(end.0 + 9) }, GFP_KERNEL).err(),
            4 => pages.alloc_contig(0, Order(0), &any).err(),
            _ => pages.alloc_at(Pfn(1), Order(2), GFP_KERNEL).err(),
        });
        self.engine.hit(Kind::BadRequest);
        match error {
            None => Ok(1),
            Some(None | Some(AllocError::NoMemory { .. })) => {
                let text = format!("a request that nothing can serve was answered by {error:?}");
                Err(Wrong::new(Symptom::Answer, text))
            }
            Some(Some(_)) => Ok(6),
        }
    }
}

/// Returns the finding that a right free or split was refused.
pub(crate) fn refused(block: Block, error: FreeError) -> Wrong {
    Wrong::new(Symptom::Free, format!("a right free or split of {block:?} was refused: {error}"))
}
