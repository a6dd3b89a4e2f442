//! The host's side of virtio-balloon: what a device does with the ranges that a guest names.
//!
//! | virtio | call | the host's pages |
//! |---|---|---|
//! | free page reporting | [`BalloonDevice::report`] | given back; the guest uses them again whenever it likes |
//! | inflate queue | [`BalloonDevice::inflate`] | given back; the guest does not use them before it deflates |
//! | deflate queue | [`BalloonDevice::deflate`] | come back at the guest's first use, as zeros |
//!
//! A guest is not trusted. A range that is not all memory is refused before anything is done. A page that is inflated
//! twice counts once.
//!
//! # Pages of two sizes
//!
//! A balloon counts pages of 4 KiB, whatever the pages of guest and host are. A host whose pages are larger may give
//! one back only when all of it is in the balloon. So the device keeps the set of inflated addresses, and looks after
//! each call at the host's pages that the call completed.
//!
//! Cost: a system call for each region that a range touches. Memory for each range of the balloon that touches no
//! other.
//!
//! Rejected: a bitmap for each host page. It takes memory for pages that are not in the balloon.

use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryRegion, MemoryRegionAddress, bitmap::Bitmap};

use crate::error::Error;
use crate::memory::GuestMemoryArena;
use crate::range_set::RangeSet;
use crate::region::GuestRegionArena;

/// Unit of a balloon in bytes (virtio: `VIRTIO_BALLOON_PFN_SHIFT`).
pub const BALLOON_PAGE: u64 = 4096;

/// A balloon device's work on a guest's memory.
#[derive(Debug)]
pub struct BalloonDevice<B = ()> {
    memory: GuestMemoryArena<B>,
    inflated: RangeSet,
    given_back: u64,
}

impl<B: Bitmap> BalloonDevice<B> {
    /// Returns a device with an empty balloon.
    pub fn new(memory: GuestMemoryArena<B>) -> BalloonDevice<B> {
        BalloonDevice { memory, inflated: RangeSet::default(), given_back: 0 }
    }

    /// Gives the host's whole pages in a range back, which the guest reports as free; returns their size in bytes.
    ///
    /// What the guest reads there next is zero, or what it was; the specification leaves either open.
    ///
    /// # Errors
    /// The range is not all memory. Or the arena gives nothing back, perhaps after a part of the range was given back:
    /// such a device must not offer the feature.
    pub fn report(&mut self, start: GuestAddress, bytes: u64) -> Result<u64, Error> {
        self.check(start, bytes, 1)?;
        self.give_back(start.0, start.0 + bytes)
    }

    /// Takes a range into the balloon and gives the host's pages back that are all in it; returns their size in bytes.
    ///
    /// # Errors
    /// As [`BalloonDevice::report`]; or start and size are no multiples of [`BALLOON_PAGE`]. If only the arena refuses,
    /// the range is in the balloon nevertheless.
    pub fn inflate(&mut self, start: GuestAddress, bytes: u64) -> Result<u64, Error> {
        self.check(start, bytes, BALLOON_PAGE)?;
        let end = start.0 + bytes;
        let around = self.inflated.insert(start.0..end);
        let page = self.memory.find_region(start).map_or(BALLOON_PAGE, GuestRegionArena::page_size);
        // A page at either end may have been completed by this call.
        let first = (start.0 - start.0 % page).max(around.start);
        self.give_back(first, end.checked_next_multiple_of(page).unwrap_or(end).min(around.end))
    }

    /// Takes a range out of the balloon, before the guest uses it again.
    ///
    /// # Errors
    /// The range is not all memory, or start and size are no multiples of [`BALLOON_PAGE`].
    pub fn deflate(&mut self, start: GuestAddress, bytes: u64) -> Result<(), Error> {
        self.check(start, bytes, BALLOON_PAGE)?;
        self.inflated.remove(start.0..start.0 + bytes);
        Ok(())
    }

    /// Returns the size of the balloon in bytes (virtio: `actual`, in other units).
    pub fn inflated(&self) -> u64 {
        self.inflated.count()
    }

    /// Returns the bytes given back so far, by reports and by the balloon. The guest may have used them again.
    pub fn given_back(&self) -> u64 {
        self.given_back
    }

    /// Gives the host's whole pages in a range back, region by region.
    fn give_back(&mut self, start: u64, end: u64) -> Result<u64, Error> {
        let (mut next, mut given) = (start, 0);
        while let Some(region) = self.memory.find_region(GuestAddress(next)).filter(|_| next < end) {
            let base = region.start_addr().0;
            given += region.discard(MemoryRegionAddress(next - base), end - next)?;
            next = base + region.len();
        }
        self.given_back += given;
        Ok(given)
    }

    /// Refuses a range that is empty, no multiple of `unit`, or not all memory.
    fn check(&self, start: GuestAddress, bytes: u64, unit: u64) -> Result<(), Error> {
        let start = start.0;
        let end = start.checked_add(bytes).filter(|&end| end != start && (start | end).is_multiple_of(unit));
        let end = end.ok_or(Error::BadRange { start, bytes, unit })?;
        let mut next = start;
        while next < end {
            let region = self.memory.find_region(GuestAddress(next)).ok_or(Error::NotMemory { start, bytes })?;
            next = region.start_addr().0 + region.len();
        }
        Ok(())
    }
}
