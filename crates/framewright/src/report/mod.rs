//! The allocator's state, as data and as the files that Linux prints.
//!
//! The field's tools read an allocator through a few text files:
//!
//! | file | contents |
//! |---|---|
//! | `buddyinfo` | free blocks by order |
//! | `pagetypeinfo` | free blocks by order and mobility, and pageblocks by mobility |
//! | `zoneinfo` | watermarks, sizes, per-CPU lists |
//! | `vmstat`, and a node's `vmstat` and `numastat` | counters |
//! | debugfs's `unusable_index` and `extfrag_index` | two fragmentation scores |
//!
//! Each has a type here whose `Display` writes the file, byte for byte as Linux 6.1 lays it out. Blanks at the ends of
//! lines are included. Parsers in the field split on columns, on line beginnings and on exact words.
//!
//! Everything is counted in frames, except where a name says blocks, pageblocks or events. `docs/stats.md` of the
//! repository says for every line what it counts, and in which sums it is contained.
//!
//! The formats read a [`Source`], one zone at a time, and store nothing. There is no buffer and no heap, so they work
//! in a kernel that has just booted or is about to fail.
//!
//! An embedder may keep counters that a page allocator does not have (LRU lists, writeback, slab ...). It passes them
//! in through its source ([`Source::zone_counter`], [`Source::node_counter`]), and they are printed where Linux has
//! them. A counter that is not kept has no line: a 0 would claim that something was counted. The remaining lines are in
//! Linux's order. Without any such counters, the text `per-node stats` of zoneinfo is followed by nothing. It remains
//! because readers use it as the start of a node.
//!
//! Cost: a file is no snapshot of one instant. Each zone is consistent in itself if the source reads it under the
//! zone's lock, as Linux does. But two zones are read one after the other, and `pagetypeinfo` reads each zone up to
//! three times.
//!
//! Rejected:
//!
//! - Filling a `String`: it needs a heap.
//! - A visitor of (label, value) pairs with a generic printer: the five layouts share nothing but `Node %d, zone %8s`.
//! - Reading through the allocator's own type: its machine parameter would be in every signature, and a recorded or
//!   simulated state could not be printed.

mod buddyinfo;
mod fragmentation;
mod pagetypeinfo;
mod vmstat;
mod zoneinfo;
mod counters;
mod source;
mod snapshot;

pub use buddyinfo::BuddyInfo;
pub use fragmentation::{ExtfragIndex, UnusableIndex, fragmentation_index, unusable_index};
pub use pagetypeinfo::PageTypeInfo;
pub use snapshot::{NumaCounters, PcpSnapshot, VmEvents, ZoneSnapshot};
pub use source::{COUNTER_LIMIT, NodeSnapshot, Source};
pub use vmstat::{NodeNumaStat, NodeVmStat, VmStat};
pub use zoneinfo::ZoneInfo;
