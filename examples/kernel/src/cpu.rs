//! What a CPU keeps of its own: its number, the preemption counter, and what kind of code it runs.
//!
//! Where these words lie is the architecture's: a thread may move to another CPU between any two instructions, and each
//! architecture has its own way to make that harmless (`arch/*/cpu.rs`). What is done with them is equal, and is here.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::arch::{self, end_pin, set_running};
pub(crate) use crate::arch::{is_preemptible, number, pin, running};

/// Most CPUs that this kernel uses.
pub(crate) const MAX_CPUS: usize = 8;

/// A timer interrupt came while preemption was off.
///
/// The end of a pin may read another CPU's word, if the thread moves meanwhile. The move was the switch then, and a
/// needless one does no harm.
static SWITCH_WANTED: [AtomicBool; MAX_CPUS] = [const { AtomicBool::new(false) }; MAX_CPUS];

/// What a CPU runs.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Running {
    Thread,
    Interrupt,
    Nmi,
}

impl Running {
    /// Returns the kind with that number.
    #[inline(always)]
    pub(crate) fn of(number: u32) -> Running {
        match number {
            0 => Running::Thread,
            1 => Running::Interrupt,
            _ => Running::Nmi,
        }
    }
}

/// Ends a pin. At the end of the last one a switch that was put off takes place.
#[inline(always)]
pub(crate) fn unpin() {
    end_pin();
    if SWITCH_WANTED[number()].load(Ordering::Relaxed) {
        switch_late();
    }
}

#[cold]
fn switch_late() {
    if is_preemptible() && arch::is_interruptible() {
        arch::give_way();
    }
}

/// Notes whether a switch is wanted as soon as preemption is on. Context: interrupts off.
pub(crate) fn want_switch(wanted: bool) {
    SWITCH_WANTED[number()].store(wanted, Ordering::Relaxed);
}

/// Runs a handler with the CPU's number: preemption is off meanwhile, and [`running`] says what runs.
///
/// Context: interrupts off.
pub(crate) fn handle(kind: Running, handler: impl FnOnce(usize)) {
    let interrupted = set_running(kind);
    pin();
    handler(number());
    // The interrupt's end decides on a switch.
    end_pin();
    set_running(interrupted);
}
