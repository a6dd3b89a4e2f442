//! The expensive side of the asymmetric fence: every thread of the process passes a full fence, so that the other side
//! need not.
//!
//! Linux's `membarrier` does this in about 160 ns, by interrupting the processors that run the process. A sandbox may
//! deny the call, which is found when a machine is made. Then both sides fence ([`crate::Native::has_light_fence`]).
//!
//! A sandbox may also deny it *later*, when light sides rely on it. Then the calling thread moves to each processor in
//! turn. A thread that ran there is switched out, and a switch is a full fence. A thread that was not running had been
//! switched out before. This takes milliseconds, and only such a process pays for it. If that is denied as well, the
//! process ends: going on would give one page to two owners.
//!
//! Rejected for that case: `mprotect`. It interrupts every processor, but newer processors do without that.
//!
//! ThreadSanitizer knows no fences, and would report each page that a fence hands over. With `--cfg framewright_tsan` a
//! full fence is an exchange on one word, which orders at least as much, and both sides of the asymmetric fence are
//! full. What the sanitizer then cannot see is an order that only such a fence happens to give.

use std::sync::atomic;

use rustix::thread::{CpuSet, MembarrierCommand, membarrier, sched_getaffinity, sched_setaffinity};

/// A full fence.
#[inline]
pub(crate) fn full() {
    #[cfg(not(framewright_tsan))]
    atomic::fence(atomic::Ordering::SeqCst);
    #[cfg(framewright_tsan)]
    {
        static LAST: atomic::AtomicU32 = atomic::AtomicU32::new(0);
        LAST.fetch_add(1, atomic::Ordering::AcqRel);
    }
}

/// A fence of the side that need not pay, where [`heavy`] is the other side.
#[inline(always)]
pub(crate) fn light() {
    #[cfg(not(framewright_tsan))]
    atomic::compiler_fence(atomic::Ordering::SeqCst);
    #[cfg(framewright_tsan)]
    full();
}

/// Asks the kernel for the right to [`heavy`]'s quick way. Says whether it was granted.
pub(crate) fn register() -> bool {
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
}

/// When it returns, every thread of the process has passed a full fence since it was called.
#[allow(clippy::print_stderr, reason = "a text of its own, before the process ends")]
pub(crate) fn heavy() {
    let quick = || membarrier(MembarrierCommand::PrivateExpedited);
    // A forked child may have to register for itself.
    if quick().is_err() && !(register() && quick().is_ok()) && visit_all().is_err() {
        eprintln!("framewright: membarrier and sched_setaffinity are denied to a process that relies on them");
        std::process::abort();
    }
}

/// Runs on every processor that the process may use, and then where it may have run before.
fn visit_all() -> rustix::io::Result<()> {
    let before = sched_getaffinity(None)?;
    for cpu in 0..CpuSet::MAX_CPU {
        let mut one = CpuSet::new();
        one.set(cpu);
        // Where this thread must not go no other can be: the bounds are the process's, and a thread's own set does not
        // matter here.
        match sched_setaffinity(None, &one) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
    }
    sched_setaffinity(None, &before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visiting_all_processors_leaves_the_set_as_it_was() {
        let before = sched_getaffinity(None).unwrap();
        visit_all().unwrap();
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn heavy_returns() {
        register();
        heavy();
    }
}
