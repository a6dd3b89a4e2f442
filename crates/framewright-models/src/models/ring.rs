//! One ring by itself, compiled from the core's own `ring.rs`: its window, which another CPU closes and opens again.
//!
//! The owner is in the fast path. The claimer has seized the lists, as a fork and a drain under the zone lock do, so it
//! opens the window itself: no flag of the lists tells the owner what the claimer did.
//!
//! A claimer only reads the entries. A machine may let its loads pass the stores that open the window, and then they
//! return what the owner wrote later. loom carries no load out late. So each slot and each block has a payload, which
//! a claimer reads and an owner writes; loom reports a race if the claimer's part is not ordered before the owner's.

use framewright::Machine;
use framewright::machine::Word;

use crate::explore::{Model, Part};
use crate::frame::head::Head;
use crate::kept::Payload;
use crate::loom_machine::LoomMachine;
use crate::pcp::ring::{Ring, SlotRange};
use crate::types::units::Frame;

/// Slots of the array; the ring has all but the first.
const SLOTS: usize = 4;

/// Models of a ring.
pub const MODELS: &[Model<Rings>] = &[
    // The slot that the claimer empties is used again: the ring has wrapped around.
    model("ring_push", wrapped, cpus!(0[push()], 1[take_and_open()])),
    model("ring_push_all", wrapped, cpus!(0[push_all()], 1[take_and_open()])),
    // The claimer looks at all blocks, and the owner gets one of them.
    model("ring_pop", full, cpus!(0[pop()], 1[look_and_open()])),
    model("ring_pop_all", full, cpus!(0[pop_all()], 1[look_and_open()])),
];

const fn model(name: &'static str, stage: fn() -> Rings, threads: &'static [(u16, Part<Rings>)]) -> Model<Rings> {
    Model::new(name, stage, threads, Rings::check)
}

type U32 = <LoomMachine as Machine>::U32;

/// A ring, its slots, and the payloads of slots and of blocks, which have the numbers of their first slots.
pub struct Rings {
    ring: Ring<LoomMachine>,
    slots: Vec<U32>,
    of_slots: [Payload; SLOTS],
    of_blocks: [Payload; SLOTS + 1],
    head: <LoomMachine as Machine>::U8,
}

const MACHINE: LoomMachine = LoomMachine { bypass_pcp: &[], drains: false };

fn full() -> Rings {
    let rings = Rings {
        ring: Ring::default(),
        slots: (0..SLOTS as u32).map(U32::new).collect(),
        of_slots: Default::default(),
        of_blocks: Default::default(),
        head: Word::new(0),
    };
    let all = SlotRange { start: 1, end: SLOTS as u32 };
    rings.ring.place(all, all);
    rings.ring.open();
    rings
}

/// The entries are in slots 2, 3 and 1, in this order.
fn wrapped() -> Rings {
    let rings = full();
    let oldest = rings.ring.pop_bottom(&rings.slots);
    rings.ring.push(&rings.slots, oldest.expect("it is full"));
    rings.ring.open();
    rings
}

impl Rings {
    /// Pushes a block as the owner, if there is room.
    fn push(&self) {
        let slots = &self.slots[..];
        self.ring.push_front(&slots, || Frame(SLOTS as u32), || self.of_slots[2].write());
    }

    /// Like [`Rings::push`], by a call for several blocks.
    fn push_all(&self) {
        self.ring.push_front_all(&self.slots, &[()], Head::NONE, |()| {
            self.of_slots[2].write();
            Some((Frame(SLOTS as u32), &self.head))
        });
    }

    /// Pops a block as the owner, and uses it.
    fn pop(&self) {
        let slots = &self.slots[..];
        if let Some(Frame(block)) = self.ring.pop_front(&MACHINE, &slots, Some) {
            self.of_blocks[block as usize].write();
        }
    }

    /// Like [`Rings::pop`], by a call for several blocks.
    fn pop_all(&self) {
        for entry in self.ring.pop_front_all(&MACHINE, &self.slots, 2) {
            self.of_blocks[entry.load(framewright::machine::Ordering::Relaxed) as usize].write();
        }
    }

    fn close(&self) {
        self.ring.close();
        MACHINE.heavy_fence();
    }

    /// Takes the block at the bottom as a claimer.
    fn take_and_open(&self) {
        self.close();
        if self.ring.pop_bottom(&self.slots).is_some() {
            self.of_slots[2].read();
        }
        self.ring.open();
    }

    /// Looks at all blocks as a claimer.
    fn look_and_open(&self) {
        self.close();
        self.ring.each(&self.slots, |Frame(block)| self.of_blocks[block as usize].read());
        self.ring.open();
    }

    fn check(&self) {
        let mut blocks = Vec::new();
        self.ring.each(&self.slots, |Frame(block)| blocks.push(block));
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), self.ring.len() as usize, "an entry is there twice: {blocks:?}");
    }
}
