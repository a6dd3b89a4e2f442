//! Fetches a line that will be written soon, while other work is done.
//!
//! This is an instruction, because the standard library has no such hint for lines to be *written*. Its intrinsic
//! becomes a prefetch for reading, unless the program is compiled for a processor that is known to have the other.
//! x86-64 processors without `prefetchw` execute it as nothing (Intel's before Broadwell; Intel SDM, volume 2,
//! "PREFETCHW").
//!
//! # Why the unsafe code is right
//!
//! The instruction is a hint. It writes nothing, it reads nothing that the program can see, and it does not fault, not
//! even for an address that is not mapped.

#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! hint {
    () => {
        "prefetchw [{}]"
    };
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
macro_rules! hint {
    () => {
        "prfm pstl1keep, [{}]"
    };
}

/// Asks for the line of `word`, which will be written.
///
/// Nothing changes but when it arrives.
#[inline(always)]
pub(crate) fn for_writing<T>(word: &T) {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    // SAFETY: a hint. It reads and writes nothing that the program can see, and does not fault.
    unsafe {
        std::arch::asm!(hint!(), in(reg) word, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = word;
}
