//! `errno`, where a call failed because a system call did.
#![allow(unsafe_code, reason = "the thread's `errno` is a place that the C library names")]

use std::ffi::c_int;

use framewright_rt::export::ExportReason;

/// Sets the thread's `errno`, as the promise at `FW_E_OS` says.
pub(crate) fn set(errno: c_int) {
    // SAFETY: the C library's place for this thread, which no other thread uses.
    unsafe { libc::__errno_location().write(errno) };
}

/// The `errno` that says why there is no export.
pub(crate) fn of_export(reason: &ExportReason) -> c_int {
    match reason {
        ExportReason::PathTooLong(_) => libc::ENAMETOOLONG,
        ExportReason::Live => libc::EADDRINUSE,
        ExportReason::NotASocket => libc::EEXIST,
        ExportReason::Locked => libc::EAGAIN,
        ExportReason::Failed(error) => error.raw_os_error().unwrap_or(libc::EIO),
        _ => libc::EIO,
    }
}
