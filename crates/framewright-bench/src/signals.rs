//! A process' counterpart of holding interrupts off: the thread's signal mask.
#![allow(unsafe_code, reason = "a call of the C library; each block says why it is sound")]

use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Does something with all signals masked, and has the mask as it was afterwards: two system calls.
#[inline]
pub(crate) fn masked(work: impl FnOnce()) {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first set is filled before it is read, the second by the call that saves the mask there; the mask is
    // the calling thread's.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
    }
    work();
    // SAFETY: the set was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut()) };
}
