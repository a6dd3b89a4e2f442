//! The other CPUs, woken one after the other.
//!
//! A CPU finds its number in [`count`], which is another reason why only one is woken at a time.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::{arch, serial, threads};

/// CPUs that run.
static COUNT: AtomicUsize = AtomicUsize::new(1);

/// Returns the number of CPUs that run.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Acquire)
}

/// Starts the CPUs with these names; `stack` returns the end of a stack for each.
///
/// Context: the first CPU.
pub(crate) fn start(others: impl Iterator<Item = arch::Name>, mut stack: impl FnMut() -> u64) {
    for name in others {
        let started = count();
        arch::wake(name, stack(), || count() > started);
        let patience = arch::nanoseconds() + 60_000_000_000;
        while count() == started {
            if arch::nanoseconds() > patience {
                serial::refuse(format_args!("the CPU that firmware calls {name:#x} does not start"));
            }
        }
    }
}

/// What a CPU but the first does, on its stack.
pub(crate) extern "C" fn other_cpu() -> ! {
    arch::enter(count());
    arch::enable();
    COUNT.fetch_add(1, Ordering::AcqRel);
    threads::idle()
}
