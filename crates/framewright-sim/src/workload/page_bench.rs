//! `page-bench01` to `page-bench04`, `bulk` and `repeat`: a CPU allocates a number of blocks and frees them, by itself.
//!
//! `page-bench…` are loops of Jesper Dangaard Brouer's page_bench modules (prototype-kernel, `kernel/mm/bench`):
//! nothing but requests that must not wait (`GFP_ATOMIC`) and frees. The modules run 01, 02 and 04 on one CPU, which is
//! `--cpus 1`; with more CPUs, each does so by itself. 03 is the loop of 01 on many CPUs; a whole kernel's other work
//! may be added to it. For 05 see `pipe.rs`.
//!
//! CPUs do not begin together but within [`SPREAD`] cycles: threads that wait for each other at a barrier leave it one
//! after the other, and loops that all CPUs go through in step would meet at each lock. 03 may be spread further: on a
//! machine that has run for long, CPUs' counters are not in step.
//!
//! `pagealloc` is the loop of mmtests' micro-benchmark of that name: a batch of pages is allocated, then freed in the
//! same order, and the two halves are timed apart. Until its removal in 2025 it made one turn more than it said; that
//! turn is left out here.
//!
//! `bulk` and `repeat` have their names from LLFree's benchmarks; they ask for what user space gets
//! (`GFP_HIGHUSER_MOVABLE`).

use framewright::request::{__GFP_COMP, __GFP_NORETRY, __GFP_NOWARN, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, GFP_KERNEL};
use framewright::{Gfp, Pfn, Request};

use super::floor::{Floor, Trouble};
use super::gate::Stopwatch;
use super::play::{Ground, Length, Needs, Play, WorkloadKind};
use crate::engine::here;
use crate::report::{Figure, Report};
use crate::settings::settings;

/// Cycles within which all CPUs have begun: some microseconds, which is assumed.
const SPREAD: u32 = 10_000;

/// Returns the request of the modules.
pub(crate) fn atomic(order: u32) -> Request {
    let compound = if order == 0 { Gfp::NONE } else { __GFP_COMP };
    Request::new(GFP_ATOMIC | __GFP_NORETRY | __GFP_NOWARN | compound, order as u8)
}

settings! {
    /// Options of `page-bench01`.
    PageBench01 {
        order: u32 = 0, 0..=10, "order of the block; the module goes through 0 to 9";
    }
}

settings! {
    /// Options of `page-bench02`.
    PageBench02 {
        outstanding: u32 = 64, 1..=8192, "blocks that are held before the first is freed; the module tries 1 to 8192";
        order: u32 = 0, 0..=10, "order of the blocks";
    }
}

settings! {
    /// Options of `page-bench03`.
    PageBench03 {
        order: u32 = 0, 0..=10, "order of the block";
        work: u32 = 0, 0..=1_000_000, "cycles that an allocation and a free take besides this allocator, give or take \
            a tenth";
        spread: u32 = SPREAD, 0..=1_000_000_000, "cycles over which the CPUs' starts are spread";
    }
}

settings! {
    /// Options of `page-bench04`.
    PageBench04 {
        batch: u32 = 64, 1..=32768, "pages of a bulk; the module tries 1 to 128";
    }
}

settings! {
    /// Options of `pagealloc`.
    PageAlloc {
        batch: u32 = 64, 1..=32768, "pages that are allocated before the first is freed; the benchmark goes from 1 to \
            16384";
    }
}

settings! {
    /// Options of `bulk`.
    Bulk {
        blocks: u32 = 512, 1..=1 << 20, "blocks that each CPU allocates before it frees them, in the same order";
        order: u32 = 0, 0..=10, "order of the blocks";
    }
}

settings! {
    /// Options of `repeat`.
    Repeat {
        order: u32 = 0, 0..=10, "order of the block";
    }
}

/// A loop that allocates and frees.
#[derive(Clone, Copy)]
struct Shape {
    blocks: u32,
    request: Request,
    in_bulk: bool,
    /// Cycles of other work for each block.
    work: u32,
    /// Cycles within which all CPUs have begun.
    spread: u32,
}

impl Shape {
    fn new(blocks: u32, request: Request) -> Shape {
        Shape { blocks, request, in_bulk: false, work: 0, spread: SPREAD }
    }

    /// Returns the turns between two looks at the clock: a single pair is too short for one.
    fn loops(&self) -> usize {
        64 / (self.blocks as usize).min(64)
    }
}

trait Loop {
    fn shape(&self) -> Shape;
}

/// A loop is a kind of workload: its name, what it does, and its shape.
macro_rules! loops {
    ($(
        $Kind:ident $name:literal $summary:literal
        |$settings:ident| $shape:expr;
    )+) => { $(
        impl Loop for $Kind {
            fn shape(&self) -> Shape {
                let $settings = self;
                $shape
            }
        }

        impl WorkloadKind for $Kind {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = $summary;
            const UNIT: &'static str = "allocation and free";

            fn needs(&self, _: usize) -> Needs {
                let Shape { blocks, request, .. } = self.shape();
                let frames = u64::from(blocks) * request.order.frames();
                Needs { frames, bytes: (0, 0), length: Length::of_rounds(self.shape().loops() * blocks as usize) }
            }

            fn set_up<'a>(&self, _: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
                Ok(Box::new(Looping { shape: self.shape(), alloc: Stopwatch::default(), free: Stopwatch::default() }))
            }
        }
    )+ };
}

loops! {
    PageBench01 "page-bench01" "each CPU allocates a block and frees it, over and over (page_bench01)"
        |s| Shape::new(1, atomic(s.order));
    PageBench02 "page-bench02" "each CPU allocates a number of blocks, then frees them, the first first (page_bench02)"
        |s| Shape::new(s.outstanding, atomic(s.order));
    PageBench03 "page-bench03" "all CPUs at once allocate a block and free it, over and over (page_bench03)"
        |s| Shape { work: s.work, spread: s.spread, ..Shape::new(1, atomic(s.order)) };
    PageBench04 "page-bench04" "each CPU allocates pages in bulk, then frees them one by one (page_bench04_bulk)"
        |s| Shape { in_bulk: true, ..Shape::new(s.batch, atomic(0)) };
    PageAlloc "pagealloc" "each CPU allocates a batch of pages, then frees them, the first first (mmtests' pagealloc)"
        |s| Shape::new(s.batch, Request::page(GFP_KERNEL));
    Bulk "bulk" "each CPU allocates a lot of blocks one by one, then frees them in the same order (LLFree's bulk)"
        |s| Shape::new(s.blocks, Request::new(GFP_HIGHUSER_MOVABLE, s.order as u8));
    Repeat "repeat" "each CPU allocates a block and frees it, over and over, as user space would (LLFree's repeat)"
        |s| Shape::new(1, Request::new(GFP_HIGHUSER_MOVABLE, s.order as u8));
}

/// A loop that is set up.
struct Looping {
    shape: Shape,
    alloc: Stopwatch,
    free: Stopwatch,
}

impl Play for Looping {
    fn play(&self, floor: &Floor<'_>, _: usize) -> Result<(), Trouble> {
        let mut held = vec![Pfn(0); self.shape.blocks as usize];
        let loops = self.shape.loops();
        if self.shape.spread != 0 && floor.cpus > 1 {
            here::idle(floor.model.topology.cycles(f64::from(here::below(self.shape.spread))));
        }
        while floor.goes_on() {
            for _ in 0..loops {
                self.go_round(floor, &mut held)?;
                here::done(held.len() as u64);
            }
            floor.done_round(0);
        }
        Ok(())
    }

    fn figures(&self, _: &Report) -> Vec<Figure> {
        self.alloc.figure("an allocation").into_iter().chain(self.free.figure("a free")).collect()
    }
}

impl Looping {
    fn go_round(&self, floor: &Floor<'_>, held: &mut [Pfn]) -> Result<(), Trouble> {
        let Shape { request, in_bulk, work, .. } = self.shape;
        if work != 0 {
            floor.work_about(work);
        }
        self.alloc.time(floor, held.len(), || {
            if in_bulk {
                return floor.alloc_bulk(&request, held);
            }
            held.iter_mut().try_for_each(|block| floor.alloc(&request).map(|pfn| *block = pfn))
        })?;
        self.free.time(floor, held.len(), || held.iter().try_for_each(|&block| floor.free(block, request.order)))
    }
}
