//! When memory is short: the only ladder.
//!
//! A request that found nothing above the low mark climbs [`Rung`] by rung, in order of increasing harm to others, and stops at
//! the first that serves it or that it may not use. Every loop on it has a bound: a request ends with a block or with
//! [`Why`] not, whatever the callbacks do. Callbacks run unpinned, with no lock held; what they allocate themselves must
//! carry `__GFP_MEMALLOC`, which reclaims no further and may use the reserves.

use crate::batch::{BATCH, Batch};
use crate::compaction::Effort;
use crate::disown::disown;
use crate::error::Why;
use crate::give::{collect, give_batch};
use crate::machine::{Machine, Need, Ordering, Step, Waiter, Word};
use crate::mechanisms::{Compaction, Nofragment};
use crate::node::{Plan, World, first_rights};
use crate::pfn::{CpuId, Frame, MigrateType, Order};
use crate::request::{
    __GFP_ATOMIC, __GFP_HIGH, __GFP_KSWAPD_RECLAIM, __GFP_MEMALLOC, __GFP_NOFAIL, __GFP_NOMEMALLOC, __GFP_NORETRY,
    __GFP_RETRY_MAYFAIL, Request,
};
use crate::vmstat::GlobalEvent;
use crate::watermark::{Mark, Rights};
use crate::zone::Zone;
use crate::zone_stat::Background;

/// Above this order a request gives up sooner: so large a block is rarely worth long reclaim.
const COSTLY_ORDER: Order = Order(3);
/// Rounds of reclaim after which an ordinary request fails, although each freed something.
const MAX_ROUNDS: u32 = 16;
/// The same for `__GFP_NOFAIL`: with the pause below, about ten seconds. Then even it fails, rather than hang for ever.
const NOFAIL_ROUNDS: u32 = 1_024;
/// Pause of a `__GFP_NOFAIL` request between rounds, in nanoseconds.
const NOFAIL_PAUSE: u64 = 10_000_000;
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
    /// What other CPUs keep on their lists.
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
    pub(crate) fn alloc(&self, request: &Request) -> Result<Frame, Why> {
        let first = self.pinned(|cx| {
            let plan = self.plan(cx, request);
            self.take_intact(cx, &plan, first_rights(&plan)).map_err(|why| (plan, why))
        });
        match first {
            None => Err(Why::NoCpu),
            Some(Ok(frame)) => Ok(frame),
            Some(Err((_, Why::NoZone))) => Err(Why::NoZone),
            Some(Err((plan, _))) => self.alloc_slowly(&plan),
        }
    }

    #[cold]
    fn alloc_slowly(&self, plan: &Plan) -> Result<Frame, Why> {
        let enforced = self.ground.mechanisms.nofragment == Nofragment::Enforced;
        let rights = Rights { nofragment: enforced, ..slow_rights(plan) };
        // Whoever may ignore the marks does so from `Reserves` on.
        let most = Rights { no_watermarks: may_use_reserves(plan), ..rights };
        let last = Rights { unboosted: true, ..most };
        let keeps_apart = enforced && is_optional(plan);
        let mixing = Rights { nofragment: keeps_apart, ..last };
        let may_wait = plan.gfp.may_reclaim() && !self.ground.machine.in_interrupt();
        let mut why = Why::Watermark;
        for rung in Rung::ALL {
            self.ground.machine.step(Step::Rung);
            let result = match rung {
                Rung::Skipped if plan.order.0 != 0 && self.merge_for(plan) => self.try_once(plan, first_rights(plan)),
                Rung::Depot if self.take_back(plan) | self.drain_depots(plan) != 0 || self.disown_for(plan) != 0 => {
                    self.try_once(plan, first_rights(plan))
                }
                Rung::Stall if may_wait && self.may_stall(plan) => self.stall(plan, rights),
                Rung::WakeAndMin => {
                    self.wake_kswapd(plan);
                    self.try_once(plan, rights)
                }
                Rung::Reserves if most.no_watermarks => self.try_once(plan, most),
                Rung::Compact if may_wait && self.may_compact(plan) => {
                    self.compact_for(plan, rights, Effort::Worthwhile)
                }
                Rung::Drain if may_wait => {
                    self.drain_for(plan);
                    self.try_once(plan, most)
                }
                Rung::Reclaim if may_wait && !plan.gfp.contains(__GFP_MEMALLOC) => self.reclaim(plan, rights),
                Rung::Unboosted if self.ground.mechanisms.watermark_boost.get() != 0 => self.try_once(plan, last),
                Rung::Mix if enforced && !keeps_apart => self.try_once(plan, mixing),
                Rung::HighAtomic if may_wait => {
                    self.unreserve(plan);
                    self.try_once(plan, mixing)
                }
                _ => continue,
            };
            match result {
                Ok(frame) => return Ok(frame),
                Err(reason) => why = reason,
            }
        }
        Err(if may_wait || why == Why::Fragmented { why } else { Why::WouldWait })
    }

    pub(crate) fn try_once(&self, plan: &Plan, rights: Rights) -> Result<Frame, Why> {
        let result = self.pinned(|cx| self.take_intact(cx, plan, rights)).unwrap_or(Err(Why::NoCpu));
        result.or_else(|why| self.take_below(plan, rights).ok_or(why))
    }

    /// Wakes background reclaim on every node that the request could have used.
    fn wake_kswapd(&self, plan: &Plan) {
        if !plan.gfp.contains(__GFP_KSWAPD_RECLAIM) {
            return;
        }
        self.ground.events.count(GlobalEvent::KswapdWake);
        let mut last = None;
        for zone in self.zonelist(plan) {
            let node = zone.node();
            if last.replace(node) != Some(node) {
                zone.stat.ask(Background::Reclaim, plan.order);
                self.ground.machine.wake(Waiter::Kswapd(node));
            }
        }
    }

    fn may_stall(&self, plan: &Plan) -> bool {
        self.ground.mechanisms.stall_order.get().is_some() && plan.migratetype == MigrateType::Movable
    }

    /// Tries without small blocks of another mobility; then has more memory freed, waits for some of it, and tries with them.
    fn stall(&self, plan: &Plan, rights: Rights) -> Result<Frame, Why> {
        if let Ok(frame) = self.try_once(plan, Rights { stall: true, ..rights }) {
            return Ok(frame);
        }
        for zone in self.zonelist(plan).filter(|zone| zone.node() == plan.start) {
            self.pinned(|cx| zone.lock(cx).boost(STALL_BOOST));
        }
        self.wake_kswapd(plan);
        let start = self.ground.machine.now();
        self.ground.machine.sleep_until(Waiter::Allocation(plan.start), start.saturating_add(STALL));
        let events = &self.ground.events;
        events.count(GlobalEvent::FragmentStall);
        events.add(GlobalEvent::FragmentStallTime, self.ground.machine.now().saturating_sub(start));
        self.try_once(plan, rights)
    }

    /// Whether moving memory may serve the request: it wants more than a page, or may have one of another mobility only if that is a whole
    /// pageblock, which movable memory can make room for. Who frees memory is not kept from it.
    fn may_compact(&self, plan: &Plan) -> bool {
        let enforced = self.ground.mechanisms.nofragment == Nofragment::Enforced;
        let is_short_of_blocks = plan.order.0 != 0 || (enforced && plan.migratetype != MigrateType::Movable);
        is_short_of_blocks && !plan.gfp.contains(__GFP_MEMALLOC) && self.compacts()
    }

    /// Gives one pageblock of each zone's high-atomic reserve to the request's kind.
    fn unreserve(&self, plan: &Plan) {
        for zone in self.zonelist(plan) {
            self.pinned(|cx| zone.lock(cx).unreserve_highatomic(plan.migratetype, true));
        }
    }

    /// Lets the caller reclaim until the request is served, nothing more comes, or a bound is reached.
    fn reclaim(&self, plan: &Plan, rights: Rights) -> Result<Frame, Why> {
        self.ground.events.count_stall(plan.highest);
        let nofail = plan.gfp.contains(__GFP_NOFAIL);
        let mut why = Why::Watermark;
        for attempt in 0..if nofail { NOFAIL_ROUNDS } else { MAX_ROUNDS } {
            let progress = self.have_freed(plan, attempt);
            self.drain_for(plan);
            let served = self.try_once(plan, rights);
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
                let deadline = self.ground.machine.now().saturating_add(NOFAIL_PAUSE);
                self.ground.machine.sleep_until(Waiter::Allocation(plan.start), deadline);
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
            freed = freed.saturating_add(self.ground.machine.reclaim(&Need { priority, ..need }).frames);
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
        let empties = self.ground.mechanisms.compaction == Compaction::Emptiest && self.may_compact(plan);
        if empties { (Order(0), frames.saturating_add(frames / 2)) } else { (plan.order, frames) }
    }

    /// Whether a zone may serve a request, at this moment.
    pub(crate) fn may_serve(&self, zone: &Zone<M>, plan: &Plan, rights: Rights) -> bool {
        zone.may_take_racy(&self.ground, plan.order, plan.highest, rights)
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

    /// Gives every block on every CPU's lists and in every depot back to its zone, and all pageblocks that CPUs own; and merges what
    /// can be merged. Returns the number of frames.
    pub(crate) fn drain_all(&self) -> u64 {
        let drained = self.drain_unmerged();
        self.zones.iter().for_each(|zone| self.merge_skipped(zone, || false));
        drained
    }

    /// The same for a request; for a single page nothing needs to merge.
    fn drain_for(&self, plan: &Plan) {
        if plan.order.0 == 0 {
            self.drain_unmerged();
        } else {
            self.drain_all();
        }
    }

    /// The same, without the merges that are left undone.
    pub(crate) fn drain_unmerged(&self) -> u64 {
        let cpus = self.ground.cpus.len().min(usize::from(u16::MAX)) as u16;
        // First, so that what the lists give back goes to the zones.
        let owned = self.zones.iter().map(|zone| self.drain_owned(zone)).fold(0, u64::saturating_add);
        let cached = (0..cpus).map(|cpu| self.drain_lists(CpuId(cpu))).fold(owned, u64::saturating_add);
        let stored = self.zones.iter().map(|zone| self.drain_depot(zone)).fold(cached, u64::saturating_add);
        self.zones.iter().map(|zone| self.drain_deferred(zone)).fold(stored, u64::saturating_add)
    }

    /// Gives what was freed while a zone was locked back to it. Returns the number of frames.
    pub(crate) fn drain_deferred(&self, zone: &Zone<M>) -> u64 {
        if zone.deferred.is_empty() { 0 } else { self.pinned(|cx| zone.take_back(cx)).unwrap_or(0) }
    }

    /// The same for the zones that a request could have used.
    fn take_back(&self, plan: &Plan) -> u64 {
        self.zonelist(plan).map(|zone| self.drain_deferred(zone)).fold(0, u64::saturating_add)
    }

    /// Gives what lies in the depots that a request could have used back to their zones. Returns the number of frames.
    fn drain_depots(&self, plan: &Plan) -> u64 {
        self.zonelist(plan).map(|zone| self.drain_depot(zone)).fold(0, u64::saturating_add)
    }

    /// Gives every block in a zone's depot back to the zone, a magazine at a time, so that the zone lock is never held for
    /// long. Returns the number of frames.
    pub(crate) fn drain_depot(&self, zone: &Zone<M>) -> u64 {
        let mut drained = 0_u64;
        let depots = &self.pcps.depots;
        for shard in depots.of(zone).iter().filter(|shard| shard.frames_racy() != 0) {
            // Others may go on putting in: as many as there can be, no more.
            for _ in depots.magazines {
                let more = self.pinned(|cx| {
                    depots.drain(cx, shard, |magazine, ring| {
                        let mut batch = Batch::new();
                        depots.each_of(magazine, |frame| {
                            if batch.room() == 0 {
                                give_batch(cx, zone, &mut batch);
                            }
                            drained = drained.saturating_add(ring.order.frames());
                            collect(&self.ground, &mut batch, frame, ring.order);
                        });
                        give_batch(cx, zone, &mut batch);
                    })
                });
                if more != Some(true) {
                    break;
                }
            }
        }
        drained
    }

    /// Takes from their owners, and gives to the zones that a request could have used, as many pageblocks as it needs. Returns the
    /// number of frames.
    fn disown_for(&self, plan: &Plan) -> u64 {
        let rights = first_rights(plan);
        let mut disowned = 0_u64;
        for zone in self.zonelist(plan) {
            let is_enough = || self.may_serve(zone, plan, rights);
            let estates = &self.ground.frames.estates;
            disowned = disowned.saturating_add(self.disown(zone, |start, _| !estates.is_used_up(start), is_enough));
            if disowned != 0 && is_enough() {
                break;
            }
        }
        disowned
    }

    /// Takes a zone's pageblocks from their owners. Returns the number of frames that were free in them.
    pub(crate) fn drain_owned(&self, zone: &Zone<M>) -> u64 {
        self.disown(zone, |_, _| true, || false)
    }

    /// Takes those of a zone's pageblocks from their owners that are wanted, until there is enough. Returns the number of frames that
    /// were free in them.
    fn disown(&self, zone: &Zone<M>, wanted: impl Fn(Frame, CpuId) -> bool, is_enough: impl Fn() -> bool) -> u64 {
        let frames = &self.ground.frames;
        let mut disowned = 0_u64;
        for start in frames.estates.starts() {
            if zone.count.owned.load(Ordering::Relaxed) == 0 {
                break;
            }
            let is_wanted = frames.estates.owner(start).is_some_and(|owner| wanted(start, owner))
                && frames.pageblock(start).zone() == Some(zone.idx);
            if !is_wanted {
                continue;
            }
            if is_enough() {
                break;
            }
            // A batch at a time, so that the zone lock is never held for long.
            while let Some(some) = self.pinned(|cx| disown(&zone.lock(cx).buddy(), start, BATCH as u32)) {
                disowned = disowned.saturating_add(some.frames);
                if some.done {
                    break;
                }
            }
        }
        disowned
    }

    /// Gives every block on one CPU's lists back to its zone, and the pageblocks that it owns. Returns the number of frames.
    pub(crate) fn drain_cpu(&self, cpu: CpuId) -> u64 {
        let owned = self.zones.iter().map(|zone| self.disown(zone, |_, owner| owner == cpu, || false));
        owned.fold(0, u64::saturating_add).saturating_add(self.drain_lists(cpu))
    }

    /// Gives every block on one CPU's lists back to its zone, or to the owner of its pageblock. Returns the number of frames. A CPU
    /// that does not let go of its lists in time keeps what it has.
    fn drain_lists(&self, cpu: CpuId) -> u64 {
        let pageblock_order = self.ground.frames.geometry.pageblock_order;
        let mut drained = 0_u64;
        for zone in self.zones.iter().filter(|zone| zone.is_populated()) {
            self.ground.machine.step(Step::Drain);
            let Some(pcp) = self.pcps.record(cpu, zone.idx.index()) else { continue };
            if pcp.depot {
                self.ground.machine.step(Step::DrainCount);
            }
            if pcp.count_racy(pageblock_order) == 0 {
                continue;
            }
            self.pinned(|cx| {
                let Ok(pcp) = self.pcps.claim(cx, cpu, zone) else { return };
                drained = drained.saturating_add(pcp.drain_all());
            });
        }
        drained
    }
}

/// Rights of a request that found nothing above the low mark.
fn slow_rights(plan: &Plan) -> Rights {
    let atomic = plan.gfp.contains(__GFP_ATOMIC) && !plan.gfp.contains(__GFP_NOMEMALLOC);
    Rights { mark: Mark::Min, high: plan.gfp.contains(__GFP_HIGH), harder: atomic, ..first_rights(plan) }
}

/// Whether the request may go below every mark. Memory for who frees memory must not be denied because memory is short.
fn may_use_reserves(plan: &Plan) -> bool {
    plan.gfp.contains(__GFP_MEMALLOC) && !plan.gfp.contains(__GFP_NOMEMALLOC)
}

/// Whether whoever asks has another way: it wants several pages, but not so much that anything is tried twice. (Sockets, packets and slabs then take single pages.)
fn is_optional(plan: &Plan) -> bool {
    plan.order.0 != 0 && plan.gfp.contains(__GFP_NORETRY) && !plan.gfp.contains(__GFP_NOFAIL)
}

/// Whether more reclaim may serve the request, after a round that did or did not free something.
fn worth_another_round(plan: &Plan, progress: bool) -> bool {
    let costly = plan.order > COSTLY_ORDER && !plan.gfp.contains(__GFP_RETRY_MAYFAIL);
    progress && !costly && !plan.gfp.contains(__GFP_NORETRY)
}
