//! Calls for an embedder that keeps its own zonelists, watermarks and reclaim: Linux, at the level of `rmqueue`.
//!
//! Such an embedder chooses the zone and asks for a block of that zone ([`Allocator::alloc_in`]). It is told of each
//! change that its own counts follow ([`Machine::free_changed`], [`Machine::retyped`]). It isolates pageblocks, and
//! takes free blocks, as its own compaction and its own ranges need them. It may let the allocator compact instead
//! ([`Allocator::compact_in`]).
//!
//! Cost: a hit of the CPU's list costs what [`Allocator::alloc`] does, and a comparison of zones.
//!
//! Rejected: a request with rights, whose walk the embedder limits to one zone. The plan of each request would have one
//! more field, for all embedders.

use crate::api::allocator::Allocator;
use crate::api::fast_ops::{AllocIn, FreeAt};
use crate::api::fast_path::FastPath;
use crate::api::route::Route;
use crate::compaction::progress::{Compacted, Effort};
use crate::reclaim::one_zone::Rights;
use crate::seam::compiled::Compiled;
use crate::seam::machine::{Machine, PerCpu};
use crate::shared::Cpu;
use crate::stat::vmstat::GlobalEvent;
use crate::types::error::{AllocError, FreeError, Why};
use crate::types::migratetype::MigrateType;
use crate::types::request::Request;
use crate::types::units::{Frame, Order, Pfn, PfnRange, ZoneIdx};
use crate::zone::zone_guard::ZoneGuard;
use crate::zonelist::numa_stat::ServedFrom;

/// A block of one zone ([`Allocator::alloc_in`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InZone {
    /// The block's first frame.
    pub pfn: Pfn,
    /// Whether mobilities were mixed for it, so that the embedder may raise the zone's marks.
    ///
    /// Only with `watermark-boost`, and only one caller is told.
    pub boosts: bool,
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Allocates a block of `1 << request.order` frames from one zone, whatever its marks say.
    ///
    /// `preferred` is the zone that the request would have liked best; NUMA counters compare the two. Of the request,
    /// its mobility, its order and `__GFP_KSWAPD_RECLAIM` count. The call never reclaims and never waits for another
    /// CPU's lists. Context: as [`Allocator::alloc`].
    ///
    /// # Errors
    /// The request makes no sense, or the zone has no such block.
    #[inline(always)]
    pub fn alloc_in(
        &self,
        zone: ZoneIdx,
        preferred: ZoneIdx,
        request: &Request,
        rights: Rights,
    ) -> Result<InZone, AllocError> {
        self.may_fail(request)?;
        if let Some(route) = self.route_in(zone, preferred, request, rights)
            && let Some(pfn) = self.fast.with(AllocIn { machine: self.machine(), route, zone })
        {
            return Ok(InZone { pfn: self.announced(pfn, request), boosts: false });
        }
        self.alloc_in_slow(zone, preferred, request, rights)
    }

    /// Takes a block from the list of the CPU to which `pin` pins the caller; `None` if that is not done at once.
    ///
    /// For an embedder that is pinned anyway, and makes ordinary requests of one mobility: the zone is of the node that
    /// the request prefers, a movable one may have CMA memory, and one above order 0 may not have the high-atomic
    /// reserve. Nothing has changed after `None`, and [`Allocator::alloc_in`] takes the request. With a constant order
    /// there is no call, except of the machine.
    #[inline(always)]
    pub fn alloc_listed(&self, pin: &M::Pin<'_>, zone: ZoneIdx, order: Order, mobility: MigrateType) -> Option<Pfn> {
        if self.machine().traces_calls() {
            return None;
        }
        let route = Route::listed(order, M::one_type(mobility), self.geometry().pageblock_order)?.in_zone(zone);
        self.machine().with_pinned(&self.fast, pin, AllocIn { machine: self.machine(), route, zone })
    }

    /// Returns the route of a request that takes from the CPU's list of a zone without a further look.
    #[inline(always)]
    fn route_in(&self, zone: ZoneIdx, preferred: ZoneIdx, request: &Request, rights: Rights) -> Option<Route> {
        let is_local = preferred.node() == zone.node();
        // The CPU's movable blocks may be of a pageblock of type CMA.
        let may_have_all = rights.cma || !matches!(M::mobility_of(request.gfp), MigrateType::Movable);
        // The reserve comes before the lists.
        let from_reserve = rights.highatomic && request.order.0 != 0;
        if !<M::PerCpu<FastPath<'a, M>>>::IS_KEPT || !is_local || !may_have_all || from_reserve {
            return None;
        }
        Some(Route::of::<M>(request, self.geometry().pageblock_order)?.in_zone(zone))
    }

    #[inline(never)]
    fn alloc_in_slow(
        &self,
        zone: ZoneIdx,
        preferred: ZoneIdx,
        request: &Request,
        rights: Rights,
    ) -> Result<InZone, AllocError> {
        let world = &self.world;
        if let Some(route) = self.route_in(zone, preferred, request, rights)
            && let Some(pfn) = self.fast.with_any(|fast| {
                let is_here = fast.is_route_in(route, zone);
                if is_here { fast.alloc_turned(self.machine(), &world.shared.frames, route) } else { None }
            })
        {
            return Ok(InZone { pfn: self.announced(pfn, request), boosts: false });
        }
        self.check(request)?;
        let rights = rights.of_request(M::mobility_of(request.gfp));
        let Some((zone, preferred)) = world.zone(zone).zip(world.zone(preferred)) else {
            return Err(AllocError::no_memory(Why::NoZone));
        };
        let from = ServedFrom { zone, preferred };
        let attempt = || world.pinned_now(|cx| world.alloc_in(cx, from, &world.plan(cx, request), rights));
        let tried = attempt().ok_or(AllocError::no_memory(Why::NoCpu))?;
        let frame = tried.or_else(|| {
            world.gather(zone, request.order, rights);
            attempt().flatten()
        });
        let boosts = zone.stat.take_note();
        match frame {
            Some(frame) => Ok(InZone { pfn: self.served(request, frame), boosts }),
            None => Err(AllocError::no_memory(if request.order.0 == 0 { Why::Watermark } else { Why::Fragmented })),
        }
    }

    /// Returns whether a zone has a free block of this order or larger for a request with these rights.
    ///
    /// A moment's view of the lengths of the zone's lists, without a lock.
    pub fn has_block_in(&self, zone: ZoneIdx, order: Order, rights: Rights) -> bool {
        self.world.zone(zone).is_some_and(|zone| self.world.has_block_for(zone, order, rights))
    }

    /// Returns the number of free blocks of this order and type in a zone, at this moment.
    pub fn free_blocks(&self, zone: ZoneIdx, order: Order, migratetype: MigrateType) -> u64 {
        self.world.zone(zone).map_or(0, |zone| zone.blocks_racy(&self.world.shared, order, migratetype).0)
    }

    /// Frees to a zone what its lists do not show, for an embedder that finds it below a mark; returns the frames.
    ///
    /// These are deferred frees, the depot and owned pageblocks. Blocks that were freed unmerged are merged until there
    /// is one of `order`. Blocks on CPUs' lists stay ([`Allocator::drain_all`]).
    pub fn gather(&self, zone: ZoneIdx, order: Order, rights: Rights) -> u64 {
        self.world.zone(zone).map_or(0, |zone| self.world.gather(zone, order, rights).0)
    }

    /// Compacts a zone until it has a free block of `order` or larger for a request with these rights.
    ///
    /// The zone keeps at least `keep` free frames, such as its min mark. `insists` is for a request for which memory
    /// was reclaimed already: ranges are emptied of which more than half is in use. Calls [`Machine::migrate`]. Does
    /// nothing where compaction is off, nothing can be moved, or the caller is in an interrupt.
    ///
    /// Context: not in an interrupt, no lock held.
    pub fn compact_in(&self, zone: ZoneIdx, order: Order, rights: Rights, keep: u64, insists: bool) -> Compacted {
        let world = &self.world;
        match world.zone(zone) {
            Some(zone) if world.compacts() && !self.machine().in_interrupt() => {
                let effort = if insists { Effort::Any } else { Effort::Worthwhile };
                let has_block = || world.has_block_for(zone, order, rights);
                // Frames that were freed by moves may be in the depot, or unmerged.
                let gathered = || {
                    world.gather(zone, order, rights);
                    has_block()
                };
                world.compact_zone(zone, order, keep, effort, || has_block() || gathered())
            }
            _ => Compacted::default(),
        }
    }

    /// Turns a pageblock of a zone's high-atomic reserve into one of `migratetype`; returns whether there was one.
    ///
    /// One with a free block of `order` is preferred.
    pub fn unreserve_highatomic(&self, zone: ZoneIdx, order: Order, migratetype: MigrateType) -> bool {
        let world = &self.world;
        let Some(zone) = world.zone(zone) else { return false };
        world.pinned(|cx| zone.lock(cx).unreserve_highatomic(migratetype, order)) == Some(true)
    }

    /// Frees an allocated block, or a part of one: the rest stays allocated.
    ///
    /// A block of exactly this order costs what [`Allocator::free`] does.
    ///
    /// # Errors
    /// As [`Allocator::free_range`].
    #[inline(always)]
    pub fn free_part(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if self.free_fast(pfn, order) { Ok(()) } else { self.free_part_slow(pfn, order) }
    }

    /// Returns whether [`Allocator::alloc_listed`] and [`Allocator::free_listed`] ever serve.
    ///
    /// They do not where a mechanism asks something of every request, or the machine keeps no value of each CPU.
    pub fn serves_listed(&self) -> bool {
        <M::PerCpu<FastPath<'a, M>>>::IS_KEPT && self.world.shared.cpus.iter().any(Cpu::has_fast_path)
    }

    /// Frees a block to a list of the CPU to which `pin` pins the caller; false if that is not done at once.
    ///
    /// For an embedder that is pinned anyway. Nothing has changed after false, and [`Allocator::free_part`] frees the
    /// block or names the error.
    #[inline(always)]
    pub fn free_listed(&self, pin: &M::Pin<'_>, pfn: Pfn, order: Order) -> bool {
        self.machine().with_pinned(&self.fast, pin, FreeAt { machine: self.machine(), pfn, order }).is_some()
    }

    #[inline(never)]
    fn free_part_slow(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let frames = &self.world.shared.frames;
        let is_whole = frames.frame(pfn).is_some_and(|frame| frames.head(frame).is_allocated_of(order));
        if is_whole {
            return Allocator::free_cached_or_slow(pfn, self, order);
        }
        if order > self.geometry().max_order || !pfn.is_aligned(order) {
            self.world.shared.events.count(GlobalEvent::BadFree);
            return Err(FreeError::BadRange(PfnRange::block(pfn, order)));
        }
        self.free_range(PfnRange::block(pfn, order))
    }

    /// Keeps the free blocks of the pageblock around `pfn` from all requests; returns whether it does.
    ///
    /// Each call has its [`Allocator::unisolate`]. Blocks that are freed into the pageblock meanwhile are kept too.
    /// [`Allocator::validate`] reports the pageblock meanwhile (I1).
    pub fn isolate(&self, pfn: Pfn) -> bool {
        self.at_pageblock(pfn, |guard, frame| guard.isolate(frame, false))
    }

    /// Ends one [`Allocator::isolate`]; after the last, the pageblock has its type again.
    pub fn unisolate(&self, pfn: Pfn) {
        self.at_pageblock(pfn, |guard, frame| {
            guard.unisolate(frame);
            true
        });
    }

    fn at_pageblock(&self, pfn: Pfn, change: impl FnOnce(&ZoneGuard<'_, 'a, M>, Frame) -> bool) -> bool {
        let world = &self.world;
        let Some(frame) = world.shared.frames.frame(pfn) else { return false };
        let Some(zone) = world.zone_of(frame) else { return false };
        world.pinned(|cx| change(&zone.lock(cx), frame)) == Some(true)
    }

    /// Allocates the block of `order` at `pfn` if it is free as it stands, in an isolated pageblock too.
    ///
    /// It may be a part of a larger free block. Context: as [`Allocator::alloc`].
    pub fn take_free(&self, pfn: Pfn, order: Order) -> bool {
        let is_block = order <= self.geometry().max_order && pfn.is_aligned(order);
        M::FEATURES.mobility && is_block && self.world.alloc_free_block(pfn, order, false, true).is_some()
    }
}
