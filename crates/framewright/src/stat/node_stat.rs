//! Counters that an embedder keeps in each node, as Linux keeps `nr_dirty`: of what belongs to a node's memory, whichever zone it is in.
//!
//! They are kept as an embedder's counters of zones are (`zone_stat.rs`): a CPU keeps what it counts until that is more than a
//! threshold, where the mechanisms say `zone-stat=differentials`, and then tells the node and the sum over all nodes, or else it tells the node each time.
//! The threshold is the largest of the node's zones ([`crate::policy::watermark::node_threshold`]). Nobody holds anything:
//! the CPU exchanges the word of what it keeps, and so does who folds it. Without such counters there is no memory for them.

use core::array;

use crate::seam::field::{Words, tell};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::stat::per_cpu_counter::{CounterDeltas, PerCpu, Told};
use crate::types::units::{CpuId, NodeId};

/// Counters that an embedder may keep in each node. What a CPU keeps of so many lies on one cache line; Linux 6.1 has about 45.
pub(crate) const OWN: usize = 48;

/// What CPUs told of a node's counters, or of all nodes' together.
#[repr(align(128))]
pub struct NodeStat<M: Machine>([M::U64; OWN]);

impl<M: Machine> Default for NodeStat<M> {
    fn default() -> Self {
        NodeStat(array::from_fn(|_| Word::new(0)))
    }
}

impl<M: Machine> NodeStat<M> {
    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        for (index, word) in self.0.iter().enumerate() {
            tell(visit, format_args!("told[{index}]"), word);
        }
    }
}

/// What one CPU has counted in a node and not told it.
// Aligned so that no two CPUs write to the same pair of cache lines.
#[repr(align(128))]
pub struct NodeDiffs<M: Machine>(CounterDeltas<M, OWN>);

impl<M: Machine> Default for NodeDiffs<M> {
    fn default() -> Self {
        NodeDiffs(CounterDeltas::default())
    }
}

impl<M: Machine> NodeDiffs<M> {
    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        let (items, threshold) = self.0.words();
        for (index, word) in items.iter().enumerate() {
            tell(visit, format_args!("kept[{index}]"), word);
        }
        tell(visit, format_args!("threshold"), threshold);
    }
}

/// The counters of all nodes; see the module's description.
pub(crate) struct NodeStats<'a, M: Machine> {
    /// What was told of all nodes together, and behind it of each node.
    told: &'a [NodeStat<M>],
    diffs: PerCpu<'a, NodeDiffs<M>>,
}

impl<'a, M: Machine> NodeStats<'a, M> {
    pub(crate) fn new(told: &'a [NodeStat<M>], diffs: &'a [NodeDiffs<M>]) -> Self {
        NodeStats { told, diffs: PerCpu { records: diffs, places: told.len().saturating_sub(1) } }
    }

    /// The records of what was told, with the node, or none for all nodes.
    pub(crate) fn every_told(&self) -> impl Iterator<Item = (Option<NodeId>, &'a NodeStat<M>)> + use<'a, M> {
        self.told.iter().zip(0..).map(|(told, index): (_, u8)| (index.checked_sub(1).map(NodeId), told))
    }

    /// The records of what CPUs keep, with CPU and node.
    pub(crate) fn every_kept(&self) -> impl Iterator<Item = (CpuId, NodeId, &'a NodeDiffs<M>)> + use<'a, M> {
        self.diffs.every().map(|(cpu, node, diffs)| (cpu, NodeId(node as u8), diffs))
    }

    /// What was told of a counter.
    fn told(&self, node: NodeId, index: usize) -> Option<Told<'a, M>> {
        let [all, nodes @ ..] = self.told else { return None };
        let here = nodes.get(node.index())?.0.get(index)?;
        Some(Told { here, everywhere: all.0.get(index).filter(|_| !self.diffs.records.is_empty()) })
    }

    /// Counts on a CPU. False if there is no such counter.
    pub(crate) fn count(&self, node: NodeId, cpu: CpuId, index: usize, change: i64) -> bool {
        let kept = self.diffs.get(cpu, node.index()).map(|diffs| &diffs.0);
        self.told(node, index).map(|told| told.count(kept, index, change)).is_some()
    }

    /// A counter with what CPUs keep of it, as readers get it; none if there is no such counter.
    pub(crate) fn get(&self, node: NodeId, index: usize) -> Option<u64> {
        let kept = self.diffs.of(node.index()).map(|diffs| diffs.0.kept(index));
        self.told(node, index).map(|told| told.exact(kept))
    }

    /// What a CPU keeps, by node.
    fn of_cpu(&self, cpu: CpuId) -> impl Iterator<Item = (NodeId, &'a CounterDeltas<M, OWN>)> {
        let nodes = (0..self.diffs.places).map(|node| NodeId(node as u8));
        nodes.filter_map(move |node| Some((node, &self.diffs.get(cpu, node.index())?.0)))
    }

    /// Tells the nodes what a CPU keeps. Returns how many counters that were.
    pub(crate) fn fold(&self, cpu: CpuId) -> u32 {
        self.of_cpu(cpu).fold(0, |changes: u32, (node, drifts)| {
            let fold = || drifts.fold(|index, kept| self.told(node, index).iter().for_each(|told| told.tell(kept)));
            changes.wrapping_add(if drifts.is_kept() { fold() } else { 0 })
        })
    }

    /// Whether a CPU keeps anything.
    pub(crate) fn is_kept(&self, cpu: CpuId) -> bool {
        self.of_cpu(cpu).any(|(_, drifts)| drifts.is_kept())
    }

    /// Sets how much CPUs may keep of a node's counters.
    pub(crate) fn set_threshold(&self, node: NodeId, threshold: u8) {
        self.diffs.of(node.index()).for_each(|diffs| diffs.0.set_threshold(threshold));
    }

    /// S3.
    pub(crate) fn is_within(&self) -> bool {
        self.diffs.records.iter().all(|diffs| diffs.0.is_within())
    }

    /// S4: of each counter, what all nodes were told together, and the sum of what each was.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (u64, u64)> {
        let sums = self.told.split_first().filter(|_| !self.diffs.records.is_empty());
        sums.into_iter().flat_map(|(all, nodes)| {
            all.0.iter().enumerate().map(move |(index, sum)| {
                let told = nodes.iter().filter_map(|node| node.0.get(index)).map(|word| word.load(Ordering::Relaxed));
                (sum.load(Ordering::Relaxed), told.fold(0, u64::wrapping_add))
            })
        })
    }
}
