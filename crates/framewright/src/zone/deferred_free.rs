//! Deferred frees: for each zone, a list of blocks that were freed while the zone lock was taken.
//!
//! A free from any context (`nolock.rs`) must not wait for the zone lock. If the lock is taken, the block stays as it
//! is, with the head state "being freed", and is pushed on this list. The next holder of the lock frees it
//! (`zone_guard.rs::ZoneGuard::free_deferred`). Until then all other code treats the block as allocated by its last
//! owner, except that it cannot be freed again.
//!
//! The list is a stack, linked by the words that link free blocks; an allocated block does not use them. Any code may
//! push, at any moment, even inside another push or a pop on this CPU. Only the holder of the zone lock pops, one block
//! at a time. The block that it reads can therefore not leave the stack and return during the pop. With several poppers
//! a stack would fail in this way. The holder pops as many blocks as a section under the lock may last, and leaves the
//! others.
//!
//! Rejected: taking all blocks in one exchange, because the ones that are left would need a second list.

use crate::frame::frame::Frames;
use crate::seam::field::record;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::units::Frame;

/// Number of attempts of a push or a pop.
///
/// Each failure means that another CPU succeeded.
const TRIES: u32 = 1 << 10;

record! {
    /// Deferred list of one zone.
    ///
    /// Invariant N1: each block on the list is of the zone, and its head says that it is being freed.
    pub(crate) struct Deferred<M: Machine> {
        /// Block pushed last, + 1; 0 if the list is empty.
        word("") newest: M::U32,
    }
}

impl<M: Machine> Deferred<M> {
    /// Returns whether the list is empty, at this moment.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        !M::FEATURES.deferred_frees || self.newest.load(Ordering::Relaxed) == 0
    }

    /// Pushes a block that no other call can free; returns false if every attempt failed.
    ///
    /// The block is then not on the list.
    pub(crate) fn push(&self, frames: &Frames<'_, M>, frame: Frame) -> bool {
        let Some(link) = frames.links.get(frame.index()).filter(|_| M::FEATURES.deferred_frees) else { return false };
        let mut first = self.newest.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            link.next.store(first, Ordering::Relaxed);
            // ORDER: Release. Publishes the link, the head and the last owner's writes to the block; partner: the
            // Acquire in `pop`. Model: nolock_push_pop.
            match self.newest.cas(first, frame.0.wrapping_add(1), Ordering::Release) {
                Ok(_) => return true,
                Err(now) => first = now,
            }
        }
        false
    }

    /// Pops the block that was pushed last.
    ///
    /// A damaged list is dropped; `validate` reports the blocks that were on it.
    ///
    /// Caller holds: the zone lock, exclusively.
    pub(crate) fn pop(&self, frames: &Frames<'_, M>) -> Option<Frame> {
        for _ in 0..TRIES {
            // ORDER: Acquire. Sees what `push` published; partner: the Release there. Model: nolock_push_pop.
            let first = self.newest.load(Ordering::Acquire);
            let frame = Frame(first.checked_sub(1)?);
            let Some(link) = frames.links.get(frame.index()).filter(|_| frames.head(frame).is_going()) else {
                self.newest.store(0, Ordering::Relaxed);
                return None;
            };
            let next = link.next.load(Ordering::Relaxed);
            if self.newest.cas(first, next, Ordering::Relaxed).is_ok() {
                link.next.store(0, Ordering::Relaxed);
                return Some(frame);
            }
        }
        None
    }

    /// Returns every block on the list, at a quiescent point.
    ///
    /// If the links are damaged, it returns no more blocks than can exist.
    pub(crate) fn each<'f>(&self, frames: &'f Frames<'_, M>) -> impl Iterator<Item = Frame> + use<'f, '_, M> {
        let named = |word: u32| word.checked_sub(1).map(Frame);
        let next = move |frame: &Frame| named(frames.links.get(frame.index())?.next.load(Ordering::Relaxed));
        core::iter::successors(named(self.newest.load(Ordering::Relaxed)), next)
            .take(frames.links.len().saturating_add(1))
    }
}
