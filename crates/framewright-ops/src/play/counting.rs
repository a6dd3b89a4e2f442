//! Counts in an embedder's counters, and compares what they read with what was counted.

use framewright::NodeId;
use framewright::report::Source;

use crate::language::{Counter, OF_NODES, OF_ZONES, Outcome, Wrong, zones};
use crate::play::player::Player;

impl Player<'_> {
    /// Counts in a counter, if it exists.
    pub(crate) fn count(&self, counter: Counter, change: i64) -> Result<Outcome, Wrong> {
        let (exists, counted) = match counter {
            Counter::Zone(zone, index) => {
                let exists = zone.node().index() < self.pages.nodes() && index < self.counters.0;
                (exists, self.pages.count_in_zone(zone, index, change))
            }
            Counter::Node(node, index) => {
                let exists = node.index() < self.pages.nodes() && index < self.counters.1;
                (exists, self.pages.count_in_node(node, index, change))
            }
        };
        if exists != counted {
            return Err(format!("the counter of {counter} exists: {exists}, was counted in: {counted}"));
        }
        if !exists {
            return Ok(Outcome::Skipped);
        }
        let mut all = self.counted.borrow_mut();
        let sum = all.entry(counter).or_default();
        *sum = sum.wrapping_add(change);
        Ok(Outcome::Done)
    }

    /// Compares every counter with what was counted. A negative sum reads as 0.
    pub(crate) fn compare_counters(&self) -> Result<(), Wrong> {
        let counted = self.counted.borrow();
        let compare = |counter, name: Option<&&str>, read: Option<(&str, u64)>| {
            let sum: i64 = counted.get(&counter).copied().unwrap_or(0);
            let expected = name.map(|name| (*name, sum.max(0) as u64));
            if read == expected { Ok(()) } else { Err(format!("{counter} reads {read:?}, should be {expected:?}")) }
        };
        let (of_zones, of_nodes) = (&OF_ZONES[..self.counters.0], &OF_NODES[..self.counters.1]);
        for zone in zones(self.pages.nodes()) {
            for index in 0..=of_zones.len() {
                let read = self.pages.zone_counter(zone, index);
                compare(Counter::Zone(zone, index), of_zones.get(index), read)?;
            }
        }
        for node in (0..self.pages.nodes()).map(|node| NodeId(node as u8)) {
            for index in 0..=of_nodes.len() {
                let read = self.pages.node_counter(node, index);
                compare(Counter::Node(node, index), of_nodes.get(index), read)?;
            }
        }
        Ok(())
    }
}
