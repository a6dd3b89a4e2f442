//! Page-frame allocators from crates.io, in pure Rust.
//!
//! They have one lock around everything, as kernels use them; both get the frames that all contenders get.

use bitmap_allocator::{BitAlloc, BitAlloc1M, BitAlloc16M};
use buddy_system_allocator::LockedFrameAllocator;
use spin::Mutex;

use crate::cell::Cells;
use crate::contender::{Contender, Handle, Setup, Work};
use crate::entry::Entry;

/// The peers in pure Rust.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry::peer(
        "buddy_system_allocator",
        "LockedFrameAllocator of that crate: free blocks in trees, a spin lock",
        |setup| {
            let buddy = LockedFrameAllocator::new();
            buddy.lock().add_frame(0, setup.frames);
            Ok(Box::new(Buddy(buddy)) as Box<dyn Cells>)
        },
    ),
    Entry::peer("bitmap-allocator", "cascaded bitmaps of that crate behind a spin lock", bitmap),
];

struct Buddy(LockedFrameAllocator<32>);

struct BuddyHandle<'a>(&'a LockedFrameAllocator<32>);

impl Handle for BuddyHandle<'_> {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        self.0.lock().alloc(1 << ORDER).map(|frame| frame as u64)
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        self.0.lock().dealloc(block as usize, 1 << ORDER);
        true
    }
}

impl Contender for Buddy {
    fn attach<W: Work>(&self, _: usize, work: W) -> W::Out {
        work.run(&mut BuddyHandle(&self.0))
    }
}

fn bitmap(setup: &Setup) -> Result<Box<dyn Cells>, String> {
    if setup.frames <= BitAlloc1M::CAP {
        Ok(Box::new(Bitmap::<BitAlloc1M>::new(setup)))
    } else if setup.frames <= BitAlloc16M::CAP {
        Ok(Box::new(Bitmap::<BitAlloc16M>::new(setup)))
    } else {
        Err(format!("it has at most {} frames, not {}", BitAlloc16M::CAP, setup.frames))
    }
}

struct Bitmap<B>(Mutex<Box<B>>);

impl<B: BitAlloc> Bitmap<B> {
    fn new(setup: &Setup) -> Bitmap<B> {
        let mut bits: Box<B> = Box::default();
        bits.insert(0..setup.frames);
        Bitmap(Mutex::new(bits))
    }
}

struct BitmapHandle<'a, B>(&'a Mutex<Box<B>>);

impl<B: BitAlloc> Handle for BitmapHandle<'_, B> {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        let mut bits = self.0.lock();
        let frame = if ORDER == 0 { bits.alloc() } else { bits.alloc_contiguous(None, 1 << ORDER, usize::from(ORDER)) };
        frame.map(|frame| frame as u64)
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        let mut bits = self.0.lock();
        if ORDER == 0 { bits.dealloc(block as usize) } else { bits.dealloc_contiguous(block as usize, 1 << ORDER) }
    }
}

impl<B: BitAlloc + Send> Contender for Bitmap<B> {
    fn attach<W: Work>(&self, _: usize, work: W) -> W::Out {
        work.run(&mut BitmapHandle(&self.0))
    }
}
