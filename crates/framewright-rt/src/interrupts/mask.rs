//! The signals that a thread lets come, and its error number.
//!
//! # Why the unsafe code is right
//!
//! The C library's functions for sets of signals need a set that was made by one of them, and write only there.
//! [`set_of`] makes each set here. A mask belongs to its thread: nothing but the moment at which handlers run depends
//! on it.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use errno::{Errno, errno, set_errno};

/// Signals by number: 1 to 64, as far as Linux has them.
pub(super) const SIGNALS: c_int = 64;
/// Signals that the processor causes, or that must not wait for another reason.
pub(super) const SYNCHRONOUS: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT];
/// All signals that can be held back.
pub(super) fn deferrable() -> impl Iterator<Item = c_int> {
    (1..=SIGNALS).filter(|signal| !SYNCHRONOUS.contains(signal))
}

/// The set of these signals, as far as the C library lets a program have them.
pub(super) fn set_of(signals: impl Iterator<Item = c_int>) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call initializes the set, and the others add to it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Blocks these signals in the calling thread, or lets them come; `how` is `SIG_BLOCK` or `SIG_UNBLOCK`.
fn change(how: c_int, set: &libc::sigset_t) {
    // SAFETY: the set is initialized, and only this thread's mask changes.
    unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) };
}

/// Blocks all signals that can be blocked in the interrupted code.
///
/// Returns those that were not blocked before, a bit each.
pub(super) fn block(context: &mut libc::ucontext_t) -> u64 {
    let mask = &raw mut context.uc_sigmask;
    // SAFETY: the mask is the kernel's set, of 64 bits, of which these functions touch the one they are asked about.
    unsafe {
        let open = deferrable().filter(|&signal| libc::sigismember(mask, signal) == 0);
        open.filter(|&signal| libc::sigaddset(mask, signal) == 0).fold(0, |added, signal| added | 1 << (signal - 1))
    }
}

/// Lets these signals come.
pub(super) fn unblock(signals: u64) {
    let _errno = KeptErrno::new();
    change(libc::SIG_UNBLOCK, &set_of(deferrable().filter(|signal| signals & 1 << (signal - 1) != 0)));
}

/// Leaves all signals to other threads.
pub(crate) fn block_all() {
    change(libc::SIG_BLOCK, &set_of(1..=SIGNALS));
}

/// Keeps the thread's error number as it was.
pub(super) struct KeptErrno(Errno);

impl KeptErrno {
    pub(super) fn new() -> KeptErrno {
        KeptErrno(errno())
    }
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        set_errno(self.0);
    }
}
