//! Compaction: memory in use is moved so that what is free lies together.
//!
//! Who needs a block that is not there although enough memory is free compacts, request by request and zone by zone
//! ([`World::compact_for`]); a node's background thread does so when background reclaim has freed what was short, and of its own accord when
//! too much of what is free is scattered (`kswapd.rs`). How is a choice ([`Method`]):
//!
//! - *scanners*, as in Linux: `scanners.rs`.
//! - *emptiest*: of the next [`WINDOW`] ranges in turn the one with least in use is emptied, as a range is for whoever wants it by its place
//!   (`contig_range.rs`): it is isolated, so that nobody uses what comes free in it; what is in use is moved to those of the other pageblocks looked at that
//!   have most in use; and in the end it is free as one block. So what is nearly full fills up, and what is nearly empty becomes empty: a move
//!   makes the next range cheaper. One range costs as many moves as it had frames in use, and none are made that lead to nothing. Ranges of which
//!   more than half is in use are left alone ([`Effort`]), until memory was reclaimed for a request and that did not serve it.
//!   A movable request gets the block itself, before anybody else sees it (*capture*); of an unmovable one it is not known whether it will take
//!   over the pageblock, so it tries again.
//!
//! A range with a single frame in it that cannot move is not a candidate: it would be emptied for nothing. That is why mobilities are kept apart.
//!
//! Zones in which a request found nothing to compact are left alone by the next requests, ever longer (`backoff.rs`).
//!
//! Rejected: counts of each pageblock's free frames, kept up to date by everybody. Looking at a pageblock reads eight cache lines,
//! and only whoever compacts pays; a counter would be written by every free.

use core::cell::Cell;

use crate::buddy::pageblock_usage::Census;
use crate::policy::mechanisms::Compaction as Method;
use crate::policy::watermark::{Mark, Rights};
use crate::range::contig_range::{Means, Purpose};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::stat::vmstat::{GlobalEvent, ZoneEvent};
use crate::types::error::Why;
use crate::types::units::{Frame, MigrateType, NodeId, Order, Pfn, PfnRange};
use crate::zone::zone::Zone;
use crate::zonelist::world::{Plan, World};

/// Ranges of which the one with least in use is emptied.
const WINDOW: u32 = 64;
/// Times that a request looks for a range to empty before it gives up: 1 GiB on x86.
const TRIES: u32 = 8;

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

/// How much may be moved for one range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effort {
    /// No more than what was free there.
    Worthwhile,
    /// Whatever is in use there: memory was freed for it.
    Any,
}

/// Pageblocks that were looked at, as places to move to: those with most in use first, so that what has little in use gets less.
#[derive(Clone, Copy)]
struct Places {
    /// First frame, and how many are free; 0 for none.
    blocks: [(Frame, u32); WINDOW as usize],
    /// How far the fullest was searched.
    at: Frame,
}

impl Default for Places {
    fn default() -> Places {
        Places { blocks: [(Frame(0), 0); WINDOW as usize], at: Frame(0) }
    }
}

impl Places {
    /// Notes a pageblock; if there are too many, it takes the place of one that has more free.
    fn note(&mut self, start: Frame, census: Census) {
        let free = census.free as u32;
        let worst = self.blocks.iter_mut().max_by_key(|(_, free)| if *free == 0 { u32::MAX } else { *free });
        if let Some(worst) = worst
            && free != 0
            && census.used().saturating_add(census.other) != 0
            && (worst.1 == 0 || free < worst.1)
        {
            *worst = (start, free);
        }
    }

    /// Forgets what lies between two frames.
    fn leave_out(&mut self, (start, end): (Frame, Frame)) {
        for block in self.blocks.iter_mut().filter(|block| (start..end).contains(&block.0)) {
            block.1 = 0;
        }
    }

    /// The pageblock with most in use.
    fn fullest(&mut self) -> Option<&mut (Frame, u32)> {
        self.blocks.iter_mut().filter(|(_, free)| *free != 0).min_by_key(|(_, free)| *free)
    }

    fn forget_fullest(&mut self) {
        if let Some(block) = self.fullest() {
            block.1 = 0;
        }
        self.at = Frame(0);
    }
}

impl<'a, M: Machine> World<'a, M> {
    /// Whether anything is ever compacted.
    pub(crate) fn compacts(&self) -> bool {
        self.ground.mechanisms.compaction != Method::Off && self.ground.machine.migrates()
    }

    /// How much of a zone's free memory is in blocks smaller than a pageblock, in percent.
    pub(crate) fn scattered(&self, zone: &Zone<M>) -> u64 {
        let free = zone.stat.memory_racy(&self.ground.stats, zone.idx).free;
        let scattered = free.saturating_sub(self.free_in_pageblocks(zone));
        scattered.saturating_mul(100).checked_div(free).unwrap_or(0)
    }

    /// Background compaction of a node's zones, each until it `is_enough`.
    pub(crate) fn compact_node(&self, node: NodeId, order: Order, is_enough: impl Fn(&Zone<M>) -> bool) -> Compacted {
        let mut run = Compacted { is_enough: true, ..Compacted::default() };
        if !self.compacts() || self.ground.machine.in_interrupt() {
            return run;
        }
        self.ground.events.count(GlobalEvent::CompactDaemonWake);
        for zone in self.zones_of(node) {
            if is_enough(zone) {
                continue;
            }
            if !zone.compaction.begin(order) {
                run.is_enough = false;
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
            let is_done = is_enough(zone);
            zone.compaction.end(order, is_done);
            run.is_enough &= is_done;
        }
        run
    }

    /// Empties one range after the other until there is enough, or a look at the whole zone found nothing more.
    fn empty_until(&self, zone: &Zone<M>, order: Order, is_enough: impl Fn(&Zone<M>) -> bool, run: &mut Compacted) {
        let windows = self.ranges_of(zone, order).count() as u32 / WINDOW;
        let mut in_vain = 0_u32;
        while in_vain <= windows && !is_enough(zone) && self.has_room(zone, order, Mark::Min) {
            match self.empty_one(zone, (order, Effort::Worthwhile), None, run) {
                Some(_) => in_vain = 0,
                None => in_vain = in_vain.saturating_add(1),
            }
        }
    }

    /// Serves a request that found no block large enough by compacting, or says why not.
    pub(crate) fn compact_for(&self, plan: &Plan, rights: Rights, effort: Effort) -> Result<Frame, Why> {
        let events = &self.ground.events;
        events.count(GlobalEvent::CompactStall);
        let mut why = Why::Fragmented;
        for zone in self.zonelist(plan) {
            // For whom memory was reclaimed is neither put off nor waits: two do not empty the same range.
            let asks = effort == Effort::Worthwhile;
            if asks && !zone.compaction.begin(plan.order) {
                continue;
            }
            let served = self.compact_zone_for(zone, plan, rights, effort);
            if asks {
                zone.compaction.end(plan.order, served.is_ok());
            } else {
                zone.compaction.note(plan.order, served.is_ok());
            }
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

    fn compact_zone_for(&self, zone: &'a Zone<M>, plan: &Plan, rights: Rights, effort: Effort) -> Result<Frame, Why> {
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
            let purpose = captures.then_some(Purpose::Allocate { movable: true });
            match self.empty_one(zone, (order, effort), purpose, &mut run) {
                Some(range) if captures => return self.capture(zone, range, plan).ok_or(Why::NoCpu),
                Some(_) => {
                    if let Ok(frame) = self.try_once(plan, rights) {
                        return Ok(frame);
                    }
                }
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

    /// Empties the range with least in use of those next in turn, and leaves it free if it is for no purpose. None if there was none, or it did not work.
    fn empty_one(
        &self,
        zone: &Zone<M>,
        (order, effort): (Order, Effort),
        purpose: Option<Purpose>,
        run: &mut Compacted,
    ) -> Option<PfnRange> {
        let before = self.ground.events.get(GlobalEvent::MigrateSuccess);
        let mut places = Places::default();
        let start = self.choose(zone, (order, effort), &mut places, run)?;
        places.leave_out((start, start.add(order.frames())));
        let range = PfnRange::block(self.ground.frames.pfn(start), order);
        let places = Cell::new(places);
        let place = |order| {
            let mut some = places.take();
            let place = self.place_where_most_is_in_use(zone, order, &mut some);
            places.set(some);
            place.or_else(|| self.place_among_small(zone, order))
        };
        let done = self.take_range_of(zone, range, purpose, Means::Compaction(&place)).is_ok();
        // Others may move something too: it is a figure of how much was done, not an account.
        let moved = self.ground.events.get(GlobalEvent::MigrateSuccess).saturating_sub(before);
        run.moved = run.moved.saturating_add(moved);
        run.ranges = run.ranges.saturating_add(u64::from(done));
        done.then_some(range)
    }

    /// Where the range begins that has least in use of the next few; the first of them if several have as little. The pageblocks on the way are noted as places.
    fn choose(
        &self,
        zone: &Zone<M>,
        (order, effort): (Order, Effort),
        places: &mut Places,
        run: &mut Compacted,
    ) -> Option<Frame> {
        let mut best: Option<(Frame, u64)> = None;
        let mut scanned = 0_u64;
        let most_at_all = match effort {
            Effort::Worthwhile => (order.frames() / 2).saturating_add(1),
            Effort::Any => order.frames(),
        };
        let first = zone.compaction.cursor.load(Ordering::Relaxed);
        let (ahead, wrapped) = (self.ranges_of(zone, order), self.ranges_of(zone, order));
        let turn = ahead.filter(|start| start.0 >= first).chain(wrapped.filter(|start| start.0 < first));
        for start in turn.take(WINDOW as usize) {
            zone.compaction.cursor.store(start.add(order.frames()).0, Ordering::Relaxed);
            let most = best.map_or(most_at_all, |(_, in_use)| in_use);
            let in_use = self.in_use(zone, (start, order), places, &mut scanned);
            if let Some(in_use) = in_use.filter(|&in_use| in_use < most) {
                best = Some((start, in_use));
            }
        }
        run.scanned = run.scanned.saturating_add(scanned);
        self.ground.events.add(GlobalEvent::CompactMigrateScanned, scanned);
        best.map(|(start, _)| start)
    }

    /// Frames in use in a range, if it can be emptied and is not free as it is.
    fn in_use(
        &self,
        zone: &Zone<M>,
        (start, order): (Frame, Order),
        places: &mut Places,
        scanned: &mut u64,
    ) -> Option<u64> {
        let frames = &self.ground.frames;
        let (end, step) = (start.add(order.frames()), frames.geometry.pageblock_order.frames());
        let (mut in_use, mut free, mut at) = (Some(0_u64), 0_u64, start);
        while at < end {
            let next = at.add(step);
            let pageblock = frames.pageblock(at);
            if pageblock.zone() != Some(zone.idx) || pageblock.migratetype() != MigrateType::Movable {
                return None;
            }
            let census = Census::of(&self.ground, (at, next));
            *scanned = scanned.saturating_add(census.memory());
            places.note(at, census);
            let can_be_emptied = census.memory() == step && census.other == 0;
            in_use = in_use.filter(|_| can_be_emptied).map(|in_use| in_use.saturating_add(census.used()));
            free = free.saturating_add(census.free);
            at = next;
        }
        in_use.filter(|_| free < order.frames())
    }

    /// A place in the pageblock with most in use of those that were noted.
    fn place_where_most_is_in_use(&self, zone: &Zone<M>, order: Order, places: &mut Places) -> Option<Frame> {
        let step = self.ground.frames.geometry.pageblock_order.frames();
        while let Some(start) = places.fullest().map(|block| block.0) {
            places.at = places.at.max(start);
            let found = self.place_in(zone, order, &mut places.at, start.add(step));
            if found.is_some() {
                return found;
            }
            places.forget_fullest();
        }
        None
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
