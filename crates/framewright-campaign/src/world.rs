//! The world of a case: the allocator, the table of owners, and what callbacks do.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use framewright::machine::{Busy, Need, Waiter};
use framewright::request::{__GFP_MEMALLOC, GFP_NOWAIT};
use framewright::{Allocator, BootError, Config, Layout, NodeId, Order, Pfn, PfnRange, Request};
use framewright_rt::Storage;
use self_cell::{MutBorrow, self_cell};

use crate::engine::{Engine, OnPurpose};
use crate::frames::{Block, Frames};
use crate::kind::Kind;
use crate::machine::Campaign;
use crate::plan::Plan;
use crate::plant::Plant;
use crate::wrong::{Symptom, Wrong};

/// The allocator of a campaign.
pub(crate) type Pages<'a> = Allocator<'a, Campaign>;

self_cell!(
    /// An allocator and the memory of its descriptors.
    struct Booted {
        owner: MutBorrow<Storage<Campaign>>,
        #[not_covariant]
        dependent: Pages,
    }
);

/// Blocks that reclaim frees at most in one call.
const RECLAIMED: u64 = 8;

/// The state that all threads share; none of it is borrowed across a call of the allocator.
pub(crate) struct World {
    booted: Booted,
    pub(crate) engine: Rc<Engine>,
    pub(crate) plan: Plan,
    pub(crate) frames: RefCell<Frames>,
    /// A thread takes memory offline or brings it back; one at a time, or the outcome could not be judged.
    pub(crate) hotplug: Cell<bool>,
    /// Where memory may be added.
    pub(crate) addable: RefCell<Vec<PfnRange>>,
    /// Nodes whose background reclaim, or compaction, was woken.
    pub(crate) woken: [Cell<u64>; 2],
    /// Offline CPU numbers that were to be drained.
    pub(crate) drained: RefCell<Vec<u16>>,
    /// Frames that operations steer for.
    pub(crate) level: Cell<u64>,
    pub(crate) digest: Cell<u64>,
    /// Calls made on purpose to go wrong, and frees, for planted bugs.
    pub(crate) frees: Cell<u64>,
    pub(crate) log: Option<RefCell<Vec<String>>>,
}

impl World {
    /// Boots the machine of a plan.
    pub(crate) fn boot(plan: Plan, engine: Rc<Engine>, logs: bool) -> Result<Rc<World>, Wrong> {
        let wrong = |error: BootError| Wrong::new(Symptom::Boot, error.to_string());
        let config = Config { contexts: plan.contexts, ..plan.shape.config() };
        let layout = Layout::of(&config).map_err(wrong)?;
        let machine = Campaign::new(engine.clone(), plan.shape.cpus.clone(), plan.contexts == 2);
        let storage = MutBorrow::new(Storage::new(&layout));
        let booted =
            Booted::try_new(storage, |storage| Allocator::boot(machine, &config, storage.borrow_mut().parts()));
        let booted = booted.map_err(wrong)?;
        let frames = Frames::new(&plan.shape, crate::plan::MOST_SPANNED * 2);
        let frames = frames.ok_or_else(|| Wrong::new(Symptom::Boot, "memory is too far apart".to_owned()))?;
        let possible = plan.shape.regions.iter().filter(|region| !region.present);
        let order = plan.shape.geometry.max_order;
        let sections =
            possible.flat_map(|region| region.range.blocks(order).map(|(pfn, order)| PfnRange::block(pfn, order)));
        let world = Rc::new(World {
            booted,
            addable: RefCell::new(sections.collect()),
            engine,
            plan,
            frames: RefCell::new(frames),
            hotplug: Cell::new(false),
            woken: Default::default(),
            drained: RefCell::default(),
            level: Cell::new(0),
            digest: Cell::new(0),
            frees: Cell::new(0),
            log: logs.then(RefCell::default),
        });
        world.pages(|pages| pages.machine().meet(Rc::downgrade(&world)));
        Ok(world)
    }

    /// Calls `body` with the allocator.
    #[inline]
    pub(crate) fn pages<T>(&self, body: impl FnOnce(&Pages<'_>) -> T) -> T {
        self.booted.with_dependent(|_, pages| body(pages))
    }

    /// Makes a call in which a callback may panic on purpose; returns `None` if it did.
    pub(crate) fn guarded<T>(&self, call: impl FnOnce(&Pages<'_>) -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(|| self.pages(call))) {
            Ok(value) => Some(value),
            Err(payload) if payload.is::<OnPurpose>() => {
                if let Some(thread) = self.engine.thread() {
                    // Guards were dropped while the call was unwound.
                    thread.with(|context| debug_assert_eq!((context.pins, context.irq_off), (0, 0)));
                }
                None
            }
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Mixes an answer into the digest.
    #[inline]
    pub(crate) fn note(&self, answer: u64) {
        let mixed = (self.digest.get() ^ answer).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.digest.set(mixed ^ mixed >> 29);
    }

    /// Adds a line to the log of a replay.
    pub(crate) fn log(&self, line: impl FnOnce() -> String) {
        if let Some(log) = &self.log {
            log.borrow_mut().push(line());
        }
    }

    /// Notes that a background thread was woken.
    pub(crate) fn woken(&self, waiter: Waiter) {
        let (which, node, stalled) = match waiter {
            Waiter::Kswapd(node) => (0, node, Kind::KswapdStalled),
            Waiter::Kcompactd(node) => (1, node, Kind::KcompactdStalled),
            Waiter::Allocation(_) => return,
        };
        if self.engine.enabled.has(stalled) {
            return self.engine.hit(stalled);
        }
        self.woken[which].set(self.woken[which].get() | 1 << node.0.min(63));
    }

    /// Takes a node whose background thread of this sort was woken.
    pub(crate) fn take_woken(&self, which: usize) -> Option<NodeId> {
        let nodes = self.woken[which].get();
        let node = (nodes != 0).then(|| nodes.trailing_zeros())?;
        self.woken[which].set(nodes & (nodes - 1));
        Some(NodeId(node as u8))
    }

    /// Frees a block that is out; it is free in the table already.
    pub(crate) fn free_now(&self, block: Block) -> Result<(), Wrong> {
        let result = self.pages(|pages| pages.free(block.pfn, block.order));
        result.map_err(|error| Wrong::new(Symptom::Free, format!("a right free of {block:?} was refused: {error}")))
    }

    /// Notes a finding of a callback.
    fn judge(&self, result: Result<(), Wrong>) {
        if let Err(wrong) = result {
            self.engine.found(wrong);
        }
    }

    /// Frees memory for the allocator; returns the frames that it says it freed.
    pub(crate) fn reclaim(&self, need: &Need) -> u64 {
        let engine = &self.engine;
        if engine.fires(Kind::ReclaimNothing) {
            return 0;
        }
        if engine.fires(Kind::ReclaimLies) {
            return need.frames;
        }
        if engine.fires(Kind::ReclaimReenters) {
            let requests = [Request::new(need.gfp, need.order.0), Request::page(GFP_NOWAIT)];
            for request in requests {
                let request = Request { gfp: request.gfp | __GFP_MEMALLOC, ..request };
                self.use_nested(&request);
            }
        }
        let mut freed = 0;
        for _ in 0..RECLAIMED {
            if freed >= need.frames {
                break;
            }
            let taken = {
                let mut frames = self.frames.borrow_mut();
                let number = engine.below(frames.count());
                frames.take(number)
            };
            let Some((id, block)) = taken else { break };
            if !block.movable {
                self.frames.borrow_mut().put(id);
                continue;
            }
            self.frames.borrow_mut().release(id);
            self.judge(self.free_now(block));
            freed += block.order.frames();
        }
        freed
    }

    /// Allocates and frees inside a callback.
    fn use_nested(&self, request: &Request) {
        let Ok(pfn) = self.pages(|pages| pages.alloc(request)) else { return };
        let block = Block { pfn, order: request.order, movable: false };
        let held = self.frames.borrow_mut().hold(block);
        self.judge(held);
        let taken = self.frames.borrow_mut().take_at(pfn, request.order);
        if let Some((id, block)) = taken {
            self.frames.borrow_mut().release(id);
            self.judge(self.free_now(block));
        }
    }

    /// Moves a block for the allocator.
    pub(crate) fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        let engine = &self.engine;
        if engine.fires(Kind::MoveRefused) {
            return Err(Busy);
        }
        if engine.fires(Kind::MoveReenters) {
            self.use_nested(&Request::page(GFP_NOWAIT | __GFP_MEMALLOC));
        }
        // Another thread may be working on it, or it belongs to a call that has not returned it yet.
        let (id, block) = self.frames.borrow_mut().take_at(from, order).ok_or(Busy)?;
        if !block.movable {
            self.frames.borrow_mut().put(id);
            let text = format!("asked to move {from} of order {order}, which is not movable");
            engine.found(Wrong::new(Symptom::Answer, text));
            return Err(Busy);
        }
        if engine.fires(Kind::MovedBlockFreed) {
            self.frames.borrow_mut().release(id);
            self.judge(self.free_now(block));
            return Err(Busy);
        }
        let place = Block { pfn: to, order, movable: true };
        if engine.fires(Kind::MoveLies) {
            self.frames.borrow_mut().put(id);
            self.judge(self.free_now(place));
            return Ok(());
        }
        let held = self.frames.borrow_mut().hold(place);
        self.judge(held);
        self.frames.borrow_mut().release(id);
        self.judge(self.free_now(block));
        Ok(())
    }

    /// Returns whether a planted bug of a free shows now.
    pub(crate) fn spoils_free(&self, is_wrong: bool) -> bool {
        let every = match (&self.engine.plant, is_wrong) {
            (Some(Plant::LostFree(every)), false) | (Some(Plant::AcceptedFree(every)), true) => *every,
            _ => return false,
        };
        self.frees.set(self.frees.get() + 1);
        self.frees.get().is_multiple_of(every)
    }
}
