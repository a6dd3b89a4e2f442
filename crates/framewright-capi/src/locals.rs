//! The calls of one thread that makes many in a row.
#![allow(unsafe_code, reason = "pointers of C programs are used through `boundary.rs`, by their caller's promise")]

use std::ffi::{c_int, c_uint, c_void};

use framewright::{Gfp, Order, Pfn, Request};
use framewright_ffi::boundary::Out;
use framewright_ffi::bulk::Counts;
use framewright_ffi::error::Code;
use framewright_ffi::numbers::{FW_E_FLAGS, FW_E_LOCAL, FW_E_THREAD, FW_OK};
use framewright_ffi::request::{gfp, order_of};

use crate::boundary::{guarded, is_simple, living};
use crate::bulk::{self, alloc_bulk, free_bulk};
use crate::handles::{LocalRecord, fw_arena, fw_local};

/// Opens a local handle of an arena for the calling thread, and stores it in `*local`.
///
/// Its calls cost about a tenth less than the plain ones, which the thread may still make. The thread keeps one of the
/// arena's CPUs until it closes the handle. It is closed when the thread exits, at the latest.
///
/// With `cpus` of n, n - 1 handles can be open at once. A thread that has allocated, freed or validated has its CPU
/// until it exits, also without a handle. So set `cpus` to the number of such threads, plus one. Only with `cpus` of 1
/// do other threads wait while a handle is open, and none may grow or shrink the arena then.
///
/// @return 0; or an error: FW_E_ARENA, FW_E_NULL, FW_E_UNALIGNED; FW_E_HANDLES if the process has 4,096 open ones;
///         FW_E_NO_CPU if no CPU is free to be kept, or in a fork's child that cannot use the arena. It does not wait
///         for other threads; the plain calls work nevertheless.
///
/// Threads: the local handle is for this thread alone, and not for its signal handlers. A fork's child has only those
/// of the thread that forked.
///
/// # Safety
/// `local` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_local_open(arena: *mut fw_arena, local: *mut *mut fw_local) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        // SAFETY: the caller's promise.
        let local = unsafe { Out::new(local) }?;
        local.put(LocalRecord::open(living)?);
        Ok(())
    })
}

/// Closes a local handle. Blocks that were allocated through it stay allocated.
///
/// @return 0; FW_E_LOCAL if it is not open; FW_E_THREAD if another thread opened it.
///
/// Threads: the one that opened the local handle.
///
/// # Safety
/// No signal handler of this thread is using it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_local_close(local: *mut fw_local) -> c_int {
    let Some(open) = LocalRecord::of(local) else { return not_ours(local) };
    open.close();
    FW_OK
}

/// Says why a local handle is not this thread's.
#[cold]
#[inline(never)]
fn not_ours(local: *const fw_local) -> c_int {
    if LocalRecord::is_open(local) { FW_E_THREAD } else { FW_E_LOCAL }
}

/// Allocates as `fw_alloc` does, through a local handle.
///
/// @return As `fw_alloc`; FW_E_LOCAL, FW_E_THREAD.
///
/// Threads: the one that opened the local handle.
///
/// # Safety
/// `block` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_local_alloc(
    local: *mut fw_local,
    flags: u32,
    order: c_uint,
    block: *mut *mut c_void,
) -> c_int {
    if let Some(open) = LocalRecord::of(local)
        && is_simple(order, block)
        && let Ok(Some(pfn)) = open.cpu().alloc_pages_at_once(Gfp(flags), Order(0))
    {
        // SAFETY: the caller's promise, and what `is_simple` has checked.
        unsafe { block.write(open.place().pointer(pfn)) };
        return FW_OK;
    }
    // SAFETY: the caller's promise.
    unsafe { alloc_otherwise(local, flags, order, block) }
}

/// Serves what the first stage could not, and refuses what [`fw_local_alloc`] must refuse.
#[inline(never)]
unsafe extern "C" fn alloc_otherwise(
    local: *mut fw_local,
    flags: u32,
    order: c_uint,
    block: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        let open = LocalRecord::of(local).ok_or_else(|| not_ours(local))?;
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(block) }?;
        let gfp = gfp(flags).ok_or(FW_E_FLAGS)?;
        let pfn = open.cpu().alloc_pages(gfp, order_of(order)).map_err(|error| error.code())?;
        out.put(open.place().pointer(pfn));
        Ok(())
    })
}

/// Frees as `fw_free` does, through a local handle.
///
/// @return As `fw_free`; FW_E_LOCAL, FW_E_THREAD.
///
/// Threads: the one that opened the local handle.
///
/// # Safety
/// As `fw_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_local_free(local: *mut fw_local, block: *mut c_void, order: c_uint) -> c_int {
    if let Some(open) = LocalRecord::of(local)
        && order == 0
        && open.cpu().free_at_once(open.place().frame(block), Order(0))
    {
        return FW_OK;
    }
    free_otherwise(local, block, order)
}

/// Frees what the first stage could not, and refuses what [`fw_local_free`] must refuse.
#[inline(never)]
extern "C" fn free_otherwise(local: *mut fw_local, block: *mut c_void, order: c_uint) -> c_int {
    guarded(|| {
        let open = LocalRecord::of(local).ok_or_else(|| not_ours(local))?;
        let freed = open.cpu().free(open.place().frame(block), order_of(order));
        freed.map_err(|error| open.free_error(error))
    })
}

/// Allocates as `fw_alloc_bulk` does, through a local handle.
///
/// @return As `fw_alloc_bulk`; FW_E_LOCAL, FW_E_THREAD.
///
/// Threads: the one that opened the local handle.
///
/// # Safety
/// As `fw_alloc_bulk`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_local_alloc_bulk(
    local: *mut fw_local,
    flags: u32,
    order: c_uint,
    count: usize,
    blocks: *mut *mut c_void,
    allocated: *mut usize,
) -> c_int {
    let alloc = || {
        let open = LocalRecord::of(local).ok_or_else(|| not_ours(local))?;
        let alloc = |request: &Request, pfns: &mut [Pfn]| open.cpu().alloc_bulk(request, pfns);
        // SAFETY: the caller's promise.
        unsafe { alloc_bulk(open.place(), (flags, order), (count, blocks), alloc) }
    };
    // SAFETY: as above.
    guarded(|| unsafe { bulk::count(allocated, alloc) })
}

/// Frees as `fw_free_bulk` does, through a local handle.
///
/// @return As `fw_free_bulk`; FW_E_LOCAL, FW_E_THREAD.
///
/// Threads: the one that opened the local handle.
///
/// # Safety
/// As `fw_free_bulk`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_local_free_bulk(
    local: *mut fw_local,
    order: c_uint,
    count: usize,
    blocks: *const *mut c_void,
    freed: *mut usize,
    refused: *mut usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let counts = unsafe { Counts::new(freed, refused) }?;
        let open = LocalRecord::of(local).ok_or_else(|| not_ours(local))?;
        let free = |pfns: &[Pfn], order| open.cpu().free_bulk(pfns, order);
        // SAFETY: as above.
        unsafe { free_bulk(open.place(), order, (count, blocks), counts, free, |error| open.free_error(error)) }
    })
}
