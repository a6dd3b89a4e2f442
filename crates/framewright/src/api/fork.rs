//! Holding an allocator still, for who copies its memory: a process that forks.
//!
//! While [`Frozen`] lives, every per-CPU list is claimed, every lock is held and no depot is being drained, so calls of other
//! CPUs wait (or finish, as far as they need none of these), and descriptors, lists and counters agree with each other. The
//! copy is then a working allocator, once it is thawed there too; what other CPUs' callers own stays allocated, for they do not
//! exist there.
//!
//! Every block that is in no place, because some CPU has it in its hands, is one of these:
//!
//! | where it is | who has it | what keeps him out | in the copy |
//! |---|---|---|---|
//! | between free lists: merged, split, repaired, of another type | who holds the zone lock, alone or shared | the zone's lock | |
//! | off its free list, and not yet said to be allocated or withheld | the same, until its head or state says so | the zone's lock | |
//! | one of the parts that a block is cut, split or joined to | the block's owner, with the zone lock | the zone's lock | |
//! | a run cut off a list, or a block to be split into a ring | who refills that ring | the claim of his lists | |
//! | between a ring, its spare magazine and the depot; in a batch of what overflows, or of who drains lists | the owner, or a claimer | the claim of these lists | |
//! | among bits that were taken or are not set yet, of an owned pageblock | who refills, or gives back to the owner | the claim of his lists, or the zone's lock | |
//! | in a magazine on no stack | who drains a depot | `Shard::away`: waits until he is done | |
//! | taken from the top of a ring, or put just above it, its head saying "per-CPU" | the owner, at the front | nothing | `settle` puts it into the ring |
//! | none: the top of an empty ring is one too low | the owner, at the front | nothing | `settle` raises the top |
//! | on a zone's list of deferred frees | nobody: who holds the zone lock next | | |
//! | marked as being freed, and not on that list yet | who frees from any context | nothing | stays allocated, to nobody |
//! | being filled by who frees it (`hardened`) | its last owner | nothing | stays allocated |
//! | in an isolated pageblock, or taken from one | who takes a range | nothing | the pageblocks get their types back; what was taken stays allocated |
//! | refused by a damaged list (`free_path.rs::free_concurrent`) | who gives back, between two locks | nothing | lost; `validate` tells of it |
//!
//! An owner at the front sets no flag, and may be anywhere between its two or three stores. In the original it goes on. In the
//! copy it does not exist, and some of its stores are not there: the last ones, as no store reaches the copy without those
//! before it. (Linux is so: who writes to a page after it was copied waits until all are.) A block that it had taken may not be
//! counted as taken yet, nor as given, so both counts may lack one.

use core::cell::Cell;

use crate::api::allocator::Allocator;
use crate::frame::head::Head;
use crate::pcp::pcp::Pcp;
use crate::pcp::ring::{Ring, RingId};
use crate::seam::machine::{Busy, Machine, Ordering, Word};
use crate::types::units::{Frame, Order};
use crate::zonelist::world::World;

/// How often a CPU that does not leave its lists is waited for: on a crowded machine its thread may not run for long.
const ROUNDS: u32 = 64;

/// An allocator that is held still; see the module's description. Dropping it lets calls go on.
pub struct Frozen<'f, 'a, M: Machine> {
    world: &'f World<'a, M>,
    /// This is a copy, in which no other CPU runs.
    copied: Cell<bool>,
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Holds the allocator still. None if some CPU does not leave its lists in time, because its thread is stopped there or
    /// is the caller's own, or in an interrupt. Not to be called from inside of a call, and the caller must make none while it lasts.
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

/// Holds one thing after the other; none if one is not to be had in time.
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
    /// For a copy of the allocator in which no other CPU runs, or waits for anything: finishes what others were doing when it was
    /// made. Returns the number of frames that were between two places.
    pub fn settle(&self) -> u64 {
        self.copied.set(true);
        self.world.shared.cpus.iter().for_each(|cpu| cpu.held.clear());
        self.world.pcps.records.iter().for_each(Pcp::forget_owner);
        let pageblock_order = self.world.shared.frames.geometry.pageblock_order;
        let mut settled = 0_u64;
        // Also where nothing is at the front: who stays on a CPU (`local.rs`) finds out by moving the top.
        for pcp in self.world.pcps.records {
            for (id, ring) in pcp.rings(pageblock_order) {
                ring.mend_top();
                if self.above(ring).is_some_and(|frame| self.is_stray(frame, id.order)) && ring.raise() {
                    settled = settled.saturating_add(id.order.frames());
                }
                ring.mend_taken();
            }
        }
        settled
    }

    /// The entry just above a ring's top.
    fn above(&self, ring: &Ring<M>) -> Option<Frame> {
        let slot = self.world.pcps.slots.get(ring.used().1 as usize).filter(|_| !ring.is_at_end())?;
        Some(Frame(slot.load(Ordering::Relaxed)))
    }

    /// Whether a block's head says that it is on a per-CPU list, and it is on none.
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
