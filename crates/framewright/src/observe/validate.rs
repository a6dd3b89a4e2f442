//! Validation: checks every numbered invariant.
//!
//! Reports the first violation by the invariant's number. Context: a quiescent point, no other call in progress. In a
//! live system a violation may be that of a moment only.
//!
//! Cost: every descriptor, list and ring is read once.
//!
//! | number | invariant |
//! |---|---|
//! | B1 | a block is on list (order, type) ⇔ its state is free with this order and type |
//! | B2 | a list's length is the number of blocks on it |
//! | B3 | neighbours on a list name each other |
//! | B4 | a zone's counts of free, CMA, high-atomic and isolated frames are those of its lists |
//! | B5 | a free block is on the list of its pageblocks' type, and in one zone (exception: below) |
//! | B6 | no two free buddies have the same type and zone (exceptions: below) |
//! | B7 | a zone's count of blocks marked "merge skipped" is right |
//! | C1 | the check runs in no interrupt; in one, nothing else is checked |
//! | C2 | the check has a CPU, and can take every CPU's lists: no call is in progress |
//! | F1 | blocks do not overlap: no block starts inside another |
//! | F2 | a block is aligned to its order |
//! | P1 | every entry of a per-CPU list is a per-CPU block of the list's order, in the list's zone |
//! | P2 | a CPU's frame count is that of its rings; every per-CPU block is in exactly one ring or magazine |
//! | P3 | with a depot, a CPU's lists of a zone hold at most `high` frames, or one block that waits |
//! | D1 | every block in a depot is a per-CPU block of its magazine's order, in the depot's zone |
//! | D2 | a shard's count of frames is that of its full magazines |
//! | N1 | every block on a zone's list of deferred frees is in the zone, is being freed, and is on it once |
//! | I1 | no pageblock is isolated, and no zone keeps merging switched on (reason: below) |
//! | O1 | a frame in the free bitmap starts no block; its pageblock has an owner, a CPU that exists |
//! | O2 | no frame of an owned pageblock is on a free list; a zone's count of owned pageblocks is right |
//! | U1 | an uninitialised section is movable, in one zone, and no head is set in it; a zone's count of them is right |
//! | Z1 | present = free + isolated + per-CPU + allocated + offline + quarantined + in flight |
//! | Z2 | the high-atomic reserve is the frames of pageblocks of that type |
//! | Z3 | a zone's boost is at most what its marks allow |
//! | S1 | hit + miss = local + other = allocations (exception: below); sum of foreign = sum of miss |
//! | S2 | frames ever allocated − frames ever freed = frames allocated now, and in flight |
//! | S3 | what a CPU keeps of a counter is within its threshold |
//! | S4 | the total of free frames is the sum over all zones; that of a node counter, over all nodes |
//!
//! C1 and C2 say that the allocator is not at rest ([`Violation::is_of_the_moment`]). Then nothing is known of the
//! others, and the check may be made again.
//!
//! - B5: with `hygiene=loose`, a block smaller than a pageblock may be on the list of another type that requests ask
//!   for.
//! - B6: two buddies may stay apart if one is marked "merge skipped". Above the pageblock order, two buddies of
//!   different types may be waiting for a free.
//! - I1: a caller that allocates a range undoes both, and at a quiescent point no such caller exists. An embedder's own
//!   isolation ([`Allocator::isolate`]) is reported as long as it lasts.
//! - S1: the counters are less than the allocations if they were not always on.

use crate::api::allocator::Allocator;
use crate::frame::frame::Part;
use crate::frame::head::Head;
use crate::frame::state::Kind;
pub use crate::observe::violation::Violation;
use crate::observe::violation::{equal, not_at_rest};
use crate::pcp::pcp::Claim;
use crate::policy::mechanisms::Hygiene;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::shared::CallCx;
use crate::stat::vmstat::ZoneEvent;
use crate::types::counts::BlockCount;
use crate::types::migratetype::MigrateType;
use crate::types::units::{CpuId, Frame, Order};
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

impl<M: Machine> Allocator<'_, M> {
    /// Checks every numbered invariant; see [`crate::observe::validate`].
    ///
    /// Context: no other call in progress, on any CPU, and no task preempted within one.
    ///
    /// # Errors
    /// The first invariant found violated.
    pub fn validate(&self) -> Result<FrameCounts, Violation> {
        validate(self.world())
    }
}

/// Number of frames in each state: `present` is the sum of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameCounts {
    /// Frames that are memory.
    pub present: u64,
    /// On free lists that requests may use.
    pub free: u64,
    /// On per-CPU lists.
    pub pcp: u64,
    /// Allocated.
    pub allocated: u64,
    /// On the free lists of isolated pageblocks.
    pub isolated: u64,
    /// Freed while its zone was locked ([`crate::Allocator::free_nolock`]), and not back in the zone yet.
    pub in_flight: u64,
    /// Quarantined because their descriptors were damaged.
    pub quarantined: u64,
    /// Withheld: reserved at boot or taken offline.
    pub offline: u64,
}

impl FrameCounts {
    /// Returns whether every frame is in some state: the conservation equation.
    pub fn is_conserved(&self) -> bool {
        let parts =
            [self.free, self.pcp, self.allocated, self.isolated, self.in_flight, self.quarantined, self.offline];
        parts.iter().fold(0_u64, |sum, part| sum.saturating_add(*part)) == self.present
    }

    fn add(&mut self, other: &FrameCounts) {
        self.present = self.present.saturating_add(other.present);
        self.free = self.free.saturating_add(other.free);
        self.pcp = self.pcp.saturating_add(other.pcp);
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.isolated = self.isolated.saturating_add(other.isolated);
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        self.quarantined = self.quarantined.saturating_add(other.quarantined);
        self.offline = self.offline.saturating_add(other.offline);
    }
}

/// Checks a whole allocator.
pub(crate) fn validate<M: Machine>(world: &World<'_, M>) -> Result<FrameCounts, Violation> {
    let mut total = FrameCounts::default();
    let mut foreign = 0_u64;
    let mut miss = 0_u64;
    let mut told = 0_u64;
    // The check waits for other CPUs' lists; in an interrupt it could wait for the list user that it interrupted.
    equal("C1", None, 0, u64::from(world.shared.machine.in_interrupt()))?;
    for zone in world.zones {
        let (mut census, cached, skipped) = frames_of(world, zone)?;
        equal("B7", None, skipped, zone.count.skipped_racy().0)?;
        lists_of(world, zone)?;
        deferred_of(world, zone, &mut census)?;
        let (rings, entries) = world.pinned(|cx| rings_of(world, cx, zone)).unwrap_or_else(not_at_rest)?;
        equal("P2", None, census.pcp, rings)?;
        equal("P2", None, cached, entries)?;
        counts_of(world, zone, &census)?;
        let numa = numa_stat_of(world, zone, census.allocated.saturating_add(census.in_flight))?;
        foreign = foreign.wrapping_add(numa.1);
        miss = miss.wrapping_add(numa.0);
        told = told.wrapping_add(zone.stat.free().load(Ordering::Relaxed));
        total.add(&census);
    }
    equal("S1", None, miss, foreign)?;
    if world.shared.mechanisms().keeps_deltas() {
        equal("S4", None, told, world.shared.stats.free_told())?;
    }
    equal("S3", None, 1, u64::from(world.shared.node_stats.is_within()))?;
    world.shared.node_stats.sums().try_for_each(|(all, told)| equal("S4", None, told, all))?;
    if total.is_conserved() {
        Ok(total)
    } else {
        Err(Violation { invariant: "Z1", pfn: None, expected: total.present, found: 0 })
    }
}

/// Returns a frame's number, so that the sum of such numbers identifies a set.
///
/// Two sets with the same sum are the same set, as far as a sum can tell.
fn mark(frame: Frame) -> u64 {
    let mixed = u64::from(frame.0).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Counts a zone's frames by state, block by block: F1, F2, B5, B6.
///
/// Returns the counts, the sum of the marks of per-CPU blocks, and the number of free blocks whose merge was skipped.
fn frames_of<M: Machine>(world: &World<'_, M>, zone: &Zone<M>) -> Result<(FrameCounts, u64, u64), Violation> {
    let frames = &world.shared.frames;
    let pageblock = frames.geometry.pageblock_order;
    let mut census = FrameCounts { present: zone.present.load(Ordering::Relaxed), ..FrameCounts::default() };
    let mut reserved = 0_u64;
    let mut cached = 0_u64;
    let mut skipped = 0_u64;
    let mut uninit = 0_u64;
    let mut covered = Frame(0);
    for index in 0..frames.pageblocks.len() {
        let start = Frame((index as u32) << pageblock.0);
        let word = frames.pageblock(start);
        if word.zone() != Some(zone.idx) {
            continue;
        }
        equal("I1", Some(frames.pfn(start)), 0, u64::from(word.migratetype() == MigrateType::Isolate))?;
        if word.restored() == MigrateType::HighAtomic {
            reserved = reserved.saturating_add(pageblock.frames());
        }
        let end = start.add(pageblock.frames());
        if frames.is_uninit(start) {
            uninit = uninit.saturating_add(pageblock.frames());
            uninit_pageblock(world, start)?;
            continue;
        }
        let mut at = start.max(covered);
        while at < end {
            at = match frames.block_at(at) {
                Some(part) => {
                    match part {
                        Part::Pcp(..) if frames.head(at).is_going() => {}
                        Part::Pcp(..) => cached = cached.wrapping_add(mark(at)),
                        Part::Free(..) if frames.state(at).is_skipped() => skipped = skipped.saturating_add(1),
                        _ => {}
                    }
                    block(world, zone, at, part, &mut census)?
                }
                None => at.add(1),
            };
        }
        covered = at.max(covered);
    }
    let counted = BlockCount(u64::from(zone.uninit_racy(&world.shared))).frames(frames.geometry.max_order);
    equal("U1", None, uninit, counted.0)?;
    census.free = census.free.saturating_add(uninit);
    equal("I1", None, 0, u64::from(zone.clusters.is_disabled()))?;
    equal("Z2", None, reserved, zone.highatomic_reserved.load(Ordering::Relaxed))?;
    boost_of(world, zone)?;
    Ok((census, cached, skipped))
}

/// Checks a pageblock of an uninitialised section: U1.
fn uninit_pageblock<M: Machine>(world: &World<'_, M>, start: Frame) -> Result<(), Violation> {
    let frames = &world.shared.frames;
    let (word, pfn) = (frames.pageblock(start), Some(frames.pfn(start)));
    equal("U1", pfn, MigrateType::Movable as u64, word.migratetype() as u64)?;
    let section = frames.pageblock(start.align_down(frames.geometry.max_order));
    equal("U1", pfn, 1, u64::from(section.is_uninit() && section.same_zone(word)))?;
    let mut heads = (start.0..start.add(frames.geometry.pageblock_order.frames()).0).map(Frame);
    equal("U1", pfn, 1, u64::from(heads.all(|frame| frames.head(frame).is_none())))
}

/// Checks a zone's boost: Z3.
fn boost_of<M: Machine>(world: &World<'_, M>, zone: &Zone<M>) -> Result<(), Violation> {
    let boost = zone.stat.boost();
    equal("Z3", None, boost, boost.min(zone.most_boost(&world.shared)))
}

/// Checks one block and returns the frame after it.
fn block<M: Machine>(
    world: &World<'_, M>,
    zone: &Zone<M>,
    at: Frame,
    part: Part,
    census: &mut FrameCounts,
) -> Result<Frame, Violation> {
    let frames = &world.shared.frames;
    let pfn = Some(frames.pfn(at));
    let end = part.end(at);
    let count = u64::from(end.0.wrapping_sub(at.0));
    equal("F2", pfn, 0, u64::from(at.0) & count.wrapping_sub(1))?;
    if !matches!(part, Part::Free(..)) {
        equal("F1", pfn, 0, u64::from(frames.state(at).as_free().is_some()))?;
    }
    let mut inner = at.add(1);
    while inner < end {
        equal("F1", Some(frames.pfn(inner)), 0, u64::from(frames.block_at(inner).is_some()))?;
        inner = inner.add(1);
    }
    let counter = match part {
        Part::Free(_, order) => {
            free_block(world, zone, at, order)?;
            match frames.state(at).migratetype() {
                MigrateType::Isolate => &mut census.isolated,
                _ => &mut census.free,
            }
        }
        Part::Pcp(..) if frames.head(at).is_going() => &mut census.in_flight,
        Part::Pcp(..) => &mut census.pcp,
        Part::Allocated(..) => &mut census.allocated,
        Part::Offline(..) => &mut census.offline,
        Part::Quarantined(..) => &mut census.quarantined,
        Part::Hole => return Ok(end),
    };
    *counter = counter.saturating_add(count);
    Ok(end)
}

/// Checks a free block: B5 and B6.
fn free_block<M: Machine>(world: &World<'_, M>, zone: &Zone<M>, at: Frame, order: Order) -> Result<(), Violation> {
    let frames = &world.shared.frames;
    let pfn = Some(frames.pfn(at));
    let migratetype = frames.state(at).migratetype();
    let pageblock_order = frames.geometry.pageblock_order;
    let is_loose = world.shared.mechanisms().hygiene == Hygiene::Loose && order < pageblock_order;
    let mut inner = at;
    while inner < at.add(order.frames()) {
        let word = frames.pageblock(inner);
        equal("B5", pfn, zone.idx.index() as u64, word.zone().map_or(u64::MAX, |idx| idx.index() as u64))?;
        let types = (word.migratetype(), migratetype);
        if !(is_loose && types.0.is_mergeable() && types.1.is_mergeable()) {
            equal("B5", pfn, types.0 as u64, types.1 as u64)?;
        }
        inner = inner.add(pageblock_order.frames());
    }
    let buddy = at.buddy(order);
    if order < frames.geometry.max_order
        && let Some((free, other)) = frames.state(buddy).as_free()
    {
        let same_zone = frames.pageblock(at).same_zone(frames.pageblock(buddy));
        let is_known = frames.state(at).is_skipped() || frames.state(buddy).is_skipped();
        let may = order < pageblock_order || (same_zone && other == migratetype);
        equal("B6", pfn, 0, u64::from(free == order && may && !is_known))?;
    }
    Ok(())
}

/// Walks the lists: B1 to B3.
fn lists_of<M: Machine>(world: &World<'_, M>, zone: &Zone<M>) -> Result<(), Violation> {
    let frames = &world.shared.frames;
    for order in Order(0).up_to(Order::LIMIT) {
        for migratetype in MigrateType::ALL {
            let len = zone.lists.len_racy(order, migratetype);
            let mut found = BlockCount::ZERO;
            let mut at = zone.lists.first(order, migratetype);
            let mut last = None;
            while let Some(frame) = at {
                let pfn = Some(frames.pfn(frame));
                equal("B2", pfn, len.0, len.max(found.plus(BlockCount::ONE)).0)?;
                equal("B1", pfn, 1, u64::from(frames.state(frame).as_free() == Some((order, migratetype))))?;
                equal("B1", pfn, 1, u64::from(frames.pageblock(frame).zone() == Some(zone.idx)))?;
                equal("B3", pfn, 1, u64::from(zone.lists.prev(frames, frame) == last))?;
                found = found.plus(BlockCount::ONE);
                last = at;
                at = zone.lists.next(frames, frame);
            }
            equal("B2", None, len.0, found.0)?;
            equal("B3", None, 1, u64::from(zone.lists.last(order, migratetype) == last))?;
        }
    }
    Ok(())
}

/// Walks the list of deferred frees: N1.
///
/// A block that is being freed and is not on the list still belongs to its owner.
fn deferred_of<M: Machine>(world: &World<'_, M>, zone: &Zone<M>, census: &mut FrameCounts) -> Result<(), Violation> {
    let frames = &world.shared.frames;
    let mut deferred = 0_u64;
    for frame in zone.deferred.each(frames) {
        let fits = frames.head(frame).is_going() && frames.pageblock(frame).zone() == Some(zone.idx);
        equal("N1", Some(frames.pfn(frame)), 1, u64::from(fits))?;
        deferred = deferred.saturating_add(frames.head(frame).order().frames());
        // If the sum exceeds the frames in flight, the links form a cycle.
        equal("N1", Some(frames.pfn(frame)), deferred.min(census.in_flight), deferred)?;
    }
    census.allocated = census.allocated.saturating_add(census.in_flight.saturating_sub(deferred));
    census.in_flight = deferred;
    Ok(())
}

/// Walks every CPU's rings (P1, P2, P3) and the depots (D1, D2).
///
/// Returns the number of frames in them and the sum of the blocks' marks.
fn rings_of<M: Machine>(world: &World<'_, M>, cx: CallCx<'_, '_, M>, zone: &Zone<M>) -> Result<(u64, u64), Violation> {
    let frames = &world.shared.frames;
    let mut total = 0_u64;
    let mut entries = 0_u64;
    for cpu in 0..world.shared.cpus.len().min(usize::from(u16::MAX)) as u16 {
        let Some(record) = world.pcps.record(CpuId(cpu), zone.idx.index()) else { continue };
        let mut sum = 0_u64;
        let mut wrong = None;
        let Ok(guard) = world.pcps.claim(cx, CpuId(cpu), zone, Claim::Wait) else { return not_at_rest() };
        equal("P2", None, 1, u64::from(guard.fits()))?;
        guard.entries(|frame, order| {
            sum = sum.saturating_add(order.frames());
            entries = entries.wrapping_add(mark(frame));
            let fits = frames.head(frame) == Head::pcp(order) && frames.pageblock(frame).zone() == Some(zone.idx);
            wrong = wrong.or((!fits).then_some(frame));
        });
        equal("P1", wrong.map(|frame| frames.pfn(frame)), 0, u64::from(wrong.is_some()))?;
        equal("P2", None, sum, u64::from(record.count_racy(frames.geometry.pageblock_order)))?;
        // A freed block of any size waits until the next one is freed.
        let alone = if record.waiting.len() == 1 { record.waiting_frames.load(Ordering::Relaxed) } else { 0 };
        let most = u64::from(record.size.high.max(alone));
        let above = if record.rules().has_depot { sum.saturating_sub(most) } else { 0 };
        equal("P3", None, 0, above)?;
        total = total.saturating_add(sum);
    }
    let mut wrong = None;
    let mut stored = 0_u64;
    world.pcps.depots.each(zone, |frame, ring| {
        stored = stored.saturating_add(ring.order.frames());
        entries = entries.wrapping_add(mark(frame));
        let fits = frames.head(frame) == Head::pcp(ring.order) && frames.pageblock(frame).zone() == Some(zone.idx);
        wrong = wrong.or((!fits).then_some(frame));
    });
    equal("D1", wrong.map(|frame| frames.pfn(frame)), 0, u64::from(wrong.is_some()))?;
    let counted = world.pcps.depots.of(zone).iter().map(|shard| u64::from(shard.frames_racy()));
    equal("D2", None, stored, counted.fold(0, u64::saturating_add))?;
    let (owned, marks) = owned_of(world, zone)?;
    Ok((total.saturating_add(stored).saturating_add(owned), entries.wrapping_add(marks)))
}

/// Checks the pageblocks that CPUs own: O1 and O2.
///
/// Returns the number of frames free in them, and the sum of their marks.
fn owned_of<M: Machine>(world: &World<'_, M>, zone: &Zone<M>) -> Result<(u64, u64), Violation> {
    let frames = &world.shared.frames;
    let order = frames.geometry.pageblock_order;
    let (mut total, mut entries, mut owned) = (0_u64, 0_u64, 0_u64);
    for start in frames.owned.starts() {
        if frames.pageblock(start).zone() != Some(zone.idx) {
            continue;
        }
        let owner = frames.owned.owner(start);
        owned = owned.saturating_add(u64::from(owner.is_some()));
        let is_cpu = owner.is_none_or(|cpu| cpu.index() < world.shared.cpus.len());
        equal("O1", Some(frames.pfn(start)), 1, u64::from(is_cpu))?;
        let mut at = start;
        while at < start.add(order.frames()) {
            let pfn = Some(frames.pfn(at));
            if frames.owned.has(at) {
                let is_plain = frames.head(at).is_none() && frames.state(at).kind() == Kind::Out;
                equal("O1", pfn, 1, u64::from(owner.is_some() && is_plain))?;
                total = total.saturating_add(1);
                entries = entries.wrapping_add(mark(at));
            }
            equal("O2", pfn, 0, u64::from(owner.is_some() && frames.state(at).as_free().is_some()))?;
            at = at.add(1);
        }
    }
    equal("O2", None, owned, zone.count.owned_racy().0)?;
    Ok((total, entries))
}

/// Checks the zone's counts: B4, and the counters that Z1 needs.
fn counts_of<M: Machine>(world: &World<'_, M>, zone: &Zone<M>, census: &FrameCounts) -> Result<(), Violation> {
    let sum = |wanted: fn(MigrateType) -> bool| {
        let types = MigrateType::ALL.into_iter().filter(|&migratetype| wanted(migratetype));
        types
            .flat_map(|migratetype| Order(0).up_to(Order::LIMIT).map(move |order| (order, migratetype)))
            .map(|(order, mt)| zone.blocks_racy(&world.shared, order, mt).frames(order).0)
            .fold(0_u64, u64::saturating_add)
    };
    let memory = zone.memory_exact(&world.shared);
    equal("B4", None, sum(|mt| mt != MigrateType::Isolate), memory.free)?;
    equal("B4", None, sum(|mt| mt == MigrateType::Cma), memory.cma)?;
    equal("B4", None, sum(|mt| mt == MigrateType::HighAtomic), memory.highatomic)?;
    equal("B4", None, sum(|mt| mt == MigrateType::Isolate), zone.count.isolated.load(Ordering::Relaxed))?;
    equal("B1", None, census.free, memory.free)?;
    equal("B1", None, census.isolated, zone.count.isolated.load(Ordering::Relaxed))?;
    equal("Z1", None, census.offline, zone.offline.load(Ordering::Relaxed))?;
    equal("Z1", None, census.quarantined, zone.count.quarantined.load(Ordering::Relaxed))?;
    let rest = [census.free, census.isolated, census.pcp, census.allocated, census.offline, census.quarantined];
    let rest = rest.into_iter().chain([census.in_flight]);
    equal("Z1", None, census.present, rest.fold(0, u64::saturating_add))
}

/// Checks S1 to S3, as far as one zone can tell.
///
/// Returns the requests served here that were meant for another zone, and those meant for here that were served
/// elsewhere.
fn numa_stat_of<M: Machine>(world: &World<'_, M>, zone: &Zone<M>, allocated: u64) -> Result<(u64, u64), Violation> {
    let count = |event| world.pcps.event_racy(&world.shared, zone, event);
    equal("S2", None, allocated, count(ZoneEvent::AllocFrames).wrapping_sub(count(ZoneEvent::FreeFrames)))?;
    let [hit, miss, foreign, _, local, other] = world.pcps.numa_ever(&world.shared, zone);
    equal("S1", None, hit.wrapping_add(miss), local.wrapping_add(other))?;
    let (allocations, counted) = (count(ZoneEvent::Allocs), hit.wrapping_add(miss));
    let counts = world.shared.mechanisms().counts_numa();
    let is_all = counts && world.shared.stats.has_always_counted();
    equal("S1", None, if is_all { allocations } else { allocations.min(counted) }, counted)?;
    for diffs in world.shared.stats.of_zone(zone.idx) {
        equal("S3", None, 1, u64::from(diffs.is_within()))?;
    }
    Ok((miss, foreign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_no_state_are_missed() {
        let all = FrameCounts { present: 4, free: 1, allocated: 2, offline: 1, ..FrameCounts::default() };
        assert!(all.is_conserved());
        assert!(!FrameCounts { present: 5, ..all }.is_conserved());
        assert!(!FrameCounts { quarantined: 1, ..all }.is_conserved());
    }
}
