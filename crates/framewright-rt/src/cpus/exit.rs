//! Ends the leases and registrations of a thread that exits.

use std::ffi::c_void;

use super::{lease, registry, rseq, watch};
use crate::{current, interrupts};

/// Makes the key that lets threads be watched until they exit.
pub(crate) fn watch_threads() {
    watch::make_key(exit);
}

/// Ends all leases of the thread, and its registration with the kernel.
///
/// From here on it shares.
extern "C" fn exit(_: *mut c_void) {
    // Destructors of keys are called in rounds. Others may pin in the first, and where Rust's thread-locals hang on a
    // key themselves, theirs are among them.
    if !watch::begin_exit() && watch::watch_exit() {
        return;
    }
    let _held = interrupts::hold();
    watch::never();
    current::forget();
    let marks = [Some(current::mark()), rseq::mark()];
    rseq::part();
    lease::end_all();
    if watch::take_shared() {
        marks.into_iter().flatten().for_each(registry::release_all);
    }
}
