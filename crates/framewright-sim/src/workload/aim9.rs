//! `aim9`: a process whose heap shrinks and grows again, as in aim9's page_test and brk_test.
//!
//! A turn frees 16 pages with one call and allocates them again with 16 calls of one page each. page_test writes to
//! each page, so it is allocated and zeroed; brk_test does not, so no page is allocated at all. Both count the 17
//! calls: reports of aim9 show 1,700 and 17,000 operations a loop. Options set what a call and a fault take besides the
//! allocator.

use framewright::request::{__GFP_ZERO, GFP_HIGHUSER_MOVABLE};
use framewright::{Order, Pfn, Request};

use super::floor::{Floor, Trouble};
use super::play::{Ground, Length, Needs, Play, WorkloadKind};
use crate::engine::here;
use crate::settings::settings;

/// Pages that the heap shrinks by in a turn.
const PAGES: usize = 16;

settings! {
    /// Options of `aim9`.
    Aim9 {
        touch: bool = true, 0..=1, "whether pages are written to: page_test, else brk_test";
        call: u32 = 600, 0..=1_000_000, "cycles of a call that moves the end of the heap, give or take a tenth";
        fault: u32 = 1900, 0..=1_000_000, "cycles of a page fault besides allocating, zeroing and freeing the page";
    }
}

impl WorkloadKind for Aim9 {
    const NAME: &'static str = "aim9";
    const SUMMARY: &'static str =
        "each CPU's heap shrinks by 16 pages and grows again, page by page (aim9's page_test and brk_test)";
    const UNIT: &'static str = "change of the heap";

    fn needs(&self, _: usize) -> Needs {
        Needs { frames: PAGES as u64, bytes: (0, 0), length: Length::of_rounds(PAGES + 1) }
    }

    fn set_up<'a>(&self, _: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
        Ok(Box::new(*self))
    }
}

impl Play for Aim9 {
    fn play(&self, floor: &Floor<'_>, _: usize) -> Result<(), Trouble> {
        let mut heap = Vec::with_capacity(PAGES);
        self.grow(floor, &mut heap)?;
        while floor.goes_on() {
            floor.work_about(self.call);
            heap.drain(..).try_for_each(|page| floor.free(page, Order(0)))?;
            here::done(1);
            self.grow(floor, &mut heap)?;
            floor.done_round(0);
        }
        heap.drain(..).try_for_each(|page| floor.free(page, Order(0)))
    }
}

impl Aim9 {
    /// Grows the heap to its full size.
    fn grow(&self, floor: &Floor<'_>, heap: &mut Vec<Pfn>) -> Result<(), Trouble> {
        for _ in 0..PAGES {
            floor.work_about(self.call);
            if self.touch {
                floor.work(self.fault);
                heap.push(floor.alloc(&Request::page(GFP_HIGHUSER_MOVABLE | __GFP_ZERO))?);
            }
            here::done(1);
        }
        Ok(())
    }
}
