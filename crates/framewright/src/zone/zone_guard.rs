//! Zone guard: proof that the zone lock is held; every change of a zone's lists uses it.
//!
//! [`ZoneGuard`] also holds this CPU's interrupts off. An interrupt that allocated would otherwise wait forever for its
//! own CPU. Sections under the lock are short: a batch of blocks, or the free blocks of one pageblock. The exception is
//! the repair of damaged lists (`repair.rs`). It reads the whole zone and should never happen.

use crate::buddy::buddy::{Buddy, Place};
use crate::buddy::fallback::{self, Mode, Taken, Want};
use crate::frame::cluster::{CutRun, Heap};
use crate::frame::frame::Corrupt;
use crate::frame::head::Head;
use crate::seam::event::Event;
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::shared::{CallCx, Cpu, Shared};
use crate::stat::tally::Tally;
use crate::stat::vmstat::{GlobalEvent, ZoneEvent};
use crate::stat::zone_diffs::ZoneDiffs;
use crate::sync::looks::Looks;
use crate::sync::ticket_lock::Ticket;
use crate::sync::zone_lock::LockMode;
use crate::types::counts::{BlockCount, FrameCount, PageblockCount};
use crate::types::units::{CpuId, Frame, Order};
use crate::zone::release_owned::free_to_owner;
use crate::zone::repair::repair;
use crate::zone::section_init;
use crate::zone::zone::Zone;

/// Looks at the lock by a call that may not wait.
///
/// That is longer than a section lasts, unless its thread is stopped. Such a call looks again later (`no_wait.rs`).
const LOOKS: u32 = 1 << 8;
/// Largest number of deferred blocks that are freed in one lock section.
const TAKEN_BACK: u32 = 64;

impl<M: Machine> Zone<M> {
    /// Takes the zone lock; returns the guard.
    pub(crate) fn lock<'g, 'a>(&'g self, cx: CallCx<'g, 'a, M>) -> ZoneGuard<'g, 'a, M> {
        let guard = self.lock_ends(cx);
        self.clusters.settle();
        guard
    }

    /// Takes the zone lock for work on the ends of lists only; returns the guard.
    ///
    /// The caller may read only the states of blocks at those ends (`cluster.rs`).
    pub(crate) fn lock_ends<'g, 'a>(&'g self, cx: CallCx<'g, 'a, M>) -> ZoneGuard<'g, 'a, M> {
        let guard = self.guard(cx);
        if !self.deferred.is_empty() {
            guard.free_deferred();
        }
        guard
    }

    /// Takes the zone lock if it is free at one of a few looks.
    ///
    /// Context: as of [`Zone::try_lock`].
    pub(crate) fn lock_in_time<'g, 'a>(&'g self, shared: &'g Shared<'a, M>) -> Option<ZoneGuard<'g, 'a, M>> {
        let mut looks = Looks::at_most(LOOKS);
        loop {
            let guard = self.try_lock(shared);
            if guard.is_some() || !looks.again(&shared.machine) {
                return guard;
            }
        }
    }

    #[inline(never)]
    fn guard<'g, 'a>(&'g self, cx: CallCx<'g, 'a, M>) -> ZoneGuard<'g, 'a, M> {
        let (ticket, _irq) = self.take_lock(cx, LockMode::Alone);
        let CallCx { shared, cpu, own, .. } = cx;
        ZoneGuard { ticket, _irq, shared, cpu, own: Some(own), zone: self, tally: Tally::default() }
    }

    /// Takes the zone lock if it is free; never waits.
    ///
    /// Context: any; the guard belongs to no CPU.
    pub(crate) fn try_lock<'g, 'a>(&'g self, shared: &'g Shared<'a, M>) -> Option<ZoneGuard<'g, 'a, M>> {
        let _irq = shared.machine.irq_save();
        let ticket = self.its_lock(shared).try_take(shared.mechanisms().zone_lock)?;
        let cpu = CpuId::NONE;
        let guard = ZoneGuard { ticket, _irq, shared, cpu, own: None, zone: self, tally: Tally::default() };
        // The caller may have interrupted the cut that is in progress; waiting for its end would then never finish.
        if self.clusters.is_cutting() {
            return None;
        }
        if !self.deferred.is_empty() {
            guard.free_deferred();
        }
        Some(guard)
    }

    /// Frees the deferred blocks, a batch per lock section; returns the number of frames.
    pub(crate) fn free_deferred(&self, cx: CallCx<'_, '_, M>) -> FrameCount {
        let mut taken_back = FrameCount::ZERO;
        // Other CPUs may keep freeing: the loop is bounded by the number of blocks that can exist.
        for _ in 0..=cx.shared.frames.heads.len() as u32 / TAKEN_BACK {
            if self.deferred.is_empty() {
                break;
            }
            taken_back = taken_back.plus(self.guard(cx).free_deferred());
        }
        taken_back
    }

    /// Takes the zone lock in shared mode.
    ///
    /// A lock of a kind that cannot be shared is taken exclusively.
    pub(crate) fn read<'g, 'a>(&'g self, cx: CallCx<'g, 'a, M>) -> ZoneReader<'g, 'a, M> {
        let (ticket, irq) = self.take_lock(cx, LockMode::Shared);
        ZoneReader { ticket, _irq: irq, cx, zone: self }
    }
}

/// Proof that a zone's lock is held exclusively.
pub(crate) struct ZoneGuard<'g, 'a, M: Machine> {
    ticket: Ticket,
    // Dropped after `ZoneGuard::drop` has released the lock.
    _irq: M::Irq<'g>,
    pub(crate) shared: &'g Shared<'a, M>,
    cpu: CpuId,
    /// The CPU's record; `None` for a guard taken by `try_lock`.
    ///
    /// Such a guard may be nested inside any other call on this CPU.
    own: Option<&'g Cpu<M>>,
    pub(crate) zone: &'g Zone<M>,
    tally: Tally,
}

impl<M: Machine> Drop for ZoneGuard<'_, '_, M> {
    fn drop(&mut self) {
        self.account();
        let (zone, shared) = (self.zone, self.shared);
        match self.own {
            Some(own) => zone.release_lock(shared, own, LockMode::Alone, &self.ticket),
            None => zone.its_lock(shared).give_up(shared.mechanisms().zone_lock, &self.ticket, shared.cpus),
        }
    }
}

/// Proof that a zone's lock is held, possibly shared with others.
pub(crate) struct ZoneReader<'g, 'a, M: Machine> {
    ticket: Ticket,
    // Dropped after `ZoneReader::drop` has released the lock.
    _irq: M::Irq<'g>,
    pub(crate) cx: CallCx<'g, 'a, M>,
    pub(crate) zone: &'g Zone<M>,
}

impl<M: Machine> Drop for ZoneReader<'_, '_, M> {
    fn drop(&mut self) {
        let CallCx { shared, own, .. } = self.cx;
        self.zone.release_lock(shared, own, LockMode::Shared, &self.ticket);
    }
}

impl<'g, 'a, M: Machine> ZoneGuard<'g, 'a, M> {
    /// Returns the free lists.
    pub(crate) fn buddy(&self) -> Buddy<'_, 'a, M> {
        let (shared, zone, tally, cpu) = (self.shared, self.zone, &self.tally, self.cpu);
        Buddy { shared, lists: &zone.lists, count: &zone.count, stat: &zone.stat, tally, clusters: &zone.clusters, cpu }
    }

    /// Adds the changes so far to the zone.
    pub(crate) fn account(&self) {
        self.zone.account(self.shared, self.cpu, &self.tally, LockMode::Alone);
    }

    /// Frees the deferred blocks, a batch at most; returns the number of frames.
    ///
    /// They are counted as freed.
    #[cold]
    pub(crate) fn free_deferred(&self) -> FrameCount {
        self.zone.clusters.settle();
        let frames = &self.shared.frames;
        let mut freed = FrameCount::ZERO;
        for _ in 0..TAKEN_BACK {
            let Some(frame) = self.zone.deferred.pop(frames) else { break };
            let order = frames.head(frame).order();
            freed = freed.plus(FrameCount::of_block(order));
            self.free_claimed(frame, order);
        }
        self.zone.events.add(ZoneEvent::FreeFrames, freed.0);
        self.account();
        freed
    }

    /// Frees an allocated block that no other call can free.
    pub(crate) fn free_claimed(&self, frame: Frame, order: Order) {
        self.shared.frames.set_head(frame, Head::NONE);
        if !free_to_owner(&self.buddy(), frame, order) {
            self.free(frame, order, Place::Warm);
        }
    }

    /// Takes one block for a request, without setting its head.
    ///
    /// If the lists are damaged, repairs them and tries once more.
    pub(crate) fn alloc(&self, want: &Want, mode: &mut Mode, refill: bool) -> Option<Frame> {
        self.shared.machine.step(Step::Take);
        self.init_section_for();
        let policy = self.shared.mechanisms().fallback;
        let taken = self.attempt(|buddy| fallback::alloc(buddy, want, policy, mode)).flatten()?;
        self.note(want, &taken, refill);
        Some(taken.frame)
    }

    /// Takes up to `most` blocks of the request's own type and passes each to `each`.
    ///
    /// Returns the number of blocks.
    pub(crate) fn alloc_own(&self, want: &Want, most: BlockCount, mut each: impl FnMut(Frame)) -> BlockCount {
        let shared = self.shared;
        if shared.machine.traces() || (want.cma && self.zone.stat.cma().load(Ordering::Relaxed) != 0) {
            return BlockCount::ZERO;
        }
        let buddy = self.buddy();
        let mut taken = BlockCount::ZERO;
        while taken < most
            && let Ok(Some(frame)) = buddy.alloc_smallest(want.order, want.migratetype)
        {
            each(frame);
            taken = taken.plus(BlockCount::ONE);
        }
        taken
    }

    /// Cuts a run of at most `most` pages off the list of the request's type.
    ///
    /// `None` if no run begins at the front of that list.
    pub(crate) fn cut(&self, want: &Want, most: BlockCount) -> Option<CutRun> {
        self.attempt(|buddy| match fallback::is_cma_first(buddy, want) {
            true => Ok(None),
            false => buddy.cut(want.migratetype, most),
        })
        .flatten()
    }

    /// Takes the smallest free block of the request's own type that serves it; returns it with its order.
    ///
    /// The block is taken whole, unless it has more than `most` frames. `None` once the request looks further.
    pub(crate) fn alloc_own_part(&self, want: &Want, most: FrameCount, mode: Mode) -> Option<(Frame, Order)> {
        self.shared.machine.step(Step::Take);
        if mode != Mode::Normal {
            return None;
        }
        self.attempt(|buddy| fallback::alloc_part(buddy, want, most)).flatten()
    }

    /// Initialises a section if no movable block of the largest order is free.
    pub(crate) fn init_section_for(&self) {
        section_init::init_for(self.zone, &self.buddy());
    }

    /// Initialises the section around a frame, so that its blocks are on the lists.
    pub(crate) fn init_section_at(&self, frame: Frame) {
        section_init::init_at(self.zone, &self.buddy(), frame);
    }

    /// Adds a section of new memory; returns false if it was added already.
    pub(crate) fn add_section(&self, section: Frame) -> bool {
        section_init::add(self.zone, &self.buddy(), section)
    }

    /// Initialises the zone's next section; returns false if there is none.
    pub(crate) fn init_section(&self) -> bool {
        section_init::init_next(self.zone, &self.buddy())
    }

    /// Runs an operation that takes one given block off the lists.
    pub(crate) fn alloc_with<T>(&self, take: impl FnMut(&Buddy<'_, 'a, M>) -> Result<Option<T>, Corrupt>) -> Option<T> {
        self.attempt(take).flatten()
    }

    /// Frees a block whose head is cleared, and merges it.
    // Out of line, for size: it makes the buddy of the zone for each block.
    #[inline(never)]
    pub(crate) fn free(&self, frame: Frame, order: Order, place: Place) {
        self.buddy().free(frame, order, place);
    }

    /// Frees a block whose head is cleared, without merging it.
    pub(crate) fn free_unmerged(&self, frame: Frame, order: Order) {
        self.buddy().free_unmerged(frame, order);
    }

    /// Merges the blocks between `start` and `end` that were freed unmerged.
    pub(crate) fn merge_skipped(&self, start: Frame, end: Frame) {
        let mut at = start;
        while at < end {
            self.attempt(|buddy| buddy.merge_skipped(at));
            at = self.buddy().after(at);
        }
    }

    /// Adds a CPU's deltas of free frames; returns the number of counters changed.
    pub(crate) fn fold(&self, diffs: &ZoneDiffs<M>) -> u32 {
        self.zone.stat.fold(&self.shared.stats, diffs)
    }

    /// Changes whether pages may stay unmerged.
    pub(crate) fn change_merging(&self, change: impl FnOnce(&Heap<M>)) {
        change(&self.zone.clusters);
    }

    /// Runs an operation on the lists; repairs them after damage.
    ///
    /// The operation is then run once more.
    pub(crate) fn attempt<T>(&self, mut operation: impl FnMut(&Buddy<'_, 'a, M>) -> Result<T, Corrupt>) -> Option<T> {
        let buddy = self.buddy();
        let first = operation(&buddy);
        if !M::FEATURES.repair {
            return first.ok();
        }
        first
            .or_else(|_| {
                repair(self.zone, &buddy);
                operation(&buddy)
            })
            .ok()
    }

    /// Reports a taken block to the tracepoints, and counts a fallback.
    fn note(&self, want: &Want, taken: &Taken, refill: bool) {
        let machine = &self.shared.machine;
        let frames = &self.shared.frames;
        if let Some(from) = taken.fallback {
            let pageblock_order = frames.geometry.pageblock_order;
            let fragmenting = from.order < pageblock_order;
            let event = if fragmenting { GlobalEvent::ExtFragFragmenting } else { GlobalEvent::ExtFragWhole };
            self.shared.events.count(event);
            // The wake-up happens later: here the lock is held.
            if fragmenting && self.zone.boost(self.shared, PageblockCount::ONE) && want.wakes {
                self.zone.stat.note_boost();
            }
            if machine.traces() {
                machine.event(&Event::ExtFrag {
                    pfn: frames.pfn(from.found),
                    alloc_order: want.order,
                    fallback_order: from.order,
                    pageblock_order,
                    alloc_migratetype: want.migratetype,
                    fallback_migratetype: from.migratetype,
                    change_ownership: frames.pageblock(from.found).migratetype() == want.migratetype,
                });
            }
        }
        if machine.traces() {
            machine.event(&Event::AllocZoneLocked {
                pfn: frames.pfn(taken.frame),
                order: want.order,
                migratetype: want.migratetype,
                percpu_refill: refill,
            });
        }
    }
}
