//! Sizes of zones' records: what follows from a configuration, for a machine that may be known at compile time.
//!
//! The mechanisms and features that a machine names as constants decide here, so that the code of all others is removed
//! (`compiled.rs`). What no constant changes is computed by [`Config`].
//!
//! Cost: a size is computed from the memory map each time it is asked for. Boot asks a few times for each zone.
//!
//! Rejected: a table of sizes. It would need memory before the layout is known.

use core::marker::PhantomData;
use core::ops::Deref;

use crate::boot::config::{Config, Region, SectionInit, ZoneSize};
use crate::frame::frame::Geometry;
use crate::pcp::pcp::PcpPlan;
use crate::pcp::{autotune, depot_size, pcp};
use crate::policy::mechanisms::{Depot, Mechanisms, PcpSizing};
use crate::policy::pcp_size::PcpSize;
use crate::seam::compiled::Compiled;
use crate::stat::{node_stat, zone_diffs};
use crate::types::error::{BootError, Feature};
use crate::types::units::{NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};

/// A configuration for a machine of which something may be known when it is compiled.
pub(crate) struct Sizes<'c, C: Compiled> {
    config: &'c Config<'c>,
    /// Frames of all usable regions, reserved ones included.
    usable: u64,
    /// Frames that requests can get.
    pub(crate) managed: u64,
    compiled: PhantomData<C>,
}

impl<'c, C: Compiled> Deref for Sizes<'c, C> {
    type Target = Config<'c>;

    fn deref(&self) -> &Config<'c> {
        self.config
    }
}

impl<'c, C: Compiled> Sizes<'c, C> {
    pub(crate) fn of(config: &'c Config<'c>) -> Self {
        let (mut usable, mut managed) = (0_u64, 0_u64);
        config.each_piece(&mut |piece| {
            let frames = piece.range.frames();
            managed = managed.saturating_add(if piece.usable { frames } else { 0 });
            usable = usable.saturating_add(if piece.usable || piece.reserved { frames } else { 0 });
        });
        Sizes { config, usable, managed, compiled: PhantomData }
    }

    /// Returns the mechanisms that are on.
    #[inline(always)]
    pub(crate) fn mechanisms(&self) -> &Mechanisms {
        match const { &C::FIXED } {
            Some(fixed) => fixed,
            None => &self.config.mechanisms,
        }
    }

    /// Refuses what the machine was not compiled for.
    fn check_compiled(&self) -> Result<(), BootError> {
        if let Some(switch) = C::FIXED.and_then(|fixed| fixed.difference(&self.config.mechanisms)) {
            return Err(BootError::OtherMechanisms(switch));
        }
        if !C::PARTS.mobility && !self.config.cma.is_empty() {
            return Err(BootError::LeftOut(Feature::Mobility));
        }
        if !C::PARTS.section_init && (self.section_init == SectionInit::WhenUsed || self.may_grow()) {
            return Err(BootError::LeftOut(Feature::SectionInit));
        }
        if !C::PARTS.hardened && self.mechanisms().is_hardened() {
            return Err(BootError::LeftOut(Feature::Hardened));
        }
        if !C::PARTS.zero && self.mechanisms().zeroes_freed() {
            return Err(BootError::LeftOut(Feature::Zero));
        }
        Ok(())
    }

    /// Returns whether a region is memory, or address space where memory may be added.
    fn may_be(&self, region: &Region) -> bool {
        let is_whole = |pfn: Pfn| pfn.is_aligned(self.geometry.max_order);
        !C::PARTS.section_init
            || region.present
            || (!region.usable && is_whole(region.range.start) && is_whole(region.range.end))
    }

    /// Returns the number of nodes: one more than the highest named.
    pub(crate) fn nodes(&self) -> usize {
        if !C::PARTS.nodes {
            return 1;
        }
        self.named_nodes().map(|node| node.index().saturating_add(1)).max().unwrap_or(0)
    }

    pub(crate) fn check(&self) -> Result<(), BootError> {
        let Geometry { page_shift, max_order, pageblock_order } = self.geometry;
        if max_order > Order::LIMIT || pageblock_order > max_order || !(6..=30).contains(&page_shift) {
            return Err(BootError::BadGeometry);
        }
        if self.records() == 0 || self.records() > usize::from(u16::MAX) {
            return Err(BootError::BadCpus);
        }
        for (of, given, most) in
            [("zone", self.zone_counters.len(), zone_diffs::OWN), ("node", self.node_counters.len(), node_stat::OWN)]
        {
            if given > most {
                return Err(BootError::TooManyCounters { of, given, most });
            }
        }
        if let Some(reason) = self.mechanisms().conflict() {
            return Err(BootError::Mechanisms(reason));
        }
        self.check_compiled()?;
        let mut behind = Pfn(0);
        for (i, region) in self.regions.iter().enumerate() {
            let range = region.range;
            if range.is_empty() || range.start < behind || range.end.0 > 1 << 52 || !self.may_be(region) {
                return Err(BootError::BadRegion(i));
            }
            behind = range.end;
        }
        let is_wrong = |range: &PfnRange| range.end < range.start || !range.is_empty() && range.start >= behind;
        if let Some(i) = self.reserved.iter().position(is_wrong) {
            return Err(BootError::BadReserved(i));
        }
        let nodes = if C::PARTS.nodes { NodeId::LIMIT } else { 1 };
        if let Some(node) = self.named_nodes().find(|node| node.index() >= nodes) {
            return Err(if C::PARTS.nodes { BootError::BadNode(node) } else { BootError::LeftOut(Feature::Nodes) });
        }
        let entries = self.nodes().saturating_mul(self.nodes());
        if !self.distances.is_empty() && self.distances.len() != entries {
            return Err(BootError::BadDistances);
        }
        if self.managed == 0 { Err(BootError::NoMemory) } else { Ok(()) }
    }

    /// Returns the number of CPU records: one for each context of each CPU.
    pub(crate) fn records(&self) -> usize {
        self.cpus.len().saturating_mul(self.contexts)
    }

    pub(crate) fn zones(&self) -> impl Iterator<Item = ZoneIdx> + use<'c, C> {
        (0..self.nodes().saturating_mul(ZoneKind::COUNT) as u16).map(ZoneIdx)
    }

    pub(crate) fn pcp_of(&self, zone: ZoneIdx, size: ZoneSize) -> PcpSize {
        let frames = size.expected();
        let computed = || {
            let low = self.marks_of(zone, frames, self.usable).low;
            let linux = PcpSize::compute(frames, low, self.cpus_at(zone), self.geometry.page_shift);
            if self.mechanisms().has_depot() { depot_size::high_of(linux, frames, self.cpus_at(zone)) } else { linux }
        };
        self.tuning_of(zone).and_then(|tuning| tuning.pcp).unwrap_or_else(computed).clamped()
    }

    /// Returns the plan of a CPU's lists of a zone.
    ///
    /// Without a fast path: boot asks the machine for that.
    pub(crate) fn pcp_plan(&self, zone: ZoneIdx, size: ZoneSize) -> PcpPlan {
        PcpPlan {
            size: self.pcp_of(zone, size),
            most: self.pcp_most_of(zone, size),
            magazine: self.magazine_of(zone, size),
            pageblock_order: self.geometry.pageblock_order,
            rules: self.mechanisms().list_rules(false),
            is_hardened: self.mechanisms().is_hardened(),
        }
    }

    /// Returns the size to which a CPU's lists of a zone may grow.
    ///
    /// In frames; 0 if their size is fixed.
    fn pcp_most_of(&self, zone: ZoneIdx, size: ZoneSize) -> u32 {
        match self.mechanisms().pcp_size {
            PcpSizing::Fixed => 0,
            PcpSizing::Tuned => {
                let PcpSize { batch, high } = self.pcp_of(zone, size);
                autotune::most(size.expected(), self.cpus_at(zone), batch).max(high)
            }
        }
    }

    /// Returns the number of shards of each zone's depot.
    pub(crate) fn shards(&self) -> usize {
        if self.mechanisms().has_depot() { depot_size::shards(self.records()) } else { 0 }
    }

    /// Returns whether CPUs keep part of the embedder's counts of nodes.
    pub(crate) fn keeps_node_counts(&self) -> bool {
        !self.node_counters.is_empty() && self.mechanisms().keeps_deltas()
    }

    /// Returns the most frames that a magazine of a zone holds.
    fn magazine_of(&self, zone: ZoneIdx, size: ZoneSize) -> u32 {
        depot_size::frames_of(self.pcp_of(zone, size), self.usable)
    }

    /// Returns the number of magazines in each shard of a zone's depot, of `entries` entries each.
    pub(crate) fn magazines_of(&self, zone: ZoneIdx, entries: u32) -> u64 {
        let size = self.size_of(zone);
        let stored = match self.mechanisms().depot {
            Depot::Off => return 0,
            Depot::Eighth => size.present / 8,
            Depot::All => size.present,
        };
        if size.present == 0 {
            return 0;
        }
        let frames = self.magazine_of(zone, size);
        let most = depot_size::most_magazines(size.present, entries, self.shards());
        depot_size::magazines(stored, frames, self.shards(), self.records()).min(most)
    }

    /// Returns the number of clusters of a zone.
    ///
    /// Enough for all of its memory when each is full, as in the series that proposed them.
    pub(crate) fn clusters_of(&self, zone: ZoneIdx) -> u32 {
        let size = self.size_of(zone);
        let batch = u64::from(self.pcp_of(zone, size).batch);
        // Refills of one page at a time need no clusters.
        let has_some = self.mechanisms().keeps_clusters() && size.present != 0 && batch > 1;
        let usable = size.managed.saturating_add(size.reserved);
        if has_some { usable.checked_div(batch).unwrap_or(0) as u32 } else { 0 }
    }

    /// Returns the entries of each magazine: as many as the largest of any zone uses.
    pub(crate) fn magazine_entries(&self) -> u32 {
        let sizes = self.zones().map(|zone| (zone, self.size_of(zone))).filter(|(_, size)| size.present != 0);
        let entries = sizes.map(|(zone, size)| self.magazine_of(zone, size));
        // Whole cache lines, so that no two CPUs' magazines share one.
        entries.max().unwrap_or(0).next_multiple_of(pcp::SLOTS_IN_LINE)
    }
}
