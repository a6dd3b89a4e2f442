//! The LRU lists of pages in use, and their lock: what a page fault costs besides the allocator.
//!
//! Each node has a list of its pages. A process gathers the pages that it faults in and adds them to the list a pagevec
//! at a time ([`super::PageFault1::pagevec`]). When it unmaps, up to 32 come off the list at a time. The lists and the
//! lock are the core's own (`smp_list.rs`, `queued.rs`).
//!
//! - [`LruLists::Lock`]: as in Linux, a CPU holds the node's lock alone and changes the list page by page.
//! - [`LruLists::Smp`]: many CPUs change the list at once and share the lock. A batch is added by one splice, and each
//!   page comes off by itself. (Nothing takes the lock alone here, because nothing reclaims.)
//!
//! # What is touched
//!
//! The lines of Linux 4.18, with memory cgroups compiled in and all processes in one, as in distributions:
//!
//! | line | touched |
//! |---|---|
//! | descriptor of the page (links, flags, references) | see below |
//! | the node's lock | by all; alone on its line |
//! | head of the list | when adding |
//! | statistics of reclaim: pages added, and added as active | when adding |
//! | size of the list | by all |
//! | what a CPU has counted, by node and by zone | by all; added to the totals above a threshold |
//! | totals of the node, the zone, all nodes, all zones | above the threshold: four atomics, under the lock |
//!
//! A batch holds a reference to each of its pages until it is on the list; it takes and drops them outside of the lock.
//! Under the lock, adding sets a flag of the page (an atomic, then a full barrier). Removing drops the last reference
//! (an atomic) and clears the flag.
//!
//! For the size and the statistics, `smp` mode has an atomic for each batch where `lock` mode has an addition for each
//! page.
//!
//! The lines of the head, the statistics and the size are written one after the other. None of them holds the address
//! of another, and all three fit into a core's look-ahead. So a core fetches them at once: here, it prefetches each
//! before it uses the first.
//!
//! Before pages come off, each is read (for a place in swap), [`GATHER`] at a time. So their own lines are cached when
//! the lock is taken. The lines fetched under the lock are those of the neighbours of a batch, which other CPUs added.
//!
//! # Assumed
//!
//! The instructions for a page under the lock, besides atomics (`ADD` and `REMOVE`). They are counted from the source,
//! not measured.

mod check;
mod lru_lists;

pub use lru_lists::LruLists;
pub(crate) use lru_lists::{GATHER, Lru};
