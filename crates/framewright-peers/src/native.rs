//! The C allocators as contenders.
#![allow(unsafe_code, reason = "allocation through C; each block says why it is sound")]

use framewright_bench::{Cells, Contender, Entry, FRAME_BYTES, Handle, Work, address_of, block_of, resident};
use libmimalloc_sys::{mi_free, mi_malloc_aligned};
use tikv_jemalloc_sys::{mallocx, sdallocx};

/// Peers that are built from C.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry {
        capacity: resident,
        ..Entry::peer("mimalloc", "mi_malloc_aligned and mi_free, pages untouched", |_| {
            Ok(Box::new(MiMalloc) as Box<dyn Cells>)
        })
    },
    Entry {
        capacity: resident,
        ..Entry::peer("jemalloc", "mallocx with alignment and sdallocx, pages untouched", |_| {
            Ok(Box::new(JeMalloc) as Box<dyn Cells>)
        })
    },
];

struct MiMalloc;

impl Handle for MiMalloc {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        let bytes = FRAME_BYTES << ORDER;
        // SAFETY: the alignment is a power of two, and any size is allowed.
        block_of(unsafe { mi_malloc_aligned(bytes, bytes) })
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        // SAFETY: a workload frees each block of `alloc` once, and nothing dereferences it.
        unsafe { mi_free(address_of(block)) };
        true
    }
}

impl Contender for MiMalloc {
    fn attach<W: Work>(&self, _: usize, work: W) -> W::Out {
        work.run(&mut MiMalloc)
    }
}

struct JeMalloc;

/// `MALLOCX_ALIGN`: the binary logarithm of the alignment is in the low bits.
const fn flags(order: u8) -> i32 {
    (FRAME_BYTES << order).trailing_zeros() as i32
}

impl Handle for JeMalloc {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        // SAFETY: the size is not 0, and the flags hold nothing but the alignment.
        block_of(unsafe { mallocx(FRAME_BYTES << ORDER, flags(ORDER)) })
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        // SAFETY: a workload frees each block of `alloc` once, with its own size, and nothing dereferences it.
        unsafe { sdallocx(address_of(block), FRAME_BYTES << ORDER, flags(ORDER)) };
        true
    }
}

impl Contender for JeMalloc {
    fn attach<W: Work>(&self, _: usize, work: W) -> W::Out {
        work.run(&mut JeMalloc)
    }
}
