//! What the allocator asks of its embedder during a run.
//!
//! On a simulated machine the embedder is a workload's own object, registered for one run
//! ([`crate::engine::run::Simulation::run_hosted`]). It is called on the CPU that runs the allocator, on that CPU's
//! stack. It may call the allocator, sleep, and let time go by (`here`). Its own data is not shared memory: it costs
//! only the time that the embedder charges.

use framewright::event::Event;
use framewright::machine::{Busy, Need};
use framewright::units::{Order, Pfn};

/// The embedder of the allocator.
///
/// Each method has its counterpart of that name in [`framewright::Machine`]. By default nothing is reclaimed, moved or
/// traced.
pub trait Host {
    /// Frees memory; returns the number of frames.
    fn reclaim(&self, need: &Need) -> u64 {
        let _ = need;
        0
    }

    /// Returns whether blocks can be moved.
    fn migrates(&self) -> bool {
        false
    }

    /// Moves a block.
    ///
    /// # Errors
    /// It cannot move now.
    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        let _ = (from, to, order);
        Err(Busy)
    }

    /// Returns whether the embedder wants events.
    fn traces(&self) -> bool {
        false
    }

    /// Hears of an event.
    ///
    /// Context: a lock may be held, so it must not call the allocator and must not let time go by.
    fn event(&self, event: &Event) {
        let _ = event;
    }
}
