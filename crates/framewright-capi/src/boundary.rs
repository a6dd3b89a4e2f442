//! The boundary: what every call of a C program passes first and last.
//!
//! A call finds the arena of its handle, and its pointers become the types of [`framewright_ffi::boundary`]. No panic
//! leaves it: this crate and the runtime may have bugs, and to unwind into C is undefined.

use std::ffi::{c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use framewright_ffi::numbers::{FW_E_ARENA, FW_E_INTERNAL, FW_OK};

use crate::handles::{ArenaRecord, Living, fw_arena};

/// Calls code that could have a bug: a panic becomes `FW_E_INTERNAL`, an error its number.
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), c_int>) -> c_int {
    let called = catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(FW_E_INTERNAL));
    called.err().unwrap_or(FW_OK)
}

/// Returns the living arena of a handle.
///
/// # Errors
/// There is none.
#[inline(always)]
pub(crate) fn living(arena: *const fw_arena) -> Result<Living<'static>, c_int> {
    ArenaRecord::of(arena).ok_or(FW_E_ARENA)
}

/// Whether a request is one that a short call may serve: for one page, with a place for the result.
///
/// The flags are not looked at. A first stage compares them with those of an earlier request, which were known ones.
#[inline(always)]
pub(crate) fn is_simple(order: c_uint, block: *mut *mut c_void) -> bool {
    // One branch for two of the three conditions.
    let low_bits = block.addr() as u32 & (align_of::<*mut c_void>() as u32 - 1);
    order | low_bits == 0 && !block.is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(guarded(|| panic!("planted")), FW_E_INTERNAL);
    }
}
