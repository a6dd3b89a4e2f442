//! What the CPUs of a case share: the allocator, the blocks that are held, and what was found.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use framewright::report::Source;
use framewright::{Allocator, Local, Order};
use framewright_ops::{Handle, Shape, zones};

use super::pool::Pool;
use super::shadow::{Blocks, Shadow};
use super::wrong::Wrong;
use crate::engine::sim::Sim;
use crate::engine::store_buffer::publish;

/// The `Local` of a CPU, while it stays pinned.
pub(super) type Seat<'p> = Option<Local<'p, 'p, Sim>>;

/// Counts of what happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Operations that did something.
    pub done: u64,
    /// Operations whose handle had no block, or whose CPU was not at rest.
    pub skipped: u64,
    /// Of these, calls through a `Local`.
    pub local: u64,
    /// Requests that were not served.
    pub unserved: u64,
    /// Frees of what another CPU allocated.
    pub remote_frees: u64,
    /// Wrong frees, all refused.
    pub refused: u64,
    /// Ranges taken, offline or for a handle.
    pub ranges: u64,
    /// Drains of per-CPU lists, and CPUs that went offline.
    pub drains: u64,
    /// Interrupts that allocated or freed.
    pub interrupts: u64,
    /// NMIs that allocated or freed.
    pub nmis: u64,
    /// Requests of NMIs that found a zone locked.
    pub locked: u64,
}

impl Counts {
    /// Adds two counts.
    pub fn plus(self, other: Counts) -> Counts {
        Counts {
            done: self.done + other.done,
            skipped: self.skipped + other.skipped,
            local: self.local + other.local,
            unserved: self.unserved + other.unserved,
            remote_frees: self.remote_frees + other.remote_frees,
            refused: self.refused + other.refused,
            ranges: self.ranges + other.ranges,
            drains: self.drains + other.drains,
            interrupts: self.interrupts + other.interrupts,
            nmis: self.nmis + other.nmis,
            locked: self.locked + other.locked,
        }
    }
}

/// The state that all CPUs share.
///
/// It is never borrowed across a call of the allocator, because other CPUs run meanwhile.
pub(crate) struct Player<'p> {
    pub(super) pages: &'p Allocator<'p, Sim>,
    pub(super) shadow: RefCell<Shadow>,
    /// The frames in use of a pool, if the case is one.
    pub(super) pool: Option<RefCell<Pool>>,
    /// Blocks of each CPU's interrupts and NMIs.
    pub(super) stashes: Vec<RefCell<Blocks>>,
    /// Handles that a CPU was to free before they had blocks, and the CPU.
    pub(super) awaited: RefCell<HashMap<Handle, usize>>,
    /// Of these, the handles that have blocks by now, by CPU.
    pub(super) mailboxes: Vec<RefCell<Vec<Handle>>>,
    /// CPUs that have nothing more to do until the point of rest.
    pub(super) resting: Vec<Cell<bool>>,
    /// A CPU takes memory offline or brings it back: one at a time, or the outcome could not be judged.
    pub(super) hotplug: Cell<bool>,
    wrong: RefCell<Option<Wrong>>,
    pub(crate) counts: Cell<Counts>,
    /// Whether NMIs make the calls of interrupts: a planted bug.
    pub(super) waits_in_nmi: bool,
    /// Free blocks by order right after boot, of all zones.
    pub(super) at_boot: Vec<u64>,
}

impl<'p> Player<'p> {
    pub(crate) fn new(
        pages: &'p Allocator<'p, Sim>,
        shape: &Shape,
        (waits_in_nmi, is_pool): (bool, bool),
    ) -> Player<'p> {
        Player {
            pages,
            shadow: RefCell::new(Shadow::new(shape)),
            pool: is_pool.then(|| RefCell::new(Pool::new(pages, shape.cpus.len()))),
            stashes: shape.cpus.iter().map(|_| RefCell::default()).collect(),
            awaited: RefCell::default(),
            mailboxes: shape.cpus.iter().map(|_| RefCell::default()).collect(),
            resting: shape.cpus.iter().map(|_| Cell::new(true)).collect(),
            hotplug: Cell::new(false),
            wrong: RefCell::new(None),
            counts: Cell::default(),
            waits_in_nmi,
            at_boot: free_blocks(pages),
        }
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Lets all CPUs begin.
    pub(crate) fn begin(&self) {
        self.resting.iter().for_each(|resting| resting.set(false));
    }

    pub(super) fn is_wrong(&self) -> bool {
        self.wrong.borrow().is_some()
    }

    /// Notes a finding, if it is the first.
    pub(crate) fn found(&self, wrong: Wrong) {
        self.wrong.borrow_mut().get_or_insert(wrong);
    }

    /// Returns the first finding.
    pub(crate) fn verdict(&self) -> Result<(), Wrong> {
        self.wrong.borrow().clone().map_or(Ok(()), Err)
    }

    /// Takes the blocks of a handle.
    ///
    /// If another CPU got them, it must have told this one somehow, so its stores up to now are visible.
    pub(super) fn take(&self, cpu: usize, handle: Handle) -> Option<Blocks> {
        let (from, blocks) = self.shadow.borrow_mut().take(handle)?;
        if from != cpu {
            publish(from);
        }
        Some(blocks)
    }

    /// Like [`Player::take`], for a free: it is made later if the handle has no blocks yet.
    pub(super) fn take_or_await(&self, cpu: usize, handle: Handle) -> Option<Blocks> {
        let blocks = self.take(cpu, handle);
        if blocks.is_none() {
            self.awaited.borrow_mut().insert(handle, cpu);
        }
        blocks
    }
}

/// Returns free blocks by order, of all zones.
pub(super) fn free_blocks(pages: &Allocator<'_, Sim>) -> Vec<u64> {
    let mut sum = vec![0; Order::COUNT];
    for zone in zones(pages.nodes()) {
        let free = pages.zone(zone).map(|zone| zone.free_by_order()).unwrap_or_default();
        sum.iter_mut().zip(free).for_each(|(sum, blocks)| *sum += blocks);
    }
    sum
}
