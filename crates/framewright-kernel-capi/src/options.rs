//! What a kernel hands in: the options of boot, and the configuration that they become.
//!
//! A structure begins with its size, so that it can grow. 0 asks for the default in every other field.
//!
//! The arrays are used as they lie, since there is no memory yet to convert them in: regions, ranges and node numbers
//! of the header have the layout of the core's own types. `Layouts` proves it when it is compiled.
#![allow(unsafe_code, reason = "arrays of C become slices; each block says what was checked and promised")]
#![allow(non_camel_case_types, reason = "names of the C interface")]

use core::ffi::{CStr, c_char, c_int};
use core::mem::offset_of;
use core::ptr::null;

use framewright::config::SectionInit;
use framewright::mechanisms::Hardened;
use framewright::units::{NodeId, Order, Pfn, PfnRange};
use framewright::{Config, Mechanisms, Region};
use framewright_ffi::boundary::{InArray, Versioned, read_sized};
use framewright_ffi::numbers::{FW_E_COMPILED, FW_E_HOOK, FW_E_MECHANISMS, FW_E_OPTION};

use crate::hooks::fw_kernel_hooks;

/// Memory is put on the free lists at boot up to 4 GiB, else when it is used.
pub const FW_SECTIONS_BY_SIZE: u32 = 0;
/// All memory is put on the free lists at boot.
pub const FW_SECTIONS_AT_BOOT: u32 = 1;
/// Memory is put on the free lists when it is first used, or by `fw_kernel_init_section`.
pub const FW_SECTIONS_WHEN_USED: u32 = 2;

/// All memory is zero, that of the descriptors included. Boot writes less then.
pub const FW_BOOT_ZEROED: u32 = 0x1;

const KNOWN_FLAGS: u32 = FW_BOOT_ZEROED;
/// Bytes below 16 MiB and 4 GiB: the ends of zone DMA and DMA32 on x86.
const DMA_BYTES: u64 = 16 << 20;
const DMA32_BYTES: u64 = 4 << 30;

/// A range of memory on one node. FW_USABLE, FW_RESERVED and FW_POSSIBLE initialise one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fw_region {
    /// Its first frame.
    pub start: u64,
    /// The first frame after it.
    pub end: u64,
    /// Its node.
    pub node: u8,
    /// 1 if the allocator may allocate from it. 0 withholds it until `fw_kernel_online`.
    pub usable: u8,
    /// 1 if the memory is there at boot. 0 for address space where `fw_kernel_add` may add memory.
    pub present: u8,
}

/// A range of frames.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fw_range {
    /// Its first frame.
    pub start: u64,
    /// The first frame after it.
    pub end: u64,
}

/// The memory and the CPUs of a kernel. Set `size`, `regions`, `cpu_nodes`, and leave 0 what is to be as usual.
///
/// The allocator keeps no pointer of it but the functions of `hooks`. Numbers of frames are addresses divided by the
/// page size.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fw_kernel_options {
    /// Size of this structure in bytes, as the kernel knows it: `sizeof(fw_kernel_options)`.
    pub size: usize,
    /// The memory map: ascending, not overlapping.
    pub regions: *const fw_region,
    /// Number of entries in `regions`.
    pub region_count: usize,
    /// The node of each CPU.
    pub cpu_nodes: *const u8,
    /// Number of CPUs.
    pub cpu_count: usize,
    /// Frames in use at boot: the kernel's image, the descriptors. In any order; they may overlap.
    pub reserved: *const fw_range,
    /// Number of entries in `reserved`.
    pub reserved_count: usize,
    /// Memory for movable requests only (FW_MOVABLE), as zone Movable.
    pub movable: *const fw_range,
    /// Number of entries in `movable`.
    pub movable_count: usize,
    /// Whole pageblocks that are kept for ranges, and lent to movable requests.
    pub cma: *const fw_range,
    /// Number of entries in `cma`.
    pub cma_count: usize,
    /// Distances between nodes, row by row. NULL if all other nodes are equally far.
    pub distances: *const u8,
    /// Number of entries in `distances`: nodes times nodes.
    pub distance_count: usize,
    /// Mechanisms by preset and switches: "default", "baseline", "default,hardened=zero". NULL for the default.
    pub mechanisms: *const c_char,
    /// Functions that the allocator seldom calls; NULL for none.
    pub hooks: *const fw_kernel_hooks,
    /// First frame above zone DMA. By default that at 16 MiB; 1 for no such zone.
    pub dma_end: u64,
    /// First frame above zone DMA32. By default that at 4 GiB; 1 for no such zone.
    pub dma32_end: u64,
    /// KiB kept from ordinary requests. By default what Linux computes.
    pub min_free_kbytes: u64,
    /// Gap between watermarks in ten-thousandths of the zone. By default 10.
    pub watermark_scale_factor: u32,
    /// Binary logarithm of the page size in bytes. By default 12.
    pub page_shift: u32,
    /// Order of the largest block, at most 18. By default 10.
    pub max_order: u32,
    /// Order of a pageblock. By default 9, or `max_order` if that is smaller.
    pub pageblock_order: u32,
    /// `FW_SECTIONS_BY_SIZE` or another FW_SECTIONS_ constant.
    pub sections: u32,
    /// Any of the FW_BOOT_ constants, joined by `|`.
    pub flags: u32,
}

// SAFETY: `repr(C)`, begins with its size, and has numbers and raw pointers alone.
unsafe impl Versioned for fw_kernel_options {
    const FIRST_VERSION: usize = offset_of!(fw_kernel_options, flags) + size_of::<u32>();
}

/// Structures of the header are the core's own: sizes, alignments and places of fields.
#[allow(dead_code, reason = "evaluated by the compiler")]
const LAYOUTS: () = {
    assert!(size_of::<fw_region>() == size_of::<Region>() && align_of::<fw_region>() == align_of::<Region>());
    assert!(offset_of!(fw_region, start) == offset_of!(Region, range) + offset_of!(PfnRange, start));
    assert!(offset_of!(fw_region, end) == offset_of!(Region, range) + offset_of!(PfnRange, end));
    assert!(offset_of!(fw_region, node) == offset_of!(Region, node) && size_of::<NodeId>() == 1);
    assert!(offset_of!(fw_region, usable) == offset_of!(Region, usable));
    assert!(offset_of!(fw_region, present) == offset_of!(Region, present));
    assert!(size_of::<fw_range>() == size_of::<PfnRange>() && align_of::<fw_range>() == align_of::<PfnRange>());
    assert!(offset_of!(fw_range, start) == offset_of!(PfnRange, start));
    assert!(offset_of!(fw_range, end) == offset_of!(PfnRange, end));
};

/// Returns the regions as the core has them.
///
/// # Errors
/// A field that is 0 or 1 has another value, or memory is usable that is not there.
fn regions_of(regions: &[fw_region]) -> Result<&[Region], c_int> {
    if regions.iter().any(|region| region.usable > region.present || region.present > 1) {
        return Err(FW_E_OPTION);
    }
    // SAFETY: `LAYOUTS`. The fields of integers may have any values, and both `bool`s are 0 or 1.
    Ok(unsafe { core::slice::from_raw_parts(regions.as_ptr().cast(), regions.len()) })
}

fn ranges_of(ranges: &[fw_range]) -> &[PfnRange] {
    // SAFETY: `LAYOUTS`. Its fields are integers.
    unsafe { core::slice::from_raw_parts(ranges.as_ptr().cast(), ranges.len()) }
}

fn nodes_of(nodes: &[u8]) -> &[NodeId] {
    // SAFETY: a transparent integer.
    unsafe { core::slice::from_raw_parts(nodes.as_ptr().cast(), nodes.len()) }
}

/// Returns a default where a field is 0.
fn or(field: u64, default: u64) -> u64 {
    if field == 0 { default } else { field }
}

/// A number that a field of the core holds.
fn small(field: u32, default: u8) -> Result<u8, c_int> {
    if field == 0 { Ok(default) } else { u8::try_from(field).map_err(|_| FW_E_OPTION) }
}

impl fw_kernel_options {
    /// Options that ask for the default everywhere.
    const DEFAULT: fw_kernel_options = fw_kernel_options {
        size: size_of::<fw_kernel_options>(),
        regions: null(),
        region_count: 0,
        cpu_nodes: null(),
        cpu_count: 0,
        reserved: null(),
        reserved_count: 0,
        movable: null(),
        movable_count: 0,
        cma: null(),
        cma_count: 0,
        distances: null(),
        distance_count: 0,
        mechanisms: null(),
        hooks: null(),
        dma_end: 0,
        dma32_end: 0,
        min_free_kbytes: 0,
        watermark_scale_factor: 0,
        page_shift: 0,
        max_order: 0,
        pageblock_order: 0,
        sections: FW_SECTIONS_BY_SIZE,
        flags: 0,
    };

    /// Returns the mechanisms that a text names.
    ///
    /// # Safety
    /// The pointer is NULL, or that of a text.
    unsafe fn mechanisms(&self) -> Result<Mechanisms, c_int> {
        if self.mechanisms.is_null() {
            return Ok(Mechanisms::DEFAULT);
        }
        if cfg!(feature = "minimal") {
            return Err(FW_E_COMPILED);
        }
        // SAFETY: not null; the rest is the caller's promise.
        let text = unsafe { CStr::from_ptr(self.mechanisms) }.to_str().map_err(|_| FW_E_MECHANISMS)?;
        Mechanisms::parse(text).map_err(|_| FW_E_MECHANISMS)
    }

    /// Returns the functions that a kernel names, or none.
    ///
    /// # Safety
    /// The pointer is NULL, or that of hooks.
    unsafe fn hooks(&self) -> Result<fw_kernel_hooks, c_int> {
        if self.hooks.is_null() {
            return Ok(fw_kernel_hooks::NONE);
        }
        // SAFETY: the caller's promise.
        unsafe { read_sized(self.hooks, fw_kernel_hooks::NONE) }
    }

    /// Returns the configuration without its arrays.
    fn scalars<'c>(&self, regions: &'c [Region], cpus: &'c [NodeId]) -> Result<Config<'c>, c_int> {
        let mut config = Config::new(regions, cpus);
        let geometry = &mut config.geometry;
        geometry.page_shift = small(self.page_shift, geometry.page_shift)?;
        geometry.max_order = Order(small(self.max_order, geometry.max_order.0)?);
        let pageblock = geometry.pageblock_order.min(geometry.max_order);
        geometry.pageblock_order = Order(small(self.pageblock_order, pageblock.0)?);
        let frames = |bytes: u64| bytes.checked_shr(geometry.page_shift.into()).unwrap_or(0);
        config.dma_end = Pfn(or(self.dma_end, frames(DMA_BYTES)));
        config.dma32_end = Pfn(or(self.dma32_end, frames(DMA32_BYTES)));
        config.min_free_kbytes = (self.min_free_kbytes != 0).then_some(self.min_free_kbytes);
        config.watermark_scale_factor = or(self.watermark_scale_factor.into(), config.watermark_scale_factor);
        config.section_init = match self.sections {
            FW_SECTIONS_BY_SIZE => SectionInit::BySize,
            FW_SECTIONS_AT_BOOT => SectionInit::AtBoot,
            FW_SECTIONS_WHEN_USED => SectionInit::WhenUsed,
            _ => return Err(FW_E_OPTION),
        };
        if self.flags & !KNOWN_FLAGS != 0 { Err(FW_E_OPTION) } else { Ok(config) }
    }
}

/// What the options say besides the configuration.
pub(crate) struct Given {
    pub(crate) hooks: fw_kernel_hooks,
    pub(crate) starts_zeroed: bool,
}

/// Calls `call` with the configuration that the options describe.
///
/// # Errors
/// What is wrong with the options, or the error of `call`.
///
/// # Safety
/// The options can be read, with what they point to; `hooks` has functions, or NULL.
pub(crate) unsafe fn with_options<T>(
    options: *const fw_kernel_options,
    call: impl FnOnce(&Config<'_>, Given) -> Result<T, c_int>,
) -> Result<T, c_int> {
    // SAFETY: the caller's promise; so are all below.
    let options = unsafe { read_sized(options, fw_kernel_options::DEFAULT) }?;
    // SAFETY: as above.
    let regions = unsafe { InArray::new(options.regions, options.region_count) }?;
    // SAFETY: as above.
    let nodes = unsafe { InArray::new(options.cpu_nodes, options.cpu_count) }?;
    // SAFETY: as above.
    let reserved = unsafe { InArray::new(options.reserved, options.reserved_count) }?;
    // SAFETY: as above.
    let movable = unsafe { InArray::new(options.movable, options.movable_count) }?;
    // SAFETY: as above.
    let cma = unsafe { InArray::new(options.cma, options.cma_count) }?;
    // SAFETY: as above.
    let distances = unsafe { InArray::new(options.distances, options.distance_count) }?;
    // SAFETY: as above.
    let (mechanisms, hooks) = unsafe { (options.mechanisms()?, options.hooks()?) };
    if mechanisms.hardened != Hardened::Off && !hooks.may_harden() {
        return Err(FW_E_HOOK);
    }
    let config = Config {
        reserved: ranges_of(reserved.values()),
        movable: ranges_of(movable.values()),
        cma: ranges_of(cma.values()),
        distances: distances.values(),
        mechanisms,
        ..options.scalars(regions_of(regions.values())?, nodes_of(nodes.values()))?
    };
    call(&config, Given { hooks, starts_zeroed: options.flags & FW_BOOT_ZEROED != 0 })
}
