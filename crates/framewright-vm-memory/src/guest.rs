//! The guest's side: an allocator of the guest's frames that tells its host what is free, and a balloon.
//!
//! A guest's kernel has an allocator of the core over its own physical frames, and a driver that sends ranges to the
//! host. The functions here are the part between. `tell` stands for the driver: it sends a range, waits for the host's
//! answer, and returns an error if the host refused.
//!
//! A guest without the standard library writes [`report_free`] itself: it is one loop. This crate has it for guests
//! that run inside the hypervisor's process, and for tests of a hypervisor.

use framewright::request::{__GFP_NOMEMALLOC, __GFP_NORETRY, __GFP_NOWARN, GFP_USER};
use framewright::{Allocator, Machine, Order, Pfn, Request};
use vm_memory::GuestAddress;

use crate::error::Error;

/// What a pass of [`report_free`] told the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reported {
    /// Blocks.
    pub blocks: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

/// Returns the range of a guest's block: its address, and its size in bytes.
fn range_of<M: Machine>(pages: &Allocator<'_, M>, pfn: Pfn, order: Order) -> (GuestAddress, u64) {
    let shift = pages.geometry().page_shift;
    (GuestAddress(pfn.0 << shift), order.frames() << shift)
}

/// Tells the host of every free block of at least `least` that became free since the last pass.
///
/// The blocks are off the free lists while the host is told, 32 at a time. Drains the lists of CPUs first.
///
/// # Errors
/// The order is above the largest, or the host refused a range: its batch is free again, and the next pass meets it.
pub fn report_free<M: Machine>(
    pages: &Allocator<'_, M>,
    least: Order,
    mut tell: impl FnMut(GuestAddress, u64) -> Result<(), Error>,
) -> Result<Reported, Error> {
    pages.drain_all();
    let mut told = Reported::default();
    for batch in pages.report_free(least).map_err(Error::Guest)? {
        for &(pfn, order) in batch.blocks() {
            let (start, bytes) = range_of(pages, pfn, order);
            tell(start, bytes)?;
            told = Reported { blocks: told.blocks + 1, bytes: told.bytes + bytes };
        }
        batch.reported();
    }
    Ok(told)
}

/// A guest's balloon: blocks that it allocated and does not use, so that the host may.
///
/// Blocks that are in it when it is dropped stay allocated.
#[derive(Debug, Default)]
pub struct Balloon {
    blocks: Vec<(Pfn, Order)>,
    frames: u64,
}

impl Balloon {
    /// Returns an empty balloon.
    pub const fn new() -> Balloon {
        Balloon { blocks: Vec::new(), frames: 0 }
    }

    /// Returns its size in frames of the guest.
    pub const fn held(&self) -> u64 {
        self.frames
    }

    /// Takes up to `frames` frames from the guest's allocator and tells the host; returns their number.
    ///
    /// It takes the largest blocks up to the pageblock's order, of which the host gives whole huge pages back. It stops
    /// when memory is short: a balloon takes neither the reserves nor what others would have to free.
    ///
    /// # Errors
    /// The host refused a range. That block is free again, and those before it are in the balloon.
    pub fn inflate<M: Machine>(
        &mut self,
        pages: &Allocator<'_, M>,
        frames: u64,
        mut tell: impl FnMut(GuestAddress, u64) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let gfp = GFP_USER | __GFP_NORETRY | __GFP_NOMEMALLOC | __GFP_NOWARN;
        let (mut taken, mut largest) = (0, pages.geometry().pageblock_order);
        while taken < frames {
            let order = largest.min(Order((frames - taken).ilog2() as u8));
            let Ok(pfn) = pages.alloc(&Request { order, ..Request::page(gfp) }) else {
                if order == Order(0) {
                    break;
                }
                largest = Order(order.0 - 1);
                continue;
            };
            let (start, bytes) = range_of(pages, pfn, order);
            if let Err(error) = tell(start, bytes) {
                // The block is this function's: the free is not refused.
                let _ = pages.free(pfn, order);
                return Err(error);
            }
            self.blocks.push((pfn, order));
            self.frames += order.frames();
            taken += order.frames();
        }
        Ok(taken)
    }

    /// Gives at least `frames` frames back to the guest's allocator, or all there are; returns their number.
    ///
    /// The host is told of each block before the guest may use it (virtio: `VIRTIO_BALLOON_F_MUST_TELL_HOST`).
    ///
    /// # Errors
    /// The host refused a range. That block is still in the balloon.
    pub fn deflate<M: Machine>(
        &mut self,
        pages: &Allocator<'_, M>,
        frames: u64,
        mut tell: impl FnMut(GuestAddress, u64) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let before = self.frames;
        while before - self.frames < frames {
            let Some(&(pfn, order)) = self.blocks.last() else { break };
            let (start, bytes) = range_of(pages, pfn, order);
            tell(start, bytes)?;
            self.blocks.pop();
            self.frames -= order.frames();
            // The block is the balloon's: the free is not refused.
            let _ = pages.free(pfn, order);
        }
        Ok(before - self.frames)
    }
}
