//! A zone: free memory of one kind on one node, behind one lock.
//!
//! All that needs the lock goes through [`ZoneGuard`]: taking blocks, giving them back, and changing a pageblock's
//! type. The guard holds this CPU's interrupts off as well, because an interrupt that allocated would wait for its own CPU for ever.
//!
//! Sections under the lock are short: a batch of blocks, or the free blocks of one pageblock. The exception is the repair
//! of damaged lists (`repair.rs`), which reads the whole zone and should never happen.

use core::mem::offset_of;

use crate::buddy::buddy::{Buddy, Place};
use crate::buddy::fallback::{self, Mode, Taken, Want};
use crate::buddy::free_list::FreeLists;
use crate::frame::cluster::{Heap, Run};
use crate::frame::frame::{Corrupt, Head};
use crate::policy::mechanisms::LockPlace;
use crate::policy::watermark::{FreeMemory, Mark, PcpSize, Rights, is_above, may_take};
use crate::seam::event::Event;
use crate::seam::field::{Words, tell};
use crate::seam::machine::{LockName, Machine, Ordering, Step, Word};
use crate::shared::{Cpu, Cx, Ground};
use crate::stat::tally::{ListCount, Tally};
use crate::stat::vmstat::{GlobalEvent, ZoneEvent, ZoneEvents};
use crate::stat::zone_diffs::Diffs;
use crate::stat::zone_stat::ZoneStat;
use crate::sync::cache_line::{Alone, PAIR, Span};
use crate::sync::ticket_lock::{Rank, Ticket};
use crate::sync::zone_lock::{Mode as LockMode, ZoneLock};
use crate::types::units::{CpuId, Frame, MigrateType, NodeId, Order, PfnRange, ZoneIdx, ZoneKind};
use crate::zone::backoff::Searches;
use crate::zone::deferred_free::Deferred;
use crate::zone::release_owned::give_home;

/// Blocks given back under one lock of those that were freed while it was taken.
const TAKEN_BACK: u32 = 64;

/// One zone.
///
/// Invariants, with the lock free: B1-B4 of the lists, and
/// - Z1 `present = free + isolated + pcp + allocated + offline + quarantined`, each counted in frames
/// - Z2 `highatomic_reserved` is the number of frames in pageblocks of that type, those included that are isolated and go back to it
/// - Z3 the boost is at most what `watermark::boost_cap` says
// Aligned so that no two zones share a pair of cache lines. What lies where, and why: decision 0013; proof: `Zone::PLACES`.
#[repr(C, align(128))]
pub struct Zone<M: Machine> {
    lock: ZoneLock<M>,
    pub(crate) lists: FreeLists<M>,
    /// The lock, where the mechanisms put it behind the lists.
    lock_behind: ZoneLock<M>,
    /// The lock, where it has its lines to itself.
    lock_alone: Alone<ZoneLock<M>>,
    pub(crate) count: ListCount<M>,
    pub(crate) clusters: Heap<M>,
    /// What was freed while the lock was taken.
    pub(crate) deferred: Deferred<M>,
    pub(crate) stat: ZoneStat<M>,
    pub(crate) highatomic_reserved: M::U64,
    pub(crate) offline: M::U64,
    /// Frames that are memory, and those of them ever handed to the allocator.
    pub(crate) present: M::U64,
    pub(crate) managed: M::U64,
    /// Counts of CPUs that went offline.
    pub(crate) events: ZoneEvents<M>,
    /// The searches for what was not merged, and for what could be moved.
    pub(crate) merging: Searches<M>,
    pub(crate) compaction: Searches<M>,
    // Fixed at boot.
    pub(crate) idx: ZoneIdx,
    pub(crate) span: PfnRange,
    /// Frames kept from requests whose highest zone is of this kind.
    pub(crate) reserve: [u64; ZoneKind::COUNT],
    pub(crate) pcp: PcpSize,
    /// The marks were given, and do not follow the zone's size.
    pub(crate) tuned: bool,
    /// Not 0 once a request used the high-atomic reserve; see [`Zone::was_highatomic_used`]. Here because there is room for a byte.
    pub(crate) highatomic_used: M::U8,
}

impl<M: Machine> Default for Zone<M> {
    fn default() -> Self {
        // No zone is made whose layout is not proven.
        let () = Self::PLACES;
        Zone {
            lock: ZoneLock::default(),
            lists: FreeLists::default(),
            lock_behind: ZoneLock::default(),
            lock_alone: Alone::default(),
            count: ListCount::default(),
            clusters: Heap::default(),
            deferred: Deferred::default(),
            stat: ZoneStat::default(),
            highatomic_reserved: Word::new(0),
            offline: Word::new(0),
            present: Word::new(0),
            managed: Word::new(0),
            events: ZoneEvents::default(),
            merging: Searches::default(),
            compaction: Searches::default(),
            idx: ZoneIdx::default(),
            span: PfnRange::default(),
            reserve: [0; ZoneKind::COUNT],
            pcp: PcpSize::default(),
            tuned: false,
            highatomic_used: Word::new(0),
        }
    }
}

impl<M: Machine> Zone<M> {
    /// Proof, for this machine's words, that each place of the lock is what `LockPlace` says: on the line of the order-0 lists that
    /// requests ask for; on no pair of lines with a list of an order that Linux has, 0 to 10; and on one with nobody else. And that who
    /// asks whether the zone has clusters, as every holder of the lock does, has the deferred list on the same line.
    /// Words that are larger than their integers, as a model checker's are, have no lines to speak of.
    const PLACES: () = if size_of::<M::U32>() == size_of::<u32>() && size_of::<M::U64>() == size_of::<u64>() {
        let lists = offset_of!(Self, lists);
        let beside = Span::of::<ZoneLock<M>>(offset_of!(Self, lock));
        assert!(beside.to(FreeLists::<M>::span(lists, 0, MigrateType::PCP_COUNT)).is_on_one_line());
        let behind = Span::of::<ZoneLock<M>>(offset_of!(Self, lock_behind));
        assert!(behind.is_apart_from(beside.to(FreeLists::<M>::span(lists, 10, MigrateType::COUNT))));
        assert!(offset_of!(Self, lock_alone) % PAIR == 0 && size_of::<Alone<ZoneLock<M>>>() == PAIR);
        let clusters = Span::of::<Heap<M>>(offset_of!(Self, clusters));
        assert!(clusters.to(Span::of::<Deferred<M>>(offset_of!(Self, deferred))).is_on_one_line());
        assert!(align_of::<Self>() == PAIR);
    };

    pub(crate) fn kind(&self) -> ZoneKind {
        self.idx.kind()
    }

    pub(crate) fn node(&self) -> NodeId {
        self.idx.node()
    }

    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        self.lock.words("lock", visit);
        self.lists.words(visit);
        self.lock_behind.words("lock_behind", visit);
        self.lock_alone.0.words("lock_alone", visit);
        self.count.words(visit);
        self.clusters.words(visit);
        tell(visit, format_args!("deferred"), self.deferred.word());
        self.stat.words(visit);
        tell(visit, format_args!("highatomic_reserved"), &self.highatomic_reserved);
        tell(visit, format_args!("offline"), &self.offline);
        tell(visit, format_args!("present"), &self.present);
        tell(visit, format_args!("managed"), &self.managed);
        self.events.words("events", visit);
        self.merging.words("merging", visit);
        self.compaction.words("compaction", visit);
        tell(visit, format_args!("highatomic_used"), &self.highatomic_used);
    }

    pub(crate) fn is_populated(&self) -> bool {
        self.present.load(Ordering::Relaxed) != 0
    }

    /// Whether some of its memory is the allocator's: neither reserved since boot nor taken offline.
    pub(crate) fn has_memory(&self) -> bool {
        self.managed.load(Ordering::Relaxed) != 0
    }

    /// Takes the zone lock without a guard, until [`Zone::release_held`]. Whoever does need not be on a CPU.
    pub(crate) fn hold(&self, ground: &Ground<'_, M>) {
        let how = (ground.mechanisms.zone_lock, LockMode::Alone);
        let _ = self.its_lock(ground).take(how, &ground.machine, ground.cpus, LockName::zone(self.idx));
    }

    /// Gives up what [`Zone::hold`] took; in a copy, for all who wait.
    pub(crate) fn release_held(&self, ground: &Ground<'_, M>, copied: bool) {
        if copied {
            self.its_lock(ground).release_copied();
            self.merging.abandon();
            self.compaction.abandon();
        } else {
            let kind = ground.mechanisms.zone_lock;
            self.its_lock(ground).release_held(kind, &ground.machine, ground.cpus, LockName::zone(self.idx));
        }
    }

    /// Takes the zone lock.
    pub(crate) fn lock<'g, 'a>(&'g self, cx: Cx<'g, 'a, M>) -> ZoneGuard<'g, 'a, M> {
        let guard = self.lock_ends(cx);
        self.clusters.settle();
        guard
    }

    /// Takes the zone lock to look at the ends of lists, and at the states of nothing but what lies there (`cluster.rs`).
    pub(crate) fn lock_ends<'g, 'a>(&'g self, cx: Cx<'g, 'a, M>) -> ZoneGuard<'g, 'a, M> {
        let guard = self.guard(cx);
        if !self.deferred.is_empty() {
            guard.take_back();
        }
        guard
    }

    fn guard<'g, 'a>(&'g self, cx: Cx<'g, 'a, M>) -> ZoneGuard<'g, 'a, M> {
        let (ticket, _irq) = self.take_lock(cx, LockMode::Alone);
        let Cx { ground, cpu, own, .. } = cx;
        ZoneGuard { ticket, _irq, ground, cpu, own: Some(own), zone: self, tally: Tally::default() }
    }

    /// Takes the zone lock if it is free, from any context: on no CPU in particular, and waiting for nobody.
    pub(crate) fn try_lock<'g, 'a>(&'g self, ground: &'g Ground<'a, M>) -> Option<ZoneGuard<'g, 'a, M>> {
        let _irq = ground.machine.irq_save();
        let ticket = self.its_lock(ground).try_take(ground.mechanisms.zone_lock)?;
        let cpu = CpuId::NONE;
        let guard = ZoneGuard { ticket, _irq, ground, cpu, own: None, zone: self, tally: Tally::default() };
        // A cut in progress may be one that the caller interrupted, which would wait for ever for its end.
        if self.clusters.is_cutting() {
            return None;
        }
        if !self.deferred.is_empty() {
            guard.take_back();
        }
        Some(guard)
    }

    /// Gives back what was freed while the lock was taken, a batch under it at a time. Returns the number of frames.
    pub(crate) fn take_back(&self, cx: Cx<'_, '_, M>) -> u64 {
        let mut taken_back = 0_u64;
        // Others may go on freeing: as much as there can be, no more.
        for _ in 0..=cx.ground.frames.heads.len() as u32 / TAKEN_BACK {
            if self.deferred.is_empty() {
                break;
            }
            taken_back = taken_back.wrapping_add(self.guard(cx).take_back());
        }
        taken_back
    }

    /// Takes the zone lock together with others who take it so. If it is of a kind that cannot be shared, it is
    /// simply taken.
    pub(crate) fn read<'g, 'a>(&'g self, cx: Cx<'g, 'a, M>) -> ZoneReader<'g, 'a, M> {
        let (ticket, irq) = self.take_lock(cx, LockMode::Shared);
        ZoneReader { ticket, _irq: irq, cx, zone: self }
    }

    /// The one of its locks that is used.
    fn its_lock(&self, ground: &Ground<'_, M>) -> &ZoneLock<M> {
        match ground.mechanisms.lock_place {
            LockPlace::BesideLists => &self.lock,
            LockPlace::BehindLists => &self.lock_behind,
            LockPlace::OwnLine => &self.lock_alone.0,
        }
    }

    fn take_lock<'g>(&self, cx: Cx<'g, '_, M>, mode: LockMode) -> (Ticket, M::Irq<'g>) {
        let (ground, kind) = (cx.ground, cx.ground.mechanisms.zone_lock);
        let irq = ground.machine.irq_save();
        cx.own.held.enter(&ground.machine, Rank::Zone);
        ground.machine.step(Step::Lock);
        let ticket = self.its_lock(ground).take((kind, mode), &ground.machine, ground.cpus, LockName::zone(self.idx));
        (ticket, irq)
    }

    fn release_lock(&self, (ground, own): (&Ground<'_, M>, &Cpu<M>), mode: LockMode, ticket: &Ticket) {
        let kind = ground.mechanisms.zone_lock;
        own.held.leave(&ground.machine, Rank::Zone);
        self.its_lock(ground).release((kind, mode), ticket, &ground.machine, ground.cpus, LockName::zone(self.idx));
    }

    /// Adds up what one CPU changed on the lists, or somebody on none in particular, who holds the lock in this mode.
    pub(crate) fn account(&self, (ground, cpu): (&Ground<'_, M>, CpuId), tally: &Tally, mode: LockMode) {
        self.stat.account(tally, (&ground.stats, self.idx), cpu, mode);
        self.count.add(tally, mode);
    }

    /// Whether the marks let a request of `order` whose highest zone is `highest` take from here, at this moment.
    pub(crate) fn may_take_racy(
        &self,
        ground: &Ground<'_, M>,
        order: Order,
        highest: ZoneKind,
        rights: Rights,
    ) -> bool {
        let (machine, max) = (&ground.machine, ground.frames.geometry.max_order);
        machine.step(Step::Watermark);
        let may_take = |memory| {
            may_take(order, max, memory, self.kept_from(order, highest, rights), rights, |order, migratetype| {
                machine.step(Step::WatermarkList);
                self.lists.len_racy(order, migratetype) != 0
            })
        };
        // Nobody is turned away because of what CPUs keep.
        let exact = || self.stat.drifts().then(|| self.stat.memory_exact(&ground.stats, self.idx));
        may_take(self.stat.memory_racy(&ground.stats, self.idx)) || exact().is_some_and(may_take)
    }

    /// Whether the marks would let a request take from here if `more` frames were free, and these in blocks as large as it wants.
    pub(crate) fn could_take_racy(
        &self,
        ground: &Ground<'_, M>,
        (order, highest): (Order, ZoneKind),
        rights: Rights,
        more: u64,
    ) -> bool {
        ground.machine.step(Step::Watermark);
        let memory = if self.stat.drifts() {
            self.stat.memory_exact(&ground.stats, self.idx)
        } else {
            self.stat.memory_racy(&ground.stats, self.idx)
        };
        let memory = FreeMemory { free: memory.free.saturating_add(more), ..memory };
        is_above(order, memory, self.kept_from(order, highest, rights), rights)
    }

    /// The mark and the lowmem reserve that bind a request.
    fn kept_from(&self, order: Order, highest: ZoneKind, rights: Rights) -> (u64, u64) {
        let reserve = self.reserve.get(highest.index()).copied().unwrap_or(0);
        // What may use the last of a zone is not kept from it by a boost.
        let is_urgent = order.0 == 0 && rights.high && rights.mark == Mark::Min;
        let mark = if is_urgent || rights.unboosted {
            self.stat.mark_unboosted(rights.mark)
        } else {
            self.stat.mark(rights.mark)
        };
        (mark, reserve)
    }

    /// Whether the zone keeps a mark when it gives so many frames to a request.
    pub(crate) fn has_room(&self, ground: &Ground<'_, M>, frames: u64, highest: ZoneKind, rights: Rights) -> bool {
        let memory = self.stat.memory_exact(&ground.stats, self.idx);
        let left = FreeMemory { free: memory.free.saturating_sub(frames.saturating_sub(1)), ..memory };
        is_above(Order(0), left, self.kept_from(Order(0), highest, rights), rights)
    }
}

/// Proof that a zone's lock is held.
pub(crate) struct ZoneGuard<'g, 'a, M: Machine> {
    ticket: Ticket,
    // Dropped after `ZoneGuard::drop` has released the lock.
    _irq: M::Irq<'g>,
    pub(crate) ground: &'g Ground<'a, M>,
    cpu: CpuId,
    /// The CPU's record. None who came without waiting: in the middle of whose calls, nobody knows.
    own: Option<&'g Cpu<M>>,
    pub(crate) zone: &'g Zone<M>,
    tally: Tally,
}

impl<M: Machine> Drop for ZoneGuard<'_, '_, M> {
    fn drop(&mut self) {
        self.account();
        let (zone, ground) = (self.zone, self.ground);
        match self.own {
            Some(own) => zone.release_lock((ground, own), LockMode::Alone, &self.ticket),
            None => zone.its_lock(ground).give_up(ground.mechanisms.zone_lock, &self.ticket, ground.cpus),
        }
    }
}

/// Proof that a zone's lock is held, possibly by others in the same way.
pub(crate) struct ZoneReader<'g, 'a, M: Machine> {
    ticket: Ticket,
    // Dropped after `ZoneReader::drop` has released the lock.
    _irq: M::Irq<'g>,
    pub(crate) cx: Cx<'g, 'a, M>,
    pub(crate) zone: &'g Zone<M>,
}

impl<M: Machine> Drop for ZoneReader<'_, '_, M> {
    fn drop(&mut self) {
        let Cx { ground, own, .. } = self.cx;
        self.zone.release_lock((ground, own), LockMode::Shared, &self.ticket);
    }
}

impl<'g, 'a, M: Machine> ZoneGuard<'g, 'a, M> {
    /// The free lists.
    pub(crate) fn buddy(&self) -> Buddy<'_, 'a, M> {
        let (ground, zone, tally, cpu) = (self.ground, self.zone, &self.tally, self.cpu);
        Buddy { ground, lists: &zone.lists, count: &zone.count, stat: &zone.stat, tally, clusters: &zone.clusters, cpu }
    }

    /// Tells the zone what changed on its lists so far.
    pub(crate) fn account(&self) {
        self.zone.account((self.ground, self.cpu), &self.tally, LockMode::Alone);
    }

    /// Gives back what was freed while the lock was taken, a batch at most, and counts it as freed. Returns the number of frames.
    #[cold]
    pub(crate) fn take_back(&self) -> u64 {
        self.zone.clusters.settle();
        let frames = &self.ground.frames;
        let mut freed = 0_u64;
        for _ in 0..TAKEN_BACK {
            let Some(frame) = self.zone.deferred.pop(frames) else { break };
            let order = frames.head(frame).order();
            freed = freed.wrapping_add(order.frames());
            self.give_claimed(frame, order);
        }
        self.zone.events.add(ZoneEvent::FreeFrames, freed);
        self.account();
        freed
    }

    /// Puts an allocated block back that nobody else can free.
    pub(crate) fn give_claimed(&self, frame: Frame, order: Order) {
        self.ground.frames.set_head(frame, Head::NONE);
        if !give_home(&self.buddy(), frame, order) {
            self.give(frame, order, Place::Warm);
        }
    }

    /// Takes one block for a request; its head says nothing yet. Damaged lists are repaired and tried once more.
    pub(crate) fn take(&self, want: &Want, mode: &mut Mode, refill: bool) -> Option<Frame> {
        self.ground.machine.step(Step::Take);
        let policy = self.ground.mechanisms.fallback;
        let taken = self.attempt(|buddy| fallback::take(buddy, want, policy, mode)).flatten()?;
        self.note(want, &taken, refill);
        Some(taken.frame)
    }

    /// Takes blocks of the request's own type while there are any, `most` at most, and calls `each` with them. Returns how many.
    pub(crate) fn take_own(&self, want: &Want, most: u32, mut each: impl FnMut(Frame)) -> u32 {
        let ground = self.ground;
        if ground.machine.traces() || (want.cma && self.zone.stat.cma().load(Ordering::Relaxed) != 0) {
            return 0;
        }
        let buddy = self.buddy();
        let mut taken = 0_u32;
        while taken < most
            && let Ok(Some(frame)) = buddy.take_smallest(want.order, want.migratetype)
        {
            each(frame);
            taken = taken.wrapping_add(1);
        }
        taken
    }

    /// Cuts a run of at most `most` pages of the request's own type off the lists, if one begins at the front of its own.
    pub(crate) fn cut(&self, want: &Want, most: u32) -> Option<Run> {
        self.attempt(|buddy| match fallback::is_cma_first(buddy, want) {
            true => Ok(None),
            false => buddy.cut(want.migratetype, most),
        })
        .flatten()
    }

    /// Takes the smallest free block that serves the request; all of it, unless it is of more than `most` frames. Returns its
    /// order.
    pub(crate) fn take_part(&self, want: &Want, most: u64, mode: &mut Mode) -> Option<(Frame, Order)> {
        self.ground.machine.step(Step::Take);
        if *mode == Mode::Normal
            && let Some(part) = self.attempt(|buddy| fallback::take_part(buddy, want, most)).flatten()
        {
            return Some(part);
        }
        self.take(want, mode, true).map(|frame| (frame, want.order))
    }

    /// Runs an operation that takes one given block off the lists.
    pub(crate) fn take_with<T>(&self, take: impl FnMut(&Buddy<'_, 'a, M>) -> Result<Option<T>, Corrupt>) -> Option<T> {
        self.attempt(take).flatten()
    }

    /// Takes a block from the reserve for high-order requests that must not wait.
    pub(crate) fn take_highatomic(&self, order: Order) -> Option<Frame> {
        let frame = self.attempt(|buddy| buddy.take_smallest(order, MigrateType::HighAtomic)).flatten()?;
        self.zone.highatomic_used.store(1, Ordering::Relaxed);
        Some(frame)
    }

    /// Puts a block back whose head says nothing any more, merging it.
    pub(crate) fn give(&self, frame: Frame, order: Order, place: Place) {
        self.buddy().free(frame, order, place);
    }

    /// Puts a block back whose head says nothing any more, as it is.
    pub(crate) fn give_unmerged(&self, frame: Frame, order: Order) {
        self.buddy().free_unmerged(frame, order);
    }

    /// Merges the blocks between `start` and `end` that were given back unmerged.
    pub(crate) fn merge_skipped(&self, start: Frame, end: Frame) {
        let mut at = start;
        while at < end {
            self.attempt(|buddy| buddy.merge_skipped(at));
            at = self.buddy().behind(at);
        }
    }

    /// Tells the zone what a CPU keeps of its numbers of free frames. Returns how many there were.
    pub(crate) fn fold(&self, diffs: &Diffs<M>) -> u32 {
        self.zone.stat.fold(&self.ground.stats, diffs)
    }

    /// Changes whether pages may stay unmerged.
    pub(crate) fn change_merging(&self, change: impl FnOnce(&Heap<M>)) {
        change(&self.zone.clusters);
    }

    /// Runs an operation on the lists; if it meets a damaged descriptor, repairs the lists and runs it once more.
    pub(crate) fn attempt<T>(&self, mut operation: impl FnMut(&Buddy<'_, 'a, M>) -> Result<T, Corrupt>) -> Option<T> {
        let buddy = self.buddy();
        let first = operation(&buddy);
        first
            .or_else(|_| {
                self.repair();
                operation(&buddy)
            })
            .ok()
    }

    /// Tells the tracepoints.
    fn note(&self, want: &Want, taken: &Taken, refill: bool) {
        let machine = &self.ground.machine;
        let frames = &self.ground.frames;
        if let Some(from) = taken.fallback {
            let pageblock_order = frames.geometry.pageblock_order;
            let fragmenting = from.order < pageblock_order;
            let event = if fragmenting { GlobalEvent::ExtFragFragmenting } else { GlobalEvent::ExtFragWhole };
            self.ground.events.count(event);
            // Not woken here: that would be under the lock.
            if fragmenting && self.boost(1) && want.wakes {
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
