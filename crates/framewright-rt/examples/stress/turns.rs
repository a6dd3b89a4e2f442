//! The turns of a worker that call the allocator.

use framewright::request::{
    __GFP_NORETRY, __GFP_RECLAIMABLE, __GFP_THISNODE, __GFP_ZERO, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, GFP_KERNEL,
    GFP_NOWAIT, GFP_USER,
};
use framewright::{
    AllocError, FrameState, FreeError, Gfp, NodeId, NodeSet, Order, Pfn, PfnRange, Policy, Request, Why,
};

use crate::shadow;
use crate::stage::{Block, Checked, Did, refused};
use crate::worker::Worker;

/// An order of which no block exists.
pub(crate) const NOBODYS: Order = Order(11);
/// A pageblock's.
const HUGE: Order = Order(9);
const ORDERS: [u8; 24] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 9, 9];
/// All mobilities, requests that may wait and others that must not.
const FLAGS: [Gfp; 9] = [
    GFP_KERNEL,
    GFP_HIGHUSER_MOVABLE,
    GFP_HIGHUSER_MOVABLE,
    Gfp(GFP_KERNEL.0 | __GFP_RECLAIMABLE.0),
    GFP_ATOMIC,
    GFP_NOWAIT,
    Gfp(GFP_USER.0 | __GFP_ZERO.0),
    Gfp(GFP_HIGHUSER_MOVABLE.0 | __GFP_ZERO.0),
    Gfp(GFP_KERNEL.0 | __GFP_NORETRY.0),
];
/// Blocks of a bulk call, at most, and operations of a burst.
const BULK: usize = 200;
const BURST: usize = 64;
/// Frames of a range that is not of whole pageblocks.
const SHORT: usize = 128;

impl Worker {
    pub(crate) fn request(&mut self) -> Request {
        let request = Request::new(self.rng.of(&FLAGS), self.rng.of(&ORDERS));
        let node = NodeId(self.rng.below(2) as u8);
        match self.rng.below(16) {
            0 => request.on(node),
            1 => Request { gfp: request.gfp | __GFP_THISNODE, ..request.on(node) },
            2 => request.with(Policy::Bind(NodeSet::only(node))),
            3 => request.with(Policy::Interleave(NodeSet::first(2))),
            4 => request.below(Pfn(self.frame_at_random().0 | 0x3ff)),
            _ => request,
        }
    }

    pub(crate) fn frame_at_random(&mut self) -> Pfn {
        Pfn(self.rng.below(self.stage.arena.frames().frames() as usize) as u64)
    }

    /// Takes a request's block as its own. Returns whether there was one.
    pub(crate) fn took(&mut self, request: &Request, result: Result<Pfn, AllocError>) -> Checked<bool> {
        let pfn = match result {
            Ok(pfn) => pfn,
            Err(error) => return self.failed(request.order.frames(), error).map(|()| false),
        };
        let range = PfnRange::block(pfn, request.order);
        let half = self.stage.arena.frames().frames() / 2;
        let bound = match request.policy {
            Policy::Bind(nodes) => nodes,
            Policy::Prefer(node) if request.gfp.contains(__GFP_THISNODE) => NodeSet::only(node),
            _ => NodeSet::ALL,
        };
        let fits = pfn.is_aligned(request.order)
            && request.below.is_none_or(|limit| range.end <= limit)
            && bound.contains(NodeId((pfn.0 >= half).into()));
        if !fits {
            return Err(format!("{request:?} was served by {range}"));
        }
        self.keep(range, Some(request.order), request.gfp.contains(__GFP_ZERO))?;
        Ok(true)
    }

    /// Takes frames that were just allocated as its own.
    fn keep(&mut self, range: PfnRange, order: Option<Order>, is_zero: bool) -> Checked {
        let block = Block { range, order, mark: self.mark() };
        self.stage.take(&block, is_zero)?;
        self.tally.did(Did::Allocated);
        self.hold(block);
        Ok(())
    }

    /// Whether a request may have failed so.
    fn failed(&mut self, frames: u64, error: AllocError) -> Checked {
        let all = self.stage.arena.frames().frames();
        self.tally.did(Did::Failed);
        match error {
            AllocError::NoMemory { why: Why::NoCpu | Why::Fault, .. } => Err(format!("{frames} frames: {error}")),
            AllocError::NoMemory { .. } => {
                self.growing = false;
                let in_use = self.stage.in_use.load(std::sync::atomic::Ordering::Relaxed);
                self.tally.add(Did::Starved, (frames == 1 && in_use < all / 2).into());
                Ok(())
            }
            // Of ranges and places only.
            AllocError::Busy { .. } | AllocError::Contended { .. } if frames > 1 => Ok(()),
            AllocError::Foreign(_) | AllocError::OtherZone(_) | AllocError::Offline(_) if frames > 1 => Ok(()),
            _ => Err(format!("{frames} frames: {error}")),
        }
    }

    pub(crate) fn alloc_one(&mut self) -> Checked {
        let request = self.request();
        let result = self.stage.pages().alloc(&request);
        self.took(&request, result).map(drop)
    }

    /// Many operations on one CPU.
    pub(crate) fn burst(&mut self) -> Checked {
        let stage = std::sync::Arc::clone(&self.stage);
        // More threads than CPUs to keep: this one makes plain calls.
        let Some(local) = stage.pages().local() else { return self.alloc_one() };
        self.tally.did(Did::Local);
        for _ in 0..1 + self.rng.below(BURST) {
            match self.rng.below(64) {
                0 => {
                    let drained = stage.pages().drain_all();
                    self.tally.did(Did::Drains);
                    self.tally.add(Did::DrainedFrames, drained);
                }
                1 => self.alloc_one()?,
                2 if stage.plan.forks && self.rng.one_in(400) => self.fork(true)?,
                3..=40 => {
                    let request = Request { order: Order(self.rng.of(&ORDERS) % 8), ..self.request() };
                    let result = local.alloc(&request);
                    let is_served = self.took(&request, result)?;
                    // Half of them go back at once.
                    if is_served
                        && self.rng.one_in(2)
                        && let Some(block) = self.held.pop()
                    {
                        self.frames -= block.range.frames();
                        self.free_locally(&local, &block)?;
                    }
                }
                _ => {
                    if let Some((block, _)) = self.pick_block() {
                        self.free_locally(&local, &block)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn free_locally(&mut self, local: &framewright::Local<'_, '_, framewright_rt::Native>, block: &Block) -> Checked {
        self.count_free(block);
        self.stage.leave(block)?;
        let order = block.order.unwrap_or_default();
        local.free(block.range.start, order).map_err(|error| refused(block, error))
    }

    pub(crate) fn alloc_bulk(&mut self) -> Checked {
        let request = Request { order: Order(self.rng.below(4) as u8), ..self.request() };
        let mut blocks = [Pfn(0); BULK];
        let count = 1 + self.rng.below(BULK);
        self.tally.did(Did::Bulk);
        match self.stage.pages().alloc_bulk(&request, &mut blocks[..count]) {
            Ok(served) => blocks[..served].iter().try_for_each(|&pfn| self.took(&request, Ok(pfn)).map(drop)),
            Err(error) => self.failed(1, error),
        }
    }

    pub(crate) fn free_bulk(&mut self) -> Checked {
        let Some((first, order)) = self.pick_block() else { return Ok(()) };
        let mut blocks = vec![first];
        for _ in 0..self.rng.below(BULK) {
            match self.pick_block() {
                Some((block, same)) if same == order => blocks.push(block),
                Some((block, _)) => self.hold(block),
                None => break,
            }
        }
        for block in &blocks {
            self.count_free(block);
            self.stage.leave(block)?;
        }
        self.tally.did(Did::Bulk);
        let pfns: Vec<Pfn> = blocks.iter().map(|block| block.range.start).collect();
        match self.stage.pages().free_bulk(&pfns, order) {
            done if done.freed == pfns.len() && done.refused == 0 => Ok(()),
            done => Err(format!("{} blocks of order {order} were freed so: {done:?}", pfns.len())),
        }
    }

    /// A block as a value that frees itself.
    pub(crate) fn own(&mut self) -> Checked {
        let request = self.request();
        let mut pages = match self.stage.arena.alloc_owned(&request) {
            Ok(pages) => pages,
            Err(error) => return self.failed(request.order.frames(), error),
        };
        self.tally.did(Did::Owned);
        self.took(&request, Ok(pages.pfn()))?;
        let Some(block) = self.held.pop() else { return Ok(()) };
        self.frames -= block.range.frames();
        match self.rng.below(4) {
            0 => {
                self.stage.check(&block)?;
                pages.discard().map_err(|error| error.to_string())?;
                shadow::check_zero(&self.stage.arena, block.range, block.mark)?;
                shadow::stamp(&self.stage.arena, block.range, block.mark);
            }
            1 => {
                self.stage.check(&block)?;
                let to = Order(self.rng.below(8).min(pages.order().index()) as u8);
                self.tally.did(Did::Split);
                let split = pages.split(to).map_err(|(_, error)| error.to_string())?;
                for piece in split {
                    let (pfn, order) = piece.into_raw();
                    self.renew(PfnRange::block(pfn, order), Some(order), block.mark)?;
                }
                return Ok(());
            }
            2 => {
                let (pfn, order) = pages.into_raw();
                if (pfn, Some(order)) != (block.range.start, block.order) {
                    return Err(format!("{pfn} of order {order} is not {block:x?}"));
                }
                self.hold(block);
                return Ok(());
            }
            _ => {}
        }
        self.count_free(&block);
        self.stage.leave(&block)?;
        drop(pages);
        match self.stage.arena.refused_frees() {
            0 => Ok(()),
            count => Err(format!("{count} drops were refused")),
        }
    }

    pub(crate) fn split(&mut self) -> Checked {
        let Some((block, order)) = self.pick_block() else { return Ok(()) };
        self.stage.check(&block)?;
        let to = Order(self.rng.below(8).min(order.index()) as u8);
        self.tally.did(Did::Split);
        let split = self.stage.pages().split(block.range.start, order, to);
        split.map_err(|error| format!("{block:x?} is not split for its owner: {error}"))?;
        block
            .range
            .blocks(to)
            .try_for_each(|(pfn, order)| self.renew(PfnRange::block(pfn, order), Some(order), block.mark))
    }

    /// A range, of any place or at one.
    pub(crate) fn alloc_range(&mut self) -> Checked {
        let is_long = self.rng.one_in(4);
        let frames = if is_long { HUGE.frames() << self.rng.below(2) } else { 1 + self.rng.below(SHORT) as u64 };
        let request = Request { order: Order(0), ..self.request() };
        let range = if self.rng.one_in(2) {
            let align = Order(self.rng.below(if is_long { 10 } else { 6 }) as u8);
            self.stage.pages().alloc_contig(frames, align, &request)
        } else {
            let at = self.frame_at_random();
            let start = if is_long { at.align_down(HUGE) } else { at };
            let range = PfnRange { start, end: start.add(frames) };
            self.stage.pages().alloc_range(range, request.gfp).map(|()| range)
        };
        match range {
            Ok(range) if range.frames() == frames => {
                self.tally.did(Did::Ranges);
                self.keep(range, None, request.gfp.contains(__GFP_ZERO))
            }
            Ok(range) => Err(format!("{frames} frames were served by {range}")),
            Err(error) => self.failed(frames.max(2), error),
        }
    }

    /// Frees some of a range.
    pub(crate) fn free_part(&mut self) -> Checked {
        let Some(index) = self.held.iter().position(|block| block.order.is_none()) else { return Ok(()) };
        let block = self.held.swap_remove(index);
        self.frames -= block.range.frames();
        let frames = block.range.frames();
        let step = if frames >= HUGE.frames() { HUGE.frames() } else { 1 };
        let middle = block.range.start.add(self.rng.below((frames / step) as usize) as u64 * step);
        let halves = [PfnRange { end: middle, ..block.range }, PfnRange { start: middle, ..block.range }];
        self.stage.check(&block)?;
        for (half, goes) in halves.into_iter().zip([self.rng.one_in(2), self.rng.one_in(2)]) {
            if half.is_empty() {
                continue;
            }
            self.renew(half, None, block.mark)?;
            if goes && let Some(half) = self.held.pop() {
                self.frames -= half.range.frames();
                self.free(&half)?;
            }
        }
        Ok(())
    }

    /// A block at a place.
    pub(crate) fn alloc_at(&mut self) -> Checked {
        let order = Order(self.rng.of(&ORDERS));
        let pfn = self.frame_at_random().align_down(order);
        let gfp = self.rng.of(&FLAGS);
        match self.stage.pages().alloc_at(pfn, order, gfp) {
            Ok(got) if got == pfn => {
                self.tally.did(Did::Places);
                self.took(&Request::new(gfp, order.0), Ok(pfn)).map(drop)
            }
            Ok(got) => Err(format!("{got} was served and not {pfn}")),
            Err(error) => self.failed(order.frames().max(2), error),
        }
    }

    /// Makes frees that must be refused, whatever other threads do meanwhile.
    pub(crate) fn free_wrongly(&mut self) -> Checked {
        let frames = self.stage.arena.frames().frames();
        let nobodys = self.frame_at_random().align_down(NOBODYS);
        self.must_refuse(nobodys, NOBODYS, |_| true)?;
        let foreign = Pfn(frames + self.rng.below(1 << 20) as u64);
        self.must_refuse(foreign, Order(0), |error| error == FreeError::Foreign(foreign))?;
        let Some((block, actual)) = self.pick_block() else { return Ok(()) };
        let (pfn, order) = (block.range.start, Order(self.rng.below(12) as u8));
        if order != actual {
            let aligned = FreeError::WrongOrder { pfn, actual };
            let max = self.stage.pages().geometry().max_order;
            self.must_refuse(pfn, order, |error| match error {
                FreeError::BadOrder { .. } => order > max,
                FreeError::Misaligned(..) => !pfn.is_aligned(order),
                _ => error == aligned,
            })?;
        }
        if actual > Order(0) {
            let inner = pfn.add(1 + self.rng.below(actual.frames() as usize - 1) as u64);
            let expected = FreeError::NotHead { pfn: inner, head: pfn };
            self.must_refuse(inner, Order(0), |error| error == expected)?;
        }
        let state = self.stage.pages().state_of(pfn);
        if state != FrameState::Allocated(pfn, actual) {
            return Err(format!("{block:x?} is {state:?} after wrong frees"));
        }
        self.stage.check(&block)?;
        self.hold(block);
        Ok(())
    }

    fn must_refuse(&mut self, pfn: Pfn, order: Order, expected: impl Fn(FreeError) -> bool) -> Checked {
        match self.stage.pages().free(pfn, order) {
            Err(error) if expected(error) => {
                self.tally.did(Did::WrongFrees);
                Ok(())
            }
            other => Err(format!("a wrong free of {pfn} with order {order} gave {other:?}")),
        }
    }
}
