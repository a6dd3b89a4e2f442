//! The contents of frames: zeros on request, a pattern in free memory.
//!
//! The allocator thinks in frame numbers; [`Memory`] knows the addresses of the frames. It clears a block before it is
//! handed out, and fills a freed block with the *poison* pattern. It checks that no code wrote to the block meanwhile,
//! and copies blocks that move. A machine without memory does nothing, and finds everything in order.
//!
//! With the feature `asan`, AddressSanitizer learns that a block with the pattern is nobody's. It then reports the
//! access itself, where the check finds a write only when the block is allocated again, and a read never.
//!
//! # Why the unsafe code is right
//!
//! The caller of [`Memory::new`] promises that the memory is there, and that a machine may read and write a block while
//! no program owns it. The machine calls [`Memory::zero`], [`Memory::poison`] and [`Memory::is_poisoned`] for such
//! blocks alone: before it hands one out, and after it got one back. [`Memory::block`] checks that a block lies in the
//! memory. A block that a page moves to is a [`Given`], which only the allocator's callback makes.

use std::ptr::NonNull;

use framewright::units::{Order, Pfn};

/// Pattern of freed memory: no valid pointer on 64-bit machines, and odd as a length.
const POISON: u8 = 0xaa;

/// Where the frames of an allocator are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    base: NonNull<u8>,
    first: Pfn,
    frames: u64,
    page_shift: u8,
    /// It was zero when the allocator got it.
    starts_zeroed: bool,
}

// SAFETY: an address of memory, of which only the owner of a block accesses that block: `Memory::new`.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// A block that the allocator gave to a callee, which alone uses it during the call.
#[derive(Debug)]
pub(crate) struct Given {
    pfn: Pfn,
    order: Order,
}

impl Given {
    /// # Safety
    /// The block is the callee's until it returns, in the memory that the callee uses it with.
    pub(crate) const unsafe fn new(pfn: Pfn, order: Order) -> Given {
        Given { pfn, order }
    }

    /// Its first frame and its order.
    pub(crate) const fn block(&self) -> (Pfn, Order) {
        (self.pfn, self.order)
    }
}

impl Memory {
    /// Describes `frames` frames of `1 << page_shift` bytes each, side by side from `base` on; the first is `first`.
    ///
    /// # Safety
    /// The memory stays readable and writable while a machine has it, except for blocks that the allocator never handed
    /// out or got back. The machine may read and write a block until it is allocated, and again after it was freed.
    pub const unsafe fn new(base: NonNull<u8>, first: Pfn, frames: u64, page_shift: u8) -> Memory {
        Memory { base, first, frames, page_shift, starts_zeroed: false }
    }

    /// Declares that all of the memory is zero now, as a fresh mapping is.
    ///
    /// A hardened allocator then does not fill all of it at boot. Where the declaration is false, each frame goes to
    /// quarantine at its first use.
    #[must_use]
    pub const fn zeroed(self) -> Memory {
        Memory { starts_zeroed: true, ..self }
    }

    pub(crate) const fn starts_zeroed(&self) -> bool {
        self.starts_zeroed
    }

    /// The bytes of a block; none if any of it lies elsewhere.
    pub(crate) fn block(&self, pfn: Pfn, order: Order) -> Option<NonNull<[u8]>> {
        let index = pfn.0.checked_sub(self.first.0)?;
        let end = index.checked_add(1_u64.checked_shl(order.0.into())?)?;
        if end > self.frames {
            return None;
        }
        let start = usize::try_from(index).ok()? << self.page_shift;
        let bytes = usize::try_from(end - index).ok()? << self.page_shift;
        Some(NonNull::slice_from_raw_parts(self.base.map_addr(|base| base.saturating_add(start)), bytes))
    }

    fn fill(&self, pfn: Pfn, order: Order, byte: u8) {
        if let Some(block) = self.block(pfn, order) {
            tell(block, false);
            // SAFETY: the memory exists and the block is the allocator's, as the caller of the constructor promised.
            unsafe { block.cast::<u8>().write_bytes(byte, block.len()) };
        }
    }

    /// Fills a block with the contents of another one. Nothing happens unless it lies here and is as large.
    pub(crate) fn copy(&self, from: &[u8], to: &Given) {
        if let Some(to) = self.block(to.pfn, to.order).filter(|to| to.len() == from.len()) {
            tell(to, false);
            // SAFETY: the memory is there. The block is the caller's, so `from`, which others may read, is another one.
            unsafe { to.cast().copy_from_nonoverlapping(NonNull::from(from).cast::<u8>(), from.len()) };
        }
    }

    /// Fills a block with zeros.
    pub fn zero(&self, pfn: Pfn, order: Order) {
        self.fill(pfn, order, 0);
    }

    /// Fills a block with the pattern of freed memory.
    pub fn poison(&self, pfn: Pfn, order: Order) {
        self.fill(pfn, order, POISON);
        if let Some(block) = self.block(pfn, order) {
            tell(block, true);
        }
    }

    /// Returns whether no code wrote to a block since it was filled, or ever.
    ///
    /// That is so if each of its frames has the pattern throughout, or is all zeros. The block is about to be handed
    /// out, so it may be read.
    pub fn is_poisoned(&self, pfn: Pfn, order: Order) -> bool {
        let Some(block) = self.block(pfn, order) else { return true };
        tell(block, false);
        // SAFETY: as in `fill`; no code writes while the slice lives.
        let block = unsafe { block.as_ref() };
        block.chunks(1 << self.page_shift).all(|frame| is_all(frame, POISON) || is_all(frame, 0))
    }
}

/// Memory whose addresses others may use once this is dropped.
#[derive(Debug)]
pub(crate) struct Lent(pub(crate) Memory);

impl Drop for Lent {
    fn drop(&mut self) {
        let Memory { base, frames, page_shift, .. } = self.0;
        tell(NonNull::slice_from_raw_parts(base, (frames as usize) << page_shift), false);
    }
}

/// Tells AddressSanitizer whether bytes are nobody's.
#[cfg(feature = "asan")]
fn tell(bytes: NonNull<[u8]>, is_free: bool) {
    // SAFETY: the sanitizer's functions, with its types. They change what it knows, and no byte of the program.
    unsafe extern "C" {
        safe fn __asan_poison_memory_region(start: *const u8, bytes: usize);
        safe fn __asan_unpoison_memory_region(start: *const u8, bytes: usize);
    }
    let call = if is_free { __asan_poison_memory_region } else { __asan_unpoison_memory_region };
    call(bytes.as_ptr().cast(), bytes.len());
}

#[cfg(not(feature = "asan"))]
#[inline(always)]
fn tell(_: NonNull<[u8]>, _: bool) {}

/// Whether all bytes are the same as `byte`, by runs that the compiler compares at once.
fn is_all(bytes: &[u8], byte: u8) -> bool {
    bytes.chunks(64).all(|run| run.iter().fold(true, |same, &other| same & (other == byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIFT: u8 = 4;

    /// Eight frames of 16 bytes from frame 100 on.
    fn memory() -> (Memory, Box<[u8; 128]>) {
        let mut bytes = Box::new([7; 128]);
        let base = NonNull::from(&mut *bytes).cast();
        // SAFETY: the tests keep the bytes, and look at them only through the pointer while the memory is in use.
        (unsafe { Memory::new(base, Pfn(100), 8, SHIFT) }, bytes)
    }

    #[test]
    fn a_block_is_filled_and_nothing_else() {
        let (memory, bytes) = memory();
        memory.zero(Pfn(102), Order(1));
        memory.poison(Pfn(107), Order(0));
        let expected: Vec<u8> = [7, 7, 0, 0, 7, 7, 7, POISON].into_iter().flat_map(|byte| [byte; 16]).collect();
        assert_eq!(bytes.as_slice(), expected);
    }

    #[test]
    fn one_changed_byte_is_found() {
        let (memory, _bytes) = memory();
        memory.poison(Pfn(100), Order(3));
        memory.zero(Pfn(102), Order(0));
        assert!(memory.is_poisoned(Pfn(100), Order(3)), "frames of zeros are as good");
        let by_byte = Memory { first: Pfn(0), frames: 128, page_shift: 0, ..memory };
        by_byte.zero(Pfn(5 * 16 + 3), Order(0));
        assert!(!memory.is_poisoned(Pfn(104), Order(2)), "a frame of both is not");
        assert!(memory.is_poisoned(Pfn(100), Order(2)));
    }

    #[test]
    fn blocks_elsewhere_are_left_alone() {
        let (memory, bytes) = memory();
        for (pfn, order) in [(99, 0), (108, 0), (104, 3), (0, 60), (u64::MAX, 0), (100, 70)] {
            memory.zero(Pfn(pfn), Order(order));
            assert!(memory.is_poisoned(Pfn(pfn), Order(order)));
        }
        assert_eq!(*bytes, [7; 128]);
    }
}
