//! The work that is counted.

use core::hint::black_box;

use framewright::request::{GFP_KERNEL, Gfp};
use framewright::{Allocator, CpuHandle, Local, Machine, Order, Pfn, Request};

/// Pages of a batch.
pub const PAGES: usize = 64;
/// Batches that are counted, if the caller does not say.
///
/// All take equally many instructions, because nothing comes from a depot or the zone: a CPU's own lists hold a batch.
pub const BATCHES: usize = 8;
/// Batches before, after which nothing comes from the zone any more.
const WARM: usize = 50;

/// A way to call the allocator.
pub(crate) trait Calls {
    /// Fills `pages`.
    fn alloc(&self, pages: &mut [Pfn]);
    /// Frees them.
    fn free(&self, pages: &[Pfn]);
    /// Allocates a page and frees it, once for each of `pages`.
    fn repeat(&self, pages: &mut [Pfn]);
}

/// Does all the work, with a mark before and after each counted region.
pub(crate) fn all(calls: &impl Calls, batches: usize) {
    let mut pages = [Pfn(0); PAGES];
    for _ in 0..WARM {
        calls.alloc(&mut pages);
        calls.free(&pages);
    }
    for _ in 0..batches {
        between_marks(|| counted_nothing(&mut pages));
        between_marks(|| counted_alloc(calls, &mut pages));
        between_marks(|| counted_free(calls, &pages));
        between_marks(|| counted_repeat(calls, &mut pages));
    }
}

fn between_marks(work: impl FnOnce()) {
    mark();
    work();
    mark();
}

/// Tells a tracer of this process that a counted region begins or ends. Without a tracer the signal is ignored.
fn mark() {
    let this = rustix::process::getpid();
    let _ = rustix::process::kill_process(this, rustix::process::Signal::URG);
}

#[inline(never)]
fn counted_nothing(pages: &mut [Pfn]) {
    black_box(pages);
}

#[inline(never)]
fn counted_alloc(calls: &impl Calls, pages: &mut [Pfn]) {
    calls.alloc(pages);
}

#[inline(never)]
fn counted_free(calls: &impl Calls, pages: &[Pfn]) {
    calls.free(pages);
}

#[inline(never)]
fn counted_repeat(calls: &impl Calls, pages: &mut [Pfn]) {
    calls.repeat(pages);
}

/// The request of all calls.
const PAGE: Request = Request::new(GFP_KERNEL, 0);

/// `Allocator::alloc` and `Allocator::free`.
pub(crate) struct Pages<'l, 'a, M: Machine>(pub(crate) &'l Allocator<'a, M>);

/// `Local::alloc` and `Local::free`.
pub(crate) struct ByLocal<'l, 'a, M: Machine>(pub(crate) Local<'l, 'a, M>);

/// `CpuHandle::alloc` and `CpuHandle::free`.
pub(crate) struct ByHandle<'l, 'a, M: Machine>(pub(crate) CpuHandle<'l, 'a, M>);

/// The calls, and the loops around them.
macro_rules! one_by_one {
    ($($kind:ident),+) => { $(
        impl<M: Machine> $kind<'_, '_, M> {
            #[inline(never)]
            fn one(&self) -> Option<Pfn> {
                self.0.alloc(&PAGE).ok()
            }

            #[inline(never)]
            fn back(&self, pfn: Pfn) -> bool {
                self.0.free(pfn, Order(0)).is_ok()
            }
        }

        one_by_one!(@loops $kind);
    )+ };
    (@loops $kind:ident) => {
        impl<M: Machine> Calls for $kind<'_, '_, M> {
            #[inline(always)]
            fn alloc(&self, pages: &mut [Pfn]) {
                for page in pages {
                    *page = self.one().expect("there is memory");
                }
            }

            #[inline(always)]
            fn free(&self, pages: &[Pfn]) {
                for &page in pages.iter().rev() {
                    assert!(self.back(page), "the page was allocated");
                }
            }

            #[inline(always)]
            fn repeat(&self, pages: &mut [Pfn]) {
                for _ in 0..pages.len() {
                    let page = self.one().expect("there is memory");
                    assert!(self.back(page), "the page was allocated");
                }
            }
        }
    };
}

one_by_one!(Pages, ByLocal, ByHandle);

/// Calls of `Allocator::alloc_pages` and `Allocator::free_pages` whose flags and order the compiler does not know, as
/// those of an interface of C functions are.
pub(crate) struct Wrapped<'l, 'a, M: Machine> {
    allocator: &'l Allocator<'a, M>,
    gfp: Gfp,
    order: Order,
}

impl<'l, 'a, M: Machine> Wrapped<'l, 'a, M> {
    pub(crate) fn new(allocator: &'l Allocator<'a, M>) -> Self {
        Wrapped { allocator, gfp: black_box(PAGE.gfp), order: black_box(PAGE.order) }
    }
}

#[inline(never)]
fn wrapped_alloc<M: Machine>(allocator: &Allocator<'_, M>, gfp: Gfp, order: Order) -> Option<Pfn> {
    allocator.alloc_pages(gfp, order).ok()
}

#[inline(never)]
fn wrapped_free<M: Machine>(allocator: &Allocator<'_, M>, pfn: Pfn, order: Order) -> bool {
    allocator.free_pages(pfn, order).is_ok()
}

impl<M: Machine> Wrapped<'_, '_, M> {
    #[inline(always)]
    fn one(&self) -> Option<Pfn> {
        wrapped_alloc(self.allocator, self.gfp, self.order)
    }

    #[inline(always)]
    fn back(&self, pfn: Pfn) -> bool {
        wrapped_free(self.allocator, pfn, self.order)
    }
}

one_by_one!(@loops Wrapped);

/// `Allocator::alloc_bulk` and `Allocator::free_bulk`.
pub(crate) struct Bulk<'l, 'a, M: Machine>(pub(crate) &'l Allocator<'a, M>);

impl<M: Machine> Calls for Bulk<'_, '_, M> {
    #[inline(always)]
    fn alloc(&self, pages: &mut [Pfn]) {
        assert_eq!(self.0.alloc_bulk(&PAGE, pages), Ok(pages.len()), "there is memory");
    }

    #[inline(always)]
    fn free(&self, pages: &[Pfn]) {
        assert_eq!(self.0.free_bulk(pages, Order(0)).freed, pages.len(), "the pages were allocated");
    }

    /// All of a batch at once.
    #[inline(always)]
    fn repeat(&self, pages: &mut [Pfn]) {
        self.alloc(pages);
        self.free(pages);
    }
}
