//! Calls that drain cached frames to their zones, and calls that count them.
//!
//! `upkeep/drain.rs` does the work.

use crate::api::allocator::Allocator;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::units::{CpuId, ZoneIdx};

impl<M: Machine> Allocator<'_, M> {
    /// Drains a CPU's lists and releases the pageblocks that it owns; returns the frames.
    ///
    /// Each block is freed to its zone, or to the owner of its pageblock. In an interrupt the lists stay as they are.
    pub fn drain_cpu(&self, cpu: CpuId) -> u64 {
        self.world.drain_cpu(cpu).0
    }

    /// Returns the number of frames in a zone's depot, at this moment.
    pub fn depot_frames(&self, zone: ZoneIdx) -> u64 {
        let shards = self.world.zone(zone).map_or(&[][..], |zone| self.world.pcps.depots.of(zone));
        shards.iter().map(|shard| u64::from(shard.frames_racy())).fold(0, u64::saturating_add)
    }

    /// Drains a zone's depot to the zone; returns the number of frames.
    pub fn drain_depot(&self, zone: ZoneIdx) -> u64 {
        self.world.zone(zone).map_or(0, |zone| self.world.drain_depot(zone).0)
    }

    /// Returns the free frames in a zone's owned pageblocks, at this moment.
    ///
    /// Reads the words of all pageblocks.
    pub fn owned_frames(&self, zone: ZoneIdx) -> u64 {
        let frames = &self.world.shared.frames;
        let own = frames.owned.starts().filter(|&start| frames.pageblock(start).zone() == Some(zone));
        let words = own.flat_map(|start| frames.owned.words(start));
        words.map(|(_, word)| u64::from(word.load(Ordering::Relaxed).count_ones())).fold(0, u64::saturating_add)
    }

    /// Releases a zone's owned pageblocks; returns the number of frames.
    ///
    /// Their owners lose them, and their free frames are freed to the zone.
    pub fn drain_owned(&self, zone: ZoneIdx) -> u64 {
        self.world.zone(zone).map_or(0, |zone| self.world.drain_owned(zone).0)
    }

    /// Drains all cached frames to their zones; returns their number.
    ///
    /// These are the blocks on all CPUs' lists and in all depots, the free frames in owned pageblocks, and the deferred
    /// frees. In an interrupt the lists stay as they are.
    pub fn drain_all(&self) -> u64 {
        self.world.drain_all().0
    }
}
