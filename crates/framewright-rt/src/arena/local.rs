//! A thread that makes many calls in a row.
//!
//! # Why the unsafe code is right
//!
//! A [`LocalArena`] has a pinned CPU of the allocator of its own arena: [`Arena::local`] makes both. So a block that it
//! allocates is a block of that arena, and its number is turned into a [`Pages`] once.

use std::fmt;

use framewright::{AllocError, Local, PfnRange, Request};

use super::arena::Arena;
use super::pages::Pages;
use crate::cpus;
use crate::native::Native;

/// An arena as seen from one of its CPUs.
///
/// Each call of an [`Arena`] finds the allocator's CPU of its thread. A `LocalArena` has found it once and stays there,
/// so its calls cost less; their meaning is the same. It belongs to its thread, which may also call the arena itself.
///
/// It keeps its CPU as long as it lives, so there cannot be as many as threads ([`Arena::local`]). With
/// [`crate::CpuMode::PerCpu`] it should not be held while the thread waits. Other threads of the processor use spare
/// CPUs meanwhile, and a fork by this thread has a child that cannot use the arena. A forgotten one
/// (`std::mem::forget`) keeps its CPU until its thread exits.
///
/// An arena of one CPU ([`crate::ArenaBuilder::cpus`]) is the exception: other threads wait as long as a `LocalArena`
/// lives. Only frees do not wait, and requests that must not (`GFP_NOWAIT`, `GFP_ATOMIC`). So no other thread may grow
/// or shrink such an arena meanwhile ([`Arena::grow`]).
///
/// ```
/// use framewright::{Request, request::GFP_USER};
/// use framewright_rt::Arena;
///
/// let arena = Arena::builder().size(16 << 20).build()?;
/// let local = arena.local().ok_or("no CPU")?;
/// for round in 0..1_000 {
///     let mut page = local.alloc(&Request::page(GFP_USER))?;
///     page[0] = round as u8;
///     local.free(page);
/// }
/// # drop(local);
/// # assert_eq!(arena.validate()?.allocated, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LocalArena<'a> {
    arena: &'a Arena,
    local: Local<'a, 'static, Native>,
}

impl Arena {
    /// Keeps a CPU for many calls of this thread; none if no CPU is free for it.
    ///
    /// With [`crate::ArenaBuilder::cpus`] of n, n - 1 threads have a CPU to keep, each from its first call until it
    /// exits. So n is the number of threads that use the arena, plus one. The last CPU serves the calls of all other
    /// threads. With [`crate::CpuMode::PerCpu`] it is a CPU of each processor and all but one of the spares.
    ///
    /// It does not wait for other threads to end. In a fork's child that refuses ([`crate::Freeze`]) there is none.
    pub fn local(&self) -> Option<LocalArena<'_>> {
        cpus::release_at_exit();
        let local = self.inner.allocator().local()?;
        Some(LocalArena { arena: self, local })
    }
}

impl<'a> LocalArena<'a> {
    /// As [`Arena::alloc`].
    ///
    /// # Errors
    /// As [`Arena::alloc`].
    #[cfg_attr(any(debug_assertions, feature = "owners"), track_caller)]
    #[inline]
    pub fn alloc(&self, request: &Request) -> Result<Pages<'a>, AllocError> {
        let pfn = self.local.alloc(request)?;
        self.arena.inner.record(PfnRange::block(pfn, request.order), self.arena.inner.owners.caller());
        // SAFETY: just allocated with this order.
        Ok(unsafe { Pages::new(self.arena, pfn, request.order) })
    }

    /// As [`Arena::alloc_bulk`].
    ///
    /// # Errors
    /// As [`Arena::alloc_bulk`].
    #[cfg_attr(any(debug_assertions, feature = "owners"), track_caller)]
    pub fn alloc_bulk(&self, request: &Request, count: usize, out: &mut Vec<Pages<'a>>) -> Result<usize, AllocError> {
        self.arena.alloc_bulk(request, count, out)
    }

    /// The arena. Its calls by this thread use the CPU of this handle, [`Arena::alloc_owned`] too.
    pub const fn arena(&self) -> &'a Arena {
        self.arena
    }

    /// Frees a block, as dropping it would, but from this CPU.
    ///
    /// A block of another arena is dropped.
    #[inline]
    pub fn free(&self, pages: Pages<'_>) {
        if !std::ptr::eq(pages.arena(), self.arena) {
            return;
        }
        let (pfn, order) = pages.into_raw();
        let inner = &self.arena.inner;
        let frames = PfnRange::block(pfn, order);
        let freed = if inner.ledger.is_some() {
            inner.release(frames, || self.local.free(pfn, order))
        } else {
            inner.disown(frames, || self.local.free(pfn, order))
        };
        inner.settle_free(freed, pfn, order);
    }
}

impl fmt::Debug for LocalArena<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalArena({:?}, {:?})", self.local.cpu(), self.arena)
    }
}
