//! The heavy fence: every other CPU passes a full fence, because an interrupt asks it to.
//!
//! Each CPU has two counts. A fence takes the next number of a CPU's `asked` and interrupts that CPU; its handler reads
//! `asked`, passes a fence, and writes what it read to `passed`. A fence is over when `passed` has come to its number:
//! the handler then read the number first and passed its fence after that. Two interrupts may merge into one; the one
//! handler then serves both numbers.
//!
//! Rejected: to count handlers. One that is under way when a fence begins would be counted, though it has passed its
//! own fence before.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use crate::cpu::{self, MAX_CPUS};
use crate::events::Message;
use crate::{arch, smp};

struct Fences {
    asked: AtomicU64,
    passed: AtomicU64,
}

static FENCES: [Fences; MAX_CPUS] =
    [const { Fences { asked: AtomicU64::new(0), passed: AtomicU64::new(0) } }; MAX_CPUS];

/// Makes all other CPUs pass a full fence, and waits until they have.
///
/// Context: interrupts on, or two fences would wait for each other; no lock held.
pub(crate) fn others() {
    // The CPU that the caller leaves in a switch passes a fence by that, but the loop must not interrupt its own.
    cpu::pin();
    fence(Ordering::SeqCst);
    let own = cpu::number();
    let mut numbers = [0; MAX_CPUS];
    for other in (0..smp::count()).filter(|&other| other != own) {
        numbers[other] = FENCES[other].asked.fetch_add(1, Ordering::SeqCst) + 1;
        arch::send(other, Message::Fence);
    }
    for other in (0..smp::count()).filter(|&other| other != own) {
        while FENCES[other].passed.load(Ordering::Acquire) < numbers[other] {
            core::hint::spin_loop();
        }
    }
    fence(Ordering::SeqCst);
    cpu::unpin();
}

/// Passes a fence for the CPUs that asked. Context: the handler of [`Message::Fence`].
pub(crate) fn answer() {
    let own = &FENCES[cpu::number()];
    let asked = own.asked.load(Ordering::SeqCst);
    fence(Ordering::SeqCst);
    own.passed.store(asked, Ordering::Release);
}
