//! The signals that a thread lets come, and its error number.

use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Signals by number: 1 to 64, as far as Linux has them.
pub(super) const SIGNALS: c_int = 64;
/// Signals that the processor causes, or that must not wait for another reason.
pub(super) const SYNCHRONOUS: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT];
/// All signals that can be held back.
pub(super) fn deferrable() -> impl Iterator<Item = c_int> {
    (1..=SIGNALS).filter(|signal| !SYNCHRONOUS.contains(signal))
}

/// Blocks all signals that can be blocked in the interrupted code.
///
/// Returns those that were not blocked before, a bit each.
///
/// # Safety
/// `context` is the kernel's, of a handler that has not returned yet.
pub(super) unsafe fn block(context: *mut libc::ucontext_t) -> u64 {
    // SAFETY: the kernel's mask has 64 bits, of which these functions touch the one they are asked about.
    unsafe {
        let mask = &raw mut (*context).uc_sigmask;
        let open = deferrable().filter(|&signal| libc::sigismember(mask, signal) == 0);
        open.filter(|&signal| libc::sigaddset(mask, signal) == 0).fold(0, |added, signal| added | 1 << (signal - 1))
    }
}

/// Lets these signals come.
pub(super) fn unblock(signals: u64) {
    let _errno = Errno(errno());
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: a set of zeros is empty; only this thread's mask changes.
    unsafe {
        for signal in deferrable().filter(|signal| signals & 1 << (signal - 1) != 0) {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

pub(super) fn errno() -> c_int {
    // SAFETY: the thread's own error number.
    unsafe { *libc::__errno_location() }
}

/// Keeps the thread's error number as it was.
pub(super) struct Errno(pub(super) c_int);

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}
