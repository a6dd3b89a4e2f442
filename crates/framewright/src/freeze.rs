//! Holding an allocator still, for who copies its memory: a process that forks.
//!
//! While [`Frozen`] lives, every per-CPU list is claimed and every lock is held, so calls of other CPUs wait (or finish, as
//! far as they need neither), and descriptors, lists and counters agree with each other. The copy is then a
//! working allocator, once it is thawed there too; what other CPUs' callers own stays allocated, for they do not exist there.
//!
//! One thing cannot be held: an owner at the front sets no flag, and may be anywhere between its two or three stores. In the
//! original it goes on. In the copy it does not exist, and the block that it was moving lies just above the top of
//! its ring, with a head that says "per-CPU" and in no list. [`Frozen::settle`] puts it back there.

use core::cell::Cell;

use crate::allocator::Allocator;
use crate::frame::Head;
use crate::machine::{Machine, Ordering, Word};
use crate::node::World;
use crate::pcp::Pcp;
use crate::pfn::{Frame, Order};
use crate::ring::{Ring, RingId};

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
    /// is the caller's own. Not to be called from inside of a call, and the caller must make none while it lasts.
    pub fn freeze(&self) -> Option<Frozen<'_, 'a, M>> {
        let world = self.world();
        let machine = &world.ground.machine;
        for (i, pcp) in used(world).enumerate() {
            if (0..ROUNDS).all(|_| pcp.seize(machine).is_err()) {
                used(world).take(i).for_each(Pcp::release_seized);
                return None;
            }
        }
        world.pcps.depots.shards.iter().for_each(|shard| shard.hold(machine));
        world.zones.iter().for_each(|zone| zone.hold(&world.ground));
        Some(Frozen { world, copied: Cell::new(false) })
    }
}

/// The per-CPU lists of all zones with memory.
fn used<'w, M: Machine>(world: &'w World<'_, M>) -> impl Iterator<Item = &'w Pcp<M>> {
    world.pcps.records.iter().filter(|pcp| pcp.is_used())
}

impl<M: Machine> Drop for Frozen<'_, '_, M> {
    fn drop(&mut self) {
        let (machine, copied) = (&self.world.ground.machine, self.copied.get());
        self.world.zones.iter().for_each(|zone| zone.release_held(&self.world.ground, copied));
        self.world.pcps.depots.shards.iter().for_each(|shard| shard.release_held(machine, copied));
        used(self.world).for_each(Pcp::release_seized);
    }
}

impl<M: Machine> Frozen<'_, '_, M> {
    /// For a copy of the allocator in which no other CPU runs, or waits for anything: finishes what others were doing when it was
    /// made. Returns the number of frames that were between two places.
    pub fn settle(&self) -> u64 {
        self.copied.set(true);
        self.world.ground.cpus.iter().for_each(|cpu| cpu.held.clear());
        self.world.pcps.records.iter().for_each(Pcp::forget_owner);
        let pageblock_order = self.world.ground.frames.geometry.pageblock_order;
        let mut settled = 0_u64;
        // Without a front nobody moves a block but with the lists held.
        for pcp in self.world.pcps.records.iter().filter(|pcp| pcp.front) {
            for (id, ring) in pcp.rings(pageblock_order) {
                if self.above(ring).is_some_and(|frame| self.is_stray(frame, id.order)) && ring.raise() {
                    settled = settled.saturating_add(id.order.frames());
                }
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
        if self.world.ground.frames.head(frame) != Head::pcp(order) {
            return false;
        }
        let pcps = &self.world.pcps;
        let mut found = false;
        let mut look = |other: Frame| found |= other == frame;
        for pcp in pcps.records {
            for (_, ring) in pcp.rings(self.world.ground.frames.geometry.pageblock_order) {
                pcps.depots.each_spare(ring, &mut look);
                ring.each(pcps.slots, &mut look);
            }
        }
        for zone in self.world.zones {
            pcps.depots.each(zone, |other, _: RingId| look(other));
        }
        !found
    }
}
