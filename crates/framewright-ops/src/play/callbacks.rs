//! The machine's callbacks, as a scenario chooses them.
//!
//! They run inside an operation, with no lock of the allocator held, and may call it again. What they allocate and free
//! goes through the oracle like everything else. A wrong answer is kept and reported with the operation that called
//! them.

use framewright::machine::{Busy, Need};
use framewright::request::{__GFP_MEMALLOC, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT};
use framewright::{Event, Order, Pfn, PfnRange, Request};

use crate::language::{Handle, OnMigrate, OnReclaim, Op, Terms, Wrong};
use crate::play::player::{Player, granted};

/// Handles of what callbacks allocate and free at once.
const TRANSIENT: [Handle; 3] = [Handle(u32::MAX), Handle(u32::MAX - 1), Handle(u32::MAX - 2)];

impl<'h> Player<'h> {
    /// Installs the machine's callbacks.
    pub(crate) fn hook(&'h self) {
        let machine = self.pages.machine();
        machine.on_fault(|point| self.faults.borrow_mut().reach(point));
        machine.on_reclaim(|need| self.reclaim(need));
        machine.on_migrate(|from, to, order| self.migrate((from, to), order));
        machine.on_event(|event| {
            let change = match event {
                Event::PageAlloc { pfn: Some(_), order, .. } => order.frames(),
                Event::PageFree { order, .. } => order.frames().wrapping_neg(),
                _ => 0,
            };
            self.traced.set(self.traced.get().map(|traced| traced.wrapping_add(change)));
        });
        machine.set_traces(self.traced.get().is_some());
    }

    /// Removes the callbacks, and drops all that the player has on the heap.
    ///
    /// The player itself is never dropped.
    pub(crate) fn unhook(&self) {
        self.seat.take();
        let machine = self.pages.machine();
        machine.on_fault(|_| false);
        machine.on_reclaim(|_| 0);
        machine.on_migrate(|_, _, _| Err(Busy));
        machine.on_event(|_| {});
        self.oracle.take();
        self.faults.take();
        self.hooks.take();
        self.counted.take();
        self.offline.take();
    }
}

impl Player<'_> {
    /// Answers a reclaim; returns the frames that it reports as freed.
    pub(crate) fn reclaim(&self, need: &Need) -> u64 {
        let what = {
            let mut hooks = self.hooks.borrow_mut();
            hooks.reclaims += 1;
            hooks.on_reclaim
        };
        let freed = match what {
            OnReclaim::Fail => Ok(0),
            OnReclaim::Lie => Ok(1),
            OnReclaim::Free(blocks) => (0..blocks).try_fold(0, |sum, _| Ok(sum + self.free_oldest()?)),
            OnReclaim::Nest => self.reclaim_nested(need),
            OnReclaim::Drain => {
                self.pages.drain_all();
                Ok(1)
            }
        };
        self.noted(freed).unwrap_or(0)
    }

    /// Keeps a wrong answer for the operation under way.
    fn noted<T>(&self, result: Result<T, Wrong>) -> Option<T> {
        result.map_err(|wrong| self.hooks.borrow_mut().wrong.get_or_insert(wrong).len()).ok()
    }

    /// Frees one block of the oldest handle; returns its frames.
    fn free_oldest(&self) -> Result<u64, Wrong> {
        let oldest = {
            let oracle = self.oracle.borrow();
            oracle.held().first().and_then(|&handle| oracle.blocks(handle).first().copied())
        };
        let Some((pfn, order)) = oldest else { return Ok(0) };
        self.raw_free(pfn, order)?;
        Ok(order.frames())
    }

    fn reclaim_nested(&self, need: &Need) -> Result<u64, Wrong> {
        let requests = [Request::new(need.gfp, need.order.0), Request::page(GFP_NOWAIT | __GFP_MEMALLOC)];
        for (name, request) in TRANSIENT.into_iter().zip(requests) {
            let terms = Terms::new(request.gfp);
            self.perform_nested(&[Op::Alloc { name, order: request.order, terms }])?;
        }
        self.perform_nested(&[Op::Free(TRANSIENT[0]), Op::Free(TRANSIENT[1])])?;
        self.free_oldest()
    }

    /// Answers a request to move a block.
    pub(crate) fn migrate(&self, (from, to): (Pfn, Pfn), order: Order) -> Result<(), Busy> {
        let what = {
            let mut hooks = self.hooks.borrow_mut();
            hooks.migrations += 1;
            hooks.on_migrate
        };
        let block = self.oracle.borrow().block_at(from);
        let moved = match what {
            // It belongs to an operation under way that has not returned it.
            _ if block.is_none() => Ok(false),
            _ if !matches!(block, Some((head, held, true, _)) if (head, held) == (from, order)) => {
                Err(format!("asked to move {from} of order {order}, which is no movable block: {block:?}"))
            }
            OnMigrate::Fail => Ok(false),
            OnMigrate::Lie => self.give_back(to, order).map(|()| true),
            OnMigrate::Move => self.move_to(from, to, order),
            OnMigrate::Free => self.raw_free(from, order).map(|_| false),
            OnMigrate::Abandon => self.raw_free(from, order).and_then(|_| self.give_back(to, order)).map(|()| true),
            OnMigrate::Nest => self.migrate_nested((from, to), order),
        };
        if self.noted(moved) == Some(true) { Ok(()) } else { Err(Busy) }
    }

    fn move_to(&self, from: Pfn, to: Pfn, order: Order) -> Result<bool, Wrong> {
        self.oracle.borrow_mut().relocate(from, to)?;
        self.give_back(from, order).map(|()| true)
    }

    /// Frees a block that the oracle already has as free.
    fn give_back(&self, pfn: Pfn, order: Order) -> Result<(), Wrong> {
        granted(self.pages.free(pfn, order), "free", pfn)
    }

    fn migrate_nested(&self, (from, to): (Pfn, Pfn), order: Order) -> Result<bool, Wrong> {
        let pageblock = self.oracle.borrow().memory().pageblock(from);
        let [one, two, three] = TRANSIENT;
        self.perform_nested(&[
            Op::Alloc { name: one, order: Order(0), terms: Terms::new(GFP_KERNEL) },
            Op::Bulk { name: two, count: 3, order: Order(1), terms: Terms::new(GFP_HIGHUSER_MOVABLE) },
            // The call that asked for the move is emptying this pageblock. If this succeeds, that call finds the frame
            // in use.
            Op::AllocRange {
                name: three,
                range: PfnRange { end: pageblock.start.add(1), ..pageblock },
                gfp: GFP_KERNEL,
            },
            Op::DrainAll,
            Op::Free(one),
            Op::Free(two),
            Op::Free(three),
        ])?;
        // The operations above may have freed the block.
        let block = self.oracle.borrow().block_at(from);
        let is_there = matches!(block, Some((head, held, ..)) if (head, held) == (from, order));
        if is_there { self.move_to(from, to, order) } else { Ok(false) }
    }

    /// Carries out operations inside another.
    fn perform_nested(&self, ops: &[Op]) -> Result<(), Wrong> {
        self.depth.set(self.depth.get() + 1);
        let mut wrong = None;
        for op in ops {
            wrong = wrong.or(self.perform(op).err().map(|wrong| format!("`{op}`: {wrong}")));
        }
        self.depth.set(self.depth.get() - 1);
        wrong.map_or(Ok(()), Err)
    }
}
