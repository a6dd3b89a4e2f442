//! A bounded queue from one thread to another.
//!
//! A [`Ring`] has one producer and one consumer. Each keeps a copy of the other's position, and publishes its own only
//! once in [`PUBLISH`] steps, so that the lines with positions rarely move between cores. Publishing each step costs
//! five times as much, all of it line transfers, and hides what is to be measured. A thread that waits spins, and
//! yields now and then, because the other side may not be running. No thread waits forever: a ring holds back far fewer
//! unpublished slots than it has, so one side can always go on.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Blocks in flight between producer and consumer: 8 KiB of numbers, well within a first-level cache.
pub(crate) const RING_SLOTS: usize = 1024;
/// Steps from one publication of a position to the next: four cache lines of slots.
const PUBLISH: usize = 32;
/// How often a waiter looks before it lets other threads run.
const SPINS: u32 = 128;

/// A position on a cache line of its own; two lines, because processors fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Position(AtomicUsize);

/// A bounded queue from one thread to another.
pub(crate) struct Ring {
    slots: Box<[AtomicU64]>,
    /// Next to be read.
    head: Position,
    /// Next to be written.
    tail: Position,
}

/// One side of a ring: its own position and what it knows of the other's.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    own: usize,
    other: usize,
}

impl Ring {
    pub(crate) fn new() -> Ring {
        let slots = (0..RING_SLOTS).map(|_| AtomicU64::new(0)).collect();
        Ring { slots, head: Position::default(), tail: Position::default() }
    }

    /// The producing side as it was left.
    pub(crate) fn producer(&self) -> Side {
        Side { own: self.tail.0.load(Ordering::Relaxed), other: self.head.0.load(Ordering::Acquire) }
    }

    /// The consuming side as it was left.
    pub(crate) fn consumer(&self) -> Side {
        Side { own: self.head.0.load(Ordering::Relaxed), other: self.tail.0.load(Ordering::Acquire) }
    }

    /// Appends; waits while the ring is full.
    #[inline]
    pub(crate) fn push(&self, side: &mut Side, value: u64) {
        if side.own.wrapping_sub(side.other) == RING_SLOTS {
            side.other = wait_for_change(&self.head, side.other);
        }
        self.slots[side.own % RING_SLOTS].store(value, Ordering::Relaxed);
        side.own = side.own.wrapping_add(1);
        if side.own.is_multiple_of(PUBLISH) {
            self.publish_pushes(side);
        }
    }

    /// Takes the oldest; waits while the ring is empty.
    #[inline]
    pub(crate) fn pop(&self, side: &mut Side) -> u64 {
        if side.own == side.other {
            side.other = wait_for_change(&self.tail, side.other);
        }
        let value = self.slots[side.own % RING_SLOTS].load(Ordering::Relaxed);
        side.own = side.own.wrapping_add(1);
        if side.own.is_multiple_of(PUBLISH) {
            self.publish_pops(side);
        }
        value
    }

    /// Lets the consumer see all that was pushed.
    pub(crate) fn publish_pushes(&self, side: &Side) {
        self.tail.0.store(side.own, Ordering::Release);
    }

    /// Lets the producer use all slots that were read.
    pub(crate) fn publish_pops(&self, side: &Side) {
        self.head.0.store(side.own, Ordering::Release);
    }
}

#[cold]
fn wait_for_change(position: &Position, known: usize) -> usize {
    let mut looks = 0_u32;
    loop {
        let now = position.0.load(Ordering::Acquire);
        if now != known {
            return now;
        }
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(SPINS) { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}
