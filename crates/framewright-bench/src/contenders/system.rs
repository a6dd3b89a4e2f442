//! Contenders of the operating system and its C library.
//!
//! | contender | what it does |
//! |---|---|
//! | `glibc` | `aligned_alloc` and `free`; only the library's header before the page is touched |
//! | `mmap` | `mmap` and `munmap` of untouched memory: the address range alone |
//! | `mmap+populate` | `mmap` with `MAP_POPULATE`: zeroed memory |
//!
//! All of them hand out addresses that programs can use at once, which costs them more than handing out a number; only
//! `mmap+populate` has memory for them when it returns. Nothing here reads or writes the memory.
#![allow(unsafe_code, reason = "allocation through C and system calls; each block says why it is sound")]

use std::ptr::{null_mut, with_exposed_provenance_mut};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::cell::Cells;
use crate::contender::{Contender, FRAME_BYTES, Handle, Setup, Work};
use crate::entry::Entry;

/// The contenders of the system.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry {
        capacity: resident,
        ..Entry::peer(
            if cfg!(target_env = "gnu") { "glibc" } else { "libc" },
            "aligned_alloc and free of the C library, pages untouched",
            |_| Ok(Box::new(CLibrary) as Box<dyn Cells>),
        )
    },
    Entry {
        capacity: mappings,
        ..Entry::peer("mmap", "mmap and munmap, pages untouched", |_| {
            Ok(Box::new(Map { populate: false }) as Box<dyn Cells>)
        })
    },
    Entry {
        capacity: |setup| mappings(setup).min(resident(setup)),
        ..Entry::peer("mmap+populate", "mmap with MAP_POPULATE and munmap: zeroed pages", |_| {
            Ok(Box::new(Map { populate: true }) as Box<dyn Cells>)
        })
    },
];

/// Blocks that take at most a quarter of free memory, if an allocator doubles each for its alignment and touches all.
pub fn resident(setup: &Setup) -> usize {
    let quarter = crate::machine::available_bytes() / 4;
    (quarter as usize / ((2 * FRAME_BYTES) << setup.order)).clamp(1, setup.frames >> setup.order)
}

/// Mappings that a process may have at Linux's default limit (65,530), with half of it left for the rest of it.
fn mappings(setup: &Setup) -> usize {
    (setup.frames >> setup.order).min(32_768)
}

/// The number of the block at an address; none if there is none.
pub fn block_of(address: *mut core::ffi::c_void) -> Option<u64> {
    (!address.is_null()).then(|| (address.expose_provenance() / FRAME_BYTES) as u64)
}

/// The address of a block.
pub fn address_of(block: u64) -> *mut core::ffi::c_void {
    with_exposed_provenance_mut(block as usize * FRAME_BYTES)
}

struct CLibrary;

struct CLibraryHandle;

impl Handle for CLibraryHandle {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        let bytes = FRAME_BYTES << ORDER;
        // SAFETY: the alignment is a power of two and the size a multiple of it.
        block_of(unsafe { libc::aligned_alloc(bytes, bytes) })
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        // SAFETY: a block is what `alloc` returned, and each workload frees it once; no code dereferences it.
        unsafe { libc::free(address_of(block)) };
        true
    }
}

impl Contender for CLibrary {
    fn attach<W: Work>(&self, _: usize, work: W) -> W::Out {
        work.run(&mut CLibraryHandle)
    }
}

struct Map {
    populate: bool,
}

struct MapHandle {
    flags: MapFlags,
}

impl Handle for MapHandle {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        let bytes = FRAME_BYTES << ORDER;
        // SAFETY: the kernel chooses the address, so nothing that exists is replaced.
        let mapped = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, self.flags) };
        mapped.ok().and_then(block_of)
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        // SAFETY: exactly what `alloc` mapped, with that size, once; there is no reference into it.
        unsafe { munmap(address_of(block), FRAME_BYTES << ORDER) }.is_ok()
    }
}

impl Contender for Map {
    fn attach<W: Work>(&self, _: usize, work: W) -> W::Out {
        let populate = if self.populate { MapFlags::POPULATE } else { MapFlags::empty() };
        work.run(&mut MapHandle { flags: MapFlags::PRIVATE | populate })
    }
}
