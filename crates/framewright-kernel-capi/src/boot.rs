//! Boot: how much memory the descriptors need, where it lies, and the allocator.
#![allow(unsafe_code, reason = "pointers of a C kernel are used through `framewright_ffi`, by its promise")]

use core::cell::Cell;
use core::ffi::{c_int, c_void};

use framewright::Config;
use framewright::units::PfnRange;
use framewright_ffi::boundary::OutArray;
use framewright_ffi::error::{count, status};
use framewright_ffi::numbers::{FW_E_NO_PLACE, FW_E_NULL};

use crate::kernel::{self, CKernel, code_of};
use crate::options::{Given, fw_kernel_options, with_options};

/// Returns the bytes that the allocator's descriptors need.
///
/// About 23 bytes a frame of 1 GiB, and 17 from 64 GiB on. `reserved` does not change it.
///
/// @return The bytes; or an error: FW_E_STRUCT, FW_E_OPTION, FW_E_MECHANISMS, FW_E_HOOK, FW_E_NODE, FW_E_NULL,
///         FW_E_UNALIGNED, FW_E_OVERFLOW, FW_E_RESERVED, and those from FW_E_GEOMETRY to FW_E_DESCRIPTORS.
///
/// Context: any.
///
/// # Safety
/// The options can be read, with what they point to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_kernel_bytes(options: *const fw_kernel_options) -> i64 {
    let bytes = |config: &Config<'_>, _: Given| framewright_kernel::bytes::<CKernel>(config).map_err(code_of);
    // SAFETY: the caller's promise.
    count(unsafe { with_options(options, bytes) }.map(|bytes| bytes as u64))
}

/// Returns the first frame of the highest place for `bytes` bytes in memory that is usable and not reserved.
///
/// @param first  First frame that the kernel has mapped, or may map.
/// @param end    First frame after these.
/// @return The frame; FW_E_NO_PLACE; or an error as of `fw_kernel_bytes` about a field.
///
/// Context: any. The kernel maps the place, and reserves it: whole frames, `bytes` rounded up.
///
/// # Safety
/// As `fw_kernel_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_kernel_place(options: *const fw_kernel_options, bytes: usize, first: u64, end: u64) -> i64 {
    let place = |config: &Config<'_>, _: Given| {
        let place = framewright_kernel::place(config, bytes, PfnRange::new(first, end));
        place.map(|range| range.start.0).ok_or(FW_E_NO_PLACE)
    };
    // SAFETY: the caller's promise.
    count(unsafe { with_options(options, place) })
}

/// Boots the allocator with its descriptors in the highest place that has room for them, and reserves it.
///
/// @param first  First frame that the kernel has mapped, or may map.
/// @param end    First frame after these.
/// @param map    Returns the address of `frames` frames from `start` on, which become the allocator's. Called once.
/// @return 0; or an error as of `fw_kernel_boot`; FW_E_NO_PLACE; FW_E_MANY_RESERVED for more than 31 reserved ranges;
///         FW_E_NULL also if `map` is NULL or returns it.
///
/// Context: as of `fw_kernel_boot`.
///
/// # Safety
/// As `fw_kernel_boot`, for the memory that `map` returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_kernel_boot_within(
    options: *const fw_kernel_options,
    first: u64,
    end: u64,
    map: Option<unsafe extern "C" fn(start: u64, frames: u64) -> *mut c_void>,
) -> c_int {
    let within = PfnRange::new(first, end);
    let wrong = Cell::new(None);
    let boot = |config: &Config<'_>, given: Given| {
        let map = map.ok_or(FW_E_NULL)?;
        let shift = config.geometry.page_shift;
        let block = |own: PfnRange| {
            let bytes = own.frames().checked_shl(shift.into()).and_then(|bytes| usize::try_from(bytes).ok());
            // SAFETY: the kernel's function; the bytes are ours by the caller's promise.
            let block = unsafe {
                let start = map(own.start.0, own.frames());
                OutArray::new(start.cast::<u8>(), bytes.unwrap_or(usize::MAX)).map(|block| block.into_bytes())
            };
            block.unwrap_or_else(|code| {
                wrong.set(Some(code));
                &mut []
            })
        };
        let booted = kernel::boot(given.hooks, given.starts_zeroed, |pages, kernel| {
            pages.boot_within(kernel, config, within, block).map(|_| ())
        });
        booted.map_err(|code| wrong.get().unwrap_or(code))
    };
    // SAFETY: the caller's promise.
    status(unsafe { with_options(options, boot) })
}

/// Boots the allocator with its descriptors in `block`. All usable memory that is not reserved is free then.
///
/// @param options  As given to `fw_kernel_bytes`, with the block's own frames reserved too, unless no memory is usable
///                 there.
/// @param own      The block's first frame, as `fw_kernel_place` says; UINT64_MAX if it lies in no frame.
/// @param block    Memory of any alignment and contents; the allocator's for good.
/// @param bytes    As `fw_kernel_bytes` says, or more.
/// @return 0; or an error, and then nothing has changed but the contents of `block`: FW_E_BOOTED, FW_E_DESCRIPTORS,
///         FW_E_UNRESERVED, and those of `fw_kernel_bytes`.
///
/// Context: one CPU, whose hooks work. Others may follow.
///
/// # Safety
/// The options can be read, with what they point to. The hooks do what the header says, now and later. `bytes` bytes
/// can be written to `block`, and nothing else uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_kernel_boot(
    options: *const fw_kernel_options,
    own: u64,
    block: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let booted = unsafe {
        with_options(options, |config, given| {
            let block = OutArray::new(block.cast::<u8>(), bytes)?.into_bytes();
            kernel::boot(given.hooks, given.starts_zeroed, |pages, kernel| {
                let frames = PfnRange::around_bytes(0, bytes as u64, config.geometry.page_shift).frames();
                let own = PfnRange::new(own, own.saturating_add(frames));
                pages.boot(kernel, config, own, block).map(|_| ())
            })
        })
    };
    status(booted)
}
