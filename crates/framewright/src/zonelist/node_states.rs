//! The nodes that have memory: `N_MEMORY` and its like, one set for each kind of zone.
//!
//! A policy that names nodes counts only those that could serve the request. These are nodes with memory in a zone of a
//! kind that the request may use, neither reserved since boot nor taken offline. [`NodeStates`] keeps these sets, so
//! that a request reads one word. They are computed at boot, and again whenever memory comes or goes
//! (`contig_range.rs`).

use crate::seam::field::record;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::request::NodeSet;
use crate::types::units::{Pfn, ZoneKind};
use crate::zone::zone::Zone;

/// Most computations of a set in one refresh.
///
/// A set is computed again if memory came or went meanwhile.
const TRIES: u32 = 64;

record! {
    /// The sets of nodes that have memory, one for each kind of zone.
    pub(crate) struct NodeStates<M: Machine> {
        /// Indexed by the highest kind of zone that a request may use.
        word("with_memory[{kind}]"; kind in ZoneKind::ALL) with_memory: [M::U64; ZoneKind::COUNT],
    }
}

impl<M: Machine> NodeStates<M> {
    /// Returns the nodes with memory in a zone of this kind or a lower one.
    pub(crate) fn with_memory(&self, highest: ZoneKind) -> NodeSet {
        self.with_memory.get(highest.index()).map_or(NodeSet::ALL, |word| NodeSet(word.load(Ordering::Relaxed)))
    }

    /// Computes the sets again, after the memory that zones manage changed.
    pub(crate) fn refresh(&self, zones: &[Zone<M>]) {
        if !M::FEATURES.nodes {
            return;
        }
        for (kind, word) in ZoneKind::ALL.into_iter().zip(&self.with_memory) {
            for _ in 0..TRIES {
                // ORDER: AcqRel. Publishes what this caller changed in zones, and acquires what earlier callers did;
                // partner: itself. So the caller that comes last sees all changes, and ends only with a set that was
                // computed from them. The exchange below publishes nothing else. Model: range_nodes.
                let old = word.add(0, Ordering::AcqRel);
                let new = nodes_with(zones, kind, None).0;
                if old == new {
                    break;
                }
                let _ = word.cas(old, new, Ordering::Relaxed);
            }
        }
    }
}

/// Returns the nodes with memory in a zone of a kind up to `highest`.
///
/// If there is a limit, only zones that begin below it count.
pub(crate) fn nodes_with<M: Machine>(zones: &[Zone<M>], highest: ZoneKind, below: Option<Pfn>) -> NodeSet {
    let begins_below = |zone: &Zone<M>| below.is_none_or(|limit| zone.span.start < limit);
    let usable = zones.iter().filter(|zone| zone.kind() <= highest && zone.has_memory() && begins_below(zone));
    usable.fold(NodeSet::default(), |nodes, zone| nodes.with(NodeSet::only(zone.node())))
}
