//! The context that a CPU runs in: a task, an interrupt or an NMI, with its own pins and interrupt state.

use crate::model::Ps;

/// The kind of context.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Level {
    #[default]
    Task,
    /// An interrupt of a task that does not hold interrupts off.
    Interrupt,
    /// An NMI, which nothing holds off; it may hit a task, an interrupt or another NMI.
    Nmi,
}

/// State of a task, an interrupt or an NMI while it runs.
///
/// An interrupt or NMI has a context of its own. What it holds off and lets go is its own, not that of the context that
/// it hit.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Context {
    pub(crate) level: Level,
    pub(crate) guards: Guards,
    /// Number of guards that hold interrupts off.
    pub(crate) irq_off: u32,
}

/// Pins of one context.
///
/// A kernel that holds interrupts off does not turn preemption off as well. The core always pins first, because it does
/// not know yet whether it will hold interrupts off. So the first guard that holds interrupts off under a pin is
/// charged only the rest of its price. Both together cost what such a kernel pays.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Guards {
    pins: u32,
    /// The pin's price is part of the price of holding interrupts off.
    is_part: bool,
}

impl Guards {
    pub(crate) fn pin(&mut self) {
        self.pins += 1;
    }

    pub(crate) fn unpin(&mut self) {
        self.pins = self.pins.saturating_sub(1);
        self.is_part &= self.pins != 0;
    }

    /// Returns whether this is the first time under a pin that interrupts are held off.
    pub(crate) fn stands_for_a_pin(&mut self) -> bool {
        let first = self.pins != 0 && !self.is_part;
        self.is_part |= first;
        first
    }
}

/// Interrupts of one kind, which arrive at any step.
pub(crate) struct Interrupts {
    pub(crate) handler: *const dyn Fn(usize),
    /// Mean time between two on each CPU.
    pub(crate) every: Ps,
}
