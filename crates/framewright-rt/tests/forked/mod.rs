//! Work in a fork's child, for tests.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Forks, lets the child do `work`, and says whether that went well.
#[must_use]
pub(crate) fn in_child(work: impl FnOnce()) -> bool {
    // SAFETY: the child does no more than `work` and ends without running anything of the parent's.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: a child that hangs ends by the alarm.
            unsafe { libc::alarm(30) };
            let went_well = catch_unwind(AssertUnwindSafe(work)).is_ok();
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(!went_well)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the call writes a number to where it is told to.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}
