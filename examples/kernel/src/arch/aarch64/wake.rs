//! Another CPU is woken by firmware: PSCI, version 0.2, which `virt` without EL2 and EL3 offers by `hvc`.

use core::arch::asm;

use crate::serial;

unsafe extern "C" {
    fn boot_other();
}

/// Wakes the CPU with an affinity, which calls `smp::other_cpu` on a stack that ends at `stack`.
///
/// Context: the first CPU.
pub(crate) fn wake(affinity: u64, stack: u64, _has_started: impl Fn() -> bool) {
    const CPU_ON: u64 = 0xc400_0003;
    let status: i64;
    // SAFETY: the other CPU begins at `boot_other` with the stack in `x0`; nothing else has the stack. Firmware keeps
    // the registers that a function keeps.
    unsafe {
        asm!("hvc #0", inout("x0") CPU_ON => status, in("x1") affinity, in("x2") boot_other as *const () as u64,
            in("x3") stack, clobber_abi("C"), options(nostack));
    }
    if status != 0 {
        serial::refuse(format_args!("firmware does not start the CPU {affinity:#x}: {status}"));
    }
}
