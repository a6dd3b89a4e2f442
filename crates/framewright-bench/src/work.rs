//! The timed loops, one for each kind of work.
//!
//! Each is generic over the handle and the order, so that every contender gets a loop of its own with two direct calls
//! in it. The sum of all block numbers is returned, so that no allocation is unused. A loop reads the clock once before
//! and once after; only the separate pass that tells allocation from free reads it inside. That pass exists for batches
//! of [`SPLIT_FROM`] pages and more, and the cost of reading is subtracted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::contender::{Handle, Work};
use crate::crew::Gate;
use crate::machine::clock_cost;
use crate::ring::{Ring, Side};

/// Smallest batch whose allocation and free are also told apart: below, reading the clock costs more than the work that
/// it times.
pub(crate) const SPLIT_FROM: usize = 64;
/// Batches of as many pages are timed in two parts from the start: reading the clock is lost in them.
const ALWAYS_SPLIT_FROM: usize = 4096;
/// In a ring: nothing more will come. No address and no frame is as high.
const END: u64 = u64::MAX;

/// The reason why a contender could not do its work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
pub enum Trouble {
    /// It had no block left.
    #[error("ran out of memory with {held} blocks held by the thread")]
    OutOfMemory { held: usize },
    /// It refused a correct free.
    #[error("refused to free block {block:#x}, which was allocated")]
    Refused { block: u64 },
    /// It handed out a block while it was allocated.
    #[error("handed out block {block:#x} twice")]
    Twice { block: u64 },
    /// It could not be set up.
    #[error("could not be set up: {0}")]
    Setup(String),
}

/// One thread's measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timed {
    /// Of everything.
    pub(crate) elapsed: Duration,
    /// Of allocations and of frees, in a pass of their own.
    pub(crate) split: Option<(Duration, Duration)>,
    pub(crate) checksum: u64,
}

pub(crate) type Outcome<T> = Result<T, Trouble>;

#[inline]
fn take<const ORDER: u8, H: Handle>(handle: &mut H, held: usize) -> Outcome<u64> {
    handle.alloc::<ORDER>().ok_or(Trouble::OutOfMemory { held })
}

#[inline]
fn give<const ORDER: u8, H: Handle>(handle: &mut H, block: u64) -> Outcome<()> {
    if handle.free::<ORDER>(block) { Ok(()) } else { Err(Trouble::Refused { block }) }
}

/// One block, again and again.
pub(crate) struct Repeat<const ORDER: u8> {
    pub(crate) gate: Arc<Gate>,
    pub(crate) pairs: usize,
}

impl<const ORDER: u8> Work for Repeat<ORDER> {
    type Out = Outcome<Timed>;

    fn run<H: Handle>(self, handle: &mut H) -> Outcome<Timed> {
        self.gate.wait();
        let mut checksum = 0_u64;
        let start = Instant::now();
        for _ in 0..self.pairs {
            let block = take::<ORDER, H>(handle, 0)?;
            checksum = checksum.wrapping_add(block);
            give::<ORDER, H>(handle, block)?;
        }
        Ok(Timed { elapsed: start.elapsed(), split: None, checksum })
    }
}

/// Many pages, then all of them back.
pub(crate) struct Batch {
    pub(crate) gate: Arc<Gate>,
    pub(crate) pages: usize,
    pub(crate) fifo: bool,
    pub(crate) batches: usize,
}

impl Batch {
    fn alloc<H: Handle>(handle: &mut H, blocks: &mut [u64]) -> Outcome<()> {
        for (held, slot) in blocks.iter_mut().enumerate() {
            *slot = take::<0, H>(handle, held)?;
        }
        Ok(())
    }

    fn free<H: Handle>(&self, handle: &mut H, blocks: &[u64]) -> Outcome<()> {
        if self.fifo {
            blocks.iter().try_for_each(|&block| give::<0, H>(handle, block))
        } else {
            blocks.iter().rev().try_for_each(|&block| give::<0, H>(handle, block))
        }
    }

    /// The pass that tells the two apart.
    fn split<H: Handle>(&self, handle: &mut H, blocks: &mut [u64], batches: usize) -> Outcome<(Duration, Duration)> {
        let (mut allocating, mut freeing) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..batches {
            let start = Instant::now();
            Batch::alloc(handle, blocks)?;
            let middle = Instant::now();
            self.free(handle, blocks)?;
            freeing += middle.elapsed().saturating_sub(clock_cost());
            allocating += (middle - start).saturating_sub(clock_cost());
        }
        Ok((allocating, freeing))
    }
}

impl Work for Batch {
    type Out = Outcome<Timed>;

    fn run<H: Handle>(self, handle: &mut H) -> Outcome<Timed> {
        let mut blocks = vec![1; self.pages];
        self.gate.wait();
        if self.pages >= ALWAYS_SPLIT_FROM {
            let (allocating, freeing) = self.split(handle, &mut blocks, self.batches)?;
            let checksum = blocks[self.pages / 2];
            return Ok(Timed { elapsed: allocating + freeing, split: Some((allocating, freeing)), checksum });
        }
        let mut checksum = 0_u64;
        let start = Instant::now();
        for _ in 0..self.batches {
            Batch::alloc(handle, &mut blocks)?;
            checksum = checksum.wrapping_add(blocks[self.pages / 2]);
            self.free(handle, &blocks)?;
        }
        let elapsed = start.elapsed();
        let split = match self.pages {
            SPLIT_FROM.. => Some(self.split(handle, &mut blocks, self.batches.div_ceil(4))?),
            _ => None,
        };
        Ok(Timed { elapsed, split, checksum })
    }
}

/// Allocates a thread's part of the pool.
pub(crate) struct Fill<const ORDER: u8> {
    pub(crate) gate: Arc<Gate>,
    pub(crate) blocks: usize,
}

impl<const ORDER: u8> Work for Fill<ORDER> {
    type Out = Outcome<(Vec<u64>, Duration)>;

    fn run<H: Handle>(self, handle: &mut H) -> Self::Out {
        let mut blocks = vec![1; self.blocks];
        self.gate.wait();
        let start = Instant::now();
        for (held, slot) in blocks.iter_mut().enumerate() {
            *slot = take::<ORDER, H>(handle, held)?;
        }
        Ok((blocks, start.elapsed()))
    }
}

/// Frees what the thread was dealt.
pub(crate) struct Empty<const ORDER: u8> {
    pub(crate) gate: Arc<Gate>,
    pub(crate) blocks: Vec<u64>,
}

impl<const ORDER: u8> Work for Empty<ORDER> {
    type Out = Outcome<Duration>;

    fn run<H: Handle>(self, handle: &mut H) -> Outcome<Duration> {
        // The numbers come from the thread that shuffled; their way out of its cache is not to be measured.
        let blocks = self.blocks.clone();
        self.gate.wait();
        let start = Instant::now();
        for &block in &blocks {
            give::<ORDER, H>(handle, block)?;
        }
        Ok(start.elapsed())
    }
}

/// One end of producer and consumer.
pub(crate) struct Pass {
    pub(crate) gate: Arc<Gate>,
    pub(crate) ring: Arc<Ring>,
    pub(crate) pages: usize,
    pub(crate) producer: bool,
}

impl Work for Pass {
    type Out = Outcome<Timed>;

    fn run<H: Handle>(self, handle: &mut H) -> Outcome<Timed> {
        self.gate.wait();
        let start = Instant::now();
        let checksum = if self.producer { self.produce(handle) } else { self.consume(handle) }?;
        Ok(Timed { elapsed: start.elapsed(), split: None, checksum })
    }
}

impl Pass {
    fn produce<H: Handle>(&self, handle: &mut H) -> Outcome<u64> {
        let mut side = self.ring.producer();
        let mut checksum = 0_u64;
        for _ in 0..self.pages {
            let Some(block) = handle.alloc::<0>() else {
                self.finish(side);
                return Err(Trouble::OutOfMemory { held: 0 });
            };
            checksum = checksum.wrapping_add(block);
            self.ring.push(&mut side, block);
        }
        self.finish(side);
        Ok(checksum)
    }

    fn finish(&self, mut side: Side) {
        self.ring.push(&mut side, END);
        self.ring.publish_pushes(&side);
    }

    /// Goes on after a refused free, so that the producer never waits for a consumer that has left.
    fn consume<H: Handle>(&self, handle: &mut H) -> Outcome<u64> {
        let mut side = self.ring.consumer();
        let (mut checksum, mut result) = (0_u64, Ok(()));
        loop {
            let block = self.ring.pop(&mut side);
            if block == END {
                return result.map(|()| checksum);
            }
            checksum = checksum.wrapping_add(block);
            if !handle.free::<0>(block) {
                result = Err(Trouble::Refused { block });
            }
        }
    }
}
