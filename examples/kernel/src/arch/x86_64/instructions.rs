//! The instructions that Rust has no name for, each as a function.
//!
//! Together with `cpu.rs` (the words in `%gs`) and `interrupts.rs` (the stubs) this is all assembly that runs after
//! boot.

use core::arch::asm;

/// Reads an 8-bit port.
pub(super) fn read_port(port: u16) -> u8 {
    let value;
    // SAFETY: the devices behind the ports that this kernel reads and writes do not touch memory.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Writes an 8-bit port.
pub(super) fn write_port(port: u16, value: u8) {
    // SAFETY: as in `read_port`.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack, preserves_flags)) };
}

/// Writes a model-specific register.
///
/// # Safety
/// The kernel must be able to run with the register's new value.
pub(super) unsafe fn write_msr(register: u32, value: u64) {
    let (low, high) = (value as u32, (value >> 32) as u32);
    // SAFETY: the caller's promise.
    unsafe { asm!("wrmsr", in("ecx") register, in("eax") low, in("edx") high, options(nostack, preserves_flags)) };
}

/// Returns the time-stamp counter.
pub(super) fn time_stamp() -> u64 {
    // SAFETY: reads a register.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Bit of the flags register: interrupts are on.
const INTERRUPTS_ON: usize = 1 << 9;

/// Returns whether interrupts of this CPU are on.
pub(crate) fn is_interruptible() -> bool {
    let flags: usize;
    // SAFETY: uses the stack in a balanced way, which the missing `nostack` tells the compiler.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
    flags & INTERRUPTS_ON != 0
}

/// Turns interrupts of this CPU off; returns the flags register as it was.
///
/// The missing `nomem` keeps the compiler from moving accesses to memory across.
#[inline]
pub(crate) fn irq_save() -> usize {
    let saved;
    // SAFETY: as in `is_interruptible`; no code relies on interrupts being on, only on their coming some time.
    unsafe { asm!("pushfq", "pop {}", "cli", out(reg) saved) };
    saved
}

/// Turns interrupts on again if they were on in `saved`, the result of [`irq_save`].
#[inline]
pub(crate) fn irq_restore(saved: usize) {
    if saved & INTERRUPTS_ON != 0 {
        enable_interrupts();
    }
}

/// Turns interrupts of this CPU on.
pub(crate) fn enable_interrupts() {
    // SAFETY: the interrupt table is loaded before the first call, and a lock's holder does not call this.
    unsafe { asm!("sti", options(nostack)) };
}

/// Sleeps until the next interrupt, with interrupts on.
pub(crate) fn wait_for_interrupt() {
    // SAFETY: as in `enable_interrupts`. `sti` takes effect after `hlt` has begun, so no interrupt is missed.
    unsafe { asm!("sti", "hlt", options(nostack)) };
}

/// Stops this CPU for good.
pub(super) fn halt() -> ! {
    loop {
        // SAFETY: stopping is safe; an NMI ends the instruction, hence the loop.
        unsafe { asm!("cli", "hlt", options(nostack)) };
    }
}
