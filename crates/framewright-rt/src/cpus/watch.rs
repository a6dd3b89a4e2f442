//! Threads that are watched until they exit.
//!
//! A POSIX key's destructor ([`super::exit`]) ends the leases and registrations of an exiting thread. This file has the
//! key, which a thread sets once it has something to end, and the thread's flags for that moment.
//!
//! # Why the unsafe code is right
//!
//! The key is made once and never deleted. Its destructor is a function of this crate, which stays loaded as long as
//! this code. Nobody follows the value of the key.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::OnceLock;

static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();

thread_local! {
    /// The thread is about to be gone.
    static EXITING: Cell<bool> = const { Cell::new(false) };
    /// The thread has had shared slots, of which it may have forgotten some.
    static SHARED: Cell<bool> = const { Cell::new(false) };
    /// The thread leases nothing any more.
    static SHARES: Cell<bool> = const { Cell::new(false) };
}

/// The thread shares from now on: it is about to exit, or works for all.
pub(crate) fn never() {
    SHARES.set(true);
}

/// Whether the thread is none to lease or to register anything for.
pub(super) fn shares() -> bool {
    SHARES.get()
}

/// Makes the key whose destructor is `exit`, at the first call.
///
/// Where too many keys exist there is none, and no thread is watched.
pub(super) fn make_key(exit: extern "C" fn(*mut c_void)) {
    KEY.get_or_init(|| {
        let mut key: libc::pthread_key_t = 0;
        // SAFETY: the call writes a key through a pointer to a local. `exit` is this crate's and stays loaded as long
        // as this code does.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(exit)) } == 0).then_some(key)
    });
}

/// Lets the key's destructor be called when the thread exits. False if that cannot be.
pub(super) fn watch_exit() -> bool {
    let key = KEY.get().copied().flatten();
    // Any value but null has the destructor called.
    let value = std::ptr::without_provenance(1);
    // SAFETY: the key was created by `make_key` and is never deleted; no code follows the value.
    key.is_some_and(|key| unsafe { libc::pthread_setspecific(key, value) } == 0)
}

/// Lets the thread's shared slots be freed when it exits, also those of forgotten pins.
///
/// Leases end in any case.
#[cold]
pub(crate) fn release_at_exit() {
    if !SHARED.get() && !EXITING.get() && watch_exit() {
        SHARED.set(true);
    }
}

/// Notes that the thread exits. Says whether that was noted before.
pub(super) fn begin_exit() -> bool {
    EXITING.replace(true)
}

/// Whether the thread may still have shared slots; asked once.
pub(super) fn take_shared() -> bool {
    SHARED.take()
}
