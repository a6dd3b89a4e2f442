//! The paths that are measured: the very same code on this machine and on the simulated one.
//!
//! Each is one loop over calls of the allocator, generic over the machine and over who tells the time. A call is a
//! function that the compiler may specialise for its constant request but not melt into the loop, as in
//! `framewright bench`; on the simulated machine what the loop itself takes is charged as so many instructions
//! ([`Watch::called`]).

mod native;

use std::fmt;

use framewright::machine::Machine;
use framewright::mechanisms::FallbackPolicy;
use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL};
use framewright::{Allocator, Local, Mechanisms, Order, Pfn, Request};

pub use native::measure;

/// Tells the time.
pub trait Watch {
    /// Nanoseconds since any start.
    fn now(&self) -> f64;
    /// The loop has made a call.
    fn called(&self);
}

/// How the allocator is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Through {
    /// Through [`Allocator::local`].
    Local,
    /// Plainly.
    Plain,
}

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// So many blocks of an order are allocated and then freed, the last first.
    Batch {
        /// Order of the blocks.
        order: u8,
        /// How many.
        blocks: usize,
    },
    /// Unmovable pages are allocated where all memory is movable, and one page in so many of it is free.
    Fallback {
        /// One page in so many.
        share: usize,
    },
}

/// A path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Its name.
    pub name: &'static str,
    /// How the allocator is called.
    pub through: Through,
    /// What is done.
    pub work: Work,
    /// The allocator's mechanisms.
    pub mechanisms: Mechanisms,
}

/// Frames of the allocator: 256 MiB.
pub const FRAMES: u64 = 1 << 16;
/// Its first frame: 4 GiB, where zone Normal begins.
pub const START: u64 = 0x10_0000;
/// Calls of a batch path in one round.
const CALLS: usize = 1 << 13;
/// Pages that a round of a fallback path allocates.
const FALLBACKS: usize = 4096;
/// Parts in which a round is timed.
const PARTS: usize = 16;

const fn batch(name: &'static str, through: Through, order: u8, blocks: usize, mechanisms: Mechanisms) -> Path {
    Path { name, through, work: Work::Batch { order, blocks }, mechanisms }
}

const fn fallback(name: &'static str, fallback: FallbackPolicy, share: usize, mechanisms: Mechanisms) -> Path {
    let mechanisms = Mechanisms { fallback, ..mechanisms };
    Path { name, through: Through::Plain, work: Work::Fallback { share }, mechanisms }
}

const D: Mechanisms = Mechanisms::DEFAULT;
const B: Mechanisms = Mechanisms::BASELINE;
const CLASSIC: FallbackPolicy = FallbackPolicy::Classic;
const CLAIM_STEAL: FallbackPolicy = FallbackPolicy::ClaimSteal;

/// The two that the numbers are fitted to: they differ by pins, and by instructions that are known.
pub const FITTED: [Path; 2] = [
    batch("order 0, batch 64, local", Through::Local, 0, 64, D),
    batch("order 0, batch 64, plain", Through::Plain, 0, 64, D),
];

/// Those that are predicted.
pub const PREDICTED: [Path; 18] = [
    batch("order 0, batch 64, plain, baseline", Through::Plain, 0, 64, B),
    batch("order 0, batch 1, local", Through::Local, 0, 1, D),
    batch("order 0, batch 1, plain", Through::Plain, 0, 1, D),
    batch("order 0, batch 1, plain, baseline", Through::Plain, 0, 1, B),
    batch("order 0, batch 1024, local", Through::Local, 0, 1024, D),
    batch("order 0, batch 1024, plain", Through::Plain, 0, 1024, D),
    batch("order 0, batch 1024, plain, baseline", Through::Plain, 0, 1024, B),
    batch("order 3, batch 16, local", Through::Local, 3, 16, D),
    batch("order 3, batch 16, plain", Through::Plain, 3, 16, D),
    batch("order 3, batch 16, plain, baseline", Through::Plain, 3, 16, B),
    batch("order 4, batch 16, plain", Through::Plain, 4, 16, D),
    batch("order 9, batch 1, plain", Through::Plain, 9, 1, D),
    batch("order 9, batch 16, plain", Through::Plain, 9, 16, D),
    batch("order 9, batch 16, plain, baseline", Through::Plain, 9, 16, B),
    fallback("fallback, half free, classic", CLASSIC, 2, D),
    fallback("fallback, half free, claim-steal", CLAIM_STEAL, 2, D),
    fallback("fallback, quarter free, classic", CLASSIC, 4, D),
    fallback("fallback, quarter free, claim-steal", CLAIM_STEAL, 4, D),
];

const fn request(order: u8) -> Request {
    Request::new(GFP_HIGHUSER_MOVABLE, order)
}

#[inline(never)]
fn alloc_local<M: Machine, const ORDER: u8>(local: &Local<'_, '_, M>) -> Option<u64> {
    local.alloc(const { &request(ORDER) }).ok().map(|pfn| pfn.0)
}

#[inline(never)]
fn free_local<M: Machine, const ORDER: u8>(local: &Local<'_, '_, M>, pfn: u64) -> bool {
    local.free(Pfn(pfn), Order(ORDER)).is_ok()
}

#[inline(never)]
fn alloc<M: Machine, const ORDER: u8>(allocator: &Allocator<'_, M>) -> Option<u64> {
    allocator.alloc(const { &request(ORDER) }).ok().map(|pfn| pfn.0)
}

#[inline(never)]
fn free<M: Machine, const ORDER: u8>(allocator: &Allocator<'_, M>, pfn: u64) -> bool {
    allocator.free(Pfn(pfn), Order(ORDER)).is_ok()
}

#[inline(never)]
fn alloc_unmovable<M: Machine>(allocator: &Allocator<'_, M>) -> Option<u64> {
    allocator.alloc(const { &Request::new(GFP_KERNEL, 0) }).ok().map(|pfn| pfn.0)
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Path {
    /// One round in parts: of each, nanoseconds of one allocation, with its free where the path has one. None if the allocator had
    /// no block or refused one.
    pub fn round<M: Machine>(&self, allocator: &Allocator<'_, M>, watch: &impl Watch) -> Option<Vec<f64>> {
        match self.work {
            Work::Batch { order: 0, blocks } => self.batches::<M, 0>(allocator, watch, blocks),
            Work::Batch { order: 3, blocks } => self.batches::<M, 3>(allocator, watch, blocks),
            Work::Batch { order: 4, blocks } => self.batches::<M, 4>(allocator, watch, blocks),
            Work::Batch { blocks, .. } => self.batches::<M, 9>(allocator, watch, blocks),
            Work::Fallback { share } => fall_back(allocator, watch, share),
        }
    }

    fn batches<M: Machine, const ORDER: u8>(
        &self,
        allocator: &Allocator<'_, M>,
        watch: &impl Watch,
        blocks: usize,
    ) -> Option<Vec<f64>> {
        match self.through {
            Through::Local => {
                let local = allocator.local()?;
                let calls = (|| alloc_local::<M, ORDER>(&local), |pfn| free_local::<M, ORDER>(&local, pfn));
                batches(calls, watch, blocks)
            }
            Through::Plain => {
                let calls = (|| alloc::<M, ORDER>(allocator), |pfn| free::<M, ORDER>(allocator, pfn));
                batches(calls, watch, blocks)
            }
        }
    }
}

/// Some batches to warm up, then those that count.
#[inline(always)]
fn batches(
    (alloc, free): (impl Fn() -> Option<u64>, impl Fn(u64) -> bool),
    watch: &impl Watch,
    blocks: usize,
) -> Option<Vec<f64>> {
    let mut held = vec![0; blocks];
    let mut run = |times: usize| {
        for _ in 0..times {
            for slot in &mut held {
                *slot = alloc()?;
                watch.called();
            }
            for &pfn in held.iter().rev() {
                watch.called();
                if !free(pfn) {
                    return None;
                }
            }
        }
        Some(())
    };
    let times = CALLS.div_ceil(blocks);
    run(times.div_ceil(4))?;
    let each = times.div_ceil(PARTS);
    let mut parts = Parts::new(watch);
    for _ in 0..PARTS {
        run(each)?;
        parts.end(watch, each * blocks);
    }
    Some(parts.took)
}

/// Unmovable pages out of movable memory. The allocator must be fresh.
fn fall_back<M: Machine>(allocator: &Allocator<'_, M>, watch: &impl Watch, share: usize) -> Option<Vec<f64>> {
    // What unmovable pages need besides comes into the caches. The pageblocks are taken back below: they are all free.
    let early: Vec<u64> = (0..FALLBACKS).map_while(|_| alloc_unmovable(allocator)).collect();
    let mut all_freed = early.iter().all(|&pfn| free::<M, 0>(allocator, pfn));
    allocator.drain_all();
    let held: Vec<u64> = (0..FRAMES).map_while(|_| alloc::<M, 0>(allocator)).collect();
    all_freed &= held.iter().step_by(share).all(|&pfn| free::<M, 0>(allocator, pfn));
    allocator.drain_all();
    if !all_freed {
        return None;
    }
    let mut taken = vec![0; FALLBACKS];
    let mut parts = Parts::new(watch);
    for part in taken.chunks_mut(FALLBACKS / PARTS) {
        for slot in &mut *part {
            *slot = alloc_unmovable(allocator)?;
            watch.called();
        }
        parts.end(watch, part.len());
    }
    Some(parts.took)
}

/// How long the parts of a round took.
struct Parts {
    since: f64,
    took: Vec<f64>,
}

impl Parts {
    fn new(watch: &impl Watch) -> Parts {
        Parts { took: Vec::with_capacity(PARTS), since: watch.now() }
    }

    fn end(&mut self, watch: &impl Watch, operations: usize) {
        let now = watch.now();
        self.took.push((now - self.since) / operations as f64);
        self.since = watch.now();
    }
}

/// The mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
