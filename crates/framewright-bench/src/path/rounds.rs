//! One round of a path, on any machine.

use framewright::machine::Machine;
use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL};
use framewright::{Allocator, Local, Order, Pfn, Request};

use super::catalogue::{FRAMES, Path, PathWork, Through};
use crate::stats;

/// Tells the time.
pub trait Watch {
    /// Nanoseconds since any start.
    fn now(&self) -> f64;
    /// The loop has made a call.
    fn called(&self);
}

/// Calls of a batch path in one round.
const CALLS: usize = 1 << 13;
/// Pages that a round of a fallback path allocates.
const FALLBACKS: usize = 4096;
/// Parts in which a round is timed.
const PARTS: usize = 16;

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

impl Path {
    /// One round in parts: of each, nanoseconds of one allocation, with its free where the path has one. None if the
    /// allocator had no block or refused one.
    pub fn round<M: Machine>(&self, allocator: &Allocator<'_, M>, watch: &impl Watch) -> Option<Vec<f64>> {
        match self.work {
            PathWork::Batch { order: 0, blocks } => self.batches::<M, 0>(allocator, watch, blocks),
            PathWork::Batch { order: 3, blocks } => self.batches::<M, 3>(allocator, watch, blocks),
            PathWork::Batch { order: 4, blocks } => self.batches::<M, 4>(allocator, watch, blocks),
            PathWork::Batch { blocks, .. } => self.batches::<M, 9>(allocator, watch, blocks),
            PathWork::Fallback { share } => fall_back(allocator, watch, share),
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
    // This brings into the caches whatever else unmovable pages need. The pageblocks are taken back below: they are all
    // free.
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

/// The arithmetic mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    stats::mean(values).unwrap_or_default()
}
