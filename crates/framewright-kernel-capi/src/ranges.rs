//! Memory by its place: ranges, parts of blocks, what a frame is, and memory that comes and goes.
#![allow(unsafe_code, reason = "pointers of a C kernel are used through `framewright_ffi`, by its promise")]

use core::ffi::{c_int, c_uint};

use framewright::FrameState;
use framewright::units::{Pfn, PfnRange};
use framewright_ffi::boundary::Out;
use framewright_ffi::error::{Code, count, status};
use framewright_ffi::numbers::{
    FW_E_ALREADY_FREE, FW_E_FOREIGN, FW_E_OFFLINE, FW_E_OVERFLOW, FW_E_QUARANTINED, FW_E_ZERO_SIZE,
};
use framewright_ffi::request::order_of;

use crate::kernel::booted;
use crate::request::request_of;

/// Returns a range of frames.
///
/// # Errors
/// It has none, or ends above all numbers.
fn range_of(start: u64, frames: u64) -> Result<PfnRange, c_int> {
    match start.checked_add(frames) {
        _ if frames == 0 => Err(FW_E_ZERO_SIZE),
        Some(end) => Ok(PfnRange::new(start, end)),
        None => Err(FW_E_OVERFLOW),
    }
}

/// Allocates `frames` frames side by side, the first a multiple of 2^`align`; returns the first.
///
/// The number is not rounded up to a power of two. Free the range by `fw_kernel_free_range`, whole or in parts.
///
/// @param align  Binary logarithm, at most 51.
/// @return The frame; or an error as of `fw_kernel_alloc`; FW_E_ZERO_SIZE; FW_E_IN_INTERRUPT for a range that is larger
///         than the largest block, in an interrupt.
///
/// Context: as of `fw_kernel_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_alloc_range(flags: u32, frames: u64, align: c_uint) -> i64 {
    let alloc = || {
        let (pages, request) = (booted()?, request_of(flags, 0)?);
        if frames == 0 {
            return Err(FW_E_ZERO_SIZE);
        }
        pages.alloc_contig(frames, order_of(align), &request).map_err(|error| error.code())
    };
    count(alloc().map(|range| range.start.0))
}

/// Allocates exactly the `frames` frames from `start` on, of any number and alignment, within one zone.
///
/// Movable blocks in the way are moved, if `flags` lets the caller wait. Free the range by `fw_kernel_free_range`.
///
/// @return 0; or an error, and then nothing is allocated: FW_E_BUSY, FW_E_CONTENDED, FW_E_FOREIGN, FW_E_ZONE,
///         FW_E_OFFLINE, FW_E_QUARANTINED, FW_E_ZERO_SIZE, FW_E_OVERFLOW, FW_E_FLAGS, FW_E_HOOK, FW_E_IN_INTERRUPT,
///         FW_E_LEFT_OUT, FW_E_NOT_BOOTED.
///
/// Context: a task.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_take_range(start: u64, frames: u64, flags: u32) -> c_int {
    let take = || {
        let (pages, request, range) = (booted()?, request_of(flags, 0)?, range_of(start, frames)?);
        pages.alloc_range(range, request.gfp).map_err(|error| error.code())
    };
    status(take())
}

/// Frees `frames` frames from `start` on, whatever blocks or ranges they are parts of.
///
/// Blocks at the ends are cut: their other frames stay allocated, as the largest aligned blocks that tile them.
///
/// @return 0; or an error as of `fw_kernel_free`, and then nothing was freed; FW_E_ZERO_SIZE, FW_E_OVERFLOW. If another
///         CPU frees a part of the range meanwhile, frames before that part may be freed all the same.
///
/// Context: as of `fw_kernel_free`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_free_range(start: u64, frames: u64) -> c_int {
    let free = || booted()?.free_range(range_of(start, frames)?).map_err(|error| error.code());
    status(free())
}

/// Makes blocks of order `to` out of an allocated block of order `from`. Each is then freed on its own.
///
/// @return 0; FW_E_ORDER if `to` is larger than `from`; or an error as of `fw_kernel_free`.
///
/// Context: as of `fw_kernel_free`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_split(frame: u64, from: c_uint, to: c_uint) -> c_int {
    let split = || booted()?.split(Pfn(frame), order_of(from), order_of(to)).map_err(|error| error.code());
    status(split())
}

/// Finds the allocated block that a frame lies in.
///
/// @param head   Where the block's first frame is stored; NULL for nowhere.
/// @param order  Where the block's order is stored; NULL for nowhere.
/// @return 0; or an error: FW_E_FOREIGN, FW_E_ALREADY_FREE, FW_E_OFFLINE, FW_E_QUARANTINED, FW_E_UNALIGNED,
///         FW_E_NOT_BOOTED.
///
/// Context: any. The answer is about this moment, unless the caller owns the block. While another CPU frees other parts
/// of a range, the owner of a part may be told FW_E_ALREADY_FREE; asked again, it finds the part.
///
/// # Safety
/// Numbers can be written to `head` and `order`, or they are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_kernel_find(frame: u64, head: *mut u64, order: *mut c_uint) -> c_int {
    let find = || {
        let pages = booted()?;
        // SAFETY: the caller's promise.
        let (head, order) = unsafe { (Out::optional(head)?, Out::optional(order)?) };
        let (first, found) = match pages.state_of(Pfn(frame)) {
            FrameState::Allocated(first, found) => (first, found),
            FrameState::Free(..) | FrameState::Pcp(..) => return Err(FW_E_ALREADY_FREE),
            FrameState::Offline(..) => return Err(FW_E_OFFLINE),
            FrameState::Quarantined(..) => return Err(FW_E_QUARANTINED),
            FrameState::Hole => return Err(FW_E_FOREIGN),
        };
        if let Some(head) = head {
            head.put(first.0);
        }
        if let Some(order) = order {
            order.put(found.0.into());
        }
        Ok(())
    };
    status(find())
}

/// Frees memory that was withheld since boot, or by `fw_kernel_offline`: an initial RAM disk, for example.
///
/// @return The number of frames that are free now and were not; FW_E_ZERO_SIZE, FW_E_OVERFLOW, FW_E_NOT_BOOTED.
///
/// Context: a task. Never frees the descriptors: the caller names frames that nothing uses.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_online(start: u64, frames: u64) -> i64 {
    let online = || Ok(booted()?.bring_online(range_of(start, frames)?));
    count(online())
}

/// Withholds memory until `fw_kernel_online`; movable blocks are moved away.
///
/// @return 0; or an error as of `fw_kernel_take_range`.
///
/// Context: a task.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_offline(start: u64, frames: u64) -> c_int {
    let offline = || booted()?.take_offline(range_of(start, frames)?).map_err(|error| error.code());
    status(offline())
}

/// Adds memory that was not there at boot, in whole largest blocks, where a region with `present` 0 says it may come.
///
/// @return The number of frames; or an error, and then none was added: FW_E_FOREIGN, FW_E_RANGE, FW_E_BUSY,
///         FW_E_ZERO_SIZE, FW_E_OVERFLOW, FW_E_LEFT_OUT, FW_E_NOT_BOOTED.
///
/// Context: a task; one caller at a time for a range.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_add(start: u64, frames: u64) -> i64 {
    let add = || booted()?.add_memory(range_of(start, frames)?).map_err(|error| error.code());
    count(add())
}
