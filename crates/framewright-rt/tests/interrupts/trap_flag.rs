//! The processor's trap flag (`TF`): while it is set, the kernel sends a `SIGTRAP` after each instruction.

use std::arch::asm;

/// The flag in the processor's register of flags.
pub(crate) const TRAP: i64 = 0x100;

/// Whether the processor stops after each instruction of this thread.
pub(crate) fn is_stepped() -> bool {
    let flags: i64;
    // SAFETY: reads the processor's flags; the stack is as before.
    unsafe { asm!("pushfq", "pop {flags}", flags = out(reg) flags) };
    flags & TRAP != 0
}

/// Switches the stop after each instruction on or off.
#[inline(always)]
pub(crate) fn set_stepped(stepped: bool) {
    if stepped {
        // SAFETY: sets one flag of the processor, so that `trap` is called after each instruction. The stack is as
        // before.
        unsafe { asm!("pushfq", "or qword ptr [rsp], {trap}", "popfq", trap = const TRAP) };
    } else {
        // SAFETY: takes the flag away again.
        unsafe { asm!("pushfq", "and qword ptr [rsp], {kept}", "popfq", kept = const !TRAP) };
    }
}
