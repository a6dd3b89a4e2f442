//! A ring between two threads, and the limits of producer and consumer.
//!
//! [`Ring`] has one producer and one consumer. Each keeps a copy of the other's position, and publishes its own only once in
//! [`PUBLISH`] steps, so that the lines with positions move between the cores rarely; publishing each step costs five times
//! as much, all of it line transfers, and hides what is to be measured. A thread that must wait spins, and lets others
//! run now and then, since the other side may not be running at all. Nobody waits forever: what both rings hold back
//! unpublished is far less than what goes round, so one side can always go on.
//!
//! | contender | what it does |
//! |---|---|
//! | `ring` | numbers are made up by the producer and dropped by the consumer: the cost of the ring alone |
//! | `ring+return` | what the consumer is done with goes back to the producer through a second ring |
//!
//! An allocator must bring back memory from consumer to producer, as `ring+return` does in the simplest way, so that one
//! is the limit. It is no allocator either: it only works in a circle.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::cell::Cells;
use crate::contender::{Contender, Entry, Handle, Role, Setup, Work};
use crate::workload::Shape;

/// Blocks in flight between producer and consumer: 8 KiB of numbers, well within a first-level cache.
pub(crate) const RING_SLOTS: usize = 1024;
/// Steps from one publication of a position to the next: four cache lines of slots.
const PUBLISH: usize = 32;
/// How often a waiter looks before it lets other threads run.
const SPINS: u32 = 128;

fn suits(shape: Shape) -> bool {
    matches!(shape, Shape::ProducerConsumer)
}

/// The limits that are rings.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry {
        name: "ring",
        about: "limit: the ring between producer and consumer alone",
        role: Role::Limit,
        suits,
        capacity: |setup| setup.frames,
        available: || Ok(()),
        make: |_| Ok(Box::new(Bare) as Box<dyn Cells>),
    },
    Entry {
        name: "ring+return",
        about: "limit: the same, with a second ring that brings numbers back",
        role: Role::Limit,
        suits,
        capacity: |_| RING_SLOTS,
        available: || Ok(()),
        make: |setup| Ok(Box::new(Return::new(setup)) as Box<dyn Cells>),
    },
];

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

/// Nothing but a number that goes up.
struct Bare;

struct Counter(u64);

impl Handle for Counter {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        self.0 += 1;
        Some(self.0)
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        self.0 = block;
        true
    }
}

impl Contender for Bare {
    fn attach<W: Work>(&self, _: usize, work: W) -> W::Out {
        work.run(&mut Counter(0))
    }
}

/// The way back.
struct Return(Ring);

impl Return {
    fn new(_: &Setup) -> Return {
        let ring = Ring::new();
        let mut side = ring.producer();
        for block in 0..RING_SLOTS as u64 {
            ring.push(&mut side, block);
        }
        Return(ring)
    }
}

struct ReturnHandle<'a> {
    ring: &'a Ring,
    taking: Side,
    giving: Side,
}

impl Handle for ReturnHandle<'_> {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        Some(self.ring.pop(&mut self.taking))
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        self.ring.push(&mut self.giving, block);
        true
    }
}

impl Drop for ReturnHandle<'_> {
    /// The next to attach goes on from here.
    fn drop(&mut self) {
        self.ring.publish_pops(&self.taking);
        self.ring.publish_pushes(&self.giving);
    }
}

impl Contender for Return {
    fn attach<W: Work>(&self, _: usize, work: W) -> W::Out {
        work.run(&mut ReturnHandle { ring: &self.0, taking: self.0.consumer(), giving: self.0.producer() })
    }
}
