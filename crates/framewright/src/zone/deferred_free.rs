//! Blocks that came back while nobody could take them: a list for each zone.
//!
//! Who frees from any context (`nolock.rs`) must not wait for the zone lock. If that is taken, the block stays as it is, its head saying
//! "being freed", and goes on this list; whoever holds the lock next gives it back (`zone_guard.rs::ZoneGuard::free_deferred`). So to everybody else
//! a block here is still its last owner's, but for one thing: nobody can free it again.
//!
//! The list is a stack, linked by the words that link free blocks, which a block that is allocated has no other use for. Anybody may
//! push, at any moment, in the middle of another push or of a pop on the same CPU. Only the holder of the zone lock pops, one block at a
//! time. So the block that he is looking at cannot leave the stack and come back under his hands, which is what makes a stack of many
//! poppers wrong, and he takes as many as a section under the lock may last and leaves the others. (Taking all in one exchange would need
//! a second list for those.)

use crate::frame::frame::Frames;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::units::Frame;

/// How often a push or a pop is tried anew that another came before. Each of these is another CPU's success.
const TRIES: u32 = 1 << 10;

/// One zone's list: its first block, + 1; 0 if there is none.
///
/// Invariant N1: each block on the list is of the zone, and its head says that it is being freed.
pub(crate) struct Deferred<M: Machine>(M::U32);

impl<M: Machine> Default for Deferred<M> {
    fn default() -> Self {
        Deferred(Word::new(0))
    }
}

impl<M: Machine> Deferred<M> {
    /// Its word.
    pub(crate) fn word(&self) -> &M::U32 {
        &self.0
    }

    /// Whether there is none, at this moment.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Puts a block on the list that nobody else can free. False if others were at it each time: then it is not there.
    pub(crate) fn push(&self, frames: &Frames<'_, M>, frame: Frame) -> bool {
        let Some(link) = frames.links.get(frame.index()) else { return false };
        let mut first = self.0.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            link.next.store(first, Ordering::Relaxed);
            // ORDER: Release. Publishes the link, the head and what the last owner did with the block; partner: the Acquire in
            // `pop`. Model: nolock_push_pop.
            match self.0.cas(first, frame.0.wrapping_add(1), Ordering::Release) {
                Ok(_) => return true,
                Err(now) => first = now,
            }
        }
        false
    }

    /// Takes the block off that came last. The zone lock is held alone. A damaged list is dropped: `validate` tells of what was on it.
    pub(crate) fn pop(&self, frames: &Frames<'_, M>) -> Option<Frame> {
        for _ in 0..TRIES {
            // ORDER: Acquire. Sees what `push` published; partner: the Release there. Model: nolock_push_pop.
            let first = self.0.load(Ordering::Acquire);
            let frame = Frame(first.checked_sub(1)?);
            let Some(link) = frames.links.get(frame.index()).filter(|_| frames.head(frame).is_going()) else {
                self.0.store(0, Ordering::Relaxed);
                return None;
            };
            let next = link.next.load(Ordering::Relaxed);
            if self.0.cas(first, next, Ordering::Relaxed).is_ok() {
                link.next.store(0, Ordering::Relaxed);
                return Some(frame);
            }
        }
        None
    }

    /// Every block on the list, at a quiescent point; no more than there can be, should the links be damaged.
    pub(crate) fn each<'f>(&self, frames: &'f Frames<'_, M>) -> impl Iterator<Item = Frame> + use<'f, '_, M> {
        let named = |word: u32| word.checked_sub(1).map(Frame);
        let next = move |frame: &Frame| named(frames.links.get(frame.index())?.next.load(Ordering::Relaxed));
        core::iter::successors(named(self.0.load(Ordering::Relaxed)), next).take(frames.links.len().saturating_add(1))
    }
}
