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
//! was there, when nothing that may help is left anywhere, or after [`LOOKS`] looks or a second: then the reason is
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
use crate::policy::watermark::AllocFlags;
use crate::reclaim::slowpath::FEW_ROUNDS;
use crate::seam::machine::Machine;
use crate::sync::looks::Looks;
use crate::types::error::{AllocError, Why};
use crate::types::request::Request;
use crate::types::units::Frame;
use crate::zonelist::alloc_flags::{is_optional, may_use_reserves, slow_alloc_flags};
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

/// Looks at the zones' locks: longer than a section under a zone lock lasts, unless its holder is stopped.
const LOOKS: u32 = 1 << 20;
/// Tries that find the zones unlocked and without a page, while a page may be on its way there.
///
/// That is longer than an operation on a per-CPU list lasts, unless the CPU that makes it is stopped.
const PAGE_ROUNDS: u32 = 1 << 14;

impl<'a, M: Machine> Allocator<'a, M> {
    /// Allocates for a request that must not wait.
    ///
    /// `tried`: its plan, if the CPU's lists were searched.
    #[cold]
    pub(crate) fn alloc_no_wait(&self, request: &Request, tried: Option<Plan>) -> Result<Frame, AllocError> {
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
        served.map_err(|why| self.failed(request, why))
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
        let mut looks = Looks::at_most(LOOKS);
        loop {
            let before = self.cached_for(plan, alloc_flags);
            match self.alloc_from_zones_nolock(plan, alloc_flags) {
                Ok(frame) => {
                    if let Some(zone) = self.zone_of(frame) {
                        self.wake_boosted(zone);
                    }
                    return Ok(frame);
                }
                Err(Some(_)) if alloc_flags.nofragment && !is_optional(plan) => {
                    alloc_flags.nofragment = false;
                    continue;
                }
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
                }
                Err(None) => {}
            }
            if !looks.again(machine) {
                return Err(Why::WouldWait);
            }
        }
    }
}
