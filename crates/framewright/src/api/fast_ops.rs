//! What a plain call does with the fast path of its CPU.
//!
//! Types instead of closures, because their calls are always inlined ([`Operation`]).

use crate::api::fast_path::FastPath;
use crate::api::route::Route;
use crate::seam::machine::{Machine, Operation};
use crate::types::request::Gfp;
use crate::types::units::{Order, Pfn, ZoneIdx};

/// [`FastPath::alloc`].
pub(super) struct Alloc<'m, M> {
    pub(super) machine: &'m M,
    pub(super) route: Route,
}

impl<'a, M: Machine> Operation<FastPath<'a, M>> for Alloc<'_, M> {
    type Output = Pfn;

    #[inline(always)]
    fn run(&self, fast: &FastPath<'a, M>) -> Option<Pfn> {
        fast.alloc(self.machine, self.route)
    }
}

/// [`FastPath::alloc`], if the route's highest kind of zone means `zone` on the CPU.
pub(super) struct AllocIn<'m, M> {
    pub(super) machine: &'m M,
    pub(super) route: Route,
    pub(super) zone: ZoneIdx,
}

impl<'a, M: Machine> Operation<FastPath<'a, M>> for AllocIn<'_, M> {
    type Output = Pfn;

    #[inline(always)]
    fn run(&self, fast: &FastPath<'a, M>) -> Option<Pfn> {
        if fast.is_route_in(self.route, self.zone) { fast.alloc(self.machine, self.route) } else { None }
    }
}

/// [`FastPath::alloc_asked`].
pub(super) struct AllocAsked<'m, M> {
    pub(super) machine: &'m M,
    pub(super) gfp: Gfp,
}

impl<'a, M: Machine> Operation<FastPath<'a, M>> for AllocAsked<'_, M> {
    type Output = Pfn;

    #[inline(always)]
    fn run(&self, fast: &FastPath<'a, M>) -> Option<Pfn> {
        fast.alloc_asked(self.machine, self.gfp)
    }
}

/// [`FastPath::free_at`].
pub(super) struct FreeAt<'m, M> {
    pub(super) machine: &'m M,
    pub(super) pfn: Pfn,
    pub(super) order: Order,
}

impl<'a, M: Machine> Operation<FastPath<'a, M>> for FreeAt<'_, M> {
    type Output = ();

    #[inline(always)]
    fn run(&self, fast: &FastPath<'a, M>) -> Option<()> {
        fast.free_at(self.machine, self.pfn, self.order)
    }
}
