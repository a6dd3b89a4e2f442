//! An embedder's counters of zones and of nodes, by their names in an operation.

use std::fmt;

use framewright::{NodeId, ZoneIdx};

/// Names of counters of zones, of which a machine has the first few.
pub(crate) const OF_ZONES: &[&str] = &["nr_staged", "nr_shared", "nr_pinned", "nr_dirty"];

/// Names of counters of nodes, of which a machine has the first few.
pub(crate) const OF_NODES: &[&str] = &["nr_mapped", "nr_queued", "nr_cached", "nr_locked"];

/// One of the embedder's counters: where it is, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Counter {
    /// Of a zone.
    Zone(ZoneIdx, usize),
    /// Of a node.
    Node(NodeId, usize),
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Counter::Zone(zone, index) => write!(f, "zone {} {} {index}", zone.node().0, zone.kind()),
            Counter::Node(node, index) => write!(f, "node {} {index}", node.0),
        }
    }
}
