//! Pages that move while they are in use, and are evicted when memory is short.
//!
//! A program that keeps an address of a page keeps the page where it is. So the holder of a [`crate::MovablePage`] has
//! no address. The page stays in place only while a guard of [`crate::MovablePage::read`] or
//! [`crate::MovablePage::write`] lives. At any other moment the allocator may copy it elsewhere, so that free memory
//! lies together, and the handle finds it there. If its [`PageOwner`] allows, a page that was not used for long may be
//! evicted; then the handle finds nothing.
//!
//! # Locks
//!
//! Each page has a lock over its place. A reader takes it shared. A writer takes it alone, and so does the code that
//! moves or evicts the page, which never waits: a page in use stays. A dropped handle does not wait either, because it
//! may be dropped inside its own page's eviction. It leaves a note, and the holder of the lock frees the page
//! afterwards ([`Pool::settle`]). The locks of the index and of the lists come under a page's lock, for a few
//! instructions each. The owner is asked under the page's lock alone.
//!
//! # The index
//!
//! The allocator names a block by its frame. A hash map, in parts with a lock each, finds the page of a frame. A block
//! that is not in the map is not moved: it is not a movable page, or not yet, or no longer. A block in the map is one.
//! It is inserted after it was allocated and removed before it is freed, both under the page's lock.
//!
//! Rejected: a lock for each frame, without a hash map (24 bytes per frame, used or not). Also rejected: a count of
//! readers instead of a lock. A writer would need another word, and both would be an `RwLock` of our own.
//!
//! In a fork's child a page that another thread was moving or writing stays locked for ever. So a child should not use
//! its parent's movable pages; the arena itself works as before.

mod pool;
mod page;
mod note;
mod lru;
mod shrink;
mod owner;

pub use owner::{Leaving, MovableReport, Moving, PageOwner};
pub(crate) use page::{Locked, Page};
pub(crate) use pool::{FreesBlocks, Pool};
pub(crate) use shrink::reclaim;
pub use shrink::{Scan, Shrink};
