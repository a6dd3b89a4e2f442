//! Bulk calls: addresses become frames and frames addresses, a part at a time.
#![allow(unsafe_code, reason = "pointers of C programs are used through `boundary.rs`, by their caller's promise")]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use framewright::{AllocError, BulkFree, FreeError, Pfn};
use framewright_ffi::boundary::Out;
use framewright_ffi::error::Code;

use crate::place::Place;

/// Blocks that a bulk call converts at a time.
const BULK: usize = 64;

/// Allocates blocks, a part at a time; returns how many.
///
/// # Errors
/// As `alloc`, if not even one block was allocated.
pub(crate) fn alloc_bulk(
    place: &Place,
    blocks: &mut [MaybeUninit<*mut c_void>],
    alloc: impl Fn(&mut [Pfn]) -> Result<usize, AllocError>,
) -> Result<usize, c_int> {
    let (mut pfns, mut done) = ([Pfn(0); BULK], 0);
    for visit in blocks.chunks_mut(BULK) {
        let pfns = &mut pfns[..visit.len()];
        let served = match alloc(pfns) {
            Ok(served) => served,
            Err(error) if done == 0 => return Err(error.code()),
            Err(_) => break,
        };
        place.pointers(&pfns[..served], visit);
        done += served;
        if served < visit.len() {
            break;
        }
    }
    Ok(done)
}

/// Frees blocks, a part at a time.
pub(crate) fn free_bulk(place: &Place, blocks: &[*mut c_void], free: impl Fn(&[Pfn]) -> BulkFree) -> BulkFree {
    let (mut pfns, mut result) = ([Pfn(0); BULK], BulkFree::default());
    for visit in blocks.chunks(BULK) {
        let pfns = &mut pfns[..visit.len()];
        place.frames(visit, pfns);
        result.add(free(pfns));
    }
    result
}

/// Where a program wants to read what became of the blocks that it freed.
pub(crate) struct Counts {
    freed: Option<Out<usize>>,
    refused: Option<Out<usize>>,
}

impl Counts {
    /// # Errors
    /// A pointer is not aligned.
    ///
    /// # Safety
    /// A number can be written to each that is not NULL.
    pub(crate) unsafe fn new(freed: *mut usize, refused: *mut usize) -> Result<Self, c_int> {
        // SAFETY: the caller's promise.
        unsafe { Ok(Counts { freed: Out::optional(freed)?, refused: Out::optional(refused)? }) }
    }

    /// Stores the numbers.
    ///
    /// # Errors
    /// The reason for the first refusal.
    pub(crate) fn tell(self, result: BulkFree) -> Result<(), FreeError> {
        if let Some(freed) = self.freed {
            freed.put(result.freed);
        }
        let Some((at, error)) = result.first else { return Ok(()) };
        if let Some(refused) = self.refused {
            refused.put(at);
        }
        Err(error)
    }
}
