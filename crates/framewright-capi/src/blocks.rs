//! The calls that programs make often: allocating and freeing blocks, one by one, in bulk, and as ranges.
//!
//! `fw_alloc` and `fw_free` test their handle and pointers, and then serve a single page by the core's fast path. All
//! else goes out of line: other orders, and the search for the right error. So a short call keeps its registers.
//!
//! Cost: `examples/calls.rs` counts it; at most 1.2 times the same call in Rust.
//!
//! Rejected: returning the address, and the error by another call. It saves two instructions of about sixty.
#![allow(unsafe_code, reason = "pointers of C programs are used through `boundary.rs`, by their caller's promise")]

use std::ffi::{c_int, c_uint, c_void};

use framewright::{Gfp, NodeId, Order, Pfn, PfnRange, Policy, Request};
use framewright_ffi::boundary::Out;
use framewright_ffi::bulk::Counts;
use framewright_ffi::error::Code;
use framewright_ffi::numbers::{FW_E_ALIGNMENT, FW_E_FLAGS, FW_E_FOREIGN, FW_E_NODE, FW_E_NULL, FW_OK};
use framewright_ffi::request::{gfp, order_of};

use crate::boundary::{guarded, is_simple, living};
use crate::bulk::{self, alloc_bulk, free_bulk};
use crate::handles::{ArenaRecord, Living, fw_arena};

/// Allocates a block of 2^`order` pages and stores its address in `*block`.
///
/// The block's address is a multiple of its size: the address of a part, less its low bits, is that of the block. In
/// memory that was handed in this is so as far as that memory's start is a multiple. The block's contents are those of
/// its last use, unless `flags` has FW_ZERO.
///
/// @param flags  FW_USER or another request, joined with further FW_ flags by `|`.
/// @param order  Binary logarithm of the number of pages.
/// @return 0; or an error, and then `*block` is unchanged: FW_E_NO_MEMORY, FW_E_FRAGMENTED, FW_E_WOULD_WAIT,
///         FW_E_NO_ZONE, FW_E_ORDER, FW_E_FLAGS, FW_E_ARENA, FW_E_NULL, FW_E_UNALIGNED, FW_E_NO_CPU,
///         FW_E_IN_INTERRUPT.
///
/// Threads: any. Ownership: the caller owns the block until it frees it, from any thread.
///
/// # Safety
/// `block` is NULL, or a pointer can be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_alloc(arena: *mut fw_arena, flags: u32, order: c_uint, block: *mut *mut c_void) -> c_int {
    if let Some(living) = ArenaRecord::of(arena)
        && is_simple(order, block)
        && let Ok(Some(pfn)) = living.pages().alloc_pages_at_once(Gfp(flags), Order(0))
    {
        // SAFETY: the caller's promise, and what `is_simple` has checked.
        unsafe { block.write(living.place().pointer(pfn)) };
        return FW_OK;
    }
    // SAFETY: the caller's promise.
    unsafe { alloc_otherwise(arena, flags, order, block) }
}

/// Serves what the first stage could not, and refuses what [`fw_alloc`] must refuse.
#[inline(never)]
unsafe extern "C" fn alloc_otherwise(
    arena: *mut fw_arena,
    flags: u32,
    order: c_uint,
    block: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    guarded(|| unsafe { alloc(arena, flags, order, block, |request| request) })
}

/// # Safety
/// As [`fw_alloc`].
unsafe fn alloc(
    arena: *mut fw_arena,
    flags: u32,
    order: c_uint,
    block: *mut *mut c_void,
    specify: impl FnOnce(Request) -> Request,
) -> Result<(), c_int> {
    let living = living(arena)?;
    // SAFETY: the caller's promise.
    let out = unsafe { Out::new(block) }?;
    let request = Request { order: order_of(order), ..Request::page(gfp(flags).ok_or(FW_E_FLAGS)?) };
    let request = specify(request);
    let pfn = match request.policy {
        Policy::Local => living.pages().alloc_pages(request.gfp, request.order),
        _ => living.pages().alloc(&request),
    };
    let pfn = pfn.map_err(|error| error.code())?;
    out.put(living.place().pointer(pfn));
    Ok(())
}

/// Allocates as `fw_alloc` does, from a node of the arena if possible; with FW_THISNODE from no other.
///
/// @param node  Number of a node of the arena, counted from 0.
/// @return As `fw_alloc`; FW_E_NODE if there is no such node.
///
/// Threads: any.
///
/// # Safety
/// As `fw_alloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_alloc_on(
    arena: *mut fw_arena,
    node: c_uint,
    flags: u32,
    order: c_uint,
    block: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        let node = u8::try_from(node).map(NodeId).map_err(|_| FW_E_NODE);
        // SAFETY: the caller's promise.
        node.and_then(|node| unsafe { alloc(arena, flags, order, block, |request| request.on(node)) })
    })
}

/// Frees a block that was allocated with this order.
///
/// @return 0; or an error, and then nothing has changed: FW_E_ALREADY_FREE, FW_E_WRONG_ORDER, FW_E_NOT_HEAD,
///         FW_E_MISALIGNED, FW_E_FOREIGN, FW_E_OFFLINE, FW_E_ORDER, FW_E_NULL, FW_E_ARENA, FW_E_QUARANTINED,
///         FW_E_NO_CPU, FW_E_FREES.
///
/// FW_E_WRONG_ORDER names a block that begins here; `fw_find` tells its order.
///
/// Threads: any. Two threads that free one block in the same instant may both succeed, unless the arena is hardened.
///
/// # Safety
/// The caller owns the block, if it is allocated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_free(arena: *mut fw_arena, block: *mut c_void, order: c_uint) -> c_int {
    if let Some(living) = ArenaRecord::of(arena)
        && order == 0
        && living.pages().free_pages_at_once(living.place().frame(block), Order(0))
    {
        return FW_OK;
    }
    free_otherwise(arena, block, order)
}

/// Frees what the first stage could not, and refuses what [`fw_free`] must refuse.
#[inline(never)]
extern "C" fn free_otherwise(arena: *mut fw_arena, block: *mut c_void, order: c_uint) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        let freed = living.pages().free_pages(living.place().frame(block), order_of(order));
        freed.map_err(|error| living.free_error(error))
    })
}

/// Allocates up to `count` blocks of 2^`order` pages and stores their addresses in `blocks`.
///
/// Cheaper than one by one. Stops when memory is short.
///
/// @param blocks     Array of `count` entries; those after `*allocated` are unchanged. May be NULL if `count` is 0.
/// @param allocated  Where the number of blocks is stored.
/// @return 0 if at least one block was allocated or `count` is 0; or an error as of `fw_alloc`, and then `*allocated`
///         is 0. FW_E_OVERFLOW if the array is larger than addresses can tell apart.
///
/// Threads: any.
///
/// # Safety
/// `count` pointers can be written to `blocks`, and a number to `allocated`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_alloc_bulk(
    arena: *mut fw_arena,
    flags: u32,
    order: c_uint,
    count: usize,
    blocks: *mut *mut c_void,
    allocated: *mut usize,
) -> c_int {
    let alloc = || {
        let living = living(arena)?;
        let alloc = |request: &Request, pfns: &mut [Pfn]| living.pages().alloc_bulk(request, pfns);
        // SAFETY: the caller's promise.
        unsafe { alloc_bulk(living.place(), (flags, order), (count, blocks), alloc) }
    };
    // SAFETY: as above.
    guarded(|| unsafe { bulk::count(allocated, alloc) })
}

/// Frees `count` blocks that were allocated with this order. Each is freed or refused on its own.
///
/// @param blocks   Array of `count` addresses. May be NULL if `count` is 0.
/// @param freed    Where the number of freed blocks is stored; NULL for nowhere.
/// @param refused  Where the index of the first block that was refused is stored, if there is one; NULL for nowhere.
/// @return 0 if all were freed; else the error of the first that was refused, as of `fw_free`. The other blocks are
///         freed nevertheless. FW_E_OVERFLOW if the array is larger than addresses can tell apart.
///
/// Threads: any.
///
/// # Safety
/// `blocks` holds `count` pointers, and a number can be written to `freed` and to `refused`. The caller owns the
/// blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_free_bulk(
    arena: *mut fw_arena,
    order: c_uint,
    count: usize,
    blocks: *const *mut c_void,
    freed: *mut usize,
    refused: *mut usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let counts = unsafe { Counts::new(freed, refused) }?;
        let living = living(arena)?;
        let free = |pfns: &[Pfn], order| living.pages().free_bulk(pfns, order);
        // SAFETY: as above.
        unsafe { free_bulk(living.place(), order, (count, blocks), counts, free, |error| living.free_error(error)) }
    })
}

/// Allocates `bytes` bytes that lie side by side, at a multiple of `alignment`, and stores their address in `*start`.
///
/// The size is rounded up to whole pages, not to a power of two. Free the range by `fw_free_range`, whole or in parts.
///
/// @param alignment  A power of two in bytes, up to the arena's limit. It may be larger than `bytes`; less than a page
///                   means a page. Above the largest block, or above what the start of memory that was handed in is a
///                   multiple of, it needs as much more free memory as it is larger.
/// @return 0; or an error as of `fw_alloc`; FW_E_ZERO_SIZE, FW_E_ALIGNMENT, FW_E_OVERFLOW; FW_E_IN_INTERRUPT in a
///         handler.
///
/// Threads: any. Ownership: as of `fw_alloc`.
///
/// # Safety
/// A pointer can be written to `start`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_alloc_range(
    arena: *mut fw_arena,
    flags: u32,
    bytes: usize,
    alignment: usize,
    start: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(start) }?;
        let (gfp, place) = (gfp(flags).ok_or(FW_E_FLAGS)?, living.place());
        let frames = place.frames_of(bytes)?;
        let align = place.order_of_alignment(alignment);
        let (sure, limit) = (living.arena().aligned_order(), living.arena().report().limit);
        if !alignment.is_power_of_two() || (align > sure && alignment as u64 > limit) {
            return Err(FW_E_ALIGNMENT);
        }
        // A larger alignment of numbers would be none of addresses.
        let spare = align.frames().saturating_sub(sure.frames());
        let found = living.arena().alloc_contig(frames.saturating_add(spare), align.min(sure), &Request::page(gfp));
        let found = found.map_err(|error| error.code())?;
        let address = place.pointer(found.start).addr();
        let skipped = if spare == 0 { 0 } else { address.next_multiple_of(alignment) - address };
        let start = found.start.add((skipped / living.arena().page_size()) as u64);
        keep(living, found, PfnRange { start, end: start.add(frames) })?;
        out.put(place.pointer(start));
        Ok(())
    })
}

/// Frees an allocated range but for one part of it; or all of it if that fails.
fn keep(living: Living<'_>, found: PfnRange, part: PfnRange) -> Result<(), c_int> {
    let mut owned = found;
    for (rest, left) in [
        (PfnRange { end: part.start, ..found }, PfnRange { start: part.start, ..found }),
        (PfnRange { start: part.end, ..found }, part),
    ] {
        if rest.is_empty() {
            continue;
        }
        if let Err(error) = living.pages().free_range(rest) {
            let _ = living.pages().free_range(owned);
            return Err(living.free_error(error));
        }
        owned = left;
    }
    Ok(())
}

/// Frees `bytes` bytes from `start` on, whatever blocks or ranges they are parts of.
///
/// Blocks at the ends are cut: their other pages stay allocated, as the largest aligned blocks that tile them.
///
/// @param start  Address of a page.
/// @param bytes  Rounded up to whole pages.
/// @return 0; or an error as of `fw_free`, and then nothing was freed; FW_E_ZERO_SIZE, FW_E_OVERFLOW.
///
/// Threads: any.
///
/// # Safety
/// The caller owns the pages, as far as they are allocated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_free_range(arena: *mut fw_arena, start: *mut c_void, bytes: usize) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        let (start, frames) = (living.place().frame(start), living.place().frames_of(bytes)?);
        let freed = living.pages().free_range(PfnRange { start, end: start.add(frames) });
        freed.map_err(|error| living.free_error(error))
    })
}

/// Makes blocks of order `to` out of an allocated block of order `from`. Each is then freed on its own.
///
/// @return 0; FW_E_ORDER if `to` is larger than `from`; or an error as of `fw_free`.
///
/// Threads: any. Ownership: the caller owns the parts.
///
/// # Safety
/// The caller owns the block, if it is allocated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_split(arena: *mut fw_arena, block: *mut c_void, from: c_uint, to: c_uint) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        let split = living.pages().split(living.place().frame(block), order_of(from), order_of(to));
        split.map_err(|error| living.free_error(error))
    })
}

/// Finds the allocated block that an address lies in.
///
/// @param block  Where the block's address is stored; NULL for nowhere.
/// @param order  Where the block's order is stored; NULL for nowhere.
/// @return 0; or an error: FW_E_NULL, FW_E_FOREIGN, FW_E_ALREADY_FREE, FW_E_OFFLINE, FW_E_QUARANTINED,
///         FW_E_UNALIGNED, FW_E_ARENA.
///
/// Threads: any. The answer is about this moment, unless the caller owns the block.
///
/// # Safety
/// A pointer can be written to `block` and a number to `order`, or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_find(
    arena: *mut fw_arena,
    address: *const c_void,
    block: *mut *mut c_void,
    order: *mut c_uint,
) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        // SAFETY: the caller's promise.
        let (block, order) = unsafe { (Out::optional(block)?, Out::optional(order)?) };
        let none = if address.is_null() { FW_E_NULL } else { FW_E_FOREIGN };
        let (head, found) = living.block_around(living.arena().pfn_of(address).ok_or(none)?)?;
        if let Some(block) = block {
            block.put(living.place().pointer(head));
        }
        if let Some(order) = order {
            order.put(found.0.into());
        }
        Ok(())
    })
}
