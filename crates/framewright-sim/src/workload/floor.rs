//! What all CPUs of a run share: the allocator, the end of the window, and the first failure.

use std::cell::{Cell, RefCell};

use framewright::report::Source;
use framewright::units::NodeId;
use framewright::{AllocError, Allocator, FreeError, Order, Pfn, Request};

use super::watch::{self, Watch};
use crate::engine::here;
use crate::engine::sim::Sim;
use crate::engine::world::between_steps;
use crate::model::{Model, Ps};

/// Pages that a process frees in one go, as in Linux (`SWAP_CLUSTER_MAX`).
pub(super) const BATCH: usize = 32;

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Progress of the warm-up and the window, in virtual time or in rounds.
    pub done: u64,
    /// All of it. A little more follows until all CPUs have ended.
    pub total: u64,
}

/// Looks at an allocator.
pub(crate) type Look<'a> = dyn FnMut(&dyn Source) + 'a;

/// The observers of a run.
pub(crate) struct Eyes<'a> {
    /// Hears now and then how far the run is.
    pub(crate) progress: &'a mut dyn FnMut(Progress),
    /// Sees the allocator when the last CPU leaves the window.
    pub(crate) look: &'a mut Look<'a>,
    /// Sees the allocator again and again.
    pub(crate) watch: Option<&'a mut Watch<'a>>,
}

/// When the window ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// At this time.
    At(Ps),
    /// When every CPU has completed this many rounds. The window begins when every CPU has completed one.
    Rounds(u32),
    /// When all CPUs together have completed the second number of operations. The window begins at the first number.
    Operations(u64, u64),
}

/// Why a CPU could not go on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Trouble {
    /// A request was not served.
    Alloc { cpu: usize, request: Request, error: AllocError },
    /// A free was refused.
    Free { cpu: usize, pfn: Pfn, error: FreeError },
}

/// The shared state of a run.
pub(crate) struct Floor<'a> {
    pub(crate) pages: &'a Allocator<'a, Sim>,
    pub(crate) model: &'a Model,
    pub(crate) cpus: usize,
    end: End,
    each: Vec<OfCpu>,
    /// CPUs that have left the window.
    left: Cell<usize>,
    /// Rounds, or operations, that all CPUs together have completed, as far as they count.
    rounds: Cell<u64>,
    /// Whether CPUs free what they hold at the end themselves, all at once.
    exits: bool,
    /// Returns when the window began.
    begun: Cell<Ps>,
    trouble: Cell<Option<Trouble>>,
    /// What CPUs held when the run was over, and pages that no CPU held.
    rest: RefCell<Vec<(Pfn, Order)>>,
    eyes: RefCell<Eyes<'a>>,
    told: Cell<u64>,
    /// Time of the watcher's next look; never, if there is none.
    next_look: Cell<Ps>,
}

/// Where a CPU is in the run.
#[derive(Clone, Default, Debug)]
struct OfCpu {
    rounds: Cell<u32>,
    has_left: Cell<bool>,
}

impl<'a> Floor<'a> {
    pub(crate) fn new(
        (pages, model, cpus): (&'a Allocator<'a, Sim>, &'a Model, usize),
        (warm_up, end, exits): (Ps, End, bool),
        eyes: Eyes<'a>,
    ) -> Floor<'a> {
        let next_look = Cell::new(if eyes.watch.is_some() { 0 } else { Ps::MAX });
        Floor {
            pages,
            model,
            cpus,
            end,
            each: vec![OfCpu::default(); cpus],
            left: Cell::new(0),
            rounds: Cell::new(0),
            exits,
            begun: Cell::new(if matches!(end, End::At(_)) { warm_up } else { Ps::MAX }),
            trouble: Cell::new(None),
            rest: RefCell::default(),
            eyes: RefCell::new(eyes),
            told: Cell::new(0),
            next_look,
        }
    }

    /// Counts an operation of the running CPU.
    pub(crate) fn done(&self) {
        here::done(1);
        let End::Operations(before, all) = self.end else { return };
        self.rounds.set(self.rounds.get() + 1);
        if self.rounds.get() == before {
            here::begin_window();
            self.begun.set(here::clock());
        } else if self.rounds.get() == all {
            here::end_window();
        }
    }

    /// Counts a round of the running CPU, with its operations.
    ///
    /// A workload whose rounds have different parts counts whole rounds only. A window would otherwise count what ends
    /// in one part alone.
    pub(crate) fn done_round(&self, operations: usize) {
        here::done(operations as u64);
        let End::Rounds(most) = self.end else { return };
        let rounds = &self.each[here::cpu()].rounds;
        // One counts before the window, so that all lists have been filled once, and `most` in it.
        if rounds.get() > most || rounds.get() != 0 && here::clock() < self.begun.get() {
            return;
        }
        rounds.set(rounds.get() + 1);
        self.rounds.set(self.rounds.get() + 1);
        let all = self.cpus as u64;
        if self.rounds.get() == all {
            here::begin_window();
            self.begun.set(here::clock());
        } else if self.rounds.get() == all * u64::from(most + 1) {
            here::end_window();
        }
    }

    /// When the window began.
    pub(crate) fn begun(&self) -> Ps {
        self.begun.get()
    }

    /// Keeps pages that no CPU holds until the run is over.
    pub(crate) fn keep(&self, pages: &[Pfn]) {
        self.rest.borrow_mut().extend(pages.iter().map(|&pfn| (pfn, Order(0))));
    }

    /// Frees blocks at the end of a CPU's part, `batch` at a time.
    ///
    /// If the aftermath is wanted, the running CPU frees them while others do so too. Otherwise they are kept and freed
    /// after the run.
    pub(crate) fn leave(&self, blocks: &[Pfn], order: Order, batch: usize) -> Result<(), Trouble> {
        if self.exits {
            return blocks.chunks(batch).try_for_each(|blocks| self.free_bulk(blocks, order));
        }
        self.rest.borrow_mut().extend(blocks.iter().map(|&pfn| (pfn, order)));
        Ok(())
    }

    /// Returns whether CPUs free what they hold at the end themselves.
    pub(crate) fn exits(&self) -> bool {
        self.exits
    }

    /// Returns the blocks that CPUs have left.
    pub(crate) fn rest(&self) -> Vec<Pfn> {
        self.rest.borrow().iter().map(|&(pfn, _)| pfn).collect()
    }

    /// Frees what CPUs have left, after the run.
    pub(crate) fn free_rest(&self) -> Result<(), Trouble> {
        let rest = std::mem::take(&mut *self.rest.borrow_mut());
        rest.into_iter().try_for_each(|(pfn, order)| self.free(pfn, order))
    }

    /// Returns whether the running CPU is to go on.
    ///
    /// It does while some CPU is still measured and nothing went wrong.
    pub(crate) fn goes_on(&self) -> bool {
        let has_left = &self.each[here::cpu()].has_left;
        if !has_left.get() && !here::goes_on() {
            has_left.set(true);
            self.left.set(self.left.get() + 1);
            if self.left.get() == self.cpus {
                between_steps(|| (self.eyes.borrow_mut().look)(self.pages));
            }
        }
        if here::clock() >= self.next_look.get() {
            self.show();
        }
        self.tell();
        self.is_wanted()
    }

    /// Calls the watcher.
    fn show(&self) {
        let mut eyes = self.eyes.borrow_mut();
        let Some(watch) = eyes.watch.as_mut() else { return };
        let next = watch::look(&mut **watch, self.pages, here::clock());
        if next.is_none() {
            here::end_window();
        }
        self.next_look.set(next.unwrap_or(Ps::MAX));
    }

    /// Returns whether some CPU has not left the window, and nothing went wrong.
    pub(crate) fn is_wanted(&self) -> bool {
        self.left.get() < self.cpus && self.trouble.get().is_none()
    }

    /// Returns whether the running CPU is in its window.
    pub(crate) fn is_measured(&self) -> bool {
        here::clock() >= self.begun.get() && here::goes_on()
    }

    /// Returns what went wrong first.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.trouble.get()
    }

    pub(crate) fn note(&self, trouble: Trouble) {
        self.trouble.set(self.trouble.get().or(Some(trouble)));
    }

    /// Tells how far the run is, a hundred times in all.
    fn tell(&self) {
        let (done, total) = match self.end {
            End::At(end) => (here::clock().min(end), end),
            End::Rounds(most) => (self.rounds.get(), u64::from(most + 1) * self.cpus as u64),
            End::Operations(_, all) => (self.rounds.get().min(all), all),
        };
        if done > self.told.get() && done - self.told.get() >= total / 100 {
            self.told.set(done);
            (self.eyes.borrow_mut().progress)(Progress { done, total });
        }
    }

    pub(crate) fn alloc(&self, request: &Request) -> Result<Pfn, Trouble> {
        let failed = |error| Trouble::Alloc { cpu: here::cpu(), request: *request, error };
        self.pages.alloc(request).map_err(failed)
    }

    /// Fills `blocks` with allocated blocks.
    pub(crate) fn alloc_bulk(&self, request: &Request, blocks: &mut [Pfn]) -> Result<(), Trouble> {
        let failed = |error| Trouble::Alloc { cpu: here::cpu(), request: *request, error };
        let served = self.pages.alloc_bulk(request, blocks).map_err(failed)?;
        // Asked for a missing block alone, the allocator gives the error.
        blocks.iter_mut().skip(served).try_for_each(|block| self.alloc(request).map(|pfn| *block = pfn))
    }

    pub(crate) fn free(&self, pfn: Pfn, order: Order) -> Result<(), Trouble> {
        self.pages.free(pfn, order).map_err(|error| Trouble::Free { cpu: here::cpu(), pfn, error })
    }

    pub(crate) fn free_bulk(&self, blocks: &[Pfn], order: Order) -> Result<(), Trouble> {
        let refused = |error| Trouble::Free { cpu: here::cpu(), pfn: blocks[0], error };
        self.pages.free_bulk(blocks, order).first.map_or(Ok(()), |(_, error)| Err(refused(error)))
    }

    /// Returns the node of a CPU.
    pub(crate) fn node(&self, cpu: usize) -> NodeId {
        NodeId(self.model.topology.socket_of(cpu) as u8)
    }

    /// Charges `cycles` cycles of work.
    pub(crate) fn work(&self, cycles: u32) {
        here::work(self.model.topology.cycles(f64::from(cycles)));
    }

    /// Charges `cycles` cycles of work, give or take a tenth.
    pub(crate) fn work_about(&self, cycles: u32) {
        let most = cycles / 5;
        self.work(cycles - most / 2 + here::below(most + 1));
    }
}
