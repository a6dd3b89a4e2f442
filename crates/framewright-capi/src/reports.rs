//! Looking into an arena: statistics, texts, a check of everything; and what errors and versions are called.
#![allow(unsafe_code, reason = "pointers of C programs are used through `boundary.rs`, by their caller's promise")]
#![allow(non_camel_case_types, reason = "names of the C interface")]

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::offset_of;

use framewright::Pfn;
use framewright::mechanisms::Hardened;
use framewright_ffi::boundary::{Text, Versioned, write_sized};
use framewright_ffi::error::{message, name};
use framewright_ffi::numbers::{FW_OK, FW_VERSION};
use framewright_ffi::report::{report, verdict};
use framewright_rt::CpuMode;

use crate::boundary::{guarded, living};
use crate::handles::{Living, fw_arena};

/// How the arena was built, which wishes the system refused, and what a hardened arena found.
pub const FW_TEXT_REPORT: u32 = 4;

/// State and counters of an arena. Pages are counted, except where the name says bytes.
///
/// The figures of a busy arena are those of no single moment.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fw_stats {
    /// Size of this structure in bytes, as the program knows it; set it before the call.
    pub size: usize,
    /// Managed memory in bytes.
    pub bytes: u64,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Address space of the descriptors in bytes; only touched parts take memory.
    pub descriptor_bytes: u64,
    /// Pages that the arena has.
    pub present: u64,
    /// Pages free in a zone.
    pub free: u64,
    /// Pages allocated; 0 if more were freed, by frees of one block in the same instant.
    pub allocated: u64,
    /// Pages that are neither: kept by CPUs for the next requests, or in quarantine.
    pub cached: u64,
    /// Pages ever allocated.
    pub total_allocated: u64,
    /// Pages ever freed.
    pub total_freed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Frees that were refused.
    pub bad_frees: u64,
    /// Blocks quarantined because they were written to after their free. Only hardened arenas check.
    pub written_after_free: u64,
    /// Free lists rebuilt because a descriptor was damaged.
    pub repairs: u64,
    /// Open local handles.
    pub locals: u64,
    /// Order of the largest block.
    pub max_order: u32,
    /// Nodes.
    pub nodes: u32,
    /// CPUs of the allocator.
    pub cpus: u32,
    /// 1 if CPUs follow the processors, 0 if threads lease them.
    pub per_cpu: u32,
    /// Address of the arena's first page.
    pub start: *mut c_void,
}

// SAFETY: `repr(C)`, begins with its size, and has numbers and a raw pointer alone.
unsafe impl Versioned for fw_stats {
    const FIRST_VERSION: usize = offset_of!(fw_stats, per_cpu) + size_of::<u32>();
}

/// Stores the arena's state and counters in `*stats`.
///
/// @param stats  Its `size` says how many bytes are written; fields that the library does not know become 0.
/// @return 0; FW_E_ARENA, FW_E_NULL, FW_E_UNALIGNED, FW_E_STRUCT.
///
/// Threads: any.
///
/// # Safety
/// As many bytes as `size` says can be written to `stats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_arena_stats(arena: *mut fw_arena, stats: *mut fw_stats) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        // SAFETY: the caller's promise.
        unsafe { write_sized(stats, || stats_of(living)) }
    })
}

fn stats_of(living: Living<'_>) -> fw_stats {
    let (arena, report, stats) = (living.arena(), living.arena().report(), living.arena().stats());
    fw_stats {
        size: size_of::<fw_stats>(),
        bytes: arena.present(),
        page_bytes: report.page,
        descriptor_bytes: report.descriptors,
        present: stats.present,
        free: stats.free,
        allocated: stats.allocated,
        cached: stats.cached,
        total_allocated: stats.total_allocated,
        total_freed: stats.total_freed,
        failed: stats.failed,
        bad_frees: stats.bad_frees,
        written_after_free: stats.written_after_free,
        repairs: stats.repairs,
        locals: living.locals() as u64,
        max_order: report.max_order.0.into(),
        nodes: report.nodes.len() as u32,
        cpus: report.cpus as u32,
        per_cpu: (report.cpu_mode == CpuMode::PerCpu).into(),
        start: living.place().pointer(Pfn(0)),
    }
}

/// How the arena was built, and what it found since.
fn report_of(living: Living<'_>) -> String {
    let (report, stats) = (living.arena().report(), living.arena().stats());
    match report.hardened {
        Hardened::Off => report.to_string(),
        _ => format!("{report}blocks in quarantine, written to after their free: {}\n", stats.written_after_free),
    }
}

/// Writes one of the arena's reports to a buffer, as `snprintf` does.
///
/// @param text    FW_TEXT_BUDDYINFO or another FW_TEXT_ constant.
/// @param buffer  Gets at most `size` bytes, NUL included. May be NULL if `size` is 0.
/// @return The length of the whole text without NUL, also if it was cut; or FW_E_ARENA, FW_E_NULL, FW_E_OPTION,
///         FW_E_OVERFLOW.
///
/// Threads: any.
///
/// # Safety
/// `size` bytes can be written to `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_arena_text(arena: *mut fw_arena, text: c_uint, buffer: *mut c_char, size: usize) -> c_int {
    let length = Cell::new(0);
    let code = guarded(|| {
        let living = living(arena)?;
        // SAFETY: the caller's promise.
        let buffer = unsafe { Text::new(buffer, size) }?;
        length.set(match text {
            FW_TEXT_REPORT => buffer.put(report_of(living)),
            _ => report(text, living.arena().source(), &buffer)?,
        });
        Ok(())
    });
    if code == FW_OK { length.get() } else { code }
}

/// Checks every invariant of the arena.
///
/// @param why   Gets the first invariant that is violated, in words; at most `size` bytes, NUL included. May be NULL if
///              `size` is 0.
/// @return 0; FW_E_DAMAGED; FW_E_ARENA, FW_E_NULL, FW_E_OVERFLOW.
///
/// Threads: no other call of the arena is in progress. It takes time in proportion to the arena's size.
///
/// # Safety
/// `size` bytes can be written to `why`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_arena_validate(arena: *mut fw_arena, why: *mut c_char, size: usize) -> c_int {
    guarded(|| {
        let living = living(arena)?;
        // SAFETY: the caller's promise.
        let why = unsafe { Text::new(why, size) }?;
        verdict(living.arena().validate(), &why)
    })
}

/// Returns the library's version, in the form of FW_VERSION.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fw_version() -> u32 {
    FW_VERSION
}

/// Returns what an error number means: a text that is never freed, also for a number that is no error.
///
/// Threads: any, also in signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn fw_strerror(error: c_int) -> *const c_char {
    message(error).as_ptr()
}

/// Returns the name of an error number, such as "FW_E_NULL": a text that is never freed.
///
/// Threads: any, also in signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn fw_strerrorname(error: c_int) -> *const c_char {
    name(error).as_ptr()
}
