//! One block of an arena as a region of a guest's physical memory.
//!
//! # Soundness
//!
//! A guest writes to its memory at any time, and so does each device. So no code may have a reference to a byte of it.
//! The block of a region is private, and dereferenced by nobody after the region is made. All access is volatile:
//! through `VolatileSlice`, or by addresses that a hypervisor maps into its guest. The region owns the block, so its
//! memory stays as long as a slice that borrows from the region.
//!
//! # Contents
//!
//! A block of an arena has the contents of its last use, which may be another guest's secrets. A region gives its
//! contents back to the system when it is made and when it is dropped. So a guest begins with zeros that take no
//! memory, and after its end the memory is the system's again, as after an `munmap`. Memory that cannot be given back
//! is cleared when the region is made.
//!
//! Cost: a system call for each block, at either end.
//!
//! Rejected: `__GFP_ZERO`. It would write to all of the guest's memory, and make it resident.
#![allow(unsafe_code, reason = "raw memory becomes a volatile slice; each block says what it relies on")]

use std::sync::Arc;

use framewright::{Order, PfnRange};
use framewright_rt::{ArenaError, Backing, OwnedPages};
use vm_memory::bitmap::{BS, Bitmap, NewBitmap};
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryError, GuestMemoryRegion, GuestMemoryRegionBytes, GuestUsize,
    MemoryRegionAddress, VolatileSlice,
};

/// A block of an arena at an address of a guest.
///
/// `B` notes which pages were written to, for live migration; `()` notes nothing.
#[derive(Debug)]
pub struct GuestRegionArena<B = ()> {
    /// Its bytes are read and written as volatile memory only.
    block: OwnedPages,
    start: GuestAddress,
    file: Option<FileOffset>,
    bitmap: B,
}

impl<B: NewBitmap> GuestRegionArena<B> {
    /// Lays a block at `start`, without its contents; returns none if it would end beyond the largest address.
    ///
    /// Other processes may map the region at the place of the arena's file that `file` says.
    pub(crate) fn new(mut block: OwnedPages, start: GuestAddress, file: Option<FileOffset>) -> Option<Self> {
        start.0.checked_add(block.len() as u64)?;
        if block.discard().is_err() {
            block.fill(0);
        }
        let bitmap = B::with_len(block.len());
        Some(GuestRegionArena { block, start, file, bitmap })
    }
}

impl<B> GuestRegionArena<B> {
    /// Returns the order of its block: the region has 2^order pages of the arena.
    pub fn order(&self) -> Order {
        self.block.order()
    }

    /// Returns the size of a page of the arena, the unit of what is given back.
    pub fn page_size(&self) -> u64 {
        self.block.arena().page_size() as u64
    }

    /// Gives the whole pages in `bytes` bytes from `at` on back to the system; returns their size in bytes.
    ///
    /// They read as zero afterwards. What reaches out of the region is left alone.
    ///
    /// # Errors
    /// The memory is huge pages or was handed in, or the system refused.
    pub fn discard(&self, at: MemoryRegionAddress, bytes: u64) -> Result<u64, ArenaError> {
        let (page, len) = (self.page_size(), self.block.len() as u64);
        let first = at.0.div_ceil(page).min(len / page);
        let end = (at.0.saturating_add(bytes).min(len) / page).max(first);
        let head = self.block.pfn();
        let range = PfnRange { start: head.add(first), end: head.add(end) };
        if !range.is_empty() {
            // SAFETY: the frames are the block's, which is this region's. No reference to its contents exists: all
            // access is volatile.
            unsafe { self.block.arena().discard(range) }?;
        }
        Ok((end - first) * page)
    }
}

impl<B> Drop for GuestRegionArena<B> {
    fn drop(&mut self) {
        // Where this is refused, the next guest's region is cleared.
        let _ = self.block.discard();
    }
}

impl<B: Bitmap> GuestMemoryRegion for GuestRegionArena<B> {
    type B = B;

    fn len(&self) -> GuestUsize {
        self.block.len() as GuestUsize
    }

    fn start_addr(&self) -> GuestAddress {
        self.start
    }

    fn bitmap(&self) -> BS<'_, B> {
        self.bitmap.slice_at(0)
    }

    fn get_host_address(&self, addr: MemoryRegionAddress) -> Result<*mut u8, GuestMemoryError> {
        let addr = self.check_address(addr).ok_or(GuestMemoryError::InvalidBackendAddress)?;
        Ok(self.block.address().as_ptr().wrapping_add(addr.0 as usize))
    }

    fn file_offset(&self) -> Option<&FileOffset> {
        self.file.as_ref()
    }

    fn get_slice(
        &self,
        offset: MemoryRegionAddress,
        count: usize,
    ) -> Result<VolatileSlice<'_, BS<'_, B>>, GuestMemoryError> {
        let end = offset.0.checked_add(count as u64).filter(|&end| end <= self.len());
        end.ok_or(GuestMemoryError::InvalidBackendAddress)?;
        let at = offset.0 as usize;
        // SAFETY: `at` is at most the block's size.
        let start = unsafe { self.block.address().add(at) };
        // SAFETY: the bytes lie in the block, which the region keeps for as long as the slice borrows it. Every other
        // user of them is volatile, as the module's description says.
        Ok(unsafe { VolatileSlice::with_bitmap(start.as_ptr(), count, self.bitmap.slice_at(at), None) })
    }

    fn is_hugetlbfs(&self) -> Option<bool> {
        Some(matches!(self.block.arena().report().backing?, Backing::Hugetlb(_)))
    }
}

impl<B: Bitmap> GuestMemoryRegionBytes for GuestRegionArena<B> {}

/// Returns the place of a block in its arena's file.
pub(crate) fn place_in(file: &Arc<std::fs::File>, block: &OwnedPages) -> FileOffset {
    let frames = block.pfn().0 - block.arena().frames().start.0;
    FileOffset::from_arc(Arc::clone(file), frames * block.arena().page_size() as u64)
}

/// Returns a descriptor of the file of an arena; none if its memory has no file.
///
/// # Safety
/// As [`framewright_rt::Arena::memfd`].
pub(crate) unsafe fn file_of(arena: &framewright_rt::Arena) -> Option<std::io::Result<std::fs::File>> {
    // SAFETY: the caller's promise.
    let file = unsafe { arena.memfd() }?;
    Some(file.try_clone_to_owned().map(std::fs::File::from))
}
