//! Gives free memory back to the operating system.
//!
//! A free block is first allocated, so that no other code can be using it when its contents go. Then the kernel forgets
//! the contents, and the block is freed again. Used memory is not touched. Blocks that other threads take or free
//! meanwhile are skipped or included as they are found. Blocks below the given order are left alone. Each piece costs a
//! system call, and a huge page that is given back in part is lost as a huge page.
//!
//! Pages given back read as zero when they are used again, as new ones do. A block allocated later may include older
//! pages, so it need not be zero. A caller that needs zeros asks for them with `__GFP_ZERO`.

use framewright::{FrameState, Order, Pfn, PfnRange, request::GFP_NOWAIT};

use super::arena::Arena;
use crate::error::ArenaError;

/// The memory that [`Arena::trim`] gave back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trimmed {
    /// Free blocks.
    pub blocks: u64,
    /// Their size in bytes. How much of that was resident is not known.
    pub bytes: u64,
}

impl Arena {
    /// Gives the memory of all free blocks of at least `order` back to the operating system.
    ///
    /// Drains the CPUs' lists first. An order below the pageblock's means the pageblock's (2 MiB). Takes time in
    /// proportion to the arena's size. That is about a look at a descriptor for every 2 MiB, and a system call for each
    /// free block.
    ///
    /// # Errors
    /// The memory is huge pages or was handed in. Or the kernel refused, perhaps after some blocks had been given back.
    pub fn trim(&self, order: Order) -> Result<Trimmed, ArenaError> {
        self.inner.memory.how_to_discard()?;
        let geometry = self.inner.allocator().geometry();
        let order = order.max(geometry.pageblock_order);
        self.inner.allocator().drain_all();
        let mut trimmed = Trimmed::default();
        let mut result = Ok(());
        let PfnRange { start, end } = self.frames();
        let mut pfn = start.align_up(geometry.pageblock_order);
        while pfn < end && result.is_ok() {
            pfn = match self.inner.allocator().state_of(pfn) {
                FrameState::Free(head, size) if size >= order => {
                    match self.trim_block(head, size) {
                        Ok(true) => {
                            trimmed.blocks += 1;
                            trimmed.bytes += size.frames() << geometry.page_shift;
                        }
                        Ok(false) => {}
                        Err(error) => result = Err(error),
                    }
                    head.add(size.frames())
                }
                _ => pfn.add(geometry.pageblock_order.frames()),
            };
        }
        // Freed pageblocks went to this CPU's list.
        self.inner.allocator().drain_all();
        result.map(|()| trimmed)
    }

    /// Gives one free block's memory back. False if it is no longer free.
    fn trim_block(&self, pfn: Pfn, order: Order) -> Result<bool, ArenaError> {
        if self.inner.allocator().alloc_at(pfn, order, GFP_NOWAIT).is_err() {
            return Ok(false);
        }
        let geometry = self.inner.allocator().geometry();
        let at = (pfn.0 - self.first.0) << geometry.page_shift;
        let len = order.frames() << geometry.page_shift;
        // SAFETY: the block was free and is allocated by this function now: no code refers to its contents.
        let result = unsafe { self.inner.memory.discard(at as usize, len as usize) };
        self.free(pfn, order);
        result.map(|()| true)
    }
}
