//! Compaction: memory in use is moved so that what is free lies together.
//!
//! Who needs a block that is not there although enough memory is free compacts, request by request and zone by zone
//! ([`World::compact_for`]); a node's background thread does so when background reclaim has freed what was short, and of its own accord when
//! too much of what is free is scattered ([`Allocator::compact`], [`Allocator::compact_proactively`]). How is a choice ([`Method`]):
//!
//! - *scanners*, as in Linux: `scanners.rs`.
//! - *emptiest*: of the next [`WINDOW`] ranges in turn the one with least in use is emptied, as a range is for whoever wants it by its place
//!   (`contig.rs`): it is isolated, so that nobody uses what comes free in it; what is in use is moved to the smallest free blocks of the zone,
//!   which are where most is in use; and in the end it is free as one block. One such block costs as many moves as it had frames in use, and none are
//!   made that lead to nothing. A movable request gets the block itself, before anybody else sees it (*capture*); of an unmovable one it is
//!   not known whether it will take over the pageblock, so it tries again.
//!
//! A range with a single frame in it that cannot move is not a candidate: it would be emptied for nothing. That is why mobilities are kept apart.
//!
//! Zones in which a request found nothing to compact are left alone by the next requests, ever longer (`search.rs`).
//!
//! Rejected: counts of each pageblock's free frames, kept up to date by everybody. Looking at a pageblock reads eight cache lines,
//! and only whoever compacts pays; a counter would be written by every free.

use crate::allocator::Allocator;
use crate::census::Census;
use crate::contig::{Means, Purpose};
use crate::error::Why;
use crate::machine::{Machine, Ordering, Word};
use crate::mechanisms::{Compaction as Method, Nofragment};
use crate::node::{Plan, World};
use crate::pfn::{Frame, MigrateType, NodeId, Order, Pfn, PfnRange};
use crate::vmstat::{GlobalEvent, ZoneEvent};
use crate::watermark::{Mark, Rights};
use crate::zone::Zone;
use crate::zone_stat::Background;

/// Ranges of which the one with least in use is emptied.
const WINDOW: u32 = 64;
/// Ranges that a request empties, or tries to, before it gives up.
const TRIES: u32 = 4;

/// What a run of compaction did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compacted {
    /// Ranges that are free now and were not.
    pub ranges: u64,
    /// Frames whose contents were moved.
    pub moved: u64,
    /// Frames that were looked at.
    pub scanned: u64,
    /// Whether there is nothing left to do: every zone of the node has what was asked for, or enough of its free memory in whole pageblocks.
    pub is_enough: bool,
}

/// A range that can be emptied.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    range: PfnRange,
    /// Frames that must be moved, or taken off lists.
    in_use: u64,
}

impl<M: Machine> Allocator<'_, M> {
    /// Compacts a node's zones until each has a free block of the order that was asked for, and where mobilities are kept apart by
    /// force, as much memory in whole free pageblocks as its high mark says. For the node's background thread
    /// ([`crate::machine::Waiter::Kcompactd`]), each time it is woken. Not in an interrupt, and nothing held: it calls [`Machine::migrate`].
    /// Does nothing where compaction is off or nothing can be moved.
    pub fn compact(&self, node: NodeId) -> Compacted {
        let world = self.world();
        let order =
            world.zones_of(node).map(|zone| zone.stat.take_asked(Background::Compaction)).max().unwrap_or_default();
        let order = order.max(self.geometry().pageblock_order);
        let whole = self.mechanisms().nofragment == Nofragment::Enforced;
        world.compact_node(node, order, |zone| {
            let is_stocked = || world.free_in_pageblocks(zone) > zone.stat.mark_unboosted(Mark::High);
            world.has_block(zone, order) && (!whole || is_stocked())
        })
    }

    /// Compacts a node's zones if more of their free memory is scattered than the mechanisms allow (`proactiveness`), until a tenth
    /// less is. For a background thread, every half second or so. As [`Allocator::compact`] otherwise.
    pub fn compact_proactively(&self, node: NodeId) -> Compacted {
        let (world, proactiveness) = (self.world(), self.mechanisms().proactiveness.get());
        let low = 100_u64.saturating_sub(u64::from(proactiveness)).max(5);
        let high = low.saturating_add(10).min(100);
        let idle = Compacted { is_enough: true, ..Compacted::default() };
        if proactiveness == 0 || world.zones_of(node).all(|zone| world.scattered(zone) <= high) {
            return idle;
        }
        world.compact_node(node, self.geometry().pageblock_order, |zone| world.scattered(zone) <= low)
    }
}

impl<'a, M: Machine> World<'a, M> {
    /// Whether anything is ever compacted.
    pub(crate) fn compacts(&self) -> bool {
        self.ground.mechanisms.compaction != Method::Off && self.ground.machine.migrates()
    }

    /// How much of a zone's free memory is in blocks smaller than a pageblock, in percent.
    fn scattered(&self, zone: &Zone<M>) -> u64 {
        let free = zone.stat.memory_racy(&self.ground.stats, zone.idx).free;
        let scattered = free.saturating_sub(self.free_in_pageblocks(zone));
        scattered.saturating_mul(100).checked_div(free).unwrap_or(0)
    }

    /// Background compaction of a node's zones, each until it `is_enough`.
    fn compact_node(&self, node: NodeId, order: Order, is_enough: impl Fn(&Zone<M>) -> bool) -> Compacted {
        let mut run = Compacted { is_enough: true, ..Compacted::default() };
        if !self.compacts() || self.ground.machine.in_interrupt() {
            return run;
        }
        self.ground.events.count(GlobalEvent::CompactDaemonWake);
        for zone in self.zones_of(node) {
            if is_enough(zone) {
                continue;
            }
            let start = run.scanned;
            let free_scanned = match self.ground.mechanisms.compaction {
                Method::Scanners => self.scan(zone, || is_enough(zone), &mut run),
                _ => {
                    self.empty_until(zone, order, &is_enough, &mut run);
                    0
                }
            };
            self.ground.events.add(GlobalEvent::CompactDaemonMigrateScanned, run.scanned.saturating_sub(start));
            self.ground.events.add(GlobalEvent::CompactDaemonFreeScanned, free_scanned);
            run.is_enough &= is_enough(zone);
        }
        run
    }

    /// Empties one range after the other until there is enough, or a look at the whole zone found nothing more.
    fn empty_until(&self, zone: &Zone<M>, order: Order, is_enough: impl Fn(&Zone<M>) -> bool, run: &mut Compacted) {
        let windows = self.ranges_of(zone, order).count() as u32 / WINDOW;
        let mut in_vain = 0_u32;
        while in_vain <= windows && !is_enough(zone) && self.has_room(zone, order, Mark::Min) {
            match self.empty_one(zone, order, Purpose::Free, run) {
                Some(_) => in_vain = 0,
                None => in_vain = in_vain.saturating_add(1),
            }
        }
    }

    /// Serves a request that found no block large enough by compacting, or says why not.
    pub(crate) fn compact_for(&self, plan: &Plan, rights: Rights) -> Result<Frame, Why> {
        let events = &self.ground.events;
        events.count(GlobalEvent::CompactStall);
        let mut why = Why::Fragmented;
        for zone in self.zonelist(plan) {
            if !zone.compaction.begin(plan.order) {
                continue;
            }
            let served = self.compact_zone_for(zone, plan, rights);
            zone.compaction.end(plan.order, served.is_ok());
            match served {
                Ok(frame) => {
                    events.count(GlobalEvent::CompactSuccess);
                    return Ok(frame);
                }
                Err(reason) => why = reason,
            }
        }
        events.count(GlobalEvent::CompactFail);
        Err(why)
    }

    fn compact_zone_for(&self, zone: &'a Zone<M>, plan: &Plan, rights: Rights) -> Result<Frame, Why> {
        let mut run = Compacted::default();
        if self.ground.mechanisms.compaction == Method::Scanners {
            self.scan(zone, || self.may_serve(zone, plan, rights), &mut run);
            return self.try_once(plan, rights);
        }
        let captures = plan.migratetype == MigrateType::Movable;
        let order = plan.order.max(self.ground.frames.geometry.pageblock_order);
        for _ in 0..TRIES {
            if !self.has_room(zone, order, rights.mark) {
                return Err(Why::Watermark);
            }
            let purpose = if captures { Purpose::Allocate { movable: true } } else { Purpose::Free };
            match self.empty_one(zone, order, purpose, &mut run) {
                Some(range) if captures => return self.capture(zone, range, plan).ok_or(Why::NoCpu),
                Some(_) => match self.try_once(plan, rights) {
                    Ok(frame) => return Ok(frame),
                    Err(_) => continue,
                },
                None => {}
            }
        }
        Err(Why::Fragmented)
    }

    /// Makes a request's block of a range that was emptied for it and is allocated: the rest is freed.
    fn capture(&self, zone: &'a Zone<M>, range: PfnRange, plan: &Plan) -> Option<Frame> {
        let rest = PfnRange { start: range.start.add(plan.order.frames()), ..range };
        if !rest.is_empty() {
            // It is ours, so it can be freed.
            let _ = self.free_range(rest);
        }
        let frame = self.ground.frames.frame(range.start)?;
        self.pinned(|cx| {
            let own = self.pcps.record(cx.cpu, zone.idx.index())?;
            let preferred = self.zonelist(plan).next()?;
            own.aside.count(ZoneEvent::Allocs, 1);
            self.hand_out(cx, frame, (zone, preferred), plan, (&own.aside, false));
            Some(frame)
        })?
    }

    /// Whether a zone can spare a range of this order, above a mark.
    fn has_room(&self, zone: &Zone<M>, order: Order, mark: Mark) -> bool {
        let free = zone.stat.memory_racy(&self.ground.stats, zone.idx).free;
        free > zone.stat.mark_unboosted(mark).saturating_add(order.frames())
    }

    /// Empties the range with least in use of those next in turn. None if there was none, or it did not work.
    fn empty_one(&self, zone: &Zone<M>, order: Order, purpose: Purpose, run: &mut Compacted) -> Option<PfnRange> {
        let before = self.ground.events.get(GlobalEvent::MigrateSuccess);
        let Candidate { range, .. } = self.choose(zone, order, run)?;
        let done = self.take_range_of(zone, range, purpose, Means::Compaction).is_ok();
        // Others may move something too: it is a figure of how much was done, not an account.
        let moved = self.ground.events.get(GlobalEvent::MigrateSuccess).saturating_sub(before);
        run.moved = run.moved.saturating_add(moved);
        run.ranges = run.ranges.saturating_add(u64::from(done));
        done.then_some(range)
    }

    /// The range with least in use of the next few; the first of them if several have as little.
    fn choose(&self, zone: &Zone<M>, order: Order, run: &mut Compacted) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        let mut scanned = 0_u64;
        let first = zone.compaction.cursor.load(Ordering::Relaxed);
        let behind = |start: &Frame| start.0 >= first;
        let (ahead, wrapped) = (self.ranges_of(zone, order), self.ranges_of(zone, order));
        let turn = ahead.filter(behind).chain(wrapped.filter(|start| start.0 < first));
        for start in turn.take(WINDOW as usize) {
            zone.compaction.cursor.store(start.add(order.frames()).0, Ordering::Relaxed);
            let most = best.map_or(order.frames(), |best| best.in_use);
            let (in_use, looked_at) = self.in_use(zone, (start, order), most);
            scanned = scanned.saturating_add(looked_at);
            if let Some(in_use) = in_use {
                best = Some(Candidate { range: PfnRange::block(self.ground.frames.pfn(start), order), in_use });
            }
            if best.is_some_and(|best| best.in_use == 0) {
                break;
            }
        }
        run.scanned = run.scanned.saturating_add(scanned);
        self.ground.events.add(GlobalEvent::CompactMigrateScanned, scanned);
        best
    }

    /// Frames in use in a range that can be emptied, if they are fewer than `most`; and frames that were looked at. A range that is free as it
    /// is need not be.
    fn in_use(&self, zone: &Zone<M>, (start, order): (Frame, Order), most: u64) -> (Option<u64>, u64) {
        let frames = &self.ground.frames;
        let (end, step) = (start.add(order.frames()), frames.geometry.pageblock_order.frames());
        let (mut in_use, mut free, mut looked_at) = (0_u64, 0_u64, 0_u64);
        let mut at = start;
        while at < end {
            let pageblock = frames.pageblock(at);
            if pageblock.zone() != Some(zone.idx) || pageblock.migratetype() != MigrateType::Movable {
                return (None, looked_at);
            }
            let next = at.add(step);
            let left = most.saturating_sub(in_use);
            let census = Census::of(&self.ground, (at, next), |so_far| so_far.other == 0 && so_far.used() < left);
            looked_at = looked_at.saturating_add(census.memory());
            if census.memory() < step || census.other != 0 {
                return (None, looked_at);
            }
            in_use = in_use.saturating_add(census.used());
            free = free.saturating_add(census.free);
            at = next;
        }
        let is_candidate = in_use < most && free < order.frames();
        (is_candidate.then_some(in_use), looked_at)
    }

    /// The ranges of an order that a zone's span consists of, by their first frames. Some may be holes or another zone's.
    fn ranges_of(&self, zone: &Zone<M>, order: Order) -> impl Iterator<Item = Frame> + use<M> {
        let (first, last) = self.pageblocks_of(zone);
        let step = order.frames().min(1 << 31) as usize;
        (first.align_down(order).0..last.0.saturating_add(1)).step_by(step.max(1)).map(Frame)
    }

    /// The first frames of the first and the last pageblock of a zone's span.
    pub(crate) fn pageblocks_of(&self, zone: &Zone<M>) -> (Frame, Frame) {
        let order = self.ground.frames.geometry.pageblock_order;
        let start = |pfn| self.ground.frames.frame(pfn).unwrap_or(Frame(0)).align_down(order);
        (start(zone.span.start), start(Pfn(zone.span.end.0.saturating_sub(1))))
    }
}
