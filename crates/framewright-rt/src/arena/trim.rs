//! Gives free memory back to the operating system.
//!
//! A pass of free page reporting (`framewright::Reporting`) takes free blocks off their lists, so that no other code
//! can be using them when their contents go. Then the kernel forgets the contents, and the blocks are free again. The
//! pass does not meet blocks that were given back before and not used since. Blocks below the given order are left
//! alone. Each piece costs a system call, and a huge page that is given back in part is lost as a huge page.
//!
//! Pages given back read as zero when they are used again, as new ones do. A block allocated later may include older
//! pages, so it need not be zero. A caller that needs zeros asks for them with `__GFP_ZERO`.
//!
//! # Why the unsafe code is right
//!
//! A pass owns the blocks that it took off the free lists until it gives them back ([`framewright::Unreported`]), and
//! free blocks have no owner. So no code refers to their contents meanwhile.

use framewright::{Order, Pfn};

use super::arena::Arena;
use super::inner::Inner;
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
    /// Drains the CPUs' lists first. An order below the pageblock's means the pageblock's (2 MiB). Blocks that an
    /// earlier call gave back, and that nobody used since, are left alone. Takes a system call for each other block.
    /// What a zone needs to stay above its low mark is not given back.
    ///
    /// # Errors
    /// The memory is huge pages or was handed in. Or the kernel refused, perhaps after some blocks had been given back.
    pub fn trim(&self, order: Order) -> Result<Trimmed, ArenaError> {
        self.inner.trim(self.first, order)
    }
}

impl Inner {
    /// Like [`Arena::trim`]; `first` is the arena's first frame.
    pub(super) fn trim(&self, first: Pfn, order: Order) -> Result<Trimmed, ArenaError> {
        self.memory.how_to_discard()?;
        let pages = self.allocator();
        let geometry = pages.geometry();
        let order = order.max(geometry.pageblock_order);
        pages.drain_all();
        let mut trimmed = Trimmed::default();
        // An order that is too large names no block; nor does a signal handler, which must not wait.
        for blocks in pages.report_free(order).into_iter().flatten() {
            for &(pfn, order) in blocks.blocks() {
                let at = (pfn.0 - first.0) << geometry.page_shift;
                let len = order.frames() << geometry.page_shift;
                // SAFETY: the block was free and is this function's until `blocks` ends, so no code refers to its
                // contents.
                unsafe { self.memory.discard(at as usize, len as usize) }?;
                trimmed.blocks += 1;
                trimmed.bytes += len;
            }
            blocks.reported();
        }
        Ok(trimmed)
    }
}
