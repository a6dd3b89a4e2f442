//! How accesses are done under a random schedule: with delayed stores, and with a planted bug.
//!
//! # Delayed stores
//!
//! A simulated word is written at once, so every schedule shows what a sequentially consistent machine would. Real
//! processors show more: each keeps its stores in a buffer for a while, where it alone sees them. With `delays`, CPUs
//! here follow x86-TSO (Sewell et al., CACM 53(7), 2010):
//!
//! - Stores leave a CPU's buffer in their order, at random times.
//! - All of them have left before a read-modify-write or a fence of that CPU, and before it waits or ends.
//! - The heavy half of an asymmetric fence empties the buffers of all CPUs; the light half does nothing.
//!
//! A missing fence then shows. What only weaker machines do, a store that overtakes a store, does not.
//!
//! # Cost
//!
//! No word is looked up in the directory. By lot, time means nothing, and every access costs as much as any other.

use crate::engine::chances::{Kept, MOST_KEPT, Target, Way};
use crate::engine::plant::Plant;
use crate::engine::world::{World, with};
use crate::memory::directory::{Access, NONE};
/// Accesses for each one that lets the oldest store out, on average.
const OUT_IN: u64 = 8;

/// Makes all stores of a CPU visible: another CPU knows of them.
pub(crate) fn publish(cpu: usize) {
    with(|world| {
        if world.chances.is_some() {
            world.let_stores_out(cpu, usize::MAX);
        }
    });
}

impl World {
    /// Like [`World::access_by_chance`], for a turn that goes on; `None` if it is over.
    #[inline]
    pub(crate) fn access_within_turn(&mut self, line: usize, address: usize, access: Access) -> Option<Way> {
        self.chances.as_ref()?;
        let cpu = &self.cpus[self.cpu_number()];
        let is_due = self.now.clock >= cpu.next_interrupt.min(cpu.next_nmi);
        if is_due || !self.queue.goes_on_by_lot() { None } else { Some(self.access_by_chance(line, address, access)) }
    }

    /// Returns how the running CPU is to access a word.
    ///
    /// It is the CPU's turn, and the caller does the access before another CPU runs.
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
                    // A store that was let out just now is in the word too.
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

    /// Returns the value of the running CPU's newest delayed store to a word.
    pub(crate) fn newest_kept(&self, address: usize) -> Option<u64> {
        let kept = self.chances.as_ref()?.kept.as_ref()?.get(self.cpu_number())?;
        kept.iter().rev().find(|kept| kept.word.address() == address).map(|kept| kept.value)
    }

    /// Delays a store of the running CPU.
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

    /// Makes the oldest stores of a CPU visible, at most `most`.
    fn let_stores_out(&mut self, number: usize, most: usize) {
        for _ in 0..most {
            let kept = self.chances.as_mut().and_then(|chances| chances.kept.as_mut());
            let Some(Kept { word, line, value }) = kept.and_then(|kept| kept[number].pop_front()) else { return };
            // SAFETY: the word lies in the arena (`line_of` found it), which outlives the simulation; nothing in it is
            // ever moved or dropped.
            unsafe { word.set(value) };
            if self.directory.lines[line].parked != NONE {
                self.unpark(line, self.now.clock);
            }
        }
    }

    /// Makes all stores of the running CPU visible.
    pub(crate) fn settle(&mut self) {
        if self.chances.is_some() {
            self.let_stores_out(self.cpu_number(), usize::MAX);
        }
    }

    /// Returns whether this is the planted bug.
    pub(crate) fn is_planted(&self, plant: &Plant) -> bool {
        self.chances.as_ref().is_some_and(|chances| chances.plant.as_ref() == Some(plant))
    }

    /// Does the heavy half of an asymmetric fence.
    pub(crate) fn heavy_fence_by_chance(&mut self) {
        if self.chances.is_some() && !self.is_planted(&Plant::NoHeavyFence) {
            (0..self.cpus.len()).for_each(|number| self.let_stores_out(number, usize::MAX));
        }
    }
}
