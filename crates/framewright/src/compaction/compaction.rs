//! Compaction: memory in use is moved so that what is free lies together.
//!
//! Who needs a block that is not there although enough memory is free compacts, request by request and zone by zone
//! ([`World::compact_for`]); a node's background thread does so when background reclaim has freed what was short, and of its own accord when
//! too much of what is free is scattered (`kswapd.rs`). How is a choice ([`Compaction`]):
//!
//! - *scanners*, as in Linux: `scanners.rs`.
//! - *emptiest*: of the next `WINDOW` ranges in turn the one with least in use is emptied, as a range is for whoever wants it by its place
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

use crate::compaction::progress::{Compacted, Effort};
use crate::policy::mechanisms::Compaction;
use crate::policy::watermark::Rights;
use crate::range::contig_range::Purpose;
use crate::seam::machine::Machine;
use crate::stat::vmstat::{GlobalEvent, ZoneEvent};
use crate::types::error::Why;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, NodeId, Order, PfnRange};
use crate::zone::zone::Zone;
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

/// Times that a request looks for a range to empty before it gives up: 1 GiB on x86.
const TRIES: u32 = 8;

impl<'a, M: Machine> World<'a, M> {
    /// Whether anything is ever compacted.
    pub(crate) fn compacts(&self) -> bool {
        self.shared.mechanisms.compaction != Compaction::Off && self.shared.machine.migrates()
    }

    /// How much of a zone's free memory is in blocks smaller than a pageblock, in percent.
    pub(crate) fn scattered(&self, zone: &Zone<M>) -> u64 {
        let free = zone.stat.memory_racy(&self.shared.stats, zone.idx).free;
        let scattered = free.saturating_sub(self.free_in_pageblocks(zone));
        scattered.saturating_mul(100).checked_div(free).unwrap_or(0)
    }

    /// Background compaction of a node's zones, each until it `is_enough`.
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
            if !zone.compaction.begin(order) {
                run.is_enough = false;
                continue;
            }
            let start = run.scanned;
            let free_scanned = match self.shared.mechanisms.compaction {
                Compaction::Scanners => self.scan(zone, || is_enough(zone), &mut run),
                _ => {
                    self.empty_until(zone, order, &is_enough, &mut run);
                    0
                }
            };
            self.shared.events.add(GlobalEvent::CompactDaemonMigrateScanned, run.scanned.saturating_sub(start));
            self.shared.events.add(GlobalEvent::CompactDaemonFreeScanned, free_scanned);
            let is_done = is_enough(zone);
            zone.compaction.end(order, is_done);
            run.is_enough &= is_done;
        }
        run
    }

    /// Serves a request that found no block large enough by compacting, or says why not.
    pub(crate) fn compact_for(&self, plan: &Plan, rights: Rights, effort: Effort) -> Result<Frame, Why> {
        let events = &self.shared.events;
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
        if self.shared.mechanisms.compaction == Compaction::Scanners {
            self.scan(zone, || self.may_serve(zone, plan, rights), &mut run);
            return self.try_once(plan, rights);
        }
        let captures = plan.migratetype == MigrateType::Movable;
        let order = plan.order.max(self.shared.frames.geometry.pageblock_order);
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
        let frame = self.shared.frames.frame(range.start)?;
        self.pinned(|cx| {
            let own = self.pcps.record(cx.cpu, zone.idx.index())?;
            let preferred = self.zonelist(plan).next()?;
            own.aside.count(ZoneEvent::Allocs, 1);
            self.hand_out(cx, frame, (zone, preferred), plan, (&own.aside, false));
            Some(frame)
        })?
    }
}
