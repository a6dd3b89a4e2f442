//! What the allocator knows, as data and as the files that Linux prints.
//!
//! The trade's tools read an allocator through a handful of text files: `buddyinfo` (free blocks by order),
//! `pagetypeinfo` (the same by mobility, and the pageblocks), `zoneinfo` (watermarks, sizes, per-CPU lists), `vmstat` and
//! a node's `numastat` (counters), and the two fragmentation scores of debugfs. Each has a type here whose `Display`
//! writes the file, byte for byte as Linux 6.1 lays it out, blanks at the ends of lines included: parsers in the field
//! split on columns, on line beginnings and on exact words.
//!
//! Everything is counted in frames, except where a name says blocks, pageblocks or events. `docs/stats.md` of the
//! repository says for every line what it counts and which sums it takes part in.
//!
//! The formats read a [`Source`], one zone at a time, and keep nothing: there is no buffer and no heap, so they work in a
//! kernel that has just booted or is about to die. The price is that a file is no snapshot of one instant. Each zone is
//! consistent in itself if the source reads it under the zone's lock, as Linux does; two zones are read one after
//! the other, and `pagetypeinfo` reads each zone up to three times.
//!
//! A counter that a page allocator doesn't have (LRU lists, writeback, slab ...) has no line of its own here: a 0 would
//! claim that something was counted. Lines that remain are in Linux's order. An embedder that does keep such counters hands
//! them in through its source ([`Source::zone_counter`], [`Source::node_counter`]), and they stand where Linux has them.
//! Without any, the text `per-node stats` of zoneinfo is followed by nothing: it stays because readers take it for the
//! start of a node.
//!
//! Rejected: filling a `String` (needs a heap), a visitor of (label, value) pairs with a generic printer (the five layouts
//! share nothing but `Node %d, zone %8s`), and reading through the allocator's own type (its machine parameter would be in
//! every signature, and a recorded or simulated state could not be printed).

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
