//! Compaction: moves memory in use, so that free memory lies together.
//!
//! A request may need a block that is not there although enough memory is free. It then compacts, zone by zone
//! ([`World::compact_for`]). A node's background thread compacts after background reclaim has freed enough memory
//! (`kswapd.rs`). It also compacts unasked when too much of the free memory is scattered (`background_calls.rs`). There
//! are two algorithms to choose from ([`Compaction`]):
//!
//! - *scanners*, as in Linux: `scanners.rs`.
//! - *emptiest*: of the next `WINDOW` ranges, the one with the least in use is emptied (`emptiest.rs`), as a contiguous
//!   range is (`contig_range.rs`). It is isolated, so that no request uses its freed blocks. Its blocks move to the
//!   fullest of the other pageblocks looked at. In the end the range is free as one block.
//!
//! With *emptiest*, a nearly full pageblock fills up and a nearly empty one becomes empty, so a move makes the next
//! range cheaper. Ranges of which more than half is in use are skipped ([`Effort`]), until memory was reclaimed for a
//! request and did not serve it. A movable request gets the block itself, before any other request sees it (*capture*).
//! An unmovable request tries again instead, because it is not known whether it will claim the pageblock.
//!
//! A range with a single frame that cannot move is not a candidate: emptying the rest would be in vain. That is why
//! mobilities are kept apart.
//!
//! After a request found nothing to compact in a zone, the next requests skip that zone, ever more of them
//! (`backoff.rs`).
//!
//! Cost of *emptiest*: one range costs as many moves as it had frames in use, and no move is made in vain. Looking at a
//! pageblock reads eight cache lines.
//!
//! Rejected: a count of free frames in each pageblock, always up to date. Every free would write such a counter,
//! whereas now only a CPU that compacts pays.

use crate::compaction::progress::{Compacted, Effort};
use crate::policy::mechanisms::Compaction;
use crate::policy::watermark::AllocFlags;
use crate::range::contig_range::Purpose;
use crate::seam::machine::Machine;
use crate::stat::vmstat::{GlobalEvent, ZoneEvent};
use crate::types::error::Why;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, NodeId, Order, PfnRange};
use crate::zone::zone::Zone;
use crate::zonelist::numa_stat::{Counted, ServedFrom};
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

/// Largest number of searches for a range, for one request: 1 GiB on x86.
const TRIES: u32 = 8;

impl<'a, M: Machine> World<'a, M> {
    /// Returns whether compaction is on and the machine can move blocks.
    pub(crate) fn compacts(&self) -> bool {
        self.shared.mechanisms().has_compaction() && self.shared.machine.migrates()
    }

    /// Returns how much of a zone's free memory is in blocks below the pageblock order.
    ///
    /// In percent.
    pub(crate) fn scattered(&self, zone: &Zone<M>) -> u64 {
        let free = zone.stat.memory_racy(&self.shared.stats, zone.idx).free;
        let scattered = free.saturating_sub(self.free_in_pageblocks(zone));
        scattered.saturating_mul(100).checked_div(free).unwrap_or(0)
    }

    /// Compacts a node's zones in the background, each until it `is_enough`.
    pub(crate) fn compact_node(&self, node: NodeId, order: Order, is_enough: impl Fn(&Zone<M>) -> bool) -> Compacted {
        let mut run = Compacted { is_enough: true, ..Compacted::default() };
        if !self.compacts() || self.shared.machine.in_interrupt() {
            return run;
        }
        self.shared.events.count(GlobalEvent::CompactDaemonWake);
        for zone in self.zones_of(node) {
            if is_enough(zone) {
                continue;
            }
            let Some(search) = zone.compaction.begin(order) else {
                run.is_enough = false;
                continue;
            };
            let start = run.scanned;
            let free_scanned = match self.shared.mechanisms().compaction {
                Compaction::Scanners => self.scan(zone, || is_enough(zone), &mut run),
                _ => {
                    self.empty_until(zone, order, &is_enough, &mut run);
                    0
                }
            };
            self.shared.events.add(GlobalEvent::CompactDaemonMigrateScanned, run.scanned.saturating_sub(start));
            self.shared.events.add(GlobalEvent::CompactDaemonFreeScanned, free_scanned);
            let is_done = is_enough(zone);
            search.end(order, is_done);
            run.is_enough &= is_done;
        }
        run
    }

    /// Serves a request that found no large enough block by compacting.
    ///
    /// # Errors
    /// Why it was not served.
    pub(crate) fn compact_for(&self, plan: &Plan, alloc_flags: AllocFlags, effort: Effort) -> Result<Frame, Why> {
        let events = &self.shared.events;
        events.count(GlobalEvent::CompactStall);
        let mut why = Why::Fragmented;
        for zone in self.zonelist(plan) {
            // A request that has just reclaimed memory skips the back-off and does not wait for another compactor. Two
            // compactors do not empty the same range.
            let asks = effort == Effort::Worthwhile;
            let search = if asks { zone.compaction.begin(plan.order) } else { None };
            if asks && search.is_none() {
                continue;
            }
            let served = self.compact_zone_for(zone, plan, alloc_flags, effort);
            match search {
                Some(search) => search.end(plan.order, served.is_ok()),
                None => zone.compaction.note(plan.order, served.is_ok()),
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

    fn compact_zone_for(
        &self,
        zone: &'a Zone<M>,
        plan: &Plan,
        alloc_flags: AllocFlags,
        effort: Effort,
    ) -> Result<Frame, Why> {
        let mut run = Compacted::default();
        if self.shared.mechanisms().compaction == Compaction::Scanners {
            self.scan(zone, || self.may_serve(zone, plan, alloc_flags), &mut run);
            return self.try_once(plan, alloc_flags);
        }
        let captures = plan.migratetype == MigrateType::Movable;
        let order = plan.order.max(self.shared.frames.geometry.pageblock_order);
        for _ in 0..TRIES {
            if !self.has_room(zone, order, || zone.stat.mark_unboosted(alloc_flags.mark)) {
                return Err(Why::Watermark);
            }
            let purpose = captures.then_some(Purpose::Allocate { movable: true });
            match self.empty_one(zone, order, effort, purpose, &mut run) {
                Some(range) if captures => return self.capture(zone, range, plan).ok_or(Why::NoCpu),
                Some(_) => {
                    if let Ok(frame) = self.try_once(plan, alloc_flags) {
                        return Ok(frame);
                    }
                }
                None => {}
            }
        }
        Err(Why::Fragmented)
    }

    /// Compacts a zone for a request of this order until it `is_enough`, and leaves it `keep` free frames.
    pub(crate) fn compact_zone(
        &self,
        zone: &'a Zone<M>,
        order: Order,
        keep: u64,
        effort: Effort,
        is_enough: impl Fn() -> bool,
    ) -> Compacted {
        let mut run = Compacted::default();
        let order = order.max(self.shared.frames.geometry.pageblock_order);
        if self.shared.mechanisms().compaction == Compaction::Scanners {
            self.scan(zone, &is_enough, &mut run);
        } else {
            for _ in 0..TRIES {
                if is_enough() || !self.has_room(zone, order, || keep) {
                    break;
                }
                self.empty_one(zone, order, effort, None, &mut run);
            }
        }
        run.is_enough = is_enough();
        run
    }

    /// Cuts a request's block out of the range emptied for it; frees the rest.
    ///
    /// The range is allocated.
    fn capture(&self, zone: &'a Zone<M>, range: PfnRange, plan: &Plan) -> Option<Frame> {
        let rest = PfnRange { start: range.start.add(plan.order.frames()), ..range };
        if !rest.is_empty() {
            // The caller owns the range, so it can be freed.
            let _ = self.free_range(rest);
        }
        let frame = self.shared.frames.frame(range.start)?;
        self.pinned(|cx| {
            let own = self.pcps.record(cx.cpu, zone.idx.index())?;
            let preferred = self.zonelist(plan).next()?;
            own.aside.count(ZoneEvent::Allocs, 1);
            self.hand_out(cx, frame, ServedFrom { zone, preferred }, plan, Counted::aside(own));
            Some(frame)
        })?
    }
}
