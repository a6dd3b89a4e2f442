//! The slow path: what a request tries when memory is short, in one place.
//!
//! A request that found nothing above the low mark tries each [`Rung`] in turn, in order of increasing harm to other
//! requests. It skips those that it may not use, and stops at the first that serves it.
//!
//! Callbacks run with no lock held and no CPU pinned. Allocations that a callback makes must carry `__GFP_MEMALLOC`:
//! they reclaim no further, and may use the reserves.
//!
//! Cost: every loop has a bound. A request ends with a block or with a reason ([`Why`]), whatever the callbacks do.

use crate::compaction::progress::Effort;
use crate::pcp::pcp::Claim;
use crate::policy::watermark::AllocFlags;
use crate::seam::machine::{Fault, Machine, Need, Ordering, Step, Waiter, Word};
use crate::stat::vmstat::GlobalEvent;
use crate::stat::zone_stat::Background;
use crate::types::counts::{FrameCount, PageblockCount};
use crate::types::error::Why;
use crate::types::migratetype::MigrateType;
use crate::types::request::{
    __GFP_KSWAPD_RECLAIM, __GFP_MEMALLOC, __GFP_NOFAIL, __GFP_NORETRY, __GFP_RETRY_MAYFAIL, NodeSet, Request,
};
use crate::types::units::{Frame, Order};
use crate::zone::zone::Zone;
use crate::zonelist::alloc_flags::{first_alloc_flags, is_optional, may_use_reserves, slow_alloc_flags};
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

/// Above this order a request fails sooner.
///
/// So large a block is rarely worth long reclaim.
const COSTLY_ORDER: Order = Order(3);
/// Rounds of reclaim after which an ordinary request fails, although each freed some memory.
const MAX_ROUNDS: u32 = 16;
/// Like [`MAX_ROUNDS`], for `__GFP_NOFAIL`: with the pause below, about ten seconds.
///
/// Then even such a request fails, rather than hang for ever.
const NOFAIL_ROUNDS: u32 = 1_024;
/// Pause of a `__GFP_NOFAIL` request between rounds, in nanoseconds.
const NOFAIL_PAUSE: u64 = 10_000_000;
/// One in this many rounds of reclaim that freed nothing is followed by a drain.
const IDLE_ROUNDS: u32 = 16;
/// Drains, each with a try, before a request for a single page fails for good.
///
/// They are repeated only while they meet frames that other CPUs have cached since. Each repetition means that another
/// CPU freed memory meanwhile.
const DRAIN_ROUNDS: u32 = 64;
/// Like [`DRAIN_ROUNDS`], for earlier tries and for requests for larger blocks.
///
/// Single frames that other CPUs cached could merge to a larger block; they are not drained over and over for that.
pub(crate) const FEW_ROUNDS: u32 = 2;
/// Longest wait of a request that would mix mobilities, in nanoseconds.
///
/// Source: Linux's patch, a fiftieth of a second.
const STALL: u64 = 20_000_000;
/// Pageblocks by which the marks rise for such a wait.
///
/// One, and one more for each pair of mobilities and direction (the patch's formula).
const STALL_BOOST: PageblockCount = PageblockCount(1 + 2 * 3);

/// What is tried next, in order of increasing harm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rung {
    /// Blocks that were freed unmerged are merged.
    Skipped,
    /// Deferred frees, depots and owned pageblocks are freed to the zones.
    ///
    /// The blocks of depots merge; the owners lose their pageblocks.
    Depot,
    /// A movable request waits for background reclaim, once and briefly.
    ///
    /// It does if it would steal a small block of another mobility.
    Stall,
    /// Background reclaim is woken; only the min mark must remain.
    WakeAndMin,
    /// All reserves, for a request that is about to free memory.
    Reserves,
    /// Memory in use is moved until there is a block.
    Compact,
    /// All cached frames of the zones that the request may use are drained (`drain.rs`).
    Drain,
    /// The caller frees memory itself, repeatedly while that helps.
    Reclaim,
    /// Marks count without their boost: no request fails because they were raised.
    Unboosted,
    /// Mobilities that were kept apart until now are mixed.
    ///
    /// Unless the caller has another way.
    Mix,
    /// The reserve for high orders.
    HighAtomic,
}

impl Rung {
    const ALL: [Rung; 11] = [
        Rung::Skipped,
        Rung::Depot,
        Rung::Stall,
        Rung::WakeAndMin,
        Rung::Reserves,
        Rung::Compact,
        Rung::Drain,
        Rung::Reclaim,
        Rung::Unboosted,
        Rung::Mix,
        Rung::HighAtomic,
    ];
}

impl<'a, M: Machine> World<'a, M> {
    /// Serves a request by the slow path; the block's head then says "allocated".
    ///
    /// # Errors
    /// Why it was not served.
    pub(crate) fn alloc_slow(&self, request: &Request) -> Result<Frame, Why> {
        let first = self.pinned(|cx| {
            let plan = self.plan(cx, request);
            if self.is_turn_split(&plan) {
                return Err((plan, Why::Fragmented));
            }
            self.alloc_intact(cx, &plan, first_alloc_flags(&plan)).map_err(|why| (plan, why))
        });
        match first {
            None => Err(Why::NoCpu),
            Some(Ok(frame)) => Ok(frame),
            Some(Err((_, Why::NoZone))) => Err(Why::NoZone),
            Some(Err((plan, _))) => self.slowpath(&plan),
        }
    }

    /// Tries each rung for a request whose first attempt found nothing.
    ///
    /// # Errors
    /// Why it was not served.
    #[cold]
    pub(crate) fn slowpath(&self, plan: &Plan) -> Result<Frame, Why> {
        let enforced = self.shared.mechanisms().mixes_last();
        let may_wait = self.shared.may_wait(plan.gfp);
        let alloc_flags = AllocFlags { nofragment: enforced, ..slow_alloc_flags(plan, may_wait) };
        // A request that may ignore the marks does so from `Reserves` on.
        let most = AllocFlags { no_watermarks: may_use_reserves(plan), ..alloc_flags };
        let last = AllocFlags { unboosted: true, ..most };
        let keeps_apart = enforced && is_optional(plan);
        let mixing = AllocFlags { nofragment: keeps_apart, ..last };
        let claim = if may_wait { Claim::Wait } else { Claim::Try };
        if self.is_turn_split(plan)
            && let Some(frame) = self.alloc_turn_below(plan)
        {
            return Ok(frame);
        }
        let mut why = Why::Watermark;
        for rung in Rung::ALL {
            self.shared.machine.step(Step::Rung);
            let result = match rung {
                Rung::Skipped if plan.order.0 != 0 && self.merge_for(plan) => {
                    self.try_once(plan, first_alloc_flags(plan))
                }
                Rung::Depot if !self.drain_depots_for(plan).is_zero() => self.try_once(plan, first_alloc_flags(plan)),
                Rung::Stall if may_wait && self.may_stall(plan) => self.stall(plan, alloc_flags),
                Rung::WakeAndMin => {
                    self.wake_kswapd(plan);
                    self.try_once(plan, alloc_flags)
                }
                Rung::Reserves if most.no_watermarks => self.try_once(plan, most),
                Rung::Compact if may_wait && self.may_compact(plan) => {
                    // Cached frames are already free. Linux moves memory first.
                    let drains = self.shared.mechanisms().empties_pageblocks();
                    let drained = if drains { self.try_drained(plan, most, claim, FEW_ROUNDS) } else { Err(why) };
                    drained.or_else(|_| self.compact_for(plan, alloc_flags, Effort::Worthwhile))
                }
                Rung::Drain => self.try_drained(plan, most, claim, FEW_ROUNDS),
                Rung::Reclaim if M::FEATURES.reclaim && may_wait && !plan.gfp.contains(__GFP_MEMALLOC) => {
                    self.reclaim(plan, alloc_flags)
                }
                Rung::Unboosted if self.shared.mechanisms().boosts_marks() => {
                    self.try_drained(plan, last, claim, FEW_ROUNDS)
                }
                Rung::Mix if enforced && !keeps_apart => self.try_drained(plan, mixing, claim, FEW_ROUNDS),
                Rung::HighAtomic if M::FEATURES.mobility && may_wait => self.try_unreserved(plan, mixing),
                _ => continue,
            };
            match result {
                Ok(frame) => return Ok(frame),
                Err(reason) => why = reason,
            }
        }
        // Only a request that would fail for good drains that often.
        if plan.order.0 == 0
            && let Ok(frame) = self.try_drained(plan, mixing, claim, DRAIN_ROUNDS)
        {
            return Ok(frame);
        }
        Err(if may_wait || why == Why::Fragmented { why } else { Why::WouldWait })
    }

    /// First try of an interleaved request whose node has no zone wholly below its limit.
    ///
    /// Tries that node nevertheless, then all other nodes.
    fn alloc_turn_below(&self, plan: &Plan) -> Option<Frame> {
        let there = Plan { allowed: plan.turn.map(NodeSet::only).unwrap_or_default(), ..*plan };
        let alloc_flags = first_alloc_flags(plan);
        self.alloc_below(&there, alloc_flags).or_else(|| self.try_once(plan, alloc_flags).ok())
    }

    /// Drains all caches of the request's zones, then tries to serve it.
    ///
    /// Other CPUs go on meanwhile. So the frames that a CPU has freed since are drained, and the request is tried
    /// again. Ends when there was a block, when nothing was cached anywhere for a moment, or after `rounds`.
    fn try_drained(&self, plan: &Plan, alloc_flags: AllocFlags, claim: Claim, rounds: u32) -> Result<Frame, Why> {
        if self.shared.machine.fault(Fault::Drain) {
            return Err(Why::Watermark);
        }
        let mut result = Err(Why::Watermark);
        for _ in 0..rounds {
            let mut before = self.cached_for(plan, alloc_flags);
            if before.helps() {
                self.drain_for(plan, claim);
                before = self.cached_for(plan, alloc_flags);
            } else if plan.order.0 != 0 {
                self.merge_all_for(plan);
            }
            result = self.try_once(plan, alloc_flags);
            if result.is_ok() || self.cached_for(plan, alloc_flags).helped_nothing_since(before) {
                break;
            }
        }
        result
    }

    /// Wakes background reclaim on every node that the request could have used.
    pub(crate) fn wake_kswapd(&self, plan: &Plan) {
        if !M::FEATURES.reclaim || !plan.gfp.contains(__GFP_KSWAPD_RECLAIM) {
            return;
        }
        self.shared.events.count(GlobalEvent::KswapdWake);
        let mut last = None;
        for zone in self.zonelist(plan) {
            let node = zone.node();
            if last.replace(node) != Some(node) {
                zone.stat.ask(Background::Reclaim, plan.order);
                self.shared.machine.wake(Waiter::Kswapd(node));
            }
        }
    }

    fn may_stall(&self, plan: &Plan) -> bool {
        self.shared.mechanisms().stall_order.get().is_some() && plan.migratetype == MigrateType::Movable
    }

    /// Makes a request wait for background reclaim before it mixes mobilities.
    ///
    /// Tries without small blocks of another mobility first. Then raises the marks, wakes background reclaim, waits for
    /// freed memory, and tries with such blocks.
    fn stall(&self, plan: &Plan, alloc_flags: AllocFlags) -> Result<Frame, Why> {
        if let Ok(frame) = self.try_once(plan, AllocFlags { stall: true, ..alloc_flags }) {
            return Ok(frame);
        }
        for zone in self.zonelist(plan).filter(|zone| zone.node() == plan.start) {
            self.pinned(|cx| zone.lock(cx).zone.boost(&self.shared, STALL_BOOST));
        }
        self.wake_kswapd(plan);
        let start = self.shared.machine.now();
        self.shared.machine.sleep_until(Waiter::Allocation(plan.start), start.saturating_add(STALL));
        let events = &self.shared.events;
        events.count(GlobalEvent::FragmentStall);
        events.add(GlobalEvent::FragmentStallTime, self.shared.machine.now().saturating_sub(start));
        self.try_once(plan, alloc_flags)
    }

    /// Returns whether moving memory may serve the request.
    ///
    /// It may in two cases. The request wants more than a page. Or it may have a page of another mobility only as part
    /// of a whole pageblock, and moving movable memory can empty one. A request with `__GFP_MEMALLOC` never compacts:
    /// it must not be kept from freeing memory.
    fn may_compact(&self, plan: &Plan) -> bool {
        let enforced = self.shared.mechanisms().mixes_last();
        let is_short_of_blocks = plan.order.0 != 0 || (enforced && plan.migratetype != MigrateType::Movable);
        is_short_of_blocks && !plan.gfp.contains(__GFP_MEMALLOC) && self.compacts()
    }

    /// Releases pageblocks of the high-atomic reserves one by one, until the request is served.
    ///
    /// They get the type of the request.
    fn try_unreserved(&self, plan: &Plan, alloc_flags: AllocFlags) -> Result<Frame, Why> {
        let mut result = self.try_drained(plan, alloc_flags, Claim::Wait, FEW_ROUNDS);
        for zone in self.all_zones(plan) {
            let pageblock = self.shared.frames.geometry.pageblock_order.frames();
            // Other CPUs may add to the reserve meanwhile: no more pageblocks than there are now.
            for _ in 0..zone.highatomic_reserved.load(Ordering::Relaxed).checked_div(pageblock).unwrap_or(0) {
                if result.is_ok() || !self.unreserve(zone, plan) {
                    break;
                }
                result = self.try_drained(plan, alloc_flags, Claim::Wait, FEW_ROUNDS);
            }
        }
        result
    }

    /// Turns a pageblock of a zone's high-atomic reserve into the request's type.
    ///
    /// Returns whether there was one.
    fn unreserve(&self, zone: &Zone<M>, plan: &Plan) -> bool {
        self.pinned(|cx| zone.lock(cx).unreserve_highatomic(plan.migratetype, plan.order)) == Some(true)
    }

    /// Lets the caller reclaim until the request is served.
    ///
    /// Ends also if nothing more is freed, or a bound is reached.
    fn reclaim(&self, plan: &Plan, alloc_flags: AllocFlags) -> Result<Frame, Why> {
        self.shared.events.count_stall(plan.highest);
        let nofail = plan.gfp.contains(__GFP_NOFAIL);
        let mut why = Why::Watermark;
        for attempt in 0..if nofail { NOFAIL_ROUNDS } else { MAX_ROUNDS } {
            let progress = self.have_freed(plan, attempt);
            // Memory that other CPUs freed meanwhile may lie on their lists.
            let served = if progress || attempt.is_multiple_of(IDLE_ROUNDS) {
                self.try_drained(plan, alloc_flags, Claim::Wait, FEW_ROUNDS)
            } else {
                self.try_once(plan, alloc_flags)
            };
            // The freed memory is scattered.
            let served = match served {
                Err(_) if progress && self.may_compact(plan) => self.compact_for(plan, alloc_flags, Effort::Any),
                served => served,
            };
            why = match served {
                Ok(frame) => return Ok(frame),
                Err(why) => why,
            };
            if nofail {
                let deadline = self.shared.machine.now().saturating_add(NOFAIL_PAUSE);
                self.shared.machine.sleep_until(Waiter::Allocation(plan.start), deadline);
            } else if !worth_another_round(plan, progress) {
                break;
            }
        }
        Err(why)
    }

    /// Asks for memory to be freed, looking ever harder until there is enough.
    ///
    /// Returns whether any was freed.
    fn have_freed(&self, plan: &Plan, attempt: u32) -> bool {
        let (order, frames) = self.to_free(plan);
        let need = Need::of_request(plan.start, order, frames, plan.gfp, attempt);
        let mut freed = 0_u64;
        for priority in (0..=need.priority).rev() {
            freed = freed.saturating_add(self.shared.machine.reclaim(&Need { priority, ..need }).frames);
            if freed >= need.frames {
                break;
            }
        }
        freed != 0
    }

    /// Returns the order and the number of frames that reclaim must free.
    ///
    /// Where compaction empties a pageblock that it has chosen, frames anywhere will do. As many frames are in use
    /// there at most. Half as many again are asked for, because other requests allocate some of them meanwhile.
    fn to_free(&self, plan: &Plan) -> (Order, u64) {
        let frames = plan.order.frames();
        let empties = self.shared.mechanisms().empties_pageblocks() && self.may_compact(plan);
        if empties { (Order(0), frames.saturating_add(frames / 2)) } else { (plan.order, frames) }
    }

    /// Merges unmerged blocks in the request's zones, until one can serve it.
    ///
    /// False if there was nothing to merge, or other CPUs already merge.
    fn merge_for(&self, plan: &Plan) -> bool {
        let alloc_flags = first_alloc_flags(plan);
        let mut found = false;
        for zone in self.zonelist(plan).filter(|zone| !zone.count.skipped_racy().is_zero()) {
            let is_enough = || self.may_serve(zone, plan, alloc_flags);
            if is_enough() {
                return true;
            }
            let Some(search) = zone.merging.begin(plan.order) else { continue };
            self.merge_skipped(zone, is_enough);
            let is_served = is_enough();
            search.end(plan.order, is_served);
            if is_served {
                return true;
            }
            found = true;
        }
        found
    }

    /// Frees the deferred frees of the request's zones, then their depots, then owned pageblocks as the request needs.
    ///
    /// Returns the number of frames.
    fn drain_depots_for(&self, plan: &Plan) -> FrameCount {
        let deferred: FrameCount = self.zonelist(plan).map(|zone| self.drain_deferred(zone)).sum();
        let stored: FrameCount = self.zonelist(plan).map(|zone| self.drain_depot(zone)).sum();
        deferred.plus(stored).plus(self.release_owned_for(plan))
    }

    /// Releases as many owned pageblocks as the request needs; returns the number of frames.
    ///
    /// They are taken from their owners and go to the zones that the request could have used.
    fn release_owned_for(&self, plan: &Plan) -> FrameCount {
        let alloc_flags = first_alloc_flags(plan);
        let mut disowned = FrameCount::ZERO;
        for zone in self.zonelist(plan) {
            let is_enough = || self.may_serve(zone, plan, alloc_flags);
            let owned = &self.shared.frames.owned;
            disowned = disowned.plus(self.release_owned(zone, |start, _| !owned.is_used_up(start), is_enough));
            if !disowned.is_zero() && is_enough() {
                break;
            }
        }
        disowned
    }
}

/// Returns whether more reclaim may serve the request, after a round.
///
/// `progress`: the round freed some memory.
fn worth_another_round(plan: &Plan, progress: bool) -> bool {
    let costly = plan.order > COSTLY_ORDER && !plan.gfp.contains(__GFP_RETRY_MAYFAIL);
    progress && !costly && !plan.gfp.contains(__GFP_NORETRY)
}
