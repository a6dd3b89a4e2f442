//! The calls that kernels make often: allocating and freeing blocks, one by one, in bulk, and from any context.
//!
//! A frame is a number, and every number is above any error. So an allocation returns the one or the other, and needs
//! no place for its result. `fw_kernel_alloc` and `fw_kernel_free` serve a single frame by the core's fast path; all
//! else goes out of line.
//!
//! Rejected: results through pointers, as in the interface of programs, where an address may be any number. It would be
//! a test for NULL and a store more.
#![allow(unsafe_code, reason = "pointers of a C kernel are used through `framewright_ffi`, by its promise")]

use core::ffi::{c_int, c_uint};
use core::mem::MaybeUninit;

use framewright::units::{Order, Pfn};
use framewright::{Gfp, Request};
use framewright_ffi::boundary::{InArray, OutArray};
use framewright_ffi::bulk::Counts;
use framewright_ffi::error::{Code, count, status};
use framewright_ffi::numbers::FW_OK;
use framewright_ffi::request::order_of;

use crate::kernel::{booted, pages};
use crate::request::{node_of, request_of};

/// Allocates a block of 2^`order` frames; returns its first.
///
/// The frame's number is a multiple of 2^`order`. The contents are those of the last use, unless `flags` has FW_ZERO.
///
/// @param flags  FW_KERNEL or another request, joined with further FW_ flags by `|`.
/// @return The frame; or an error: FW_E_NO_MEMORY, FW_E_FRAGMENTED, FW_E_WOULD_WAIT, FW_E_NO_ZONE, FW_E_ORDER,
///         FW_E_FLAGS, FW_E_HOOK, FW_E_NO_CPU, FW_E_NOT_BOOTED.
///
/// Context: each that the library is built for; only a task may wait, so others use FW_ATOMIC or FW_NOWAIT.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_alloc(flags: u32, order: c_uint) -> i64 {
    if let Some(pages) = pages()
        && order == 0
        && let Ok(Some(pfn)) = pages.alloc_pages_at_once(Gfp(flags), Order(0))
    {
        return pfn.0 as i64;
    }
    alloc_otherwise(flags, order)
}

/// Serves what the first stage could not, and refuses what [`fw_kernel_alloc`] must refuse.
#[inline(never)]
extern "C" fn alloc_otherwise(flags: u32, order: c_uint) -> i64 {
    let alloc = || {
        let (pages, request) = (booted()?, request_of(flags, order)?);
        pages.alloc_pages(request.gfp, request.order).map_err(|error| error.code())
    };
    count(alloc().map(|pfn| pfn.0))
}

/// Allocates by a request.
fn alloc(request: Result<Request, c_int>) -> i64 {
    let alloc = || booted()?.alloc(&request?).map(|pfn| pfn.0).map_err(|error| error.code());
    count(alloc())
}

/// Allocates as `fw_kernel_alloc` does, from a node if possible; with FW_THISNODE from no other.
///
/// @return As `fw_kernel_alloc`; FW_E_NODE if there is no such node; FW_E_LEFT_OUT in a library with `minimal`.
///
/// Context: as of `fw_kernel_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_alloc_on(node: c_uint, flags: u32, order: c_uint) -> i64 {
    alloc(booted().and_then(|_| Ok(request_of(flags, order)?.on(node_of(node)?))))
}

/// Allocates as `fw_kernel_alloc` does, all frames below a limit, such as that of a device's addresses.
///
/// @param limit  First frame that the block must not reach.
/// @return As `fw_kernel_alloc`; FW_E_LEFT_OUT in a library with `minimal`.
///
/// Context: as of `fw_kernel_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_alloc_below(limit: u64, flags: u32, order: c_uint) -> i64 {
    alloc(booted().and_then(|_| Ok(Request { below: Some(Pfn(limit)), ..request_of(flags, order)? })))
}

/// Frees a block that was allocated with this order.
///
/// @return 0; or an error, and then nothing has changed: FW_E_ALREADY_FREE, FW_E_WRONG_ORDER, FW_E_NOT_HEAD,
///         FW_E_MISALIGNED, FW_E_FOREIGN, FW_E_ORDER, FW_E_OFFLINE, FW_E_QUARANTINED, FW_E_NO_CPU, FW_E_NOT_BOOTED.
///
/// Context: each that the library is built for. Two CPUs that free one block in the same instant may both succeed,
/// unless the mechanism `hardened` is on.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_free(frame: u64, order: c_uint) -> c_int {
    if let Some(pages) = pages()
        && order == 0
        && pages.free_pages_at_once(Pfn(frame), Order(0))
    {
        return FW_OK;
    }
    free_otherwise(frame, order)
}

/// Frees what the first stage could not, and refuses what [`fw_kernel_free`] must refuse.
#[inline(never)]
extern "C" fn free_otherwise(frame: u64, order: c_uint) -> c_int {
    let free = || booted()?.free_pages(Pfn(frame), order_of(order)).map_err(|error| error.code());
    status(free())
}

/// Allocates up to `wanted` blocks of 2^`order` frames and stores their first frames in `frames`.
///
/// Cheaper than one by one. Stops when memory is short.
///
/// @param frames  Array of `wanted` entries; those after the last block are unchanged. May be NULL if `wanted` is 0.
/// @return The number of blocks, which is less than `wanted` when memory is short; or an error if there is not even
///         one: as of `fw_kernel_alloc`, FW_E_NULL, FW_E_UNALIGNED, FW_E_OVERFLOW.
///
/// Context: as of `fw_kernel_alloc`.
///
/// # Safety
/// `wanted` numbers can be written to `frames`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_kernel_alloc_bulk(flags: u32, order: c_uint, wanted: usize, frames: *mut u64) -> i64 {
    let alloc = || {
        let (pages, request) = (booted()?, request_of(flags, order)?);
        // SAFETY: the caller's promise.
        let mut frames = unsafe { OutArray::new(frames, wanted) }?;
        let mut entries = frames.entries().iter_mut();
        let take = |pfn: Pfn| {
            entries.next().map(|entry: &mut MaybeUninit<u64>| entry.write(pfn.0));
        };
        pages.alloc_each(&request, wanted, take).map(|done| done as u64).map_err(|error| error.code())
    };
    count(alloc())
}

/// Frees `given` blocks that were allocated with this order. Each is freed or refused on its own.
///
/// @param frames   Array of `given` first frames. May be NULL if `given` is 0.
/// @param freed    Where the number of freed blocks is stored; NULL for nowhere.
/// @param refused  Where the index of the first block that was refused is stored, if there is one; NULL for nowhere.
/// @return 0 if all were freed; else the error of the first that was refused, as of `fw_kernel_free`. The others are
///         freed nevertheless. FW_E_NULL, FW_E_UNALIGNED and FW_E_OVERFLOW are about the pointers: nothing was freed.
///
/// Context: as of `fw_kernel_free`.
///
/// # Safety
/// `frames` holds `given` numbers, and a number can be written to `freed` and to `refused`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_kernel_free_bulk(
    order: c_uint,
    given: usize,
    frames: *const u64,
    freed: *mut usize,
    refused: *mut usize,
) -> c_int {
    let free = || {
        // SAFETY: the caller's promise. A `Pfn` is a transparent number.
        let (counts, frames) = unsafe { (Counts::new(freed, refused)?, InArray::new(frames.cast::<Pfn>(), given)?) };
        let pages = booted()?;
        counts.tell(pages.free_bulk(frames.values(), order_of(order))).map_err(|error| error.code())
    };
    status(free())
}

/// Allocates a block from any context, an NMI included; never waits.
///
/// Takes it from a zone whose lock is free at this moment. Flags that ask for reclaim are ignored.
///
/// @param order  One that the lists of CPUs keep: 0 to 3, and that of a pageblock.
/// @return As `fw_kernel_alloc`; FW_E_LOCKED if a zone that might have served it was locked; FW_E_NOT_KEPT for another
///         order.
///
/// Context: any.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_alloc_nolock(flags: u32, order: c_uint) -> i64 {
    let alloc = || {
        let (pages, request) = (booted()?, request_of(flags, order)?);
        pages.any_context().alloc(&request).map_err(|error| error.code())
    };
    count(alloc().map(|pfn| pfn.0))
}

/// Frees a block from any context, an NMI included; never waits.
///
/// If the zone is locked, the next holder of its lock frees the block.
///
/// @return As `fw_kernel_free`; FW_E_FREES if too many other CPUs do so at once, and then nothing has changed.
///
/// Context: any.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_free_nolock(frame: u64, order: c_uint) -> c_int {
    let free = || booted()?.any_context().free(Pfn(frame), order_of(order)).map_err(|error| error.code());
    status(free())
}
