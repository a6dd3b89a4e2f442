//! An arena at rest while its process forks.
//!
//! A fork copies private memory, descriptors included, so parent and child each have an arena of their own afterwards.
//! For that the allocator must be copied while no operation is under way. It is frozen from before the fork until after
//! it, in both processes. No change of the arena's size is under way either. The child, which has none of the other
//! threads, first finishes their operations. Shared and huge memory is not copied, and has no hook here: the child
//! refuses.
//!
//! # Why the unsafe code is right
//!
//! The frozen allocator borrows from an arena in which it has a share. The arena's value never leaves its `Arc`, and
//! the share is a field below the borrowers, so it is dropped after them.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use framewright::Frozen;

use super::inner::Inner;
use super::room::HeldRoom;
use crate::cpus::registry::Rest;
use crate::fork;
use crate::native::Native;

/// Number of tries to freeze an allocator, and the time that its threads run between two.
///
/// On a crowded machine, with ten threads for each processor, one try in some thousands fails.
const TRIES: u32 = 16;
const NAP: Duration = Duration::from_millis(20);

/// A frozen allocator, and the share in the arena that keeps it in place.
struct AtRest {
    // In this order: thawed before the arena may go.
    frozen: Frozen<'static, 'static, Native>,
    _room: Option<HeldRoom<'static>>,
    _quiet: MutexGuard<'static, ()>,
    inner: Arc<Inner>,
    /// In which process it was frozen.
    generation: u64,
}

impl Drop for AtRest {
    fn drop(&mut self) {
        if fork::generation() != self.generation {
            self.inner.at_work.forget();
            self.frozen.settle();
        }
    }
}

/// Registers the arena to be frozen at forks.
pub(super) fn follow(inner: &Arc<Inner>) {
    // Weakly: the hook stays registered when the arena is gone.
    let arena = Arc::downgrade(inner);
    let freeze = move || {
        let inner = arena.upgrade()?;
        // SAFETY: the value stays in place while `AtRest` has its share, and that is dropped after the borrower.
        let lasting: &'static Inner = unsafe { &*Arc::as_ptr(&inner) };
        let quiet = lasting.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        // After `quiet`: background work that changes the arena holds the room, and never waits for `quiet` meanwhile.
        let room = match &lasting.sizing.room {
            Some(room) => Some(room.hold_for_fork()?),
            None => None,
        };
        let again = || {
            std::thread::sleep(NAP);
            lasting.allocator().freeze()
        };
        let frozen = lasting.allocator().freeze().or_else(|| (1..TRIES).find_map(|_| again()))?;
        let generation = fork::generation();
        Some(Box::new(AtRest { frozen, _room: room, _quiet: quiet, inner, generation }) as Rest)
    };
    inner.allocator().machine().set_fork_hook(Some(Box::new(freeze)));
}
