//! What all CPUs of a workload share: the allocator, the end, and what went wrong.

use std::cell::{Cell, RefCell};

use framewright::{AllocError, Allocator, FreeError, Order, Pfn, Request};

use crate::model::{Model, Ps};
use crate::run::here;
use crate::sim::Sim;

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Virtual time that has gone by.
    pub done: Ps,
    /// Virtual time that the warm-up and the window take; a little more goes by until all CPUs have ended.
    pub total: Ps,
}

/// Why a CPU could not go on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Trouble {
    /// A request was not served.
    Alloc { cpu: usize, request: Request, error: AllocError },
    /// A free was refused.
    Free { cpu: usize, pfn: Pfn, error: FreeError },
}

/// See the module's description.
pub(crate) struct Floor<'a> {
    pub(crate) pages: &'a Allocator<'a, Sim>,
    pub(crate) model: &'a Model,
    pub(crate) cpus: usize,
    /// CPUs that have left the window, and which.
    left: Cell<usize>,
    has_left: Vec<Cell<bool>>,
    trouble: Cell<Option<Trouble>>,
    progress: RefCell<&'a mut dyn FnMut(Progress)>,
    warm_up: Ps,
    total: Ps,
    told: Cell<Ps>,
}

impl<'a> Floor<'a> {
    pub(crate) fn new(
        (pages, model, cpus): (&'a Allocator<'a, Sim>, &'a Model, usize),
        (warm_up, total): (Ps, Ps),
        progress: &'a mut dyn FnMut(Progress),
    ) -> Floor<'a> {
        Floor {
            pages,
            model,
            cpus,
            left: Cell::new(0),
            has_left: vec![Cell::new(false); cpus],
            trouble: Cell::new(None),
            progress: RefCell::new(progress),
            warm_up,
            total,
            told: Cell::new(0),
        }
    }

    /// Whether the running CPU is to go on: some CPU is still measured, and nothing went wrong.
    pub(crate) fn goes_on(&self) -> bool {
        let seen = &self.has_left[here::cpu()];
        if !seen.get() && !here::goes_on() {
            seen.set(true);
            self.left.set(self.left.get() + 1);
        }
        self.tell();
        self.is_wanted()
    }

    /// The same, of all CPUs, as far as they have said so.
    pub(crate) fn is_wanted(&self) -> bool {
        self.left.get() < self.cpus && self.trouble.get().is_none()
    }

    /// Whether the running CPU's clock is in the window.
    pub(crate) fn is_measured(&self) -> bool {
        (self.warm_up..self.total).contains(&here::clock())
    }

    /// What went wrong first.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.trouble.get()
    }

    pub(crate) fn note(&self, trouble: Trouble) {
        self.trouble.set(self.trouble.get().or(Some(trouble)));
    }

    /// Says how far the run is, a hundred times in all.
    fn tell(&self) {
        let done = here::clock().min(self.total);
        if done >= self.told.get() + self.total / 100 {
            self.told.set(done);
            (self.progress.borrow_mut())(Progress { done, total: self.total });
        }
    }

    pub(crate) fn alloc(&self, request: &Request) -> Result<Pfn, Trouble> {
        let failed = |error| Trouble::Alloc { cpu: here::cpu(), request: *request, error };
        self.pages.alloc(request).map_err(failed)
    }

    /// Allocates as many blocks as `blocks` has room for.
    pub(crate) fn alloc_bulk(&self, request: &Request, blocks: &mut [Pfn]) -> Result<(), Trouble> {
        let failed = |error| Trouble::Alloc { cpu: here::cpu(), request: *request, error };
        let served = self.pages.alloc_bulk(request, blocks).map_err(failed)?;
        // Asked again for what is missing, the allocator says why.
        blocks.iter_mut().skip(served).try_for_each(|block| self.alloc(request).map(|pfn| *block = pfn))
    }

    pub(crate) fn free(&self, pfn: Pfn, order: Order) -> Result<(), Trouble> {
        self.pages.free(pfn, order).map_err(|error| Trouble::Free { cpu: here::cpu(), pfn, error })
    }

    pub(crate) fn free_bulk(&self, blocks: &[Pfn], order: Order) -> Result<(), Trouble> {
        let refused = |error| Trouble::Free { cpu: here::cpu(), pfn: blocks[0], error };
        self.pages.free_bulk(blocks, order).first.map_or(Ok(()), |error| Err(refused(error)))
    }

    /// Works for so many cycles.
    pub(crate) fn work(&self, cycles: u32) {
        here::work(self.model.topology.cycles(f64::from(cycles)));
    }
}
