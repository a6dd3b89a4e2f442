//! Calls that give cached frames back to their zones, and that say how many are cached.
//!
//! The work is done in `upkeep/drain.rs`.

use crate::api::allocator::Allocator;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::units::{CpuId, ZoneIdx};

impl<M: Machine> Allocator<'_, M> {
    /// Gives what a CPU keeps on its lists back, and the pageblocks that it owns: to the zones, or to who owns a block's pageblock. In an
    /// interrupt lists stay as they are. Returns the number of frames.
    pub fn drain_cpu(&self, cpu: CpuId) -> u64 {
        self.world.drain_cpu(cpu)
    }

    /// Frames in a zone's depot, at this moment.
    pub fn depot_frames(&self, zone: ZoneIdx) -> u64 {
        let shards = self.world.zone(zone).map_or(&[][..], |zone| self.world.pcps.depots.of(zone));
        shards.iter().map(|shard| u64::from(shard.frames_racy())).fold(0, u64::saturating_add)
    }

    /// Gives what a zone's depot keeps back to the zone. Returns the number of frames.
    pub fn drain_depot(&self, zone: ZoneIdx) -> u64 {
        self.world.zone(zone).map_or(0, |zone| self.world.drain_depot(zone))
    }

    /// Free frames in those of a zone's pageblocks that CPUs own, at this moment. Reads the words of all pageblocks.
    pub fn owned_frames(&self, zone: ZoneIdx) -> u64 {
        let frames = &self.world.shared.frames;
        let own = frames.owned.starts().filter(|&start| frames.pageblock(start).zone() == Some(zone));
        let words = own.flat_map(|start| frames.owned.words(start));
        words.map(|(_, word)| u64::from(word.load(Ordering::Relaxed).count_ones())).fold(0, u64::saturating_add)
    }

    /// Takes a zone's pageblocks from the CPUs that own them, and gives what is free in them back to the zone. Returns the number
    /// of frames.
    pub fn drain_owned(&self, zone: ZoneIdx) -> u64 {
        self.world.zone(zone).map_or(0, |zone| self.world.drain_owned(zone))
    }

    /// Gives what all CPUs keep on their lists, all depots, what is free in pageblocks that CPUs own, and what was freed while a zone was
    /// locked back to the zones. In an interrupt lists stay as they are. Returns the number of frames.
    pub fn drain_all(&self) -> u64 {
        self.world.drain_all()
    }
}
