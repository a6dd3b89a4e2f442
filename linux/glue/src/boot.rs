//! Boot: from memblock's map to the allocator.
//!
//! All memory is allocated then. Linux frees what nobody has, range by range, as it does with its own allocator.
#![allow(unsafe_code, reason = "arrays and memory of Linux are used, by the contracts of the functions")]

use core::slice;

use framewright::units::{NodeId, Order, Pfn, PfnRange};
use framewright::{Config, Geometry, Mechanisms, Region};
use framewright_kernel::{Error, bytes};

use crate::kernel::{Linux, cell};
use crate::text::Buffer;

/// What Linux knows when it boots. Arrays are read during the call only.
#[repr(C)]
pub struct FwLinuxBoot {
    /// The command line's value: a preset, switches, or both.
    options: *const u8,
    options_length: usize,
    /// Memory, ascending.
    regions: *const Region,
    regions_count: usize,
    /// The same, as ranges.
    allocated: *const PfnRange,
    /// Memory of zones Movable.
    movable: *const PfnRange,
    movable_count: usize,
    /// The node of each CPU.
    cpus: *const NodeId,
    cpus_count: usize,
    /// First frame above the zones DMA, and above the zones DMA32.
    dma_end: u64,
    dma32_end: u64,
    max_order: u32,
    pageblock_order: u32,
    page_shift: u32,
    /// Where a text goes that says what is wrong.
    why: *mut u8,
    why_size: usize,
}

/// Returns a slice of an array of C.
///
/// # Safety
/// `count` elements can be read at `start`, unless `count` is 0.
unsafe fn array<'a, T>(start: *const T, count: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    if count == 0 || start.is_null() { &[] } else { unsafe { slice::from_raw_parts(start, count) } }
}

/// Calls `call` with the configuration; writes why it failed.
///
/// # Safety
/// The arrays can be read, and `why` can be written, for as long as the fields say.
unsafe fn with<T>(boot: &FwLinuxBoot, call: impl FnOnce(&Config<'_>) -> Result<T, Error>) -> Option<T> {
    // SAFETY: the caller's promise, for all of these.
    let (options, regions, allocated, movable, cpus) = unsafe {
        (
            array(boot.options, boot.options_length),
            array(boot.regions, boot.regions_count),
            array(boot.allocated, boot.regions_count),
            array(boot.movable, boot.movable_count),
            array(boot.cpus, boot.cpus_count),
        )
    };
    // SAFETY: as above.
    let mut why = unsafe { Buffer::new(boot.why, boot.why_size) };
    let mechanisms = match Mechanisms::parse(core::str::from_utf8(options).unwrap_or("not text")) {
        Ok(mechanisms) => mechanisms,
        Err((part, _)) => {
            why.put(format_args!("no such preset, switch or choice: {part}"));
            return None;
        }
    };
    let geometry = Geometry {
        page_shift: boot.page_shift as u8,
        max_order: Order(boot.max_order as u8),
        pageblock_order: Order(boot.pageblock_order as u8),
    };
    let config = Config {
        allocated,
        movable,
        geometry,
        dma_end: Pfn(boot.dma_end),
        dma32_end: Pfn(boot.dma32_end),
        mechanisms,
        ..Config::new(regions, cpus)
    };
    call(&config).map_err(|error| why.put(format_args!("{error}"))).ok()
}

/// Returns the bytes that the descriptors need; 0 after an error, which `why` names.
///
/// # Safety
/// The arrays can be read, and `why` can be written, for as long as the fields say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_linux_bytes(boot: &FwLinuxBoot) -> usize {
    // SAFETY: the caller's promise.
    unsafe { with(boot, bytes::<Linux>) }.unwrap_or(0)
}

/// Boots the allocator with its descriptors in `bytes` zeroed bytes at `block`; false after an error.
///
/// The block begins at the frame `own`, and is the allocator's for good.
///
/// # Safety
/// As `fw_linux_bytes`; and nothing else uses the block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_linux_boot(boot: &FwLinuxBoot, block: *mut u8, bytes: usize, own: u64) -> bool {
    let frames = (bytes as u64).div_ceil(1 << boot.page_shift.min(63));
    let own = PfnRange::new(own, own.saturating_add(frames));
    // SAFETY: the caller's promise.
    unsafe {
        with(boot, |config| {
            let block = slice::from_raw_parts_mut(block, bytes);
            let config = Config { reserved: &[own], ..*config };
            cell().boot(&Linux, &config, own, block).map(|_| ())
        })
    }
    .is_some()
}
