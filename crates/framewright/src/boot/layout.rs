//! Layout: how much memory the descriptors of a configuration need.

use crate::boot::config::{Config, Runs};
use crate::boot::sizes::Sizes;
use crate::frame::cluster::Cluster;
use crate::frame::map::Run;
use crate::frame::owned_pageblock;
use crate::pcp::pcp::{self, Pcp};
use crate::pcp::shard::{Magazine, Shard};
use crate::seam::compiled::{AnyMachine, Compiled};
use crate::seam::machine::Machine;
use crate::shared::Cpu;
use crate::stat::node_stat::{NodeDiffs, NodeStat};
use crate::stat::zone_diffs::ZoneDiffs;
use crate::sync::smp_list::Link;
use crate::types::error::BootError;
use crate::types::units::{Frame, ZoneIdx, ZoneKind};
use crate::zone::zone::Zone;

/// Number of entries that each slice of [`crate::Parts`] must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// Entries of [`crate::Parts::sections`].
    pub sections: usize,
    /// Entries of [`crate::Parts::bases`].
    pub bases: usize,
    /// Entries of [`crate::Parts::runs`].
    pub runs: usize,
    /// Entries of [`crate::Parts::states`], [`crate::Parts::links`] and [`crate::Parts::heads`].
    pub frames: usize,
    /// Entries of [`crate::Parts::pageblocks`].
    pub pageblocks: usize,
    /// Entries of [`crate::Parts::zones`].
    pub zones: usize,
    /// Entries of [`crate::Parts::zonelists`].
    pub zonelists: usize,
    /// Entries of [`crate::Parts::cpus`].
    pub cpus: usize,
    /// Entries of [`crate::Parts::pcps`].
    pub pcps: usize,
    /// Entries of [`crate::Parts::slots`].
    pub slots: usize,
    /// Entries of [`crate::Parts::shards`].
    pub shards: usize,
    /// Entries of [`crate::Parts::magazines`].
    pub magazines: usize,
    /// Entries of [`crate::Parts::range_locks`].
    pub range_locks: usize,
    /// Entries of [`crate::Parts::cluster_of`].
    pub cluster_of: usize,
    /// Entries of [`crate::Parts::clusters`].
    pub clusters: usize,
    /// Entries of [`crate::Parts::owners`].
    pub owners: usize,
    /// Entries of [`crate::Parts::owned`].
    pub owned: usize,
    /// Entries of [`crate::Parts::hints`].
    pub hints: usize,
    /// Entries of [`crate::Parts::diffs`].
    pub diffs: usize,
    /// Entries of [`crate::Parts::node_stats`].
    pub node_stats: usize,
    /// Entries of [`crate::Parts::node_diffs`].
    pub node_diffs: usize,
}

impl Layout {
    /// Returns what the descriptors of `config` need.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn of(config: &Config<'_>) -> Result<Layout, BootError> {
        Layout::compute(&Sizes::<AnyMachine>::of(config))
    }

    /// Like [`Layout::of`], for a machine with constants ([`Machine::MECHANISMS`], [`Machine::FEATURES`]).
    ///
    /// Takes less code there, and refuses a configuration with other mechanisms.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn on<M: Machine>(config: &Config<'_>) -> Result<Layout, BootError> {
        Layout::compute(&Sizes::<M>::of(config))
    }

    pub(crate) fn compute<C: Compiled>(config: &Sizes<'_, C>) -> Result<Layout, BootError> {
        config.check()?;
        let shift = config.geometry.max_order.0;
        let frames = Runs::of(config).sections().saturating_mul(config.geometry.max_order.frames());
        if frames > MOST_FRAMES {
            return Err(BootError::TooManyFrames { frames });
        }
        let slots = (frames >> shift).min(Frame::LIMIT >> shift);
        let frames = slots << shift;
        let (nodes, cpus) = (config.nodes(), config.records());
        let (zones, shards) = (nodes.saturating_mul(ZoneKind::COUNT), config.shards());
        let each = config.magazine_entries();
        let (mut magazines, mut ring_slots, mut clusters) = (0_u64, 0_u64, 0_usize);
        for zone in config.zones() {
            magazines = magazines.saturating_add(config.magazines_of(zone, each).saturating_mul(shards as u64));
            ring_slots = ring_slots.saturating_add(self::ring_slots(config, zone));
            clusters = clusters.saturating_add(config.clusters_of(zone) as usize);
        }
        let own = ring_slots.saturating_mul(cpus as u64).saturating_add(u64::from(pcp::SLOTS_IN_LINE));
        let entries = own.saturating_add(magazines.saturating_mul(u64::from(each)));
        if entries > u64::from(u32::MAX) {
            return Err(BootError::TooManySlots { slots: entries });
        }
        let pageblocks = (frames >> config.geometry.pageblock_order.0) as usize;
        let owners = if config.mechanisms().owns_pageblocks() { pageblocks } else { 0 };
        Ok(Layout {
            sections: entries_of(Runs::of(config).span(), grain_of(config)) as usize,
            bases: slots as usize,
            runs: Runs::of(config).count(),
            frames: frames as usize,
            pageblocks,
            zones,
            zonelists: nodes.saturating_mul(zones),
            cpus,
            pcps: zones.saturating_mul(cpus),
            slots: entries as usize,
            shards: zones.saturating_mul(shards),
            magazines: magazines as usize,
            range_locks: if config.mechanisms().locks_ranges() { slots as usize } else { 0 },
            cluster_of: if config.mechanisms().keeps_clusters() { frames as usize } else { 0 },
            clusters,
            owners,
            owned: owners.saturating_mul(owned_pageblock::words_of(config.geometry.pageblock_order)),
            hints: if owners == 0 { 0 } else { owned_pageblock::hints_of(cpus, zones) },
            diffs: if config.mechanisms().keeps_counts() { zones.saturating_mul(cpus) } else { 0 },
            node_stats: if config.node_counters.is_empty() { 0 } else { nodes.saturating_add(1) },
            node_diffs: if config.keeps_node_counts() { nodes.saturating_mul(cpus) } else { 0 },
        })
    }

    /// Returns the bytes of all slices on machine `M`.
    pub fn bytes<M: Machine>(&self) -> usize {
        let parts = [
            (self.sections.saturating_add(self.bases), size_of::<u64>()),
            (self.runs, size_of::<Run>()),
            (self.frames, size_of::<M::U64>() + size_of::<Link<M>>() + size_of::<M::U8>()),
            (self.pageblocks, size_of::<M::U32>()),
            (self.zones, size_of::<Zone<M>>()),
            (self.zonelists, size_of::<ZoneIdx>()),
            (self.cpus, size_of::<Cpu<M>>()),
            (self.pcps, size_of::<Pcp<M>>()),
            (self.slots, size_of::<M::U32>()),
            (self.shards, size_of::<Shard<M>>()),
            (self.magazines, size_of::<Magazine<M>>()),
            (self.range_locks.saturating_add(self.cluster_of), size_of::<M::U32>()),
            (self.clusters, size_of::<Cluster<M>>()),
            (self.owners.saturating_add(self.hints), size_of::<M::U32>()),
            (self.owned, size_of::<M::U64>()),
            (self.diffs, size_of::<ZoneDiffs<M>>()),
            (self.node_stats, size_of::<NodeStat<M>>()),
            (self.node_diffs, size_of::<NodeDiffs<M>>()),
        ];
        parts.iter().map(|(entries, size)| entries.saturating_mul(*size)).fold(0, usize::saturating_add)
    }
}

/// Most frames of a memory map; those above [`Frame::LIMIT`] have no descriptors and are not used.
const MOST_FRAMES: u64 = 1 << 32;

/// Entries that the table of sections may have, however little memory there is.
const FEW_SECTIONS: u64 = 1 << 10;

/// Returns the binary logarithm of the frames that an entry of the section table covers.
///
/// An entry covers a section, unless that many entries would need more than a byte for each frame.
pub(crate) fn grain_of(config: &Config<'_>) -> u8 {
    let (runs, least) = (Runs::of(config), config.geometry.max_order);
    let frames = runs.sections().saturating_mul(least.frames());
    let most = (frames / size_of::<u64>() as u64).max(FEW_SECTIONS);
    let mut grains = least.0..u64::BITS as u8;
    grains.find(|&grain| entries_of(runs.span(), grain) <= most).unwrap_or(least.0)
}

fn entries_of(span: u64, grain: u8) -> u64 {
    span.div_ceil(1 << grain)
}

/// Returns the ring entries that one CPU needs for a zone.
fn ring_slots<C: Compiled>(config: &Sizes<'_, C>, zone: ZoneIdx) -> u64 {
    let size = config.size_of(zone);
    if size.present == 0 {
        return 0;
    }
    config.pcp_plan(zone, size).slots()
}
