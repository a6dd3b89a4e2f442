//! Free page reporting, for a machine whose memory a host backs: the free blocks that were not reported yet.
//!
//! ```ignore
//! for blocks in pages.report_free(Order(9))? {
//!     host.forget(blocks.blocks());       // no lock is held; nobody else has these blocks
//!     blocks.reported();                  // free again, and not met by later passes while they stay as they are
//! }
//! ```

use crate::api::allocator::Allocator;
use crate::range::page_reporting::Cursor;
use crate::seam::machine::Machine;
use crate::types::error::AllocError;
use crate::types::units::{Order, Pfn};

/// Most blocks that are taken off the free lists at a time (Linux: `PAGE_REPORTING_CAPACITY`).
const CAPACITY: usize = 32;

/// One pass over all free blocks that were not reported; from [`Allocator::report_free`].
///
/// It ends, whatever other CPUs free meanwhile.
pub struct Reporting<'w, 'a, M: Machine> {
    allocator: &'w Allocator<'a, M>,
    cursor: Cursor,
}

/// Up to 32 blocks that are the holder's until it reports them; it may clear them, and must not write anything else.
///
/// They are one block, or at most a sixteenth of their zone's free memory. Dropped without a report they are free
/// again, and the next pass meets them. Meanwhile they count as allocated, and a free of one is refused.
///
/// Context of the drop: as [`Allocator::report_free`].
pub struct Unreported<'w, 'a, M: Machine> {
    allocator: &'w Allocator<'a, M>,
    blocks: [(Pfn, Order); CAPACITY],
    count: usize,
    are_reported: bool,
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Returns a pass over free blocks of at least `least` that were not reported since they became free.
    ///
    /// Blocks without which their zone would be below its low mark are left alone. Blocks on per-CPU lists and in
    /// depots, and sections that boot left uninitialised, are not met: drain the lists first
    /// ([`Allocator::drain_all`]). Linux reports blocks from the pageblock order on.
    ///
    /// Context: not in an interrupt, no lock held; several passes at once are allowed.
    ///
    /// # Errors
    /// The order is above the largest one, or this is an interrupt.
    pub fn report_free(&self, least: Order) -> Result<Reporting<'_, 'a, M>, AllocError> {
        self.outside_of_interrupts()?;
        let max = self.geometry().max_order;
        if least > max {
            return Err(AllocError::BadOrder { order: least, max });
        }
        Ok(Reporting { allocator: self, cursor: Cursor::start(least, max) })
    }
}

impl<'w, 'a, M: Machine> Iterator for Reporting<'w, 'a, M> {
    type Item = Unreported<'w, 'a, M>;

    fn next(&mut self) -> Option<Unreported<'w, 'a, M>> {
        let mut found = Unreported {
            allocator: self.allocator,
            blocks: [(Pfn(0), Order(0)); CAPACITY],
            count: 0,
            are_reported: false,
        };
        while self.allocator.world().take_unreported(&mut self.cursor, |pfn, order| found.take(pfn, order)) {
            if found.count != 0 {
                return Some(found);
            }
        }
        None
    }
}

impl<M: Machine> Unreported<'_, '_, M> {
    /// Returns the blocks: first frame and order of each.
    pub fn blocks(&self) -> &[(Pfn, Order)] {
        self.blocks.get(..self.count).unwrap_or_default()
    }

    /// Adds a block; returns whether there is room for another.
    fn take(&mut self, pfn: Pfn, order: Order) -> bool {
        if let Some(place) = self.blocks.get_mut(self.count) {
            *place = (pfn, order);
            self.count = self.count.saturating_add(1);
        }
        self.count < CAPACITY
    }

    /// Frees the blocks and marks them as reported.
    ///
    /// A block that merges with a free neighbour gets no mark.
    pub fn reported(mut self) {
        self.are_reported = true;
    }
}

impl<M: Machine> Drop for Unreported<'_, '_, M> {
    fn drop(&mut self) {
        self.allocator.world().give_reported(self.blocks(), self.are_reported);
    }
}
