//! The lists of pages in use, and their lock: what a page fault takes besides the allocator's.
//!
//! Each node has a list of its pages. A process gathers the pages that it faults in, [`PAGEVEC`] at a time, and puts
//! them on the list in one go; when it unmaps, they come off the list, up to [`BATCH`] in one go. The lists are the
//! core's own ([`smp_list`]), of which they are the second user, and so is the lock ([`QueuedLock`]).
//!
//! - [`LruLists::Lock`]: as in Linux, lists are changed page by page by who has the node's lock alone.
//! - [`LruLists::Smp`]: by many CPUs at once, who share the lock against others (here there are none: nobody reclaims).
//!   A batch is put on by one splice, and each page comes off by itself.
//!
//! # What is touched
//!
//! The lines of Linux 4.18, with memory cgroups compiled in and all processes in one, as distributions have it:
//!
//! | line | touched |
//! |---|---|
//! | descriptor of the page (links, flags, references) | see below |
//! | the node's lock | by all; alone on its line |
//! | head of the list | by who adds |
//! | statistics of reclaim: pages added, and added as active | by who adds |
//! | size of the list | by all |
//! | what a CPU has counted, by node and by zone | by all; told when it is more than [`THRESHOLD`] |
//! | totals of the node, the zone, all nodes, all zones | by who tells: four atomics, under the lock |
//!
//! A batch has a reference to each of its pages until it is on the list, taken and given up outside of the lock. Under
//! it, adding sets a flag of the page (an atomic, then a full barrier); removing gives up the last reference (an
//! atomic) and clears the flag.
//!
//! In `smp` mode there is an atomic for each batch where in `lock` mode there is an addition for each page: the size,
//! the statistics.
//!
//! The head's, the statistics' and the size's lines are written one after the other, but none of them is an address for
//! another, and all three fit into what a core looks ahead. So a core asks for them at once: here, it asks for each
//! before it uses the first.
//!
//! Pages are looked at (for a place in swap) before they come off, [`GATHER`] at a time, so that their own lines have
//! come by the time that the lock is held. Lines that are fetched under it are those of pages before and behind a
//! batch, which others put on.
//!
//! # Assumed
//!
//! What is executed for a page under the lock, besides atomics: [`ADD`] and [`REMOVE`]. They count what is done, not
//! what was measured.

mod check;
mod lru_lists;

pub use lru_lists::LruLists;
pub(crate) use lru_lists::{GATHER, Lru, PAGEVEC};
