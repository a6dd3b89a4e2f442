//! What the allocator asks of whoever it is embedded in, during a run.
//!
//! On a simulated machine that is a workload's own object, registered for one run ([`crate::engine::run::Simulation::run_hosted`]). It is called on the CPU
//! that the allocator runs on, on that CPU's stack; it may call the allocator, sleep, and let time go by (`here`). What it
//! keeps of its own is nobody's shared memory: it costs what it says it costs.

use framewright::event::Event;
use framewright::machine::{Busy, Need};
use framewright::pfn::{Order, Pfn};

/// See the module's description. Each method is that of [`framewright::Machine`] with the same name; by default there is nothing to be had.
pub trait Host {
    /// Frees memory; how many frames.
    fn reclaim(&self, need: &Need) -> u64 {
        let _ = need;
        0
    }

    /// Whether anything can be moved.
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

    /// Whether it wants to know what happens.
    fn traces(&self) -> bool {
        false
    }

    /// Something happened. A lock may be held: must not call the allocator, nor let time go by.
    fn event(&self, event: &Event) {
        let _ = event;
    }
}
