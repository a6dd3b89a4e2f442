//! Interrupts and NMIs: when they come to a CPU, and which context they run in.
//!
//! | kind | comes | hits |
//! |---|---|---|
//! | interrupt | at its time, or when interrupts are let on again | a task with interrupts on; it also ends a wait |
//! | NMI | at its time, before the next access or turn | any context: a task, an interrupt, an NMI |
//!
//! Times are drawn from the seed, from the end of one to the next, in picoseconds of the CPU's clock. A handler runs on
//! the stack of the context that it hit, as in a kernel. In an NMI the CPU has no number (`sim.rs`), which tells the
//! allocator that it is one.
//!
//! *Rejected*: a depth that interrupts count up and down. An NMI that holds interrupts off and lets them on again would
//! do so for the context that it hit, and a pending interrupt would run inside the NMI. A context for each makes that
//! impossible.

use crate::engine::context::{Context, Level};
use crate::engine::cpu::Spent;
use crate::engine::world::{World, with};
use crate::model::Ps;

/// Most NMIs under way on one CPU: each is hit by at most one other.
const MOST_NMIS: u32 = 3;

impl World {
    /// Draws when the next interrupt or NMI comes to the running CPU.
    ///
    /// The time counts from the end of the last one, so the CPU makes progress however long handlers take.
    pub(crate) fn expect(&mut self, level: Level) {
        let source = if level == Level::Nmi { &self.nmis } else { &self.interrupts };
        let every = source.as_ref().map_or(Ps::MAX, |irq| irq.every);
        let wait = self.queue.random() % every.saturating_mul(2).max(1);
        let at = self.now.clock.saturating_add(1 + wait);
        let cpu = self.cpu();
        match level {
            Level::Nmi => cpu.next_nmi = if cpu.nmis < MOST_NMIS { at } else { Ps::MAX },
            _ => cpu.next_interrupt = at,
        }
    }
}

/// An interrupt or NMI under way, and the context that it hit.
///
/// It ends when this is dropped, also if its handler panics.
struct Interrupted {
    level: Level,
    met: Context,
}

impl Drop for Interrupted {
    fn drop(&mut self) {
        with(|world| {
            let cpu = world.cpu();
            cpu.context = self.met;
            cpu.nmis -= u32::from(self.level == Level::Nmi);
            world.expect(self.level);
            // An NMI that was hit by another is hit by no more, so it ends however close they come.
            let cpu = world.cpu();
            if cpu.nmis != 0 {
                cpu.next_nmi = Ps::MAX;
            }
            world.set_limit();
        });
    }
}

/// Runs the handler of an interrupt or NMI on the running CPU.
#[cold]
pub(crate) fn interrupt(level: Level) {
    let begun = with(|world| {
        world.spend(Spent::Interrupts, world.model.costs.interrupt);
        let cpu = world.cpu();
        let met = std::mem::replace(&mut cpu.context, Context { level, ..Context::default() });
        if level == Level::Nmi {
            cpu.nmis += 1;
            world.expect(level);
        }
        world.set_limit();
        let source = if level == Level::Nmi { &world.nmis } else { &world.interrupts };
        (Interrupted { level, met }, source.as_ref().map(|irq| (irq.handler, world.cpu_number())))
    });
    let Some((_ended, handler)) = begun else { return };
    if let Some((handler, cpu)) = handler {
        // SAFETY: the caller that set the handler outlives all CPUs' coroutines, and the world forgets the handler
        // after them.
        unsafe { (*handler)(cpu) };
    }
}

/// Holds interrupts off, or lets them on again.
///
/// An interrupt that has arrived meanwhile then comes.
pub(crate) fn hold_interrupts(held: bool) {
    let due = with(|world| {
        let clock = world.now.clock;
        let cpu = world.cpu();
        if held {
            cpu.context.irq_off += 1;
        } else {
            cpu.context.irq_off -= 1;
        }
        if cpu.next_interrupt != Ps::MAX {
            world.set_limit();
        }
        clock >= world.next_interrupt()
    });
    if due == Some(true) {
        interrupt(Level::Interrupt);
    }
}
