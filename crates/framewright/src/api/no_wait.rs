//! Requests that must not wait, where a pinned caller may sleep ([`Machine::SLEEPS_PINNED`]).
//!
//! Elsewhere a lock's holder has preemption off: its section ends soon, and a request without `__GFP_DIRECT_RECLAIM`
//! waits for it as any other does. A thread may be stopped inside such a section, for as long as its user likes. So a
//! request that must not wait takes no turn at a lock here, neither of a zone nor of a depot's shard. It looks whether
//! the lock is free, a bounded number of times, and gives up what it wanted the lock for:
//!
//! | stage | what it takes | if the lock is not free |
//! |---|---|---|
//! | fast path | the top of the CPU's list | needs none |
//! | pinned | a magazine of the depot, or a refill from the first zone | the next stage |
//! | without a CPU | a block of any zone, after the caches of all CPUs were freed to it if need be | it looks again |
//!
//! The last stage is that of [`Allocator::alloc_nolock`], with the reserves that the flags give. It ends when a block
//! was there, when nothing that may help is left anywhere, or after [`LOOKS`] looks or [`LONGEST`]: then the reason is
//! [`Why::WouldWait`].
//!
//! What else such a request would have to free to a zone stays where it is: lists that are too long shrink with the
//! next free.
//!
//! Rejected: a wait in line that can be given up. Neither lock can let a waiter out of the middle of its line, and one
//! that can costs every holder more.
//!
//! Frees still wait ([`Allocator::free_nolock`] does not), and so do the calls that take memory by its place.

use crate::api::allocator::Allocator;
use crate::pcp::pcp_guard::PcpGuard;
use crate::pcp::ring_id::RingId;
use crate::policy::watermark::AllocFlags;
use crate::reclaim::slowpath::FEW_ROUNDS;
use crate::seam::machine::Machine;
use crate::shared::CallCx;
use crate::types::error::{AllocError, Why};
use crate::types::request::Request;
use crate::types::units::{Frame, Pfn};
use crate::zonelist::alloc_flags::{first_alloc_flags, is_optional, may_use_reserves, slow_alloc_flags};
use crate::zonelist::numa_stat::ServedFrom;
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

/// Looks at the zones' locks: longer than a section under a zone lock lasts, unless its holder is stopped.
const LOOKS: u32 = 1 << 20;
/// Longest time of these looks, in nanoseconds, after [`FIRST_LOOKS`] of them.
///
/// A look gives the processor away. Where many threads want it, a million looks would last for minutes, and a holder
/// that only waits for its turn at a processor may not have it for a tenth of a second.
const LONGEST: u64 = 1_000_000_000;
const FIRST_LOOKS: u32 = 1 << 8;
/// Tries that find the zones unlocked and without a page, while a page may be on its way there.
///
/// That is longer than an operation on a per-CPU list lasts, unless the CPU that makes it is stopped.
const PAGE_ROUNDS: u32 = 1 << 14;

impl<'a, M: Machine> Allocator<'a, M> {
    /// Allocates for a request that must not wait.
    ///
    /// `tried`: its plan, if the CPU's lists were searched.
    #[cold]
    pub(crate) fn alloc_no_wait(&self, request: &Request, tried: Option<Plan>) -> Result<Pfn, AllocError> {
        let (plan, listed) = match tried {
            Some(plan) => (plan, None),
            None => self.search_lists(request)?,
        };
        let served = match listed {
            Some(frame) => Ok(frame),
            None => {
                self.world().wake_kswapd(&plan);
                self.world().alloc_without_cpu(&plan)
            }
        };
        served.map(|frame| self.served(request, frame)).map_err(|why| self.failed(request, why))
    }

    /// Plans a request, and looks for a block in the CPU's lists.
    ///
    /// # Errors
    /// The caller must have no CPU. One that none is free for at once has no turn, and no lists.
    fn search_lists(&self, request: &Request) -> Result<(Plan, Option<Frame>), AllocError> {
        let world = self.world();
        let Ok(_held) = world.hold_now() else { return Ok((world.plan_from(self.machine().near(), 0, request), None)) };
        let searched = world.pinned_now(|cx| {
            let cx = cx.for_request(request.gfp);
            let plan = world.plan(cx, request);
            (plan, world.alloc_listed(cx, &plan))
        });
        searched.ok_or_else(|| self.failed(request, Why::NoCpu))
    }
}

impl<'a, M: Machine> World<'a, M> {
    /// Goes on with a request that found no block in the lists `searched`, and in their depot.
    #[inline(always)]
    pub(crate) fn alloc_searched<'g>(
        &'g self,
        cx: CallCx<'g, 'a, M>,
        searched: PcpGuard<'g, 'a, M>,
        plan: &Plan,
    ) -> Option<Frame> {
        if cx.may_wait() {
            return self.walk(cx, searched.zone, Some(searched), plan, first_alloc_flags(plan)).ok();
        }
        self.alloc_refilled(&searched, plan)
    }

    /// Takes a block from the CPU's lists of the first zone, from its depot, or by a refill.
    fn alloc_listed(&self, cx: CallCx<'_, 'a, M>, plan: &Plan) -> Option<Frame> {
        let (alloc_flags, mechanisms) = (first_alloc_flags(plan), self.shared.mechanisms());
        let zone = self.zonelist(plan).next()?;
        // A block that was written to goes into quarantine under the zone lock.
        if mechanisms.is_hardened() || (mechanisms.marks_bind_cached() && !self.may_serve(zone, plan, alloc_flags)) {
            return None;
        }
        let mut lists = None;
        let from = ServedFrom { zone, preferred: zone };
        let cached = self.alloc_cached_of(cx, from, &mut lists, plan, alloc_flags);
        cached.or_else(|| self.alloc_refilled(lists.as_ref()?, plan))
    }

    /// Fills lists from their zone, if its lock is free, and takes a block of them.
    fn alloc_refilled(&self, pcp: &PcpGuard<'_, 'a, M>, plan: &Plan) -> Option<Frame> {
        let (zone, alloc_flags) = (pcp.zone, first_alloc_flags(plan));
        let alloc_flags = AllocFlags { nofragment: self.may_avoid_mixing(zone), ..alloc_flags };
        let ring = RingId::of(plan.order, plan.migratetype, self.shared.frames.geometry.pageblock_order)?;
        let may_serve = self.may_serve(zone, plan, alloc_flags);
        let frame = may_serve.then(|| pcp.alloc_refilled(ring, &self.want(plan, alloc_flags))).flatten()?;
        self.hand_out(pcp.cx, frame, ServedFrom { zone, preferred: zone }, plan, pcp.counted());
        Some(frame)
    }

    /// Takes a block of any order from a zone whose lock is free at one of many looks.
    ///
    /// The flags give the reserves that they always give. Mobilities are kept apart as long as that works.
    fn alloc_without_cpu(&self, plan: &Plan) -> Result<Frame, Why> {
        let machine = &self.shared.machine;
        let flags = slow_alloc_flags(plan, false);
        let nofragment = self.shared.mechanisms().mixes_last();
        let mut alloc_flags =
            AllocFlags { nofragment, unboosted: true, no_watermarks: may_use_reserves(plan), ..flags };
        let mut rounds = if plan.order.0 == 0 { PAGE_ROUNDS } else { FEW_ROUNDS };
        let start = machine.now();
        for look in 0..LOOKS {
            let before = self.cached_for(plan, alloc_flags);
            match self.alloc_from_zones_nolock(plan, alloc_flags) {
                Ok(frame) => {
                    if let Some(zone) = self.zone_of(frame) {
                        self.wake_boosted(zone);
                    }
                    return Ok(frame);
                }
                Err(Some(_)) if alloc_flags.nofragment && !is_optional(plan) => alloc_flags.nofragment = false,
                Err(Some(why)) => {
                    // With a CPU at once, and without a quarantine, which takes the lock.
                    if !self.shared.mechanisms().is_hardened()
                        && let Ok(_held) = self.hold_now()
                        && let Some(frame) = self.alloc_below(plan, alloc_flags)
                    {
                        return Ok(frame);
                    }
                    rounds = rounds.saturating_sub(1);
                    if rounds == 0 || self.cached_for(plan, alloc_flags).helped_nothing_since(before) {
                        return Err(if matches!(why, Why::Watermark) { Why::WouldWait } else { why });
                    }
                    machine.relax();
                }
                Err(None) => machine.relax(),
            }
            if look >= FIRST_LOOKS && machine.now().saturating_sub(start) >= LONGEST {
                break;
            }
        }
        Err(Why::WouldWait)
    }
}
