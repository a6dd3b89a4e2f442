//! Pages that move while they are in use, and go when memory is short.
//!
//! A program that keeps an address of a page keeps the page where it is. So who holds a [`crate::MovablePage`] has no address: only while it looks, through
//! the guard that [`crate::MovablePage::read`] or [`crate::MovablePage::write`] returns, does the page stay where it is. At any other moment the allocator may
//! copy it elsewhere, so that what is free lies together, and the handle finds it there. If its [`PageOwner`] lets it, a page that was
//! not used for long may leave altogether; then the handle finds nothing.
//!
//! # Locks
//!
//! Each page has one, over where it is: whoever looks has it shared, whoever writes, moves or evicts it has it alone. Who moves or
//! evicts never waits for it: a page that is looked at stays. Nor does a handle that is dropped, which may happen in the middle of its
//! own page's eviction: it leaves a note, and whoever has the lock frees the page behind it ([`Pool::settle`]). Under a page's lock come those of the index
//! and of the lists, for a few instructions each; the owner is asked with the page's lock alone.
//!
//! # The index
//!
//! The allocator names a block by its frame. Whose that is says a hash map, in parts with a lock each. What is not in there is not
//! ours, or not yet, or no longer, and is not moved; a block that is, is ours, since it is put in after it was allocated, and taken out before it is
//! freed, both under the page's lock.
//!
//! Rejected: a lock for each frame, without a hash map (24 bytes per frame, whoever uses them). To count readers instead of a lock: who writes
//! would need another word, and both would be an `RwLock` of our own.
//!
//! In a fork's child a page that another thread was just moving or writing stays locked for ever. So a child should leave its parent's
//! movable pages alone; the arena itself is as usable as ever.

mod pool;
mod page;
mod lru;
mod shrink;
mod owner;

pub use owner::{Leaving, MovableReport, Moving, PageOwner};
pub(crate) use page::Page;
pub(crate) use pool::{FreesBlocks, Pool};
pub(crate) use shrink::reclaim;
pub use shrink::{Scan, Shrink};
