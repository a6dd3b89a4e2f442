//! Node counters: counters of the embedder for the memory of each node, whatever its zone; Linux's `nr_dirty` is one.
//!
//! They work like an embedder's counters of zones (`zone_stat.rs`). Where the mechanisms say `zone-stat=differentials`,
//! a CPU keeps its counts until they exceed a threshold. It then adds them to the node and to the sum over all nodes.
//! Otherwise the CPU adds each count to the node at once. The threshold is the largest of the node's zones
//! ([`crate::policy::watermark::node_threshold`]).
//!
//! No lock is needed: a CPU exchanges the word of its counts, and so does a CPU that folds them. Without such counters
//! there is no memory for them.

use crate::seam::field::record;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::stat::per_cpu_counter::{CounterDeltas, CpuRecords, Told};
use crate::types::units::{CpuId, NodeId};

/// Number of counters that an embedder may keep in each node.
///
/// A CPU's deltas of these counters lie on one cache line; Linux 6.1 has about 45.
pub(crate) const OWN: usize = 48;

record! {
    /// Counts that CPUs have added to a node's counters, or to all nodes' sums.
    #[repr(align(128))]
    pub struct NodeStat<M: Machine> {
        word("told[{index}]"; index in 0..) told: [M::U64; OWN],
    }
}

record! {
    /// Deltas of one CPU for one node: counts not yet added to the node.
    // Aligned so that no two CPUs write to the same pair of cache lines.
    #[repr(align(128))]
    pub struct NodeDiffs<M: Machine> {
        record("{}") deltas: CounterDeltas<M, OWN>,
    }
}

/// Counters of all nodes; the description of this module explains them.
pub(crate) struct NodeStats<'a, M: Machine> {
    /// The sums over all nodes, followed by each node's counts.
    told: &'a [NodeStat<M>],
    diffs: CpuRecords<'a, NodeDiffs<M>>,
}

impl<'a, M: Machine> NodeStats<'a, M> {
    pub(crate) fn new(told: &'a [NodeStat<M>], diffs: &'a [NodeDiffs<M>]) -> Self {
        NodeStats { told, diffs: CpuRecords { records: diffs, places: told.len().saturating_sub(1) } }
    }

    /// Returns the shared records, each with its node; `None` stands for all nodes.
    pub(crate) fn every_told(&self) -> impl Iterator<Item = (Option<NodeId>, &'a NodeStat<M>)> + use<'a, M> {
        self.told.iter().zip(0..).map(|(told, index): (_, u8)| (index.checked_sub(1).map(NodeId), told))
    }

    /// Returns the per-CPU records, each with its CPU and node.
    pub(crate) fn every_kept(&self) -> impl Iterator<Item = (CpuId, NodeId, &'a NodeDiffs<M>)> + use<'a, M> {
        self.diffs.every().map(|(cpu, node, diffs)| (cpu, NodeId(node as u8), diffs))
    }

    /// Returns the shared words of a counter.
    fn told(&self, node: NodeId, index: usize) -> Option<Told<'a, M>> {
        let [all, nodes @ ..] = self.told else { return None };
        let here = nodes.get(node.index())?.told.get(index)?;
        Some(Told { here, everywhere: all.told.get(index).filter(|_| !self.diffs.records.is_empty()) })
    }

    /// Counts on a CPU; returns false if there is no such counter.
    pub(crate) fn count(&self, node: NodeId, cpu: CpuId, index: usize, change: i64) -> bool {
        let kept = self.diffs.get(cpu, node.index()).map(|diffs| &diffs.deltas);
        self.told(node, index).map(|told| told.count(kept, index, change)).is_some()
    }

    /// Returns a counter with the CPUs' deltas, as readers see it.
    ///
    /// `None` if there is no such counter.
    pub(crate) fn get(&self, node: NodeId, index: usize) -> Option<u64> {
        let kept = self.diffs.of(node.index()).map(|diffs| diffs.deltas.kept(index));
        self.told(node, index).map(|told| told.exact(kept))
    }

    /// Returns a CPU's deltas, by node.
    fn of_cpu(&self, cpu: CpuId) -> impl Iterator<Item = (NodeId, &'a CounterDeltas<M, OWN>)> {
        let nodes = (0..self.diffs.places).map(|node| NodeId(node as u8));
        nodes.filter_map(move |node| Some((node, &self.diffs.get(cpu, node.index())?.deltas)))
    }

    /// Adds a CPU's deltas to the nodes; returns the number of counters changed.
    pub(crate) fn fold(&self, cpu: CpuId) -> u32 {
        self.of_cpu(cpu).fold(0, |changes: u32, (node, drifts)| {
            let fold = || drifts.fold(|index, kept| self.told(node, index).iter().for_each(|told| told.tell(kept)));
            changes.wrapping_add(if drifts.is_kept() { fold() } else { 0 })
        })
    }

    /// Returns whether a CPU has deltas.
    pub(crate) fn is_kept(&self, cpu: CpuId) -> bool {
        self.of_cpu(cpu).any(|(_, drifts)| drifts.is_kept())
    }

    /// Sets the threshold of CPUs for a node's counters.
    pub(crate) fn set_threshold(&self, node: NodeId, threshold: u8) {
        self.diffs.of(node.index()).for_each(|diffs| diffs.deltas.set_threshold(threshold));
    }

    /// Checks invariant S3.
    pub(crate) fn is_within(&self) -> bool {
        self.diffs.records.iter().all(|diffs| diffs.deltas.is_within())
    }

    /// Returns the two sides of invariant S4 for each counter.
    ///
    /// They are the sum over all nodes, and the nodes' counts added up.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (u64, u64)> {
        let sums = self.told.split_first().filter(|_| !self.diffs.records.is_empty());
        sums.into_iter().flat_map(|(all, nodes)| {
            all.told.iter().enumerate().map(move |(index, sum)| {
                let told =
                    nodes.iter().filter_map(|node| node.told.get(index)).map(|word| word.load(Ordering::Relaxed));
                (sum.load(Ordering::Relaxed), told.fold(0, u64::wrapping_add))
            })
        })
    }
}
