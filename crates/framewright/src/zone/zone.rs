//! Zone: free memory of one kind on one node, protected by one lock.
//!
//! All work that needs the lock uses `ZoneGuard`: it takes blocks, frees them, and changes a pageblock's type. The
//! guard also holds this CPU's interrupts off. An interrupt that allocated would otherwise wait forever for its own
//! CPU.
//!
//! Sections under the lock are short: a batch of blocks, or the free blocks of one pageblock. The exception is the
//! repair of damaged lists (`repair.rs`). It reads the whole zone and should never happen.

use core::mem::offset_of;

use crate::buddy::free_list::FreeLists;
use crate::frame::cluster::Heap;
use crate::policy::mechanisms::LockPlace;
use crate::policy::pcp_size::PcpSize;
use crate::policy::watermark::{AllocFlags, FreeMemory, Kept, Mark, is_above, may_take};
use crate::seam::compiled::Compiled;
use crate::seam::field::record;
use crate::seam::machine::{FreeChange, LockName, Machine, Ordering, Step, Word};
use crate::shared::{CallCx, Cpu, Shared};
use crate::stat::tally::{ListCount, Tally};
use crate::stat::vmstat::ZoneEvents;
use crate::stat::zone_stat::ZoneCounters;
use crate::sync::cache_line::{Alone, PAIR, Span};
use crate::sync::rank::Rank;
use crate::sync::ticket_lock::Ticket;
use crate::sync::zone_lock::{LockChoice, LockMode, ZoneSpinLock};
use crate::types::counts::{BlockCount, FrameCount};
use crate::types::migratetype::MigrateType;
use crate::types::units::{CpuId, NodeId, Order, PfnRange, ZoneIdx, ZoneKind};
use crate::zone::backoff::Backoff;
use crate::zone::deferred_free::Deferred;

record! {
    /// Record of one zone.
    ///
    /// Invariants, with the lock free: B1-B4 of the lists, and
    /// - Z1 `present = free + isolated + pcp + allocated + offline + quarantined`, each counted in frames
    /// - Z2 `highatomic_reserved` is the number of frames in pageblocks of that type, including isolated ones that will
    ///   be restored to it
    /// - Z3 the boost is at most `watermark::boost_cap`
    // Aligned so that no two zones share a pair of cache lines. Decision 0013 explains the layout; `Zone::PLACES`
    // proves it.
    #[repr(C, align(128))]
    pub struct Zone<M: Machine> {
        record lock: ZoneSpinLock<M>,
        pub(crate) record("{}") lists: FreeLists<M>,
        /// The lock, where the mechanisms place it after the lists.
        record lock_behind: ZoneSpinLock<M>,
        /// The lock, where the mechanisms place it on lines of its own.
        record lock_alone: Alone<ZoneSpinLock<M>>,
        pub(crate) record count: ListCount<M>,
        pub(crate) record clusters: Heap<M>,
        /// Blocks that were freed while the lock was taken.
        pub(crate) record("deferred{}") deferred: Deferred<M>,
        pub(crate) record stat: ZoneCounters<M>,
        pub(crate) word highatomic_reserved: M::U64,
        pub(crate) word offline: M::U64,
        /// Frames with memory, and those of them ever handed to the allocator.
        pub(crate) word present: M::U64,
        pub(crate) word managed: M::U64,
        /// Counts of CPUs that went offline.
        pub(crate) record events: ZoneEvents<M>,
        /// Back-off of searches for unmerged blocks, and for blocks to move.
        pub(crate) record merging: Backoff<M>,
        pub(crate) record compaction: Backoff<M>,
        pub(crate) fixed idx: ZoneIdx,
        pub(crate) fixed span: PfnRange,
        /// Frames kept from requests whose highest zone is of this kind.
        pub(crate) fixed reserve: [u64; ZoneKind::COUNT],
        pub(crate) fixed pcp: PcpSize,
        /// Whether the marks were given, and do not follow the zone's size.
        pub(crate) fixed fixed_marks: bool,
        /// Not 0 once a request used the high-atomic reserve; see [`Zone::was_highatomic_used`].
        ///
        /// It lies here because there is room for a byte.
        pub(crate) word highatomic_used: M::U8,
        /// Number of uninitialised sections; they count as free (`section_init.rs`).
        pub(crate) word uninit: M::U32,
        /// First frame that may lie in an uninitialised section.
        pub(crate) word uninit_from: M::U32,
    }
}

impl<M: Machine> Zone<M> {
    /// Proves, for this machine's words, that each place of the lock is as `LockPlace` says.
    ///
    /// - Beside the lists: on the line of the order-0 lists that requests ask for.
    /// - Behind the lists: on no pair of lines with a list of an order that Linux has, 0 to 10.
    /// - On its own line: on a pair of lines without other words.
    ///
    /// It also proves that `clusters` and `deferred` share a line, because every holder of the lock reads both. Words
    /// that are larger than their integers, as a model checker's are, have no meaningful lines.
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
        if M::FEATURES.nodes { self.idx.node() } else { NodeId(0) }
    }

    pub(crate) fn is_populated(&self) -> bool {
        self.present.load(Ordering::Relaxed) != 0
    }

    /// Returns whether the allocator has some of its memory.
    ///
    /// That is memory neither reserved since boot nor taken offline.
    pub(crate) fn has_memory(&self) -> bool {
        self.managed.load(Ordering::Relaxed) != 0
    }

    /// Returns the number of uninitialised sections, at this moment.
    pub(crate) fn uninit_racy(&self, shared: &Shared<'_, M>) -> u32 {
        if shared.frames.is_lazy() { self.uninit.load(Ordering::Relaxed) } else { 0 }
    }

    /// Returns the number of free blocks of an order and type, at this moment.
    ///
    /// Each uninitialised section is a movable block of the largest order.
    pub(crate) fn blocks_racy(&self, shared: &Shared<'_, M>, order: Order, migratetype: MigrateType) -> BlockCount {
        let listed = self.lists.len_racy(order, migratetype);
        if order == shared.frames.geometry.max_order && migratetype == MigrateType::Movable {
            return listed.plus(BlockCount(u64::from(self.uninit_racy(shared))));
        }
        listed
    }

    /// Takes the zone lock without a guard, until [`Zone::release_held`].
    ///
    /// Context: the caller need not be on a CPU.
    pub(crate) fn hold(&self, shared: &Shared<'_, M>) {
        let choice = LockChoice { kind: shared.mechanisms().zone_lock, mode: LockMode::Alone };
        let _ = self.its_lock(shared).take(choice, &shared.machine, shared.cpus, LockName::zone(self.idx));
    }

    /// Releases the lock taken by [`Zone::hold`].
    ///
    /// In a copy of the allocator, it resets the lock: the waiters do not exist there.
    pub(crate) fn release_held(&self, shared: &Shared<'_, M>, copied: bool) {
        if copied {
            self.its_lock(shared).release_copied();
            self.merging.abandon();
            self.compaction.abandon();
        } else {
            let kind = shared.mechanisms().zone_lock;
            self.its_lock(shared).release_held(kind, &shared.machine, shared.cpus, LockName::zone(self.idx));
        }
    }

    /// Returns the lock that is in use, of its three places.
    pub(crate) fn its_lock(&self, shared: &Shared<'_, M>) -> &ZoneSpinLock<M> {
        // No zone is locked whose layout is not proven.
        let () = Self::PLACES;
        match shared.mechanisms().lock_place {
            LockPlace::BesideLists => &self.lock,
            LockPlace::BehindLists => &self.lock_behind,
            LockPlace::OwnLine => &self.lock_alone.0,
        }
    }

    pub(crate) fn take_lock<'g>(&self, cx: CallCx<'g, '_, M>, mode: LockMode) -> (Ticket, M::Irq<'g>) {
        let (shared, kind) = (cx.shared, cx.shared.mechanisms().zone_lock);
        let choice = LockChoice { kind, mode };
        let irq = shared.machine.irq_save();
        cx.own.held.enter(&shared.machine, Rank::Zone);
        shared.machine.step(Step::Lock);
        let ticket = self.its_lock(shared).take(choice, &shared.machine, shared.cpus, LockName::zone(self.idx));
        (ticket, irq)
    }

    pub(crate) fn release_lock(&self, shared: &Shared<'_, M>, own: &Cpu<M>, mode: LockMode, ticket: &Ticket) {
        let choice = LockChoice { kind: shared.mechanisms().zone_lock, mode };
        own.held.leave(&shared.machine, Rank::Zone);
        self.its_lock(shared).release(choice, ticket, &shared.machine, shared.cpus, LockName::zone(self.idx));
    }

    /// Adds up the changes of one CPU to the lists.
    ///
    /// The caller may be without a CPU.
    ///
    /// Caller holds: the zone lock, in this mode.
    pub(crate) fn account(&self, shared: &Shared<'_, M>, cpu: CpuId, tally: &Tally, mode: LockMode) {
        let change = tally.told();
        self.stat.account(tally, shared.stats.zone(self.idx), cpu, mode);
        self.count.add(tally, mode);
        self.tell(shared, change);
    }

    /// Tells the machine of a change of free memory.
    #[inline]
    pub(crate) fn tell(&self, shared: &Shared<'_, M>, change: FreeChange) {
        if change != FreeChange::default() {
            shared.machine.free_changed(self.idx, change);
        }
    }

    /// Tells the machine of all free memory as a change, whose sign `turn` may turn.
    pub(crate) fn tell_all(&self, shared: &Shared<'_, M>, turn: fn(i64) -> i64) {
        let FreeMemory { free, cma, highatomic } = self.memory_exact(shared);
        let [free, cma, highatomic] = [free, cma, highatomic].map(|frames| turn(frames as i64));
        self.tell(shared, FreeChange { free, cma, highatomic });
    }

    /// Returns whether the marks let a request take from this zone, at this moment.
    ///
    /// The request has this `order`; `highest` is its highest zone.
    pub(crate) fn may_take_racy(
        &self,
        shared: &Shared<'_, M>,
        order: Order,
        highest: ZoneKind,
        alloc_flags: AllocFlags,
    ) -> bool {
        let (machine, max) = (&shared.machine, shared.frames.geometry.max_order);
        machine.step(Step::Watermark);
        let may_take = |memory| {
            may_take(
                order,
                max,
                memory,
                self.kept_from(order, highest, alloc_flags),
                alloc_flags,
                |order, migratetype| {
                    if M::one_type(migratetype) != migratetype {
                        return false;
                    }
                    machine.step(Step::WatermarkList);
                    !self.blocks_racy(shared, order, migratetype).is_zero()
                },
            )
        };
        // A request is never refused because of the CPUs' deltas.
        let exact = || self.stat.has_deltas().then(|| self.memory_exact(shared));
        may_take(self.stat.memory_racy(&shared.stats, self.idx)) || exact().is_some_and(may_take)
    }

    /// Returns whether the zone is above its mark by as many counts as are at hand.
    ///
    /// Like [`Zone::may_take_racy`] for a single frame, which may say yes where this says no.
    #[inline]
    pub(crate) fn is_above_racy(&self, shared: &Shared<'_, M>, highest: ZoneKind, alloc_flags: AllocFlags) -> bool {
        shared.machine.step(Step::Watermark);
        let memory = self.stat.memory_racy(&shared.stats, self.idx);
        is_above(Order(0), memory, self.kept_from(Order(0), highest, alloc_flags), alloc_flags)
    }

    /// Returns whether the marks would allow a request with `more` free frames.
    ///
    /// Those frames are assumed to be in blocks as large as the request wants.
    pub(crate) fn could_take_racy(
        &self,
        shared: &Shared<'_, M>,
        order: Order,
        highest: ZoneKind,
        alloc_flags: AllocFlags,
        more: FrameCount,
    ) -> bool {
        shared.machine.step(Step::Watermark);
        let memory = if self.stat.has_deltas() {
            self.memory_exact(shared)
        } else {
            self.stat.memory_racy(&shared.stats, self.idx)
        };
        let memory = FreeMemory { free: memory.free.saturating_add(more.0), ..memory };
        is_above(order, memory, self.kept_from(order, highest, alloc_flags), alloc_flags)
    }

    /// Returns the mark and the lowmem reserve that apply to a request.
    fn kept_from(&self, order: Order, highest: ZoneKind, alloc_flags: AllocFlags) -> Kept {
        let reserve = self.reserve.get(highest.index()).copied().unwrap_or(0);
        // A boost does not bind a request that may use the last memory of a zone.
        let is_urgent = order.0 == 0 && alloc_flags.high && alloc_flags.mark == Mark::Min;
        let mark = if is_urgent || alloc_flags.unboosted {
            self.stat.mark_unboosted(alloc_flags.mark)
        } else {
            self.stat.mark(alloc_flags.mark)
        };
        Kept { mark, reserve }
    }

    /// Returns free memory with the CPUs' deltas.
    pub(crate) fn memory_exact(&self, shared: &Shared<'_, M>) -> FreeMemory {
        self.stat.memory_exact(&shared.stats, self.idx)
    }

    /// Returns whether the zone stays above a mark after it gives `frames` frames.
    pub(crate) fn has_room(
        &self,
        shared: &Shared<'_, M>,
        frames: u64,
        highest: ZoneKind,
        alloc_flags: AllocFlags,
    ) -> bool {
        let memory = self.memory_exact(shared);
        let left = FreeMemory { free: memory.free.saturating_sub(frames.saturating_sub(1)), ..memory };
        is_above(Order(0), left, self.kept_from(Order(0), highest, alloc_flags), alloc_flags)
    }
}
