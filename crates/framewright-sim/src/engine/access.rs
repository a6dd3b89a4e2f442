//! What an access to a shared word costs the running CPU, and what it does to other CPUs.
//!
//! An access takes the first of three paths that fits, and each costs the host more than the one before:
//!
//! 1. the core touched the line last, still has it and may use it as it is ([`World::touch_held`]);
//! 2. the core has a copy that other cores read too ([`World::touch_shared`]);
//! 3. the directory serves a request, in the CPU's turn ([`World::serve`]).
//!
//! Stores wait in the CPU's store buffer until they are visible.

use crate::engine::cpu::Spent;
use crate::engine::world::World;
use crate::memory::directory::{Access, NONE, Served, Source};

impl World {
    /// Charges an access to a line that the core touched last and may use as it is.
    ///
    /// Returns false, and charges nothing, if the line is not so.
    #[inline(always)]
    pub(crate) fn touch_held(&mut self, line: usize, access: Access) -> bool {
        let now = &mut self.now;
        let is_arriving = self.directory.is_arriving(line, now.core);
        let state = &mut self.directory.lines[line];
        let may = now.clock <= now.limit
            && state.last == now.core
            && now.fills.l1.wrapping_sub(state.l1_stamp) < self.l1_lines
            // A store wakes the CPUs that wait at the line, also one of the same core.
            && (access == Access::Load
                || state.owner == now.core && state.is_dirty() && state.parked == NONE && now.stores < now.enough)
            && !is_arriving;
        if may {
            state.l1_stamp = now.fills.l1;
            let is_store = access != Access::Load;
            now.clock += if is_store { self.store } else { self.l1 };
            now.stores += u64::from(is_store);
            now.accesses += 1;
        }
        may
    }

    /// Charges a load from a copy that other cores read too; returns false if there is none.
    ///
    /// The line keeps its last toucher: readers would otherwise replace each other at every load.
    pub(crate) fn touch_shared(&mut self, line: usize) -> bool {
        let now = &mut self.now;
        let may = now.clock <= now.limit && self.directory.reads_along(line, now.core);
        if may {
            now.clock += self.l1;
            now.accesses += 1;
        }
        may
    }

    /// Serves an access through the directory, in the CPU's turn.
    pub(crate) fn serve(&mut self, (line, region): (usize, u16), address: usize, access: Access) {
        self.now.accesses += 1;
        match access {
            Access::Load => {}
            Access::Rmw => self.drain(),
            Access::Store | Access::Release => self.make_room(),
        }
        let cpu = usize::from(self.now.cpu);
        let now = self.now.clock;
        let served = self.directory.serve(&mut self.memory, line, (self.now.core, access), now);
        self.now.fills = self.directory.fills(self.now.core);
        if served.source != Source::Own && self.counts() {
            let offset = address - self.base;
            self.counters.count(&mut self.directory.lines[line], (region, offset), access, &served, now);
        }
        let mut visible = served.done;
        match access {
            Access::Load => self.wait_for(&served),
            Access::Rmw => {
                self.wait_for(&served);
                self.now.clock += self.model.costs.rmw;
            }
            Access::Store | Access::Release => {
                self.now.clock += self.store;
                let stores = &mut self.cpus[cpu].stores;
                if served.source != Source::Own {
                    stores.post(served.done, self.now.stores);
                }
                self.now.stores += 1;
                self.now.enough = stores.enough_for(self.buffer);
                let last = stores.last();
                if access == Access::Release && last > visible {
                    // Earlier stores become visible first; other CPUs get the line after them.
                    visible = last;
                    let state = &mut self.directory.lines[line];
                    state.busy = state.busy.max(last);
                }
            }
        }
        if access != Access::Load && self.directory.lines[line].parked != NONE {
            self.unpark(line, visible);
        }
    }

    /// Advances the running CPU to the end of its request.
    fn wait_for(&mut self, served: &Served) {
        let queued = served.start - self.now.clock;
        let moving = served.done - served.start;
        self.now.clock = served.done;
        let times = &mut self.cpu().times;
        times.add(Spent::Queued, queued);
        match served.source {
            Source::Own => {}
            Source::Near => times.add(Spent::Near, moving),
            Source::Far => times.add(Spent::Far, moving),
            Source::Memory => times.add(Spent::Memory, moving),
        }
    }

    /// Lets the running CPU wait for room for one more store.
    fn make_room(&mut self) {
        let (clock, stores) = (self.now.clock, self.now.stores);
        let room = (self.model.stores.in_flight, self.buffer);
        let waited = self.cpu().stores.make_room(clock, stores, room);
        self.spend(Spent::Stores, waited);
    }

    /// Lets the running CPU wait until all its stores are visible.
    pub(crate) fn drain(&mut self) {
        let waited = self.cpu().stores.last().saturating_sub(self.now.clock);
        self.spend(Spent::Stores, waited);
    }

    /// Charges the running CPU for zeroing lines of a node, which push others out of its caches.
    pub(crate) fn zero_lines(&mut self, node: usize, lines: u64) {
        let done = self.memory.zero(node, self.now.clock, lines);
        self.spend(Spent::Zeroing, done - self.now.clock);
        self.fill_private(lines as u32);
    }

    /// Brings `lines` private lines into the running CPU's caches.
    pub(crate) fn fill_private(&mut self, lines: u32) {
        self.directory.fill(self.now.core, lines);
        self.now.fills = self.directory.fills(self.now.core);
    }
}
