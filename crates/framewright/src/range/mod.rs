//! Memory by its place: contiguous ranges, memory hotplug, parts of blocks, migration.
//!
//! Whatever names frames by number rather than by order is here.

pub(crate) mod contig_search;
pub(crate) mod contig_range;
pub(crate) mod split;
pub(crate) mod migrate;
