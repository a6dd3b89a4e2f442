//! The generic timer: one count for all CPUs, and the virtual timer of each.
//!
//! Its interrupt lasts as long as the timer is on and its time has come. So a handler stops the timer first.

use core::arch::asm;

/// Returns the count, which begins with the machine.
fn count() -> u64 {
    let count;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
    count
}

/// Returns the counts of a second.
fn frequency() -> u64 {
    let frequency;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack, preserves_flags)) };
    frequency
}

/// Returns the nanoseconds since the machine began.
pub(crate) fn nanoseconds() -> u64 {
    let (count, second) = (count(), frequency());
    count / second * 1_000_000_000 + count % second * 1_000_000_000 / second
}

/// Sets this CPU's timer to one interrupt, after so much time.
pub(crate) fn set_timer(nanoseconds: u64) {
    let counts = nanoseconds * frequency() / 1_000_000_000;
    // SAFETY: the timer does no more than interrupt this CPU, which has vectors.
    unsafe {
        asm!("msr cntv_tval_el0, {}", "msr cntv_ctl_el0, {}", "isb", in(reg) counts, in(reg) 1u64,
            options(nomem, nostack, preserves_flags));
    }
}

/// Stops this CPU's timer.
pub(super) fn stop_timer() {
    // SAFETY: nothing waits for an interrupt that a handler has just got.
    unsafe { asm!("msr cntv_ctl_el0, xzr", "isb", options(nomem, nostack, preserves_flags)) };
}
