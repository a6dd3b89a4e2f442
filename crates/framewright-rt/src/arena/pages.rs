//! Blocks that know their address and free themselves.
//!
//! A [`Block`] is an allocated block of an arena, owned by the value: a slice of its bytes, sent between threads, freed
//! when dropped. It holds the arena by a handle: [`Pages`] by reference, [`OwnedPages`] by `Arc`, for blocks that live
//! longer than any scope.
//!
//! A drop cannot report an error and must not panic. A free may be refused, because other code freed the block by its
//! number, or its descriptor was damaged. It is then counted in [`Arena::refused_frees`], and the frames stay as they
//! are.
//!
//! # Why the unsafe code is right
//!
//! A [`Block`] is the one owner of an allocated block of its arena. Its fields are private, so each is made in this
//! file or by `Block::new`, which is unsafe: from a block that was just allocated, from one that its caller owns by
//! promise, or from a part of a block that was taken apart. It is unmade in this file as well: by its drop, which frees
//! it, by [`Block::into_raw`], and by [`Block::split`]. Nothing copies it. The allocator hands a frame out once, and
//! frees through its own interface are unsafe to reach ([`Arena::allocator`]). So no other value has these bytes.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use framewright::{AllocError, FreeError, Order, Pfn, PfnRange, Request, Why};

use super::arena::Arena;
use crate::error::ArenaError;
use crate::owner::Owner;
use crate::view::{self, Piece, Reads, Writes};

/// Blocks of a bulk request that are asked for at a time.
const BULK: usize = 256;

/// How a [`Block`] holds its arena.
///
/// Implemented by `&Arena` and `Arc<Arena>`.
pub trait Handle: Clone + Deref<Target = Arena> + sealed::Sealed {}

impl Handle for &Arena {}
impl Handle for Arc<Arena> {}

mod sealed {
    #[expect(unnameable_types, reason = "so that no other crate implements it")]
    pub trait Sealed {}
}

impl sealed::Sealed for &Arena {}
impl sealed::Sealed for Arc<Arena> {}

/// An allocated block that borrows its arena.
pub type Pages<'a> = Block<&'a Arena>;

/// An allocated block that keeps its arena alive.
pub type OwnedPages = Block<Arc<Arena>>;

/// An allocated block of an arena, owned by this value ([`crate::pages`]). It dereferences to its bytes.
///
/// The bytes of a block that was never used before are zero. Otherwise they are the last user's, unless the request
/// said `__GFP_ZERO`.
pub struct Block<H: Handle> {
    arena: H,
    pfn: Pfn,
    order: Order,
}

impl Arena {
    /// Allocates a block; it is freed when dropped.
    ///
    /// Its contents are those of its last use. Only memory that was never used, or was given back by [`Arena::trim`],
    /// is zero. `__GFP_ZERO` in the request makes it so.
    ///
    /// # Errors
    /// As [`framewright::Allocator::alloc`].
    #[cfg_attr(any(debug_assertions, feature = "owners"), track_caller)]
    #[inline(always)]
    pub fn alloc(&self, request: &Request) -> Result<Pages<'_>, AllocError> {
        let pfn = self.inner.allocator().alloc(request)?;
        self.inner.record(PfnRange::block(pfn, request.order), self.inner.owners.caller());
        Ok(Block { arena: self, pfn, order: request.order })
    }

    /// Allocates a block that keeps the arena alive.
    ///
    /// # Errors
    /// As [`framewright::Allocator::alloc`].
    #[cfg_attr(any(debug_assertions, feature = "owners"), track_caller)]
    pub fn alloc_owned(self: &Arc<Self>, request: &Request) -> Result<OwnedPages, AllocError> {
        let pfn = self.inner.allocator().alloc(request)?;
        self.inner.record(PfnRange::block(pfn, request.order), self.inner.owners.caller());
        Ok(Block { arena: Arc::clone(self), pfn, order: request.order })
    }

    /// Allocates up to `count` blocks and appends them to `out`; returns their number.
    ///
    /// Cheaper than one by one.
    ///
    /// # Errors
    /// As [`framewright::Allocator::alloc`], if not even one block was allocated.
    #[cfg_attr(any(debug_assertions, feature = "owners"), track_caller)]
    pub fn alloc_bulk<'a>(
        &'a self,
        request: &Request,
        count: usize,
        out: &mut Vec<Pages<'a>>,
    ) -> Result<usize, AllocError> {
        let owner = self.inner.owners.caller();
        let mut chunk = [Pfn(0); BULK];
        let mut done = 0;
        while done < count {
            let wanted = BULK.min(count - done);
            // Room for this chunk, not for all of `count`: the caller's number may be larger than memory. Without room
            // no block is taken, because it could not be kept.
            if out.try_reserve(wanted).is_err() {
                return if done == 0 { Err(AllocError::no_memory(Why::Watermark)) } else { Ok(done) };
            }
            let served = match self.inner.allocator().alloc_bulk(request, &mut chunk[..wanted]) {
                Ok(served) => served,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            };
            out.extend(chunk[..served].iter().map(|&pfn| {
                self.inner.record(PfnRange::block(pfn, request.order), owner);
                Block { arena: self, pfn, order: request.order }
            }));
            done += served;
            if served < wanted {
                break;
            }
        }
        Ok(done)
    }
}

impl<H: Handle> Block<H> {
    /// # Safety
    /// The block is allocated from this arena with this order, and has no other owner.
    #[inline(always)]
    pub(crate) unsafe fn new(arena: H, pfn: Pfn, order: Order) -> Self {
        Block { arena, pfn, order }
    }

    /// Takes over a block from [`Block::into_raw`], or from [`Arena::allocator`].
    ///
    /// # Safety
    /// The caller owns the block, and makes no other owner of it.
    ///
    /// # Errors
    /// No block of this order is allocated there; the error has the actual state.
    pub unsafe fn from_raw(arena: H, pfn: Pfn, order: Order) -> Result<Self, FreeError> {
        arena.find(pfn, order)?;
        Ok(Block { arena, pfn, order })
    }

    /// Like [`Block::from_raw`], without a look at what is allocated there.
    ///
    /// If the promise is broken, the free at the drop is refused and counted, or hits the block of another owner.
    ///
    /// # Safety
    /// The caller owns a block of this order that begins there, and makes no other owner of it.
    #[inline]
    pub unsafe fn from_raw_unchecked(arena: H, pfn: Pfn, order: Order) -> Self {
        Block { arena, pfn, order }
    }

    /// Releases the block without freeing it: the caller owns its number and order now.
    #[inline]
    pub fn into_raw(self) -> (Pfn, Order) {
        let mut block = ManuallyDrop::new(self);
        // SAFETY: the handle is dropped once, here: the block's own drop does not run.
        unsafe { std::ptr::drop_in_place(&raw mut block.arena) };
        (block.pfn, block.order)
    }

    /// Its first frame.
    pub const fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Its order: it has `1 << order` frames.
    pub const fn order(&self) -> Order {
        self.order
    }

    /// Its frames.
    pub const fn frames(&self) -> PfnRange {
        PfnRange::block(self.pfn, self.order)
    }

    /// Where it is.
    #[inline]
    pub fn address(&self) -> NonNull<u8> {
        self.arena.address_of(self.pfn)
    }

    /// Its size in bytes.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "no block is empty")]
    pub fn len(&self) -> usize {
        (self.order.frames() as usize) << self.arena.page_shift()
    }

    /// Names its owner, in place of the one that allocated it ([`Arena::owners`]).
    ///
    /// Does nothing where the arena keeps no owners.
    pub fn set_owner(&self, owner: Owner) {
        self.arena.inner.own(self.pfn, self.order, Some(owner));
    }

    /// Its arena.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Gives its contents back to the operating system.
    ///
    /// It reads as zero afterwards, and takes no memory until it is written.
    ///
    /// # Errors
    /// The memory is huge pages or was handed in, or the kernel refused. The contents are as before, or zero.
    pub fn discard(&mut self) -> Result<(), ArenaError> {
        // SAFETY: the block is borrowed by this call alone.
        unsafe { self.arena.discard(self.frames()) }
    }

    /// Makes blocks of order `to` out of it, in ascending order of their frames.
    ///
    /// # Errors
    /// `to` is larger than its order; then the block is returned as it was.
    pub fn split(self, to: Order) -> Result<Split<H>, (Self, FreeError)> {
        if let Err(error) = self.arena.split(self.pfn, self.order, to) {
            return Err((self, error));
        }
        let arena = self.arena.clone();
        let frames = self.frames();
        self.into_raw();
        Ok(Split { arena, frames, order: to })
    }
}

impl<H: Handle> Drop for Block<H> {
    #[inline(always)]
    fn drop(&mut self) {
        self.arena.free(self.pfn, self.order);
    }
}

// SAFETY: mapped as long as the arena lives, of which the handle has a share. The value owns the block.
unsafe impl<H: Handle> Reads for Block<H> {
    #[inline(always)]
    fn place(&self) -> Piece {
        let (base, offset) = self.arena.place_of(self.pfn);
        (base, offset, self.len())
    }
}

// SAFETY: as above; the block has one owner.
unsafe impl<H: Handle> Writes for Block<H> {}

impl<H: Handle> Deref for Block<H> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        view::read(self)
    }
}

impl<H: Handle> DerefMut for Block<H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        view::write(self)
    }
}

impl<H: Handle> fmt::Debug for Block<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pages({}, order {} at {:p})", self.pfn, self.order, self.address())
    }
}

/// The blocks that [`Block::split`] made. Those that are not taken are freed.
pub struct Split<H: Handle> {
    arena: H,
    frames: PfnRange,
    order: Order,
}

impl<H: Handle> Iterator for Split<H> {
    type Item = Block<H>;

    fn next(&mut self) -> Option<Block<H>> {
        if self.frames.is_empty() {
            return None;
        }
        let pfn = self.frames.start;
        self.frames.start = pfn.add(self.order.frames());
        // One of the blocks that the split made; each is named once.
        Some(Block { arena: self.arena.clone(), pfn, order: self.order })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let blocks = (self.frames.frames() >> self.order.0) as usize;
        (blocks, Some(blocks))
    }
}

impl<H: Handle> ExactSizeIterator for Split<H> {}

impl<H: Handle> Drop for Split<H> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl<H: Handle> fmt::Debug for Split<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Split({}, order {})", self.frames, self.order)
    }
}
