//! The processor's time-stamp counter, which the kernel's own micro-benchmarks count in.
//!
//! Its cycles are of a constant frequency, near but not at that of the clock the processor runs with at the moment. The
//! reading is not serialised: it may move by some tens of cycles, which is nothing beside the stretches that are timed
//! here.
#![allow(unsafe_code, reason = "one instruction, which reads a counter")]

/// Cycles since the processor was started; none where the processor has no such counter (it is x86-64's).
#[inline]
pub fn cycles() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is part of x86-64 and reads a register.
    return Some(unsafe { core::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    None
}
