//! A zone: free memory of one kind on one node, behind one lock.
//!
//! All that needs the lock goes through `ZoneGuard`: taking blocks, giving them back, and changing a pageblock's
//! type. The guard holds this CPU's interrupts off as well, because an interrupt that allocated would wait for its own CPU for ever.
//!
//! Sections under the lock are short: a batch of blocks, or the free blocks of one pageblock. The exception is the repair
//! of damaged lists (`repair.rs`), which reads the whole zone and should never happen.

use core::mem::offset_of;

use crate::buddy::free_list::FreeLists;
use crate::frame::cluster::Heap;
use crate::policy::mechanisms::LockPlace;
use crate::policy::pcp_size::PcpSize;
use crate::policy::watermark::{FreeMemory, Mark, Rights, is_above, may_take};
use crate::seam::field::{Words, tell};
use crate::seam::machine::{LockName, Machine, Ordering, Step, Word};
use crate::shared::{CallCx, Cpu, Shared};
use crate::stat::tally::{ListCount, Tally};
use crate::stat::vmstat::ZoneEvents;
use crate::stat::zone_stat::ZoneCounters;
use crate::sync::cache_line::{Alone, PAIR, Span};
use crate::sync::rank::Rank;
use crate::sync::ticket_lock::Ticket;
use crate::sync::zone_lock::{LockMode, ZoneSpinLock};
use crate::types::migratetype::MigrateType;
use crate::types::units::{CpuId, NodeId, Order, PfnRange, ZoneIdx, ZoneKind};
use crate::zone::backoff::Backoff;
use crate::zone::deferred_free::Deferred;

/// One zone.
///
/// Invariants, with the lock free: B1-B4 of the lists, and
/// - Z1 `present = free + isolated + pcp + allocated + offline + quarantined`, each counted in frames
/// - Z2 `highatomic_reserved` is the number of frames in pageblocks of that type, those included that are isolated and go back to it
/// - Z3 the boost is at most what `watermark::boost_cap` says
// Aligned so that no two zones share a pair of cache lines. What lies where, and why: decision 0013; proof: `Zone::PLACES`.
#[repr(C, align(128))]
pub struct Zone<M: Machine> {
    lock: ZoneSpinLock<M>,
    pub(crate) lists: FreeLists<M>,
    /// The lock, where the mechanisms put it behind the lists.
    lock_behind: ZoneSpinLock<M>,
    /// The lock, where it has its lines to itself.
    lock_alone: Alone<ZoneSpinLock<M>>,
    pub(crate) count: ListCount<M>,
    pub(crate) clusters: Heap<M>,
    /// What was freed while the lock was taken.
    pub(crate) deferred: Deferred<M>,
    pub(crate) stat: ZoneCounters<M>,
    pub(crate) highatomic_reserved: M::U64,
    pub(crate) offline: M::U64,
    /// Frames that are memory, and those of them ever handed to the allocator.
    pub(crate) present: M::U64,
    pub(crate) managed: M::U64,
    /// Counts of CPUs that went offline.
    pub(crate) events: ZoneEvents<M>,
    /// The searches for what was not merged, and for what could be moved.
    pub(crate) merging: Backoff<M>,
    pub(crate) compaction: Backoff<M>,
    // Fixed at boot.
    pub(crate) idx: ZoneIdx,
    pub(crate) span: PfnRange,
    /// Frames kept from requests whose highest zone is of this kind.
    pub(crate) reserve: [u64; ZoneKind::COUNT],
    pub(crate) pcp: PcpSize,
    /// The marks were given, and do not follow the zone's size.
    pub(crate) fixed_marks: bool,
    /// Not 0 once a request used the high-atomic reserve; see [`Zone::was_highatomic_used`]. Here because there is room for a byte.
    pub(crate) highatomic_used: M::U8,
}

impl<M: Machine> Default for Zone<M> {
    fn default() -> Self {
        // No zone is made whose layout is not proven.
        let () = Self::PLACES;
        Zone {
            lock: ZoneSpinLock::default(),
            lists: FreeLists::default(),
            lock_behind: ZoneSpinLock::default(),
            lock_alone: Alone::default(),
            count: ListCount::default(),
            clusters: Heap::default(),
            deferred: Deferred::default(),
            stat: ZoneCounters::default(),
            highatomic_reserved: Word::new(0),
            offline: Word::new(0),
            present: Word::new(0),
            managed: Word::new(0),
            events: ZoneEvents::default(),
            merging: Backoff::default(),
            compaction: Backoff::default(),
            idx: ZoneIdx::default(),
            span: PfnRange::default(),
            reserve: [0; ZoneKind::COUNT],
            pcp: PcpSize::default(),
            fixed_marks: false,
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
        let beside = Span::of::<ZoneSpinLock<M>>(offset_of!(Self, lock));
        assert!(beside.to(FreeLists::<M>::span(lists, 0, MigrateType::PCP_COUNT)).is_on_one_line());
        let behind = Span::of::<ZoneSpinLock<M>>(offset_of!(Self, lock_behind));
        assert!(behind.is_apart_from(beside.to(FreeLists::<M>::span(lists, 10, MigrateType::COUNT))));
        assert!(offset_of!(Self, lock_alone) % PAIR == 0 && size_of::<Alone<ZoneSpinLock<M>>>() == PAIR);
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
    pub(crate) fn hold(&self, shared: &Shared<'_, M>) {
        let how = (shared.mechanisms.zone_lock, LockMode::Alone);
        let _ = self.its_lock(shared).take(how, &shared.machine, shared.cpus, LockName::zone(self.idx));
    }

    /// Gives up what [`Zone::hold`] took; in a copy, for all who wait.
    pub(crate) fn release_held(&self, shared: &Shared<'_, M>, copied: bool) {
        if copied {
            self.its_lock(shared).release_copied();
            self.merging.abandon();
            self.compaction.abandon();
        } else {
            let kind = shared.mechanisms.zone_lock;
            self.its_lock(shared).release_held(kind, &shared.machine, shared.cpus, LockName::zone(self.idx));
        }
    }

    /// The one of its locks that is used.
    pub(crate) fn its_lock(&self, shared: &Shared<'_, M>) -> &ZoneSpinLock<M> {
        match shared.mechanisms.lock_place {
            LockPlace::BesideLists => &self.lock,
            LockPlace::BehindLists => &self.lock_behind,
            LockPlace::OwnLine => &self.lock_alone.0,
        }
    }

    pub(crate) fn take_lock<'g>(&self, cx: CallCx<'g, '_, M>, mode: LockMode) -> (Ticket, M::Irq<'g>) {
        let (shared, kind) = (cx.shared, cx.shared.mechanisms.zone_lock);
        let irq = shared.machine.irq_save();
        cx.own.held.enter(&shared.machine, Rank::Zone);
        shared.machine.step(Step::Lock);
        let ticket = self.its_lock(shared).take((kind, mode), &shared.machine, shared.cpus, LockName::zone(self.idx));
        (ticket, irq)
    }

    pub(crate) fn release_lock(&self, (shared, own): (&Shared<'_, M>, &Cpu<M>), mode: LockMode, ticket: &Ticket) {
        let kind = shared.mechanisms.zone_lock;
        own.held.leave(&shared.machine, Rank::Zone);
        self.its_lock(shared).release((kind, mode), ticket, &shared.machine, shared.cpus, LockName::zone(self.idx));
    }

    /// Adds up what one CPU changed on the lists, or somebody on none in particular, who holds the lock in this mode.
    pub(crate) fn account(&self, (shared, cpu): (&Shared<'_, M>, CpuId), tally: &Tally, mode: LockMode) {
        self.stat.account(tally, (&shared.stats, self.idx), cpu, mode);
        self.count.add(tally, mode);
    }

    /// Whether the marks let a request of `order` whose highest zone is `highest` take from here, at this moment.
    pub(crate) fn may_take_racy(
        &self,
        shared: &Shared<'_, M>,
        order: Order,
        highest: ZoneKind,
        rights: Rights,
    ) -> bool {
        let (machine, max) = (&shared.machine, shared.frames.geometry.max_order);
        machine.step(Step::Watermark);
        let may_take = |memory| {
            may_take(order, max, memory, self.kept_from(order, highest, rights), rights, |order, migratetype| {
                machine.step(Step::WatermarkList);
                self.lists.len_racy(order, migratetype) != 0
            })
        };
        // Nobody is turned away because of what CPUs keep.
        let exact = || self.stat.has_deltas().then(|| self.stat.memory_exact(&shared.stats, self.idx));
        may_take(self.stat.memory_racy(&shared.stats, self.idx)) || exact().is_some_and(may_take)
    }

    /// Whether the marks would let a request take from here if `more` frames were free, and these in blocks as large as it wants.
    pub(crate) fn could_take_racy(
        &self,
        shared: &Shared<'_, M>,
        (order, highest): (Order, ZoneKind),
        rights: Rights,
        more: u64,
    ) -> bool {
        shared.machine.step(Step::Watermark);
        let memory = if self.stat.has_deltas() {
            self.stat.memory_exact(&shared.stats, self.idx)
        } else {
            self.stat.memory_racy(&shared.stats, self.idx)
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
    pub(crate) fn has_room(&self, shared: &Shared<'_, M>, frames: u64, highest: ZoneKind, rights: Rights) -> bool {
        let memory = self.stat.memory_exact(&shared.stats, self.idx);
        let left = FreeMemory { free: memory.free.saturating_sub(frames.saturating_sub(1)), ..memory };
        is_above(Order(0), left, self.kept_from(Order(0), highest, rights), rights)
    }
}
