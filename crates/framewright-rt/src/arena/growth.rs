//! An arena that grows and shrinks, as its owner calls it.

use framewright::machine::Machine;

use super::arena::Arena;
use super::hooks::Cause;
use crate::error::ArenaError;

impl Arena {
    /// Grows the arena by up to `bytes` bytes; returns how many came.
    ///
    /// `bytes` is rounded up to whole sections ([`crate::ArenaBuilder::limit`]). The node of the calling thread grows
    /// before others. Fewer bytes come where the limit is nearer, or where a later range was refused.
    ///
    /// In an arena of one CPU ([`crate::ArenaBuilder::cpus`]) no other thread may hold a [`crate::LocalArena`]
    /// meanwhile. The change waits for that CPU, and a request of that thread may wait for the change.
    ///
    /// ```
    /// use framewright::{Request, request::GFP_USER};
    /// use framewright_rt::Arena;
    ///
    /// let arena = Arena::builder().size(4 << 20).limit(64 << 20).build()?;
    /// assert_eq!(arena.grow(8 << 20)?, 8 << 20);
    /// let block = arena.alloc(&Request::new(GFP_USER, 9))?;
    /// assert_eq!(arena.shrink(8 << 20)?, 8 << 20); // The section in use stays.
    /// # assert_eq!(arena.present(), 4 << 20);
    /// # drop(block);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Nothing came: all memory is present, a hook or the kernel refused, or the arena has no limit. Also in a signal
    /// handler, in a fork's child that refuses, and in a hook of the arena.
    pub fn grow(&self, bytes: u64) -> Result<u64, ArenaError> {
        self.inner.grow(bytes, self.inner.allocator().machine().near(), Cause::Asked)
    }

    /// Shrinks the arena by up to `bytes` bytes; returns how many went.
    ///
    /// `bytes` is rounded up to whole sections. Only sections that are free as a whole go, from the highest address on.
    /// Their memory is given back to the operating system, and faults when it is touched. Of memory that was handed in
    /// only the program's hook is told ([`crate::Commit::decommit`]). The first section of each node stays, and so does
    /// what a zone needs to stay above its low mark. Drains the lists of all CPUs first. [`Arena::compact`] makes
    /// movable pages leave sections.
    ///
    /// # Errors
    /// Nothing went, because a hook or the kernel refused, or the arena has no limit. Otherwise as of [`Arena::grow`].
    /// That no section is free is no error: 0 bytes went.
    pub fn shrink(&self, bytes: u64) -> Result<u64, ArenaError> {
        self.inner.shrink(bytes, Cause::Asked)
    }

    /// Returns the bytes of memory that are present now, allocated or free.
    pub fn present(&self) -> u64 {
        self.inner.sizing.room.as_ref().map_or(self.report().bytes, |room| room.present())
    }
}
