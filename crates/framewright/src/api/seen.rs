//! The run of memory that a fast path saw last.
//!
//! A fork may copy a note of several words between two of its stores ([`super::fork`]), and the child goes on with it.
//! So a note is made in steps, after each of which any part of the next step's stores may be missing.

use core::cell::Cell;

use crate::frame::frame::Frames;
use crate::frame::map::Run;
use crate::seam::machine::Machine;
use crate::types::units::Frame;

/// Sets a note of several words step by step, so that the steps reach a copy in this order.
///
/// On the CPU that a fork stops, the order of its instructions is enough. A caller has a fast path, which uses the same
/// fence.
#[inline]
pub(super) fn note<T>(machine: &impl Machine, at: &Cell<T>, steps: impl IntoIterator<Item = T>) {
    for step in steps {
        at.set(step);
        machine.front_fence();
    }
}

/// A run of memory as the fast path needs it: its begin and its descriptors.
pub(crate) struct Seen<'a, M: Machine> {
    pub(super) base: u64,
    pub(super) first: u32,
    pub(super) heads: &'a [M::U8],
    pub(super) pageblocks: &'a [M::U32],
}

// Not derived: that would ask for `M: Copy`.
impl<M: Machine> Clone for Seen<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Seen<'_, M> {}

impl<'a, M: Machine> Seen<'a, M> {
    /// No run.
    pub(crate) const NOTHING: Self = Seen { base: 0, first: 0, heads: &[], pageblocks: &[] };

    /// Notes the run of a descriptor in `seen`, if it is another one; returns whether it is.
    #[cold]
    #[inline(never)]
    pub(super) fn turn_to(&self, machine: &M, frames: &Frames<'a, M>, frame: Frame, seen: &Cell<Seen<'a, M>>) -> bool {
        let is_other = frame.0.wrapping_sub(self.first) as usize >= self.heads.len();
        let run = if is_other { frames.map.run_at(frame).and_then(|run| Seen::of(frames, run)) } else { None };
        run.inspect(|&run| note(machine, seen, Seen::steps(seen.get(), run))).is_some()
    }

    /// The values that lead from one run to another: no run, the other run without memory, and then with it.
    pub(super) fn steps(old: Self, new: Self) -> [Self; 3] {
        let empty = |seen: Self| Seen { heads: seen.heads.get(..0).unwrap_or_default(), ..seen };
        [empty(old), empty(new), new]
    }

    pub(super) fn of(frames: &Frames<'a, M>, run: Run) -> Option<Seen<'a, M>> {
        let (first, order) = (run.first as usize, frames.geometry.pageblock_order.0);
        let heads = frames.heads.get(first..)?.get(..run.frames as usize)?;
        let pageblocks = frames.pageblocks.get(first >> order..)?.get(..heads.len() >> order)?;
        Some(Seen { base: run.pfn.0, first: run.first, heads, pageblocks })
    }
}
