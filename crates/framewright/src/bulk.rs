//! Many blocks in one call.
//!
//! A bulk request visits a per-CPU list once for many blocks; what that does not serve is served one by one.

use crate::allocator::Allocator;
use crate::error::{AllocError, FreeError};
use crate::ground::Cx;
use crate::machine::{Fault, Machine, Step};
use crate::mechanisms::{Hardened, PcpMark};
use crate::node::first_rights;
use crate::pfn::{Order, Pfn};
use crate::request::{Policy, Request};
use crate::ring::RingId;
use crate::watermark::Rights;

/// Blocks of a bulk request served in one visit of a per-CPU list, for which interrupts are held off.
const BULK: usize = 64;

/// Result of [`Allocator::free_bulk`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BulkFree {
    /// Blocks freed.
    pub freed: usize,
    /// Blocks refused; they are as they were.
    pub refused: usize,
    /// Why the first of them was.
    pub first: Option<FreeError>,
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Allocates blocks into `out` from the front until it is full or memory is short; returns how many. What lies behind is
    /// untouched. One visit of a per-CPU list serves many blocks.
    ///
    /// # Errors
    /// As [`Allocator::alloc`], if not even one block was allocated.
    pub fn alloc_bulk(&self, request: &Request, out: &mut [Pfn]) -> Result<usize, AllocError> {
        self.check(request)?;
        let mut done = self.alloc_bulk_here(request, out);
        while let Some(entry) = out.get_mut(done) {
            match self.alloc(request) {
                Ok(pfn) => *entry = pfn,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            done = done.saturating_add(1);
        }
        Ok(done)
    }

    /// The part of a bulk allocation that the first zone's per-CPU list serves, at most [`BULK`] blocks a visit.
    fn alloc_bulk_here(&self, request: &Request, out: &mut [Pfn]) -> usize {
        let hardened = self.mechanisms().hardened != Hardened::Off;
        let simple = !hardened && request.below.is_none() && !matches!(request.policy, Policy::Interleave(_));
        if !simple || self.world().ground.machine.fault(Fault::Alloc) {
            return 0;
        }
        let mut done = 0_usize;
        for visit in out.chunks_mut(BULK) {
            let served = self.world().pinned(|cx| self.visit(cx, request, visit)).unwrap_or(0);
            for pfn in visit.iter().take(served) {
                self.announce(*pfn, request);
            }
            done = done.saturating_add(served);
            if served < visit.len() {
                break;
            }
        }
        done
    }

    /// Fills `out` from the first zone's per-CPU list as far as that goes.
    fn visit(&self, cx: Cx<'_, 'a, M>, request: &Request, out: &mut [Pfn]) -> usize {
        let world = self.world();
        world.ground.machine.step(Step::Bulk);
        let plan = world.plan(cx, request);
        let rights = first_rights(&plan);
        let Some(zone) = world.zonelist(&plan).next() else { return 0 };
        let Some(ring) = RingId::of(plan.order, plan.migratetype, self.geometry().pageblock_order) else { return 0 };
        let Some(pcp) = world.pcps.enter(cx, zone) else { return 0 };
        let rights = Rights { nofragment: world.may_avoid_mixing(zone), ..rights };
        let mut done = 0_usize;
        let stock_is_free = world.ground.mechanisms.pcp_mark == PcpMark::Refill;
        for entry in out.iter_mut() {
            world.ground.machine.step(Step::BulkBlock);
            let stocked = if stock_is_free { pcp.take_stocked(ring) } else { None };
            let refilled =
                || if world.may_serve(zone, &plan, rights) { pcp.take(ring, &plan.want(rights)) } else { None };
            let Some(frame) = stocked.or_else(refilled) else { break };
            world.hand_out(cx, frame, (zone, zone), &plan, pcp.teller());
            *entry = world.ground.frames.pfn(frame);
            done = done.saturating_add(1);
        }
        done
    }

    /// Frees blocks of one order. Each is freed or refused on its own.
    pub fn free_bulk(&self, blocks: &[Pfn], order: Order) -> BulkFree {
        let mut result = BulkFree::default();
        for &pfn in blocks {
            match self.free(pfn, order) {
                Ok(()) => result.freed = result.freed.saturating_add(1),
                Err(error) => {
                    result.refused = result.refused.saturating_add(1);
                    result.first = result.first.or(Some(error));
                }
            }
        }
        result
    }
}
