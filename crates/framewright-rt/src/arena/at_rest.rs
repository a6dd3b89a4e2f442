//! An arena at rest while its process forks.
//!
//! Private memory is copied by a fork, descriptors and all, so that parent and child each have an arena of their own
//! afterwards; what blocks hold is the child's copy. For that the allocator must be copied while nothing is under way: it
//! is frozen from before the fork until after it, in both processes. The child, which has none of the other threads,
//! first finishes what they had begun. Shared and huge memory is not copied, and has no hook here: the child refuses.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use framewright::Frozen;

use super::inner::Inner;
use crate::cpus::registry::Rest;
use crate::fork;
use crate::native::Native;

/// How often an allocator is tried to be frozen, and how long threads that are at work in it may run meanwhile. On a crowded machine,
/// with ten threads for each processor, one try in some thousands fails.
const TRIES: u32 = 16;
const NAP: Duration = Duration::from_millis(20);

/// A frozen allocator, and what keeps it where it is.
struct AtRest {
    // In this order: thawed before the arena may go.
    frozen: Frozen<'static, 'static, Native>,
    _quiet: MutexGuard<'static, ()>,
    inner: Arc<Inner>,
    /// In which process it was frozen.
    generation: u64,
}

impl Drop for AtRest {
    fn drop(&mut self) {
        if fork::generation() != self.generation {
            self.inner.at_work.store(0, Relaxed);
            self.frozen.settle();
        }
    }
}

/// Has the arena frozen at forks from now on.
pub(super) fn follow(inner: &Arc<Inner>) {
    // Weakly: the hook stays registered when the arena is gone.
    let arena = Arc::downgrade(inner);
    let freeze = move || {
        let inner = arena.upgrade()?;
        // SAFETY: the value stays where it is as long as `AtRest` has its share, and that is dropped after what borrows
        // from it.
        let lasting: &'static Inner = unsafe { &*Arc::as_ptr(&inner) };
        let quiet = lasting.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        let again = || {
            std::thread::sleep(NAP);
            lasting.allocator().freeze()
        };
        let frozen = lasting.allocator().freeze().or_else(|| (1..TRIES).find_map(|_| again()))?;
        Some(Box::new(AtRest { frozen, _quiet: quiet, inner, generation: fork::generation() }) as Rest)
    };
    inner.allocator().machine().set_fork_hook(Some(Box::new(freeze)));
}
