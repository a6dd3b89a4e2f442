//! Fork: the allocator is held still while its memory is copied.
//!
//! While [`Frozen`] lives, every per-CPU list is claimed, every lock is held and no depot is being drained. Calls of
//! other CPUs wait, or finish if they need none of these. So descriptors, lists and counters agree with each other. The
//! copy is a working allocator once it is thawed there too. Blocks that callers on other CPUs own stay allocated in the
//! copy, although these callers do not exist there.
//!
//! # Blocks on the move
//!
//! At such a moment some CPU may be moving a block, which is then part of nothing. A lock or a claim excludes these
//! cases:
//!
//! - *The zone lock*: a block between free lists (merged, split, repaired, of another type); a block off its free list
//!   that is not yet marked as allocated or withheld; a part of a block that its owner cuts, splits or joins.
//! - *The claim of the lists*: a run cut off a list, or a block to be split into a ring, by the CPU that refills that
//!   ring; a block between a ring, its spare magazine and the depot; a block in a batch that overflows or is drained.
//! - *Either*: bits of an owned pageblock that were taken or are not set yet, by a CPU that refills or that frees to
//!   the owner.
//! - *`Shard::away`*, which is waited for: a magazine on no stack, while a CPU drains a depot.
//!
//! Nothing excludes these cases:
//!
//! | the block, or the state | the CPU at work | in the copy |
//! |---|---|---|
//! | just taken from, or put on, the top of a ring | the owner, in the fast path | `settle` puts it into the ring |
//! | the top of an empty ring is one too low | the owner, in the fast path | `settle` raises it |
//! | a note of what it saw last | the owner, in the fast path | a note that is not whole finds nothing (`seen.rs`) |
//! | on a zone's list of deferred frees | none: the next lock holder frees it | the same |
//! | marked as being freed, and not on that list yet | one that frees from any context | allocated, without an owner |
//! | being filled while it is freed (`hardened`) | its last owner | allocated |
//! | in an isolated pageblock, or taken from one | one that takes a range | types restored, frames allocated |
//! | refused by a damaged list (`free_concurrent`) | one that frees, between two locks | lost; `validate` reports it |
//!
//! An owner in the fast path sets no flag, and may be anywhere between its two or three stores. In the original it goes
//! on. In the copy it does not exist, and its last stores may be missing: a store reaches the copy only with all those
//! before it. (Linux guarantees this: a write to a page after its copy waits until all pages are copied.) A block that
//! the owner was moving may be missing in the count of allocations and in that of frees, so both may lack one.

use core::cell::Cell;

use crate::api::allocator::Allocator;
use crate::frame::head::Head;
use crate::pcp::pcp::Pcp;
use crate::pcp::ring::Ring;
use crate::pcp::ring_id::RingId;
use crate::seam::machine::{Busy, Machine, Ordering, Word};
use crate::types::units::{Frame, Order};
use crate::zonelist::world::World;

/// Looks at a CPU that does not leave its lists before the call gives up: on a crowded machine its thread may not run
/// for long.
const ROUNDS: u32 = 64;

/// An allocator that is held still. Dropping it lets calls go on.
pub struct Frozen<'f, 'a, M: Machine> {
    world: &'f World<'a, M>,
    /// Whether this is a copy, in which no other CPU runs.
    copied: Cell<bool>,
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Holds the allocator still.
    ///
    /// `None` if some CPU does not leave its lists in time: its thread is stopped there, or is the caller's own; or in
    /// an interrupt.
    ///
    /// Context: outside of all calls, and where [`Machine::heavy_fence`] may be called. The caller makes no call while
    /// the allocator is held, nor does an interrupt of its CPU.
    pub fn freeze(&self) -> Option<Frozen<'_, 'a, M>> {
        let world = self.world();
        let machine = &world.shared.machine;
        if machine.in_interrupt() {
            return None;
        }
        let shards = world.pcps.depots.shards.iter();
        hold_all(used(world), |pcp| pcp.seize(machine), Pcp::release_seized)?;
        let held = hold_all(shards, |shard| shard.hold(machine), |shard| shard.release_held(machine, false));
        if held.is_none() {
            used(world).for_each(Pcp::release_seized);
            return None;
        }
        world.zones.iter().for_each(|zone| zone.hold(&world.shared));
        Some(Frozen { world, copied: Cell::new(false) })
    }
}

/// Holds one thing after the other; `None` if one cannot be held in time.
fn hold_all<'t, T: 't>(
    things: impl Iterator<Item = &'t T> + Clone,
    hold: impl Fn(&T) -> Result<(), Busy>,
    release: impl Fn(&T),
) -> Option<()> {
    let held = things.clone().take_while(|thing| (0..ROUNDS).any(|_| hold(thing).is_ok())).count();
    if things.clone().nth(held).is_some() {
        things.take(held).for_each(release);
        return None;
    }
    Some(())
}

/// The per-CPU lists of all zones with memory.
fn used<'w, M: Machine>(world: &'w World<'_, M>) -> impl Iterator<Item = &'w Pcp<M>> + Clone {
    world.pcps.records.iter().filter(|pcp| pcp.is_used())
}

impl<M: Machine> Drop for Frozen<'_, '_, M> {
    fn drop(&mut self) {
        let (machine, copied) = (&self.world.shared.machine, self.copied.get());
        self.world.zones.iter().for_each(|zone| zone.release_held(&self.world.shared, copied));
        self.world.pcps.depots.shards.iter().for_each(|shard| shard.release_held(machine, copied));
        used(self.world).for_each(Pcp::release_seized);
        if copied {
            self.world.abandon_ranges();
        }
    }
}

impl<M: Machine> Frozen<'_, '_, M> {
    /// Finishes what other CPUs were doing when the copy was made. Returns the number of frames that were part of
    /// nothing.
    ///
    /// Context: a copy of the allocator in which no other CPU runs or waits.
    pub fn settle(&self) -> u64 {
        self.copied.set(true);
        self.world.shared.cpus.iter().for_each(|cpu| cpu.held.clear());
        self.world.pcps.records.iter().for_each(Pcp::forget_owner);
        let pageblock_order = self.world.shared.frames.geometry.pageblock_order;
        let mut settled = 0_u64;
        // Also without a fast path: a caller that stays on a CPU (`local.rs`) learns that only by moving the top.
        for pcp in self.world.pcps.records {
            for (id, ring) in pcp.rings(pageblock_order) {
                ring.mend_top();
                while self.above(ring).is_some_and(|frame| self.is_stray(frame, id.order)) && ring.raise() {
                    settled = settled.saturating_add(id.order.frames());
                }
                ring.mend_taken();
            }
        }
        settled
    }

    /// The entry just above a ring's top.
    fn above(&self, ring: &Ring<M>) -> Option<Frame> {
        let slot = self.world.pcps.slots.get(ring.used().end as usize).filter(|_| !ring.is_at_end())?;
        Some(Frame(slot.load(Ordering::Relaxed)))
    }

    /// Whether a block's head says "per-CPU" although no per-CPU list has it.
    fn is_stray(&self, frame: Frame, order: Order) -> bool {
        if self.world.shared.frames.head(frame) != Head::pcp(order) {
            return false;
        }
        let pcps = &self.world.pcps;
        let mut found = false;
        let mut look = |other: Frame| found |= other == frame;
        for pcp in pcps.records {
            for (_, ring) in pcp.rings(self.world.shared.frames.geometry.pageblock_order) {
                pcps.depots.each_spare(ring, &mut look);
                ring.each(pcps.slots, &mut look);
            }
            pcp.waiting.each(pcps.slots, &mut look);
        }
        for zone in self.world.zones {
            pcps.depots.each(zone, |other, _: RingId| look(other));
        }
        !found
    }
}
