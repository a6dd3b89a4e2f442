//! What became of the blocks of a bulk free, as a C caller reads it.
#![allow(unsafe_code, reason = "the caller's promise about its pointers is passed on to `boundary.rs`")]

use core::ffi::c_int;

use framewright::{BulkFree, FreeError};

use crate::boundary::Out;

/// Where a C caller wants to read what became of the blocks that it freed.
pub struct Counts {
    freed: Option<Out<usize>>,
    refused: Option<Out<usize>>,
}

impl Counts {
    /// Checks both places, for the number of blocks freed, which is 0 so far, and for the index of the first refused.
    ///
    /// # Errors
    /// A pointer is not aligned.
    ///
    /// # Safety
    /// A number can be written to each that is not NULL.
    pub unsafe fn new(freed: *mut usize, refused: *mut usize) -> Result<Counts, c_int> {
        // SAFETY: the caller's promise.
        let (mut freed, refused) = unsafe { (Out::optional(freed)?, Out::optional(refused)?) };
        if let Some(freed) = &mut freed {
            freed.set(0);
        }
        Ok(Counts { freed, refused })
    }

    /// Stores the numbers.
    ///
    /// # Errors
    /// The reason for the first refusal.
    pub fn tell(self, result: BulkFree) -> Result<(), FreeError> {
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
