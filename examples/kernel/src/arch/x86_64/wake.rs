//! Another CPU is woken by INIT and two start-up messages.
//!
//! It runs a copy of the trampoline (`boot.rs`) in real mode. It finds its stack in `boot_other_stack`, which is why
//! only one is woken at a time.

use core::ptr;

use super::apic;
use super::boot::TRAMPOLINE;

unsafe extern "C" {
    static trampoline: u8;
    static trampoline_end: u8;
    static mut boot_other_stack: u64;
}

/// Wakes the CPU with an APIC number, which calls `smp::other_cpu` on a stack that ends at `stack`.
///
/// Context: the first CPU; the CPU that was woken before has started.
pub(crate) fn wake(apic: u8, stack: u64, has_started: impl Fn() -> bool) {
    let code = &raw const trampoline;
    let length = &raw const trampoline_end as usize - code as usize;
    // SAFETY: the page at TRAMPOLINE is mapped and unused, and the code does not depend on where it runs. The CPU that
    // was woken before has read its stack's address.
    unsafe {
        ptr::copy_nonoverlapping(code, TRAMPOLINE as *mut u8, length);
        ptr::write_volatile(&raw mut boot_other_stack, stack);
    }
    apic::send_init(apic);
    apic::wait(10_000_000);
    for _ in 0..2 {
        apic::send_start(apic, TRAMPOLINE);
        let end = apic::nanoseconds() + 100_000_000;
        while !has_started() && apic::nanoseconds() < end {}
        if has_started() {
            break;
        }
    }
}
