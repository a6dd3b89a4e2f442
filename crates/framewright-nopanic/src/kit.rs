//! A kernel as its author writes it with the kit.
//!
//! Its functions read and write words that the compiler cannot see through, as a kernel's do.

use core::sync::atomic::{AtomicUsize, Ordering};

use framewright::{Features, Mechanisms};
use framewright_kernel::{Contexts, Framewright, Kernel};

/// The allocator.
pub static PAGES: Framewright<Small> = Framewright::new();

/// The kernel.
pub struct Small;

static CPU: AtomicUsize = AtomicUsize::new(0);
static PREEMPTION: AtomicUsize = AtomicUsize::new(0);
static INTERRUPTS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: nothing runs it; it is linked and looked at.
unsafe impl Kernel for Small {
    const CONTEXTS: Contexts = Contexts::Tasks;

    const MECHANISMS: Option<Mechanisms> = if cfg!(feature = "text-kit") { Some(Mechanisms::MINIMAL) } else { None };

    const FEATURES: Features = if cfg!(feature = "text-kit") { Features::NONE } else { Features::WITHOUT_CONTENTS };

    fn pin(&self) {
        PREEMPTION.store(PREEMPTION.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    fn unpin(&self) {
        PREEMPTION.store(PREEMPTION.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }

    fn irq_save(&self) -> usize {
        INTERRUPTS.swap(0, Ordering::Relaxed)
    }

    fn irq_restore(&self, saved: usize) {
        INTERRUPTS.store(saved, Ordering::Relaxed);
    }

    fn cpu(&self) -> usize {
        CPU.load(Ordering::Relaxed)
    }
}
