//! Counters: exact ones, per-CPU ones with thresholds, and tallies that are added up under a lock.

pub(crate) mod zone_stat;
pub(crate) mod node_stat;
pub(crate) mod zone_diffs;
pub(crate) mod per_cpu_counter;
pub(crate) mod tally;
pub(crate) mod vmstat;
