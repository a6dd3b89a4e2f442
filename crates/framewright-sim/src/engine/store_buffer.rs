//! What a random schedule may do besides choosing who goes next: keep stores back, and do wrong on purpose.
//!
//! # Stores that are kept back
//!
//! A simulated word is written at once, so every schedule shows what a sequentially consistent machine would. Real processors show
//! more: each keeps its stores in a buffer for a while, where it alone sees them. With
//! `delays`, CPUs here do the same, as x86-TSO has it (Sewell et al., CACM 53(7), 2010): stores leave a CPU's buffer in
//! their order at random times, all of them before a read-modify-write or a fence of that CPU, and before it waits or
//! ends. The dear half of an asymmetric fence empties the buffers of all CPUs; the cheap half does nothing. A fence that
//! is missing shows then. What only weaker machines do (a store that overtakes a store) does not.
//!
//! # Planted bugs
//!
//! A checker is worth what it finds, so it must be tried. A [`Plant`] makes the simulated machine, not the allocator, do
//! one thing wrong that amounts to a mistake in the allocator: it loses a store, tears a read-modify-write into a load and a
//! store, lets a compare-and-swap write without comparing, takes the dear fences for nothing, or names a CPU where there is none.
//!
//! With chances a word is not looked up in the directory: by lot, time means nothing, and an access costs the same always.

use crate::engine::chances::{Kept, MOST_KEPT, Target, Way};
use crate::engine::plant::Plant;
use crate::engine::world::{World, with};
use crate::memory::directory::{Access, NONE};
/// One in so many accesses lets the oldest store out.
const OUT_IN: u64 = 8;

/// A CPU's stores are all out: another knows of them.
pub(crate) fn publish(cpu: usize) {
    with(|world| {
        if world.chances.is_some() {
            world.let_stores_out(cpu, usize::MAX);
        }
    });
}

impl World {
    /// The same as [`World::access_by_chance`], without a look at who is next, if the running CPU's turn goes on.
    #[inline]
    pub(crate) fn access_within_turn(&mut self, line: usize, address: usize, access: Access) -> Option<Way> {
        self.chances.as_ref()?;
        let cpu = &self.cpus[self.cpu_number()];
        let is_due = self.now.clock >= cpu.next_interrupt.min(cpu.next_nmi);
        if is_due || !self.queue.goes_on_by_lot() { None } else { Some(self.access_by_chance(line, address, access)) }
    }

    /// The running CPU, whose turn it is, accesses a word: how. The caller does it before anybody else runs.
    pub(crate) fn access_by_chance(&mut self, line: usize, address: usize, access: Access) -> Way {
        self.now.accesses += 1;
        self.now.clock += self.model.latency.l1.max(1);
        let number = self.cpu_number();
        let Some(chances) = &mut self.chances else { return Way::Plain };
        let spoilt = chances.spoil(address, access);
        if matches!(spoilt, Way::Lost | Way::Torn) {
            return spoilt;
        }
        if let Some(kept) = &chances.kept {
            let own = &kept[number];
            match access {
                Access::Rmw => self.let_stores_out(number, usize::MAX),
                Access::Store | Access::Release => return Way::Buffer,
                Access::Load => {
                    let is_own = own.iter().any(|kept| kept.word.address() == address);
                    if !own.is_empty() {
                        self.perhaps_let_out(number);
                    }
                    // What has just come out is in the word too.
                    return if is_own { Way::Buffer } else { Way::Plain };
                }
            }
        }
        if access != Access::Load && self.directory.lines[line].parked != NONE {
            self.unpark(line, self.now.clock);
        }
        spoilt
    }

    fn perhaps_let_out(&mut self, number: usize) {
        let mut dice = self.queue.random();
        while dice.is_multiple_of(OUT_IN) {
            self.let_stores_out(number, 1);
            dice /= OUT_IN;
            if dice == 0 {
                return;
            }
        }
    }

    /// The value of the running CPU's newest store to a word that is not out yet.
    pub(crate) fn newest_kept(&self, address: usize) -> Option<u64> {
        let kept = self.chances.as_ref()?.kept.as_ref()?.get(self.cpu_number())?;
        kept.iter().rev().find(|kept| kept.word.address() == address).map(|kept| kept.value)
    }

    /// The running CPU keeps a store back.
    pub(crate) fn keep_store(&mut self, word: Target, value: u64) {
        let number = self.cpu_number();
        let (line, _) = self.line_of(word.address());
        let Some(kept) = self.chances.as_mut().and_then(|chances| chances.kept.as_mut()) else { return };
        kept[number].push_back(Kept { word, line, value });
        if kept[number].len() > MOST_KEPT {
            self.let_stores_out(number, 1);
        }
        self.perhaps_let_out(number);
    }

    /// Lets the oldest stores of a CPU out, so many at most.
    fn let_stores_out(&mut self, number: usize, most: usize) {
        for _ in 0..most {
            let kept = self.chances.as_mut().and_then(|chances| chances.kept.as_mut());
            let Some(Kept { word, line, value }) = kept.and_then(|kept| kept[number].pop_front()) else { return };
            // SAFETY: the word lies in the arena (`line_of` found it), which outlives the simulation; nothing in it is ever moved
            // or dropped.
            unsafe { word.set(value) };
            if self.directory.lines[line].parked != NONE {
                self.unpark(line, self.now.clock);
            }
        }
    }

    /// The running CPU's stores are all out before it goes on.
    pub(crate) fn settle(&mut self) {
        if self.chances.is_some() {
            self.let_stores_out(self.cpu_number(), usize::MAX);
        }
    }

    /// Whether this is the mistake that the machine makes.
    pub(crate) fn is_planted(&self, plant: &Plant) -> bool {
        self.chances.as_ref().is_some_and(|chances| chances.plant.as_ref() == Some(plant))
    }

    /// The dear half of an asymmetric fence.
    pub(crate) fn heavy_fence_by_chance(&mut self) {
        if self.chances.is_some() && !self.is_planted(&Plant::NoHeavyFence) {
            (0..self.cpus.len()).for_each(|number| self.let_stores_out(number, usize::MAX));
        }
    }
}
