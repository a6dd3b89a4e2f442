//! Draining: frees cached frames to the free lists of their zone.
//!
//! Free frames lie in five places besides those lists. Each has one function here that empties it:
//!
//! | place | emptied by |
//! |---|---|
//! | a CPU's lists of the zone | [`World::drain_lists`], by a claim (`pcp.rs`) |
//! | the zone's depot | [`World::drain_depot`], a magazine at a time |
//! | pageblocks that CPUs own | [`World::drain_owned`] |
//! | the zone's list of deferred frees | [`World::drain_deferred`] |
//! | free lists, in blocks that were not merged | [`World::merge_skipped`] (`deferred_merge.rs`) |
//!
//! Together they keep a promise: **no request fails while frames that it may use lie free in one of these places.** A
//! request that found nothing drains the zones that it may use and tries again ([`World::drain_for`],
//! [`World::cached_for`]). A request that may not wait does so too. It tries each CPU's lists once, and goes on without
//! those whose owner is inside an operation.
//!
//! The zone lock is held for a batch at a time. The cost is a look at each CPU's lists, two heavy fences for each that
//! holds something, and the merging of the cached blocks. Only requests that would fail pay it.
//!
//! Rejected: lists that stay closed while memory is short, so that all frees go to the zone. A pool that is kept full
//! would then pay for the zone lock in every operation, for ever.

use crate::buddy::buddy::Place;
use crate::frame::head::Head;
use crate::free_path::free_batch::{BATCH, Block, FreeBatch};
use crate::free_path::free_path::{collect, free_batch, unlist};
use crate::pcp::pcp::{Claim, Pcp};
use crate::pcp::shard::Shard;
use crate::policy::watermark::AllocFlags;
use crate::seam::compiled::Compiled;
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::types::counts::{BlockCount, FrameCount};
use crate::types::units::{CpuId, Frame, Order};
use crate::types::why::Shortage;
use crate::zone::release_owned::release_owned;
use crate::zone::zone::Zone;
use crate::zone::zone_guard::ZoneGuard;
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

/// Frames assumed to be in motion while a list is held.
///
/// More than any holder moves at once.
const MOVING: FrameCount = FrameCount(1 << 20);

/// The cached frames of the zones that a request may use, at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cached {
    /// Frames on per-CPU lists and in depots.
    ///
    /// More than that while the other places may hold frames.
    frames: FrameCount,
    /// Blocks and frames that went through the per-CPU lists so far.
    traffic: u64,
    /// The marks would permit the request if all cached frames were in the zones.
    helps: bool,
}

impl Cached {
    /// Whether a drain may help the request.
    pub(crate) fn helps(self) -> bool {
        self.helps && !self.frames.is_zero()
    }

    /// Whether an attempt between `before` and `self` failed rightly.
    ///
    /// True if nothing went through any list between the two moments, and nothing cached could help.
    pub(crate) fn helped_nothing_since(self, before: Cached) -> bool {
        self == before && !self.helps()
    }
}

impl<'a, M: Machine> World<'a, M> {
    /// Frees all cached frames to their zones, merges them, and returns their number.
    pub(crate) fn drain_all(&self) -> FrameCount {
        let drained = self.drain_unmerged();
        self.zones.iter().for_each(|zone| self.merge_skipped(zone, || false));
        drained
    }

    /// Like [`World::drain_all`], but leaves blocks unmerged that were freed unmerged.
    pub(crate) fn drain_unmerged(&self) -> FrameCount {
        self.zones.iter().map(|zone| self.drain_zone(zone, Claim::Wait)).sum()
    }

    /// Frees all cached frames of the zones that a request may use.
    ///
    /// Also merges unmerged blocks if the request wants more than a page.
    pub(crate) fn drain_for(&self, plan: &Plan, claim: Claim) {
        for zone in self.all_zones(plan) {
            self.drain_zone(zone, claim);
        }
        if plan.order.0 != 0 {
            self.merge_all_for(plan);
        }
    }

    /// Merges all unmerged blocks in the zones that a request may use.
    pub(crate) fn merge_all_for(&self, plan: &Plan) {
        if !M::MAY_SKIP {
            return;
        }
        for zone in self.all_zones(plan) {
            self.merge_skipped(zone, || false);
        }
    }

    /// Returns what is cached of the zones that a request with these flags may use.
    pub(crate) fn cached_for(&self, plan: &Plan, alloc_flags: AllocFlags) -> Cached {
        // A boost yields first to a request that would fail otherwise.
        let alloc_flags = AllocFlags { unboosted: true, ..alloc_flags };
        let mut all = Cached::default();
        for zone in self.all_zones(plan) {
            let Cached { frames, traffic, .. } = self.cached_in(zone);
            let helps = zone.could_take_racy(&self.shared, plan.order, plan.highest, alloc_flags, frames);
            all.frames = all.frames.plus(frames);
            all.traffic = all.traffic.wrapping_add(traffic);
            all.helps |= helps && !frames.is_zero();
        }
        all
    }

    /// Whether cached or unmerged blocks of a zone may help a request.
    ///
    /// Looks at no more lists than the answer needs.
    pub(crate) fn may_help(&self, zone: &Zone<M>, plan: &Plan, alloc_flags: AllocFlags) -> bool {
        let is_unmerged = plan.order.0 != 0 && !zone.count.skipped_racy().is_zero();
        let could = |frames| zone.could_take_racy(&self.shared, plan.order, plan.highest, alloc_flags, frames);
        let mut cached = self.cached_behind(zone);
        if (!cached.is_zero() || is_unmerged) && could(cached) {
            return true;
        }
        let pageblock_order = self.shared.frames.geometry.pageblock_order;
        self.lists_of(zone).any(|pcp| {
            let listed = FrameCount(u64::from(pcp.count_racy(pageblock_order))).plus(self.moving(pcp));
            cached = cached.plus(listed);
            !listed.is_zero() && could(cached)
        })
    }

    fn cached_in(&self, zone: &Zone<M>) -> Cached {
        let pageblock_order = self.shared.frames.geometry.pageblock_order;
        let mut cached = Cached::default();
        for pcp in self.lists_of(zone) {
            let (frames, traffic) = pcp.look_racy(pageblock_order);
            cached.frames = cached.frames.plus(self.moving(pcp)).plus(FrameCount(frames));
            cached.traffic = cached.traffic.wrapping_add(traffic);
        }
        cached.frames = cached.frames.plus(self.cached_behind(zone));
        cached
    }

    /// Returns every CPU's lists of a zone.
    fn lists_of(&self, zone: &Zone<M>) -> impl Iterator<Item = &Pcp<M>> {
        self.cpus().filter_map(|cpu| {
            self.shared.machine.step(Step::DrainCount);
            self.pcps.record(cpu, zone.idx.index())
        })
    }

    /// Returns an upper bound of the frames that a holder may be moving.
    ///
    /// They are on their way to lists or from them.
    ///
    /// The caller reads this after the lists. A holder that has left by then has put its frames where the next attempt
    /// finds them.
    fn moving(&self, pcp: &Pcp<M>) -> FrameCount {
        // ORDER: full fence. An empty list may mean that it is held, and its holder set its flag before; partner: the
        // light fence in `Pcp::enter`, and that of a claim. Model: reach_freed_plain.
        self.shared.machine.fence();
        if pcp.is_held_racy() { MOVING } else { FrameCount::ZERO }
    }

    /// Returns the cached frames of a zone that are not on per-CPU lists.
    ///
    /// An upper bound while some may be in motion.
    fn cached_behind(&self, zone: &Zone<M>) -> FrameCount {
        let stored: FrameCount = self.pcps.depots.of(zone).iter().map(Shard::cached_racy).sum();
        let owned = zone.count.owned_racy().frames(self.shared.frames.geometry.pageblock_order);
        let deferred = if zone.deferred.is_empty() { FrameCount::ZERO } else { MOVING };
        stored.plus(owned).plus(deferred)
    }

    /// Returns what memory there is for a request that failed, at this moment.
    ///
    /// Takes no lock. Frames in motion are not counted, nor deferred frees.
    pub(crate) fn shortage(&self, plan: &Plan) -> Shortage {
        let free = |zone: &Zone<M>| FrameCount(zone.memory_exact(&self.shared).free);
        let of_request: FrameCount = self.all_zones(plan).map(free).sum();
        let of_all: FrameCount = self.zones.iter().map(free).sum();
        let cached: FrameCount = self.all_zones(plan).map(|zone| self.counted_in(zone)).sum();
        Shortage::new(of_request.0, cached.0, of_all.minus(of_request).0)
    }

    /// Returns the frames that are cached of a zone, without those in motion.
    fn counted_in(&self, zone: &Zone<M>) -> FrameCount {
        let frames = &self.shared.frames;
        let pageblock_order = frames.geometry.pageblock_order;
        let listed = self.lists_of(zone).map(|pcp| FrameCount(u64::from(pcp.count_racy(pageblock_order)))).sum();
        let stored = self.pcps.depots.of(zone).iter().map(|shard| FrameCount(u64::from(shard.frames_racy()))).sum();
        if zone.count.owned_racy().is_zero() {
            return FrameCount::plus(listed, stored);
        }
        let owned = frames.owned.starts().filter(|&start| frames.pageblock(start).zone() == Some(zone.idx));
        let bits = owned.flat_map(|start| frames.owned.words(start));
        let free = bits.map(|(_, word)| u64::from(word.load(Ordering::Relaxed).count_ones()));
        BlockCount(free.fold(0, u64::saturating_add)).frames(frames.owned.unit()).plus(listed).plus(stored)
    }

    /// Returns every CPU.
    fn cpus(&self) -> impl Iterator<Item = CpuId> + use<M> {
        (0..self.shared.cpus.len().min(usize::from(u16::MAX)) as u16).map(CpuId)
    }

    /// Frees all cached frames of a zone to it and returns their number.
    ///
    /// Merges no blocks that were left unmerged.
    fn drain_zone(&self, zone: &Zone<M>, claim: Claim) -> FrameCount {
        // Owned pageblocks come first, so that blocks from the lists are freed to the zone.
        let owned = self.drain_owned(zone);
        let listed = self.cpus().map(|cpu| self.drain_lists(cpu, zone, claim)).fold(owned, FrameCount::plus);
        listed.plus(self.drain_depot(zone)).plus(self.drain_deferred(zone))
    }

    /// Frees all cached frames of a zone to it, from any context.
    ///
    /// Merges them for a request of more than a page. Never waits, and skips everything that another party is using.
    /// All of it happens under one lock.
    ///
    /// Caller holds: zone lock.
    pub(crate) fn drain_nolock(&self, guard: &ZoneGuard<'_, 'a, M>, order: Order) {
        let (shared, zone) = (&self.shared, guard.zone);
        for _ in 0..=shared.frames.heads.len() {
            if zone.deferred.is_empty() {
                break;
            }
            guard.free_deferred();
        }
        for start in shared.frames.owned.starts() {
            let is_owned = shared.frames.owned.owner(start).is_some();
            if is_owned && shared.frames.pageblock(start).zone() == Some(zone.idx) {
                release_owned(&guard.buddy(), start, BlockCount::ALL);
            }
        }
        let give = |frame: Frame, order: Order| {
            if shared.frames.head(frame) == Head::pcp(order) && unlist(shared, Block::new(frame, order)) {
                guard.free(frame, order, Place::Warm);
            }
        };
        for cpu in self.cpus() {
            self.pcps.drain_nolock(shared, cpu, zone, give);
        }
        for shard in self.pcps.depots.of(zone) {
            self.pcps.depots.drain_nolock(&shared.machine, shard, |frame, ring| give(frame, ring.order));
        }
        guard.account();
        if order.0 != 0 && !zone.count.skipped_racy().is_zero() {
            let pageblocks = shared.frames.pageblocks.len() as u32;
            let starts = (0..pageblocks).map(|number| Frame(number << shared.frames.geometry.pageblock_order.0));
            for start in starts.filter(|&start| shared.frames.pageblock(start).zone() == Some(zone.idx)) {
                guard.merge_skipped(start, start.add(shared.frames.geometry.pageblock_order.frames()));
            }
            guard.account();
        }
    }

    /// Frees the deferred frees of a zone to it; returns the number of frames.
    pub(crate) fn drain_deferred(&self, zone: &Zone<M>) -> FrameCount {
        let freed = if zone.deferred.is_empty() { None } else { self.pinned(|cx| zone.free_deferred(cx)) };
        freed.unwrap_or_default()
    }

    /// Drains this CPU's lists and the depots of these zones, so that the zones see what the CPU freed.
    pub(crate) fn see_freed<'z>(&self, zones: impl Iterator<Item = &'z Zone<M>>)
    where
        M: 'z,
    {
        if let Some(cpu) = self.pinned(|cx| cx.cpu) {
            self.drain_cpu(cpu);
        }
        zones.for_each(|zone| {
            self.drain_depot(zone);
        });
    }

    /// Frees every block in a zone's depot to the zone; returns the number of frames.
    pub(crate) fn drain_depot(&self, zone: &Zone<M>) -> FrameCount {
        let mut drained = FrameCount::ZERO;
        let depots = &self.pcps.depots;
        for shard in depots.of(zone).iter().filter(|shard| !shard.cached_racy().is_zero()) {
            // Other CPUs may keep adding magazines: the loop ends after the number that exist.
            for _ in depots.magazines {
                let more = self.pinned(|cx| {
                    depots.drain(cx, shard, |magazine, ring| {
                        let mut batch = FreeBatch::new();
                        depots.each_of(magazine, |frame| {
                            if batch.room() == 0 {
                                free_batch(cx, zone, &mut batch);
                            }
                            drained = drained.plus(FrameCount::of_block(ring.order));
                            collect(&self.shared, &mut batch, frame, ring.order);
                        });
                        free_batch(cx, zone, &mut batch);
                    })
                });
                if more != Some(true) {
                    break;
                }
            }
        }
        drained
    }

    /// Takes all pageblocks of a zone from their owners; returns their number of free frames.
    pub(crate) fn drain_owned(&self, zone: &Zone<M>) -> FrameCount {
        self.release_owned(zone, |_, _| true, || false)
    }

    /// Takes the wanted pageblocks of a zone from their owners, until there is enough.
    ///
    /// Returns the number of frames that were free in them.
    pub(crate) fn release_owned(
        &self,
        zone: &Zone<M>,
        wanted: impl Fn(Frame, CpuId) -> bool,
        is_enough: impl Fn() -> bool,
    ) -> FrameCount {
        let frames = &self.shared.frames;
        let mut disowned = FrameCount::ZERO;
        for start in frames.owned.starts() {
            if zone.count.owned_racy().is_zero() {
                break;
            }
            let is_wanted = frames.owned.owner(start).is_some_and(|owner| wanted(start, owner))
                && frames.pageblock(start).zone() == Some(zone.idx);
            if !is_wanted {
                continue;
            }
            if is_enough() {
                break;
            }
            // A batch at a time, so that the zone lock is never held for long.
            while let Some(some) =
                self.pinned(|cx| release_owned(&zone.lock(cx).buddy(), start, BlockCount(BATCH as u64)))
            {
                disowned = disowned.plus(some.frames);
                if some.done {
                    break;
                }
            }
        }
        disowned
    }

    /// Frees every block on one CPU's lists, and the pageblocks that the CPU owns.
    ///
    /// Returns the number of frames.
    pub(crate) fn drain_cpu(&self, cpu: CpuId) -> FrameCount {
        let zones = self.zones.iter().map(|zone| {
            let owned = self.release_owned(zone, |_, owner| owner == cpu, || false);
            owned.plus(self.drain_lists(cpu, zone, Claim::Wait))
        });
        zones.sum()
    }

    /// Frees every block on one CPU's lists of a zone; returns the number of frames.
    ///
    /// A block is freed to the zone, or to the owner of its pageblock. A CPU that does not leave its lists in time
    /// keeps its blocks.
    fn drain_lists(&self, cpu: CpuId, zone: &Zone<M>, claim: Claim) -> FrameCount {
        if !zone.is_populated() {
            return FrameCount::ZERO;
        }
        self.shared.machine.step(Step::Drain);
        let Some(pcp) = self.pcps.record(cpu, zone.idx.index()) else { return FrameCount::ZERO };
        if pcp.rules().has_depot {
            self.shared.machine.step(Step::DrainCount);
        }
        // Held lists may look empty while their frames are in motion. Waiting for the end of that is enough. If drains
        // that run at once claimed each other's empty lists, they would keep each other busy.
        pcp.wait_for_holder(&self.shared.machine, claim);
        if pcp.count_racy(self.shared.frames.geometry.pageblock_order) == 0 {
            return FrameCount::ZERO;
        }
        let drained = self.pinned(|cx| self.pcps.claim(cx, cpu, zone, claim).map_or(0, |pcp| pcp.drain_all()));
        FrameCount(drained.unwrap_or(0))
    }
}
