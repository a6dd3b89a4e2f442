//! What an interrupt does, whatever the architecture calls it.

use crate::arch::Frame;
use crate::cpu::{self, Running};
use crate::{fence, stress, threads};

/// What one CPU sends to another.
#[derive(Clone, Copy)]
pub(crate) enum Message {
    /// An interrupt that code which holds interrupts off does not hold off.
    Nmi,
    /// Pass a fence.
    Fence,
}

/// Why a CPU was interrupted.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    Timer,
    Message(Message),
    /// By the running thread, to let another one run.
    GiveWay,
}

/// Handles an event; the registers that `frame` has are afterwards those of another thread, if threads switch.
///
/// Context: interrupts off, on the interrupt stack.
pub(crate) fn take(event: Event, frame: &mut Frame) {
    match event {
        Event::Timer => {
            cpu::handle(Running::Interrupt, stress::tick);
            threads::preempt(frame);
        }
        Event::Message(Message::Nmi) => cpu::handle(Running::Nmi, stress::nmi),
        Event::Message(Message::Fence) => fence::answer(),
        Event::GiveWay => threads::switch(frame),
    }
}
