//! What a CPU is in the middle of: a task, an interrupt or an NMI, and what that holds off.

use crate::model::Ps;

/// What a CPU is in the middle of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Level {
    #[default]
    Task,
    /// An interrupt of a task that does not hold interrupts off.
    Interrupt,
    /// What nothing holds off: an interrupt of a task, of an interrupt, or of another of its kind.
    Nmi,
}

/// What belongs to a task or an interrupt while it runs. One that comes in between has its own and leaves this as it is: what it
/// holds off and lets go again are not the interrupts of whom it met.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Context {
    pub(crate) level: Level,
    pub(crate) guards: Guards,
    /// Guards that hold interrupts off.
    pub(crate) irq_off: u32,
}

/// Pins of what runs on a CPU: of the task, or of an interrupt.
///
/// A kernel that holds interrupts off has no need to turn preemption off besides. The core always pins first, as it does not know yet
/// whether it will come to that. So the first guard that holds interrupts off under a pin is charged the rest of its price: both
/// together cost what such a kernel pays.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Guards {
    pins: u32,
    /// The pin's price is part of what was paid for holding interrupts off.
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

    /// Whether interrupts are held off for the first time under a pin.
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
