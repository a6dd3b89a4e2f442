//! The counters of a set of zones or nodes in Linux's order, with those of the embedder.
//!
//! Three files show them: zoneinfo for one zone, a node's vmstat for its zones, vmstat for all. The files differ in the
//! format of a line, and in what precedes and follows these lines.

use core::fmt;

use super::source::{COUNTER_LIMIT, NodeSnapshot, Source};
use crate::types::units::{NodeId, ZoneIdx};

/// Returns, for each index, the name and the sum of a counter over `members`.
///
/// Ends at the first index that no member has.
fn sums<'a, T>(
    members: impl Iterator<Item = T> + Clone,
    counter: impl Fn(T, usize) -> Option<(&'a str, u64)>,
) -> impl Iterator<Item = (&'a str, u64)> {
    (0..COUNTER_LIMIT).map_while(move |index| {
        let counts = members.clone().filter_map(|member| counter(member, index));
        counts.reduce(|(name, sum), (_, count)| (name, sum.saturating_add(count)))
    })
}

/// Passes the lines of `zones` to `line`, a name and a number each.
///
/// These are the free frames, the embedder's counters, and the NUMA counters. `sum` has the sums over these zones.
pub(super) fn zone_lines<S: Source + ?Sized>(
    source: &S,
    zones: impl Iterator<Item = ZoneIdx> + Clone,
    sum: &NodeSnapshot,
    mut line: impl FnMut(&str, u64) -> fmt::Result,
) -> fmt::Result {
    line("nr_free_pages", sum.free)?;
    for (name, count) in sums(zones, |zone, index| source.zone_counter(zone, index)) {
        line(name, count)?;
    }
    if !source.numa_before_cma() {
        line("nr_free_cma", sum.free_cma)?;
    }
    for (name, count) in sum.numa.named() {
        line(name, count)?;
    }
    if source.numa_before_cma() {
        line("nr_free_cma", sum.free_cma)?;
    }
    Ok(())
}

/// Returns the embedder's counters of `nodes`, summed.
pub(super) fn node_counters<S: Source + ?Sized>(
    source: &S,
    nodes: impl Iterator<Item = NodeId> + Clone,
) -> impl Iterator<Item = (&str, u64)> {
    sums(nodes, |node, index| source.node_counter(node, index))
}
