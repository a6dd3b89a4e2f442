//! Watches a run while it goes on.
//!
//! The watcher is called between two steps of the machine, when the first CPU that begins an operation has reached the
//! time that was asked for. Looking takes no virtual time and changes nothing, so a watched run equals an unwatched
//! one. Each time the watcher says when to look again, or that it has seen enough; then the window ends.

use framewright::{Allocator, Counters};

use crate::engine::sim::Sim;
use crate::engine::world::{between_steps, with};
use crate::model::Ps;

/// A moment of a run.
pub struct Moment<'m> {
    /// Virtual time of the CPU that is there first, in picoseconds.
    pub clock: Ps,
    /// The allocator, in the middle of what all CPUs do.
    pub pages: &'m Allocator<'m, Sim>,
    /// Counts of the allocator's slow paths.
    pub counters: Counters,
    /// Its locks and the workload's, by name.
    pub locks: Vec<LockCount>,
}

/// Counts of a lock in the window so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockCount {
    /// Name, as `zone lock, Node 0, zone Normal`.
    pub name: String,
    /// Times it was taken.
    pub taken: u64,
    /// Times that another CPU had it.
    pub contended: u64,
    /// Time that CPUs waited that found it taken, in picoseconds.
    pub waited: Ps,
}

/// Looks at a moment; returns the virtual time of the next look, or `None` if it has seen enough.
pub type Watch<'w> = dyn FnMut(&Moment<'_>) -> Option<Ps> + 'w;

/// Calls `watch` for the running CPU; returns the time of the next look.
pub(super) fn look<'a>(watch: &mut Watch<'_>, pages: &'a Allocator<'a, Sim>, clock: Ps) -> Option<Ps> {
    let locks = with(|world| {
        let count = |(name, stats): (&framewright::machine::LockName, &crate::engine::locks::LockStats)| LockCount {
            name: name.to_string(),
            taken: stats.taken(),
            contended: stats.contended,
            waited: stats.contended_wait,
        };
        world.locks.stats.iter().map(count).collect()
    });
    between_steps(|| watch(&Moment { clock, pages, counters: pages.counters(), locks: locks.unwrap_or_default() }))
}
