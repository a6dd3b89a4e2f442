//! Interrupts, and NMIs: when they come to a CPU, what they meet, and what is left as it was.
//!
//! | what | comes | meets |
//! |---|---|---|
//! | an interrupt | at its time, or when whoever held it off lets go | a task that does not hold interrupts off; it also ends a wait |
//! | an NMI | at its time, before the access or the turn that is next | anybody: whoever holds interrupts off, an interrupt, an NMI |
//!
//! Times are drawn from the seed, from the end of one to the next, in picoseconds of the CPU's clock. Each runs its handler on the stack
//! of whom it met, as it would in a kernel. In an NMI the CPU has no number (`sim.rs`), so the allocator takes it for what it is.
//!
//! *Rejected*: a depth that interrupts count up and down. What an NMI holds off and lets go again would then be the interrupts of
//! whom it met, and one that is pending would come in the middle of the NMI. A context of its own for each says it without a rule.

use crate::engine::context::{Context, Level};
use crate::engine::cpu::Spent;
use crate::engine::world::{World, with};
use crate::model::Ps;

/// NMIs that are under way on a CPU at most: one that meets one that met one. Each is met by one other at most.
const MOST_NMIS: u32 = 3;

impl World {
    /// Draws when the next one of a kind comes to the running CPU. From the end of one to the next: however long they take, the CPU
    /// gets on.
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

/// An interrupt that is under way, and what it met. It ends when this is dropped, so if its handler panics, too.
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
            // One that was met by another is met by no more: it ends, however close they come.
            let cpu = world.cpu();
            if cpu.nmis != 0 {
                cpu.next_nmi = Ps::MAX;
            }
            world.set_limit();
        });
    }
}

/// An interrupt, or an NMI, arrives at the running CPU.
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
        // SAFETY: whoever set the handler outlives all CPUs' coroutines, and the world forgets it behind them.
        unsafe { (*handler)(cpu) };
    }
}

/// Interrupts are held off, or on again: then what has arrived meanwhile comes.
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
