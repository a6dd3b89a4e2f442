//! The marked path: a hit of a per-CPU list for mechanisms that look at a watermark each time, as Linux does.
//!
//! Linux compares free memory with the low mark before it takes a page from a CPU's list. Mechanisms with
//! `pcp-mark=every-request` do so too, so they cannot use the fast path, which looks at nothing but the list. Almost
//! every request still is as plain as those of the fast path: no policy, no address limit, an order that lists keep.
//! [`World::alloc_marked`] serves it in one visit. It makes no plan and walks no zonelist, because the zone that such a
//! request tries first was found at boot ([`Cpu::near_zone`](crate::shared::Cpu::near_zone)).
//!
//! Any other request, and one that finds its list empty or its zone below the mark, goes the whole way
//! (`zonelist.rs`), which begins with the same list. So the path changes what a request costs, and never what it gets.
//! A free needs no path of its own: `World::free_cached` serves it.
//!
//! Cost, on a kernel's machine: 473 instructions for an allocation, and 376 for a free, where Linux 6.1 takes 442 and
//! 259 (variant `kernel-linux` of `ci/instructions.txt`).
//!
//! Rejected: the fast path with a look at the mark in front. It relies on interrupts that have lists of their own, and
//! on a depot. These mechanisms have neither.

use crate::api::route::Route;
use crate::seam::compiled::Compiled;
use crate::seam::machine::{Machine, Step};
use crate::shared::CallCx;
use crate::types::request::Request;
use crate::types::units::Frame;
use crate::zonelist::alloc_flags::first_alloc_flags_of;
use crate::zonelist::numa_stat::ServedFrom;
use crate::zonelist::world::World;

impl<'a, M: Machine> World<'a, M> {
    /// Whether plain requests take this path, and not the fast path.
    #[inline(always)]
    pub(crate) fn has_marked_path(&self) -> bool {
        M::MAY_TAKE_MARKED && self.shared.mechanisms().allows_marked_path()
    }

    /// Serves a request from the CPU's list of the zone that it tries first, if the zone is above its low mark.
    ///
    /// `None` if the mechanisms have another path, if the request is not plain, or if the list is empty or in use.
    #[inline]
    pub(crate) fn alloc_marked(&self, cx: CallCx<'_, 'a, M>, request: &Request) -> Option<Frame> {
        if !self.has_marked_path() {
            return None;
        }
        self.shared.machine.step(Step::Marked);
        let frames = &self.shared.frames;
        let route = Route::of::<M>(request, frames.geometry.pageblock_order)?;
        let zone = cx.own.near_zone(route.highest).and_then(|zone| self.zone(zone))?;
        let alloc_flags = first_alloc_flags_of(M::mobility_of(request.gfp));
        if !zone.is_above_racy(&self.shared, route.highest, alloc_flags) {
            return None;
        }
        let pcp = self.pcps.enter(cx.for_request(request.gfp), zone)?;
        let frame = pcp.alloc_from_ring(route.ring())?;
        frames.set_head(frame, route.head);
        self.pcps.count_numa(cx, ServedFrom { zone, preferred: zone }, None, pcp.counted());
        Some(frame)
    }
}
