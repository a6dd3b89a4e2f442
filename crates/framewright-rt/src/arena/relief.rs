//! Gives memory back when the process is near its cgroup's limit.
//!
//! Three steps, until an eighth of the limit is left. Sections that are free as a whole go, so that the program's
//! requests find less memory. Other free memory is trimmed. If that was not enough, the parties that hold memory are
//! asked to free some: movable pages, shrinkers, callbacks. Then the first two steps are made again.
//!
//! The order is that of increasing harm: a program that shrinks its caches for an arena whose memory is free loses them
//! for nothing.

use std::ops::ControlFlow;
use std::time::Duration;

use framewright::machine::Need;
use framewright::request::GFP_KERNEL;
use framewright::{NodeId, Order, Pfn};

use super::arena::Arena;
use super::hooks::Cause;
use super::inner::Inner;
use crate::background::Background;
use crate::callbacks::Callbacks;
use crate::cgroup::{CgroupError, MemoryUsage};
use crate::error::ArenaError;

/// What [`Arena::shrink_to_limit`] found and did, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Relief {
    /// The cgroup's memory before; none if the process sees no cgroup with a memory controller.
    pub usage: Option<MemoryUsage>,
    /// Sections that went.
    pub shrunk: u64,
    /// Free blocks whose memory was given back.
    pub trimmed: u64,
    /// Memory that its holders freed.
    pub reclaimed: u64,
    /// The last refusal to shrink or trim; the other steps were made nevertheless.
    pub refused: Option<ArenaError>,
}

impl Relief {
    /// Shrinks and trims.
    fn give_back(&mut self, inner: &Inner, first: Pfn, bytes: u64) {
        match inner.shrink(bytes, Cause::CgroupLimit) {
            Ok(gone) => self.shrunk += gone,
            Err(ArenaError::FixedSize) => {}
            Err(error) => self.refused = Some(error),
        }
        match inner.trim(first, Order(0)) {
            Ok(trimmed) => self.trimmed += trimmed.bytes,
            Err(error) => self.refused = Some(error),
        }
    }
}

impl Inner {
    /// Asks the holders of memory, ever harder, until they freed as much. Returns the bytes.
    fn reclaim(&self, bytes: u64) -> u64 {
        let shift = self.allocator().geometry().page_shift;
        let (wanted, mut freed) = (bytes.div_ceil(1 << shift), 0_u64);
        let nodes = u8::try_from(self.allocator().nodes()).unwrap_or(u8::MAX);
        for priority in (0..=Need::LIGHTEST).rev() {
            for node in (0..nodes).map(NodeId) {
                let frames = wanted.saturating_sub(freed);
                if frames == 0 {
                    return freed << shift;
                }
                let attempt = Need::LIGHTEST - priority;
                let need = Need { node, order: Order(0), gfp: GFP_KERNEL, attempt, frames, priority, gentle: false };
                freed = freed.saturating_add(self.sizing.calls.reclaim(&need));
            }
        }
        freed << shift
    }

    fn relieve(&self, first: Pfn) -> Result<Relief, CgroupError> {
        let watch = &self.sizing.watch;
        let mut relief = Relief { usage: watch.look()?, ..Relief::default() };
        let mut excess = relief.usage.map_or(0, |usage| watch.excess(&usage));
        if excess == 0 {
            return Ok(relief);
        }
        relief.give_back(self, first, excess);
        // A file that cannot be read any more: what was done is told nevertheless.
        excess = watch.look().ok().flatten().map_or(0, |usage| watch.excess(&usage));
        if excess != 0 {
            relief.reclaimed = self.reclaim(excess);
            relief.give_back(self, first, excess);
        }
        Ok(relief)
    }
}

impl Arena {
    /// Gives memory back if the process is near its cgroup's limit; returns what was found and done.
    ///
    /// It is near if less than a sixteenth of the limit is left, or if the limit was met since the last call. Then
    /// free memory is given back until an eighth is left. If less than a sixteenth is still left, movable pages,
    /// shrinkers and callbacks are asked for memory, which is given back too. An arena without
    /// [`crate::ArenaBuilder::limit`] only trims and reclaims. Takes some ten system calls if the limit is far.
    ///
    /// Context: not from a callback, which may be asked to free memory itself.
    ///
    /// # Errors
    /// A file about the cgroup cannot be read or understood at the first look; nothing was done.
    pub fn shrink_to_limit(&self) -> Result<Relief, CgroupError> {
        self.inner.relieve(self.first)
    }

    pub(super) fn with_shrinker(mut self, interval: Option<Duration>) -> Result<Arena, ArenaError> {
        let Some(interval) = interval else { return Ok(self) };
        let (inner, first) = (std::sync::Arc::downgrade(&self.inner), self.first);
        let work = move || {
            let Some(inner) = inner.upgrade() else { return ControlFlow::Break(()) };
            let at_work = inner.at_work();
            // A file that cannot be read now may be readable at the next look.
            let _ = at_work.inner().relieve(first);
            drop(at_work);
            ControlFlow::Continue(())
        };
        let started = Background::start(interval, work);
        self.shrinker = Some(started.map_err(|error| ArenaError::NoThread(error.raw_os_error().unwrap_or(0)))?);
        Ok(self)
    }

    /// The thread that shrinks the arena to its cgroup's limit, if the builder was asked for one.
    ///
    /// The handle tells whether it runs, and starts it again in a fork's child.
    pub fn shrinker(&mut self) -> Option<&mut Background> {
        self.shrinker.as_mut()
    }
}
