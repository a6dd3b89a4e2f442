//! The memory of an allocator's descriptors, on the heap.

use std::collections::TryReserveError;

use framewright::machine::{Machine, Word};
use framewright::units::ZoneIdx;
use framewright::{Cluster, Cpu, Layout, Link, Magazine, NodeDiffs, NodeStat, Parts, Pcp, Run, Shard, Zone, ZoneDiffs};

/// Owns the memory that [`Parts`] borrows: zeroed words and default records, as a [`Layout`] counts them.
pub struct Storage<M: Machine> {
    sections: Vec<u64>,
    bases: Vec<u64>,
    runs: Vec<Run>,
    states: Vec<M::U64>,
    links: Vec<Link<M>>,
    heads: Vec<M::U8>,
    pageblocks: Vec<M::U32>,
    zones: Vec<Zone<M>>,
    zonelists: Vec<ZoneIdx>,
    cpus: Vec<Cpu<M>>,
    pcps: Vec<Pcp<M>>,
    slots: Vec<M::U32>,
    shards: Vec<Shard<M>>,
    magazines: Vec<Magazine<M>>,
    range_locks: Vec<M::U32>,
    cluster_of: Vec<M::U32>,
    clusters: Vec<Cluster<M>>,
    owners: Vec<M::U32>,
    owned: Vec<M::U64>,
    doors: Vec<M::U32>,
    diffs: Vec<ZoneDiffs<M>>,
    node_stats: Vec<NodeStat<M>>,
    node_diffs: Vec<NodeDiffs<M>>,
}

fn fill<T>(count: usize, make: impl FnMut() -> T) -> Result<Vec<T>, TryReserveError> {
    let mut all = Vec::new();
    all.try_reserve_exact(count)?;
    all.extend(std::iter::repeat_with(make).take(count));
    Ok(all)
}

impl<M: Machine> Storage<M> {
    /// Memory for the descriptors of `layout`; about 17 bytes for each frame.
    ///
    /// # Panics
    /// There is not that much.
    pub fn new(layout: &Layout) -> Self {
        match Storage::try_new(layout) {
            Ok(storage) => storage,
            Err(error) => panic!("no memory for the descriptors of {} frames: {error}", layout.frames),
        }
    }

    /// Like [`Storage::new`], but reports a lack of memory.
    ///
    /// # Errors
    /// There is too little memory.
    pub fn try_new(layout: &Layout) -> Result<Self, TryReserveError> {
        Ok(Storage {
            sections: fill(layout.sections, || 0)?,
            bases: fill(layout.bases, || 0)?,
            runs: fill(layout.runs, Run::default)?,
            states: fill(layout.frames, || Word::new(0))?,
            links: fill(layout.frames, Link::default)?,
            heads: fill(layout.frames, || Word::new(0))?,
            pageblocks: fill(layout.pageblocks, || Word::new(0))?,
            zones: fill(layout.zones, Zone::default)?,
            zonelists: fill(layout.zonelists, || ZoneIdx::NONE)?,
            cpus: fill(layout.cpus, Cpu::default)?,
            pcps: fill(layout.pcps, Pcp::default)?,
            slots: fill(layout.slots, || Word::new(0))?,
            shards: fill(layout.shards, Shard::default)?,
            magazines: fill(layout.magazines, Magazine::default)?,
            range_locks: fill(layout.range_locks, || Word::new(0))?,
            cluster_of: fill(layout.cluster_of, || Word::new(0))?,
            clusters: fill(layout.clusters, Cluster::default)?,
            owners: fill(layout.owners, || Word::new(0))?,
            owned: fill(layout.owned, || Word::new(0))?,
            doors: fill(layout.hints, || Word::new(0))?,
            diffs: fill(layout.diffs, ZoneDiffs::default)?,
            node_stats: fill(layout.node_stats, NodeStat::default)?,
            node_diffs: fill(layout.node_diffs, NodeDiffs::default)?,
        })
    }

    /// The parts to boot an allocator with. Boot one once: the descriptors must be fresh.
    pub fn parts(&mut self) -> Parts<'_, M> {
        Parts {
            sections: &mut self.sections,
            bases: &mut self.bases,
            runs: &mut self.runs,
            states: &mut self.states,
            links: &mut self.links,
            heads: &mut self.heads,
            pageblocks: &mut self.pageblocks,
            zones: &mut self.zones,
            zonelists: &mut self.zonelists,
            cpus: &mut self.cpus,
            pcps: &mut self.pcps,
            slots: &mut self.slots,
            shards: &mut self.shards,
            magazines: &mut self.magazines,
            range_locks: &mut self.range_locks,
            cluster_of: &mut self.cluster_of,
            clusters: &mut self.clusters,
            owners: &mut self.owners,
            owned: &mut self.owned,
            hints: &mut self.doors,
            diffs: &mut self.diffs,
            node_stats: &mut self.node_stats,
            node_diffs: &mut self.node_diffs,
        }
    }
}
