//! The limits of producer and consumer: rings that carry numbers.
//!
//! | contender | what it does |
//! |---|---|
//! | `ring` | the producer makes numbers up and the consumer drops them: the cost of the ring alone |
//! | `ring+return` | the consumer sends each number back to the producer through a second ring |
//!
//! An allocator must bring memory back from consumer to producer. `ring+return` does that in the simplest way, so it is
//! the limit. It is no allocator: it only works in a circle.

use crate::cell::Cells;
use crate::contender::{Contender, Handle, Setup, Work};
use crate::entry::{Entry, Role};
use crate::ring::{RING_SLOTS, Ring, Side};
use crate::workload::Shape;

fn suits(shape: Shape) -> bool {
    matches!(shape, Shape::ProducerConsumer)
}

/// The limits that are rings.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry {
        name: "ring",
        about: "limit: the ring between producer and consumer alone",
        make: |_| Ok(Box::new(Bare) as Box<dyn Cells>),
        ..LIMIT
    },
    Entry {
        name: "ring+return",
        about: "limit: the same, with a second ring that brings numbers back",
        capacity: |_| RING_SLOTS,
        make: |setup| Ok(Box::new(Return::new(setup)) as Box<dyn Cells>),
        ..LIMIT
    },
];

/// The common part of the rows.
const LIMIT: Entry = Entry { role: Role::Limit, suits, ..Entry::peer("", "", |_| Err(String::new())) };

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
