//! The instructions that Rust has no name for, each as a function.
//!
//! `DAIF` masks debug exceptions, system errors, IRQs and FIQs. Interrupts are IRQs here: what holds them off leaves
//! FIQs alone (`gic.rs`).

use core::arch::asm;

/// Bit of `DAIF`: IRQs are off.
const IRQ_OFF: usize = 1 << 7;

/// Returns whether interrupts of this CPU are on.
pub(crate) fn is_interruptible() -> bool {
    let masks: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, daif", out(reg) masks, options(nomem, nostack, preserves_flags)) };
    masks & IRQ_OFF == 0
}

/// Turns interrupts of this CPU off; returns the masks as they were.
///
/// The missing `nomem` keeps the compiler from moving accesses to memory across.
#[inline]
pub(crate) fn irq_save() -> usize {
    let saved;
    // SAFETY: no code relies on interrupts being on, only on their coming some time.
    unsafe { asm!("mrs {}, daif", "msr daifset, #2", out(reg) saved, options(nostack, preserves_flags)) };
    saved
}

/// Turns interrupts on again if they were on in `saved`, the result of [`irq_save`].
#[inline]
pub(crate) fn irq_restore(saved: usize) {
    if saved & IRQ_OFF == 0 {
        enable_interrupts();
    }
}

/// Turns interrupts of this CPU on.
pub(crate) fn enable_interrupts() {
    // SAFETY: the vectors are set before the first call, and a lock's holder does not call this.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

/// Turns FIQs of this CPU on.
pub(super) fn enable_fiqs() {
    // SAFETY: the vectors are set, and their stub has saved what an FIQ overwrites.
    unsafe { asm!("msr daifclr, #1", options(nostack, preserves_flags)) };
}

/// Sleeps until the next interrupt, with interrupts on.
pub(crate) fn wait_for_interrupt() {
    // SAFETY: as in `enable_interrupts`. An interrupt between the two is missed, and the timer has others.
    unsafe { asm!("msr daifclr, #2", "wfi", options(nostack, preserves_flags)) };
}

/// Stops this CPU for good.
pub(super) fn halt() -> ! {
    loop {
        // SAFETY: stopping is safe; an interrupt that is off ends the instruction too, hence the loop.
        unsafe { asm!("msr daifset, #15", "wfi", options(nostack, preserves_flags)) };
    }
}
