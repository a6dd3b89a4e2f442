//! When memory is short: the only ladder.
//!
//! A request that found nothing above the low mark climbs [`Rung`] by rung, in order of increasing harm to others, and stops at
//! the first that serves it or that it may not use. Every loop on it has a bound: a request ends with a block or with
//! [`Why`] not, whatever the callbacks do. Callbacks run unpinned, with no lock held; what they allocate themselves must
//! carry `__GFP_MEMALLOC`, which reclaims no further and may use the reserves.

use crate::compaction::progress::Effort;
use crate::pcp::pcp::Claim;
use crate::policy::mechanisms::{Compaction, Nofragment};
use crate::policy::watermark::Rights;
use crate::seam::machine::{Fault, Machine, Need, Ordering, Step, Waiter, Word};
use crate::stat::vmstat::GlobalEvent;
use crate::stat::zone_stat::Background;
use crate::types::error::Why;
use crate::types::migratetype::MigrateType;
use crate::types::request::{
    __GFP_KSWAPD_RECLAIM, __GFP_MEMALLOC, __GFP_NOFAIL, __GFP_NORETRY, __GFP_RETRY_MAYFAIL, NodeSet, Request,
};
use crate::types::units::{Frame, Order};
use crate::zone::zone::Zone;
use crate::zonelist::plan::{Plan, first_rights, is_optional, may_use_reserves, slow_rights};
use crate::zonelist::world::World;

/// Above this order a request gives up sooner: so large a block is rarely worth long reclaim.
const COSTLY_ORDER: Order = Order(3);
/// Rounds of reclaim after which an ordinary request fails, although each freed something.
const MAX_ROUNDS: u32 = 16;
/// The same for `__GFP_NOFAIL`: with the pause below, about ten seconds. Then even it fails, rather than hang for ever.
const NOFAIL_ROUNDS: u32 = 1_024;
/// Pause of a `__GFP_NOFAIL` request between rounds, in nanoseconds.
const NOFAIL_PAUSE: u64 = 10_000_000;
/// Rounds of reclaim that freed nothing, of which one is followed by a drain.
const IDLE_ROUNDS: u32 = 16;
/// Drains of a request for a page that fails else, each followed by a try, that meet frames which other CPUs have cached since. Each of them
/// means that another CPU freed something meanwhile.
const DRAIN_ROUNDS: u32 = 64;
/// The same before that, and of a request for a larger block: what single frames that others have cached could make is not looked for again
/// and again.
pub(crate) const FEW_ROUNDS: u32 = 2;
/// Longest wait of a request that would mix mobilities, in nanoseconds (Linux's patch: a fiftieth of a second).
const STALL: u64 = 20_000_000;
/// Pageblocks that the marks rise by for it: one, and one more for each pair of mobilities and direction (the patch's formula).
const STALL_BOOST: u64 = 1 + 2 * 3;

/// What is tried next, in order of increasing harm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rung {
    /// What was given back unmerged is merged.
    Skipped,
    /// What was freed while a zone was locked goes back; what lies in the depots is merged; pageblocks that CPUs own go back.
    Depot,
    /// A movable request that would take a small block from another mobility waits for background reclaim, once and not for long.
    Stall,
    /// Background reclaim is woken; the min mark is all that must stay.
    WakeAndMin,
    /// All reserves, for who is about to free memory.
    Reserves,
    /// Memory in use is moved until there is a block.
    Compact,
    /// All that is cached anywhere of the zones that the request may use goes back to them (`drain.rs`).
    Drain,
    /// The caller frees memory itself, again and again while that helps.
    Reclaim,
    /// Marks are taken as they were set: no request fails because they were raised.
    Unboosted,
    /// Mobilities are mixed, where they were kept apart up to here, unless the caller has another way.
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
    /// Serves a request, or says why not. The block's head says "allocated".
    pub(crate) fn alloc_slow(&self, request: &Request) -> Result<Frame, Why> {
        let first = self.pinned(|cx| {
            let plan = self.plan(cx, request);
            if self.is_turn_split(&plan) {
                return Err((plan, Why::Fragmented));
            }
            self.alloc_intact(cx, &plan, first_rights(&plan)).map_err(|why| (plan, why))
        });
        match first {
            None => Err(Why::NoCpu),
            Some(Ok(frame)) => Ok(frame),
            Some(Err((_, Why::NoZone))) => Err(Why::NoZone),
            Some(Err((plan, _))) => self.slowpath(&plan),
        }
    }

    #[cold]
    fn slowpath(&self, plan: &Plan) -> Result<Frame, Why> {
        let enforced = self.shared.mechanisms.nofragment == Nofragment::Enforced;
        let may_wait = plan.gfp.may_reclaim() && !self.shared.machine.in_interrupt();
        let rights = Rights { nofragment: enforced, ..slow_rights(plan, may_wait) };
        // Whoever may ignore the marks does so from `Reserves` on.
        let most = Rights { no_watermarks: may_use_reserves(plan), ..rights };
        let last = Rights { unboosted: true, ..most };
        let keeps_apart = enforced && is_optional(plan);
        let mixing = Rights { nofragment: keeps_apart, ..last };
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
                Rung::Skipped if plan.order.0 != 0 && self.merge_for(plan) => self.try_once(plan, first_rights(plan)),
                Rung::Depot
                    if self.drain_deferred_for(plan) | self.drain_depots_for(plan) | self.release_owned_for(plan)
                        != 0 =>
                {
                    self.try_once(plan, first_rights(plan))
                }
                Rung::Stall if may_wait && self.may_stall(plan) => self.stall(plan, rights),
                Rung::WakeAndMin => {
                    self.wake_kswapd(plan);
                    self.try_once(plan, rights)
                }
                Rung::Reserves if most.no_watermarks => self.try_once(plan, most),
                Rung::Compact if may_wait && self.may_compact(plan) => {
                    // What is cached is free already. Linux moves memory first.
                    let drains = self.shared.mechanisms.compaction == Compaction::Emptiest;
                    let drained = if drains { self.try_drained(plan, most, claim, FEW_ROUNDS) } else { Err(why) };
                    drained.or_else(|_| self.compact_for(plan, rights, Effort::Worthwhile))
                }
                Rung::Drain => self.try_drained(plan, most, claim, FEW_ROUNDS),
                Rung::Reclaim if may_wait && !plan.gfp.contains(__GFP_MEMALLOC) => self.reclaim(plan, rights),
                Rung::Unboosted if self.shared.mechanisms.watermark_boost.get() != 0 => {
                    self.try_drained(plan, last, claim, FEW_ROUNDS)
                }
                Rung::Mix if enforced && !keeps_apart => self.try_drained(plan, mixing, claim, FEW_ROUNDS),
                Rung::HighAtomic if may_wait => self.try_unreserved(plan, mixing),
                _ => continue,
            };
            match result {
                Ok(frame) => return Ok(frame),
                Err(reason) => why = reason,
            }
        }
        // Only who would fail for good looks again and again.
        if plan.order.0 == 0
            && let Ok(frame) = self.try_drained(plan, mixing, claim, DRAIN_ROUNDS)
        {
            return Ok(frame);
        }
        Err(if may_wait || why == Why::Fragmented { why } else { Why::WouldWait })
    }

    /// The first try of an interleaved request whose node has no zone that is wholly below its limit: there all the same, then
    /// elsewhere.
    fn alloc_turn_below(&self, plan: &Plan) -> Option<Frame> {
        let there = Plan { allowed: plan.turn.map(NodeSet::only).unwrap_or_default(), ..*plan };
        let rights = first_rights(plan);
        self.alloc_below(&there, rights).or_else(|| self.try_once(plan, rights).ok())
    }

    /// Tries with all that was cached back in the zones. Others go on meanwhile, so what a CPU has freed since is drained and tried again:
    /// until a block was there, or for a moment nothing was cached anywhere, or so many times.
    fn try_drained(&self, plan: &Plan, rights: Rights, claim: Claim, rounds: u32) -> Result<Frame, Why> {
        if self.shared.machine.fault(Fault::Drain) {
            return Err(Why::Watermark);
        }
        let mut result = Err(Why::Watermark);
        for _ in 0..rounds {
            let mut before = self.cached_for(plan, rights);
            if before.helps() {
                self.drain_for(plan, claim);
                before = self.cached_for(plan, rights);
            } else if plan.order.0 != 0 {
                self.merge_all_for(plan);
            }
            result = self.try_once(plan, rights);
            if result.is_ok() || self.cached_for(plan, rights).helped_nothing_since(before) {
                break;
            }
        }
        result
    }

    /// Wakes background reclaim on every node that the request could have used.
    fn wake_kswapd(&self, plan: &Plan) {
        if !plan.gfp.contains(__GFP_KSWAPD_RECLAIM) {
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
        self.shared.mechanisms.stall_order.get().is_some() && plan.migratetype == MigrateType::Movable
    }

    /// Tries without small blocks of another mobility; then has more memory freed, waits for some of it, and tries with them.
    fn stall(&self, plan: &Plan, rights: Rights) -> Result<Frame, Why> {
        if let Ok(frame) = self.try_once(plan, Rights { stall: true, ..rights }) {
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
        self.try_once(plan, rights)
    }

    /// Whether moving memory may serve the request: it wants more than a page, or may have one of another mobility only if that is a whole
    /// pageblock, which movable memory can make room for. Who frees memory is not kept from it.
    fn may_compact(&self, plan: &Plan) -> bool {
        let enforced = self.shared.mechanisms.nofragment == Nofragment::Enforced;
        let is_short_of_blocks = plan.order.0 != 0 || (enforced && plan.migratetype != MigrateType::Movable);
        is_short_of_blocks && !plan.gfp.contains(__GFP_MEMALLOC) && self.compacts()
    }

    /// Gives pageblocks of the high-atomic reserves to the request's kind, one after the other, until it is served.
    fn try_unreserved(&self, plan: &Plan, rights: Rights) -> Result<Frame, Why> {
        let mut result = self.try_drained(plan, rights, Claim::Wait, FEW_ROUNDS);
        for zone in self.zonelist(plan).chain(self.split_zones(plan)) {
            let pageblock = self.shared.frames.geometry.pageblock_order.frames();
            // Others may go on adding to it: as many as there are, no more.
            for _ in 0..zone.highatomic_reserved.load(Ordering::Relaxed).checked_div(pageblock).unwrap_or(0) {
                if result.is_ok() || !self.unreserve(zone, plan) {
                    break;
                }
                result = self.try_drained(plan, rights, Claim::Wait, FEW_ROUNDS);
            }
        }
        result
    }

    /// Gives a pageblock of a zone's high-atomic reserve to the request's kind. Returns whether there was one.
    fn unreserve(&self, zone: &Zone<M>, plan: &Plan) -> bool {
        self.pinned(|cx| zone.lock(cx).unreserve_highatomic(plan.migratetype, plan.order)) == Some(true)
    }

    /// Lets the caller reclaim until the request is served, nothing more comes, or a bound is reached.
    fn reclaim(&self, plan: &Plan, rights: Rights) -> Result<Frame, Why> {
        self.shared.events.count_stall(plan.highest);
        let nofail = plan.gfp.contains(__GFP_NOFAIL);
        let mut why = Why::Watermark;
        for attempt in 0..if nofail { NOFAIL_ROUNDS } else { MAX_ROUNDS } {
            let progress = self.have_freed(plan, attempt);
            // What others freed meanwhile may lie on their lists.
            let served = if progress || attempt.is_multiple_of(IDLE_ROUNDS) {
                self.try_drained(plan, rights, Claim::Wait, FEW_ROUNDS)
            } else {
                self.try_once(plan, rights)
            };
            // What came free is scattered.
            let served = match served {
                Err(_) if progress && self.may_compact(plan) => self.compact_for(plan, rights, Effort::Any),
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

    /// Has memory freed, by looking ever harder until there is as much as is wanted. Returns whether any was.
    fn have_freed(&self, plan: &Plan, attempt: u32) -> bool {
        let need = Need::of_request(plan.start, self.to_free(plan), plan.gfp, attempt);
        let mut freed = 0_u64;
        for priority in (0..=need.priority).rev() {
            freed = freed.saturating_add(self.shared.machine.reclaim(&Need { priority, ..need }).frames);
            if freed >= need.frames {
                break;
            }
        }
        freed != 0
    }

    /// What freeing memory is to bring about. Where compaction empties a pageblock that it has chosen, frames anywhere do: as many as are in use there at
    /// most, and half as many again, since others take of what comes free meanwhile.
    fn to_free(&self, plan: &Plan) -> (Order, u64) {
        let frames = plan.order.frames();
        let empties = self.shared.mechanisms.compaction == Compaction::Emptiest && self.may_compact(plan);
        if empties { (Order(0), frames.saturating_add(frames / 2)) } else { (plan.order, frames) }
    }

    /// Merges what lies unmerged in the zones that a request could have used, until one of them can serve it. False if there was
    /// nothing to merge, or others see to it.
    fn merge_for(&self, plan: &Plan) -> bool {
        let rights = first_rights(plan);
        let mut found = false;
        for zone in self.zonelist(plan).filter(|zone| zone.count.skipped.load(Ordering::Relaxed) != 0) {
            let is_enough = || self.may_serve(zone, plan, rights);
            if is_enough() {
                return true;
            }
            if !zone.merging.begin(plan.order) {
                continue;
            }
            self.merge_skipped(zone, is_enough);
            let is_served = is_enough();
            zone.merging.end(plan.order, is_served);
            if is_served {
                return true;
            }
            found = true;
        }
        found
    }

    /// Gives what was freed while a zone was locked back to the zones that a request may use. Returns the number of frames.
    fn drain_deferred_for(&self, plan: &Plan) -> u64 {
        self.zonelist(plan).map(|zone| self.drain_deferred(zone)).fold(0, u64::saturating_add)
    }

    /// Gives what lies in depots back to the zones that a request may use. Returns the number of frames.
    fn drain_depots_for(&self, plan: &Plan) -> u64 {
        self.zonelist(plan).map(|zone| self.drain_depot(zone)).fold(0, u64::saturating_add)
    }

    /// Takes from their owners, and gives to the zones that a request could have used, as many pageblocks as it needs. Returns the
    /// number of frames.
    fn release_owned_for(&self, plan: &Plan) -> u64 {
        let rights = first_rights(plan);
        let mut disowned = 0_u64;
        for zone in self.zonelist(plan) {
            let is_enough = || self.may_serve(zone, plan, rights);
            let owned = &self.shared.frames.owned;
            disowned =
                disowned.saturating_add(self.release_owned(zone, |start, _| !owned.is_used_up(start), is_enough));
            if disowned != 0 && is_enough() {
                break;
            }
        }
        disowned
    }
}

/// Whether more reclaim may serve the request, after a round that did or did not free something.
fn worth_another_round(plan: &Plan, progress: bool) -> bool {
    let costly = plan.order > COSTLY_ORDER && !plan.gfp.contains(__GFP_RETRY_MAYFAIL);
    progress && !costly && !plan.gfp.contains(__GFP_NORETRY)
}
