//! Bulk calls: addresses become frames and frames addresses, a part at a time.
//!
//! The plain calls and those of a local handle differ in whose allocator they call, which is an argument here.
#![allow(unsafe_code, reason = "pointers of C programs are used through `boundary.rs`, by their caller's promise")]

use std::ffi::{c_int, c_uint, c_void};

use framewright::{AllocError, BulkFree, FreeError, Order, Pfn, Request};
use framewright_ffi::boundary::{InArray, Out, OutArray};
use framewright_ffi::bulk::Counts;
use framewright_ffi::error::Code;
use framewright_ffi::numbers::FW_E_FLAGS;
use framewright_ffi::request::{gfp, order_of};

use crate::place::Place;

/// Blocks that are converted at a time.
const BULK: usize = 64;

/// Stores how many blocks `alloc` allocated; 0 after an error.
///
/// # Errors
/// Those of `alloc`; the pointer is NULL or misaligned.
///
/// # Safety
/// A number can be written to `allocated`.
pub(crate) unsafe fn count(allocated: *mut usize, alloc: impl FnOnce() -> Result<usize, c_int>) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    let allocated = unsafe { Out::new(allocated) }?;
    let served = alloc();
    allocated.put(served.unwrap_or(0));
    served.map(|_| ())
}

/// Allocates `count` blocks by `alloc`, and stores their addresses; returns how many.
///
/// # Errors
/// Those of `fw_alloc_bulk`.
///
/// # Safety
/// `count` pointers can be written to `blocks`.
pub(crate) unsafe fn alloc_bulk(
    place: &Place,
    (flags, order): (u32, c_uint),
    (count, blocks): (usize, *mut *mut c_void),
    alloc: impl Fn(&Request, &mut [Pfn]) -> Result<usize, AllocError>,
) -> Result<usize, c_int> {
    // SAFETY: the caller's promise.
    let mut blocks = unsafe { OutArray::new(blocks, count) }?;
    let request = Request { order: order_of(order), ..Request::page(gfp(flags).ok_or(FW_E_FLAGS)?) };
    let (mut pfns, mut done) = ([Pfn(0); BULK], 0);
    for visit in blocks.entries().chunks_mut(BULK) {
        let pfns = &mut pfns[..visit.len()];
        let served = match alloc(&request, pfns) {
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

/// Frees `count` blocks by `free`, and stores what became of them.
///
/// # Errors
/// Those of `fw_free_bulk`; `code` says which number a refusal has.
///
/// # Safety
/// `blocks` holds `count` pointers.
pub(crate) unsafe fn free_bulk(
    place: &Place,
    order: c_uint,
    (count, blocks): (usize, *const *mut c_void),
    counts: Counts,
    free: impl Fn(&[Pfn], Order) -> BulkFree,
    code: impl FnOnce(FreeError) -> c_int,
) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    let blocks = unsafe { InArray::new(blocks, count) }?;
    let (mut pfns, mut result) = ([Pfn(0); BULK], BulkFree::default());
    for visit in blocks.values().chunks(BULK) {
        let pfns = &mut pfns[..visit.len()];
        place.frames(visit, pfns);
        result.add(free(pfns, order_of(order)));
    }
    counts.tell(result).map_err(code)
}
