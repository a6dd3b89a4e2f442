//! A movable page in the hands of the program: locked while it is looked at, free to move and leave otherwise.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, RwLockReadGuard, RwLockWriteGuard};

use framewright::request::{__GFP_MOVABLE, __GFP_RECLAIMABLE};
use framewright::{AllocError, Pfn, Request};

use super::arena::Arena;
use crate::movable::{Locked, Page};
use crate::view;

/// A page that may move, and may be evicted. Freed when dropped.
///
/// It is locked while the program looks at it ([`MovablePage::read`], [`MovablePage::write`]), and stays where it is.
/// At other times it may move, to make room for a large block. When memory is short its owner may let it leave
/// ([`crate::PageOwner`]); then it cannot be read any more.
///
/// ```
/// use framewright::{Mechanisms, NodeId, Request, request::GFP_USER};
/// use framewright_rt::{Arena, Leaving};
/// use std::sync::Arc;
///
/// let mechanisms = Mechanisms::parse("default,compaction=emptiest").map_err(|(part, _)| part)?;
/// let forget = |page: &Leaving<'_>| page.key != 0; // number 0 stays
/// let builder = Arena::builder().size(64 << 20).mechanisms(mechanisms).movable_pages(forget).background_reclaim();
/// let arena = Arc::new(builder.build()?);
/// let page = arena.alloc_movable(&Request::page(GFP_USER), 0, |bytes| bytes[..5].copy_from_slice(b"hello"))?;
/// page.write().ok_or("gone")?[0] = b'H'; // stays where it is until the end of the statement
/// arena.compact(NodeId(0)); // or a background thread, or whoever needs a large block
/// assert_eq!(&page.read().ok_or("gone")?[..5], b"Hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MovablePage {
    arena: Arc<Arena>,
    entry: Arc<Page>,
}

impl Arena {
    /// Allocates a block that may move, and be evicted if [`crate::ArenaBuilder::movable_pages`] set an owner.
    ///
    /// `key` identifies it to the owner. `fill` writes to it before any other code can use it, and finds the contents
    /// that [`Arena::alloc`] would return.
    ///
    /// # Errors
    /// As [`framewright::Allocator::alloc`]. The request is for movable memory, whatever its flags say.
    #[cfg_attr(any(debug_assertions, feature = "owners"), track_caller)]
    pub fn alloc_movable(
        self: &Arc<Self>,
        request: &Request,
        key: u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<MovablePage, AllocError> {
        let gfp = (request.gfp | __GFP_MOVABLE) & !__GFP_RECLAIMABLE;
        let mut block = self.alloc(&Request { gfp, ..*request })?;
        fill(&mut block);
        let (pfn, order) = block.into_raw();
        Ok(MovablePage { entry: self.pool().adopt(pfn, order, key), arena: Arc::clone(self) })
    }
}

impl MovablePage {
    /// The key that it was allocated with.
    pub fn key(&self) -> u64 {
        self.entry.key
    }

    /// Locks its contents for reading; none if it was evicted.
    ///
    /// It stays in place while the guard lives. Waits for a thread that writes or moves it, or asks its owner about it.
    pub fn read(&self) -> Option<Contents<'_>> {
        self.entry.read().map(Contents)
    }

    /// Its contents, to be written; otherwise as [`MovablePage::read`].
    pub fn write(&self) -> Option<ContentsMut<'_>> {
        self.entry.write().map(ContentsMut)
    }
}

impl Drop for MovablePage {
    fn drop(&mut self) {
        self.entry.abandon();
        self.arena.pool().settle(&self.entry);
    }
}

impl fmt::Debug for MovablePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MovablePage({}, order {})", self.entry.key, self.entry.order.0)
    }
}

/// A movable page's bytes. The page stays where it is as long as this lives.
#[derive(Debug)]
pub struct Contents<'a>(Locked<RwLockReadGuard<'a, Option<Pfn>>>);

/// A movable page's bytes, to be written.
///
/// The page stays where it is as long as this lives.
#[derive(Debug)]
pub struct ContentsMut<'a>(Locked<RwLockWriteGuard<'a, Option<Pfn>>>);

impl Deref for Contents<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        view::read(&self.0)
    }
}

impl Deref for ContentsMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        view::read(&self.0)
    }
}

impl DerefMut for ContentsMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        view::write(&mut self.0)
    }
}
