//! Memory by its place: contiguous ranges, memory hotplug, parts of blocks, migration.
//!
//! Every operation that names frames by number rather than by order is here.

pub(crate) mod page_reporting;
pub(crate) mod contig_search;
pub(crate) mod contig_range;
pub(crate) mod memory_hotplug;
pub(crate) mod migrate;
pub(crate) mod split;
