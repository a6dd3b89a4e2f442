//! Looking into the allocator: counters, texts, a check of everything; and what errors and versions are called.
#![allow(unsafe_code, reason = "pointers of a C kernel are used through `framewright_ffi`, by its promise")]
#![allow(non_camel_case_types, reason = "names of the C interface")]

use core::ffi::{c_char, c_int, c_uint};
use core::mem::offset_of;

use framewright::Totals;
use framewright_ffi::boundary::{Text, Versioned, write_sized};
use framewright_ffi::error::{message, name, status};
use framewright_ffi::numbers::FW_VERSION;
use framewright_ffi::report::{report, verdict};
use framewright_kernel::Pages;

use crate::kernel::{CKernel, booted};

/// State and counters of the allocator, in frames and calls.
///
/// The figures of a busy allocator are those of no single moment.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fw_kernel_stats {
    /// Size of this structure in bytes, as the kernel knows it; set it before the call.
    pub size: usize,
    /// Frames of memory, whoever has them.
    pub present: u64,
    /// Frames that the allocator may allocate: all but those withheld.
    pub managed: u64,
    /// Frames free in a zone.
    pub free: u64,
    /// Frames allocated.
    pub allocated: u64,
    /// Frames that are neither: kept by CPUs for the next requests, or in quarantine.
    pub cached: u64,
    /// Frames ever allocated.
    pub total_allocated: u64,
    /// Frames ever freed.
    pub total_freed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Frees that were refused.
    pub bad_frees: u64,
    /// Blocks quarantined because they were written to after their free, with the mechanism `hardened`.
    pub written_after_free: u64,
    /// Free lists rebuilt because a descriptor was damaged.
    pub repairs: u64,
    /// Times that the task of a node that reclaims was woken.
    pub kswapd_wakes: u64,
    /// Order of the largest block.
    pub max_order: u32,
    /// Nodes.
    pub nodes: u32,
    /// Sets of lists: CPUs times the contexts that have lists.
    pub sets: u32,
    /// Binary logarithm of the page size in bytes.
    pub page_shift: u32,
}

// SAFETY: `repr(C)`, begins with its size, and has numbers alone.
unsafe impl Versioned for fw_kernel_stats {
    const FIRST_VERSION: usize = offset_of!(fw_kernel_stats, page_shift) + size_of::<u32>();
}

/// Stores the allocator's state and counters in `*stats`.
///
/// @param stats  Its `size` says how many bytes are written; fields that the library does not know become 0.
/// @return 0; FW_E_NULL, FW_E_UNALIGNED, FW_E_STRUCT, FW_E_NOT_BOOTED.
///
/// Context: any but an NMI.
///
/// # Safety
/// As many bytes as `size` says can be written to `stats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_kernel_get_stats(stats: *mut fw_kernel_stats) -> c_int {
    let get = || {
        let pages = booted()?;
        // SAFETY: the caller's promise.
        unsafe { write_sized(stats, || stats_of(pages)) }
    };
    status(get())
}

fn stats_of(pages: &Pages<CKernel>) -> fw_kernel_stats {
    let Totals { present, managed, free, allocated, cached, total_allocated, total_freed } = pages.totals();
    let counters = pages.counters();
    fw_kernel_stats {
        size: size_of::<fw_kernel_stats>(),
        present,
        managed,
        free,
        allocated,
        cached,
        total_allocated,
        total_freed,
        failed: counters.failed,
        bad_frees: counters.bad_frees,
        written_after_free: counters.written_after_free,
        repairs: counters.repairs,
        kswapd_wakes: counters.kswapd_wakes,
        max_order: pages.geometry().max_order.0.into(),
        nodes: pages.nodes() as u32,
        sets: pages.cpus() as u32,
        page_shift: pages.geometry().page_shift.into(),
    }
}

/// Writes one of the allocator's reports to a buffer, as `snprintf` does.
///
/// @param text    FW_TEXT_BUDDYINFO or another FW_TEXT_ constant.
/// @param buffer  Gets at most `size` bytes, NUL included. May be NULL if `size` is 0.
/// @return The length of the whole text without NUL, also if it was cut; or FW_E_NULL, FW_E_OPTION, FW_E_OVERFLOW,
///         FW_E_NOT_BOOTED.
///
/// Context: any but an NMI. The zone lock is held while the blocks of a zone are counted.
///
/// # Safety
/// `size` bytes can be written to `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_kernel_text(text: c_uint, buffer: *mut c_char, size: usize) -> c_int {
    let write = || {
        let pages = booted()?;
        // SAFETY: the caller's promise.
        let buffer = unsafe { Text::new(buffer, size) }?;
        report(text, pages, &buffer)
    };
    write().unwrap_or_else(|code| code)
}

/// Checks every invariant of the allocator.
///
/// @param why  Gets the first invariant that is violated, in words; at most `size` bytes, NUL included. May be NULL if
///             `size` is 0.
/// @return 0; FW_E_DAMAGED; FW_E_NULL, FW_E_OVERFLOW, FW_E_NOT_BOOTED.
///
/// Context: a task, while no other call is in progress. It takes time in proportion to memory.
///
/// # Safety
/// `size` bytes can be written to `why`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_kernel_validate(why: *mut c_char, size: usize) -> c_int {
    let validate = || {
        let pages = booted()?;
        // SAFETY: the caller's promise.
        let why = unsafe { Text::new(why, size) }?;
        verdict(pages.validate(), &why)
    };
    status(validate())
}

/// Returns the library's version, in the form of FW_VERSION.
///
/// Context: any.
#[unsafe(no_mangle)]
pub extern "C" fn fw_version() -> u32 {
    FW_VERSION
}

/// Returns what an error number means: a text that is never freed, also for a number that is no error.
///
/// Context: any.
#[unsafe(no_mangle)]
pub extern "C" fn fw_strerror(error: c_int) -> *const c_char {
    message(error).as_ptr()
}

/// Returns the name of an error number, such as "FW_E_NULL": a text that is never freed.
///
/// Context: any.
#[unsafe(no_mangle)]
pub extern "C" fn fw_strerrorname(error: c_int) -> *const c_char {
    name(error).as_ptr()
}
