//! Looking at a run while it goes on.
//!
//! Who watches is called between two steps of the machine, when the first CPU has come as far as the time that was
//! asked for and begins something new. Looking takes no virtual time and changes nothing, so a watched run is the same
//! run. It says each time when to look again, or that it has seen enough; then the window ends.

use framewright::{Allocator, Counters};

use crate::engine::sim::Sim;
use crate::engine::world::{between_steps, with};
use crate::model::Ps;

/// What is seen.
pub struct Moment<'m> {
    /// Virtual time of the CPU that is there first, in picoseconds.
    pub clock: Ps,
    /// The allocator, in the middle of what all CPUs do.
    pub pages: &'m Allocator<'m, Sim>,
    /// What its slow paths have counted.
    pub counters: Counters,
    /// Its locks and the workload's, by name.
    pub locks: Vec<LockCount>,
}

/// What was counted of a lock in the window so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockCount {
    /// Name, as `zone lock, Node 0, zone Normal`.
    pub name: String,
    /// Times it was taken.
    pub taken: u64,
    /// Of them, how often somebody else had it.
    pub contended: u64,
    /// How long all CPUs waited that found it taken, in picoseconds.
    pub waited: Ps,
}

/// Looks, and says at which virtual time it wants to look again; none if it has seen enough.
pub type Watch<'w> = dyn FnMut(&Moment<'_>) -> Option<Ps> + 'w;

/// The running CPU has come so far; what `watch` wants.
pub(super) fn look(watch: &mut Watch<'_>, pages: &Allocator<'_, Sim>, clock: Ps) -> Option<Ps> {
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
