//! Pages that move while they are in use, and go when memory is short.
//!
//! A program that keeps an address of a page keeps the page where it is. So who holds a [`MovablePage`] has no address: only while it looks, through
//! the guard that [`MovablePage::read`] or [`MovablePage::write`] returns, does the page stay where it is. At any other moment the allocator may
//! copy it elsewhere, so that what is free lies together, and the handle finds it there. If its [`PageOwner`] lets it, a page that was
//! not used for long may leave altogether; then the handle finds nothing.
//!
//! # Locks
//!
//! Each page has one, over where it is: whoever looks has it shared, whoever writes, moves or evicts it has it alone. Who moves or
//! evicts never waits for it: a page that is looked at stays. Nor does a handle that is dropped, which may happen in the middle of its
//! own page's eviction: it leaves a note, and whoever has the lock frees the page behind it ([`Pool::settle`]). Under a page's lock come those of the index
//! and of the lists, for a few instructions each; the owner is asked with the page's lock alone.
//!
//! # The index
//!
//! The allocator names a block by its frame. Whose that is says a hash map, in parts with a lock each. What is not in there is not
//! ours, or not yet, or no longer, and is not moved; a block that is, is ours, since it is put in after it was allocated, and taken out before it is
//! freed, both under the page's lock.
//!
//! Rejected: a lock for each frame, without a hash map (24 bytes per frame, whoever uses them). To count readers instead of a lock: who writes
//! would need another word, and both would be an `RwLock` of our own.
//!
//! In a fork's child a page that another thread was just moving or writing stays locked for ever. So a child should leave its parent's
//! movable pages alone; the arena itself is as usable as ever.

mod lru;
pub(crate) mod shrink;

use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, Weak,
};

use framewright::machine::Busy;
use framewright::request::{__GFP_MOVABLE, __GFP_RECLAIMABLE};
use framewright::{AllocError, NodeId, Order, Pfn, PfnRange, Request};

use crate::arena::{Arena, Inner};
use crate::callbacks::Panics;
use crate::contents::Memory;
use lru::{Lru, Standing, Stands, Turn};
use shrink::{Scan, Shrink};

/// Parts of the index.
const PARTS: usize = 64;
/// Spreads frames over them: 2^64 by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A page that nobody used for long, and that is to go.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// What it was allocated with.
    pub key: u64,
    /// What is in it; lost afterwards.
    pub contents: &'a [u8],
    /// Nothing is to be written out for it: if it cannot simply be forgotten, it stays.
    pub gentle: bool,
}

/// A page that is to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moving {
    /// What it was allocated with.
    pub key: u64,
    /// Binary logarithm of its size in frames.
    pub order: Order,
    /// Its first frame.
    pub from: Pfn,
    /// What that will be.
    pub to: Pfn,
}

/// Whose pages they are. A closure that says whether a page may leave is one, and lets all move.
///
/// Called with the page locked, in the middle of somebody's allocation or on a background thread, on several threads at once. It may take its
/// time, allocate and free, and drop handles, this page's too. It must not look into movable pages, nor wait for somebody who may.
/// What it allocates must carry `__GFP_MEMALLOC` or ask for no reclaim.
///
/// One that panics has said no: the page stays. The panic ends there and is counted ([`Arena::callback_panics`]).
pub trait PageOwner: Send + Sync {
    /// Whether a page may go. After "yes" its handle finds nothing.
    fn leaves(&self, page: &Leaving<'_>) -> bool;

    /// Whether a page may move now. It will have moved when it is next looked at.
    fn moves(&self, page: &Moving) -> bool {
        let _ = page;
        true
    }
}

impl<F: Fn(&Leaving<'_>) -> bool + Send + Sync> PageOwner for F {
    fn leaves(&self, page: &Leaving<'_>) -> bool {
        self(page)
    }
}

/// What became of an arena's movable pages so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MovableReport {
    /// Frames of those there are.
    pub frames: u64,
    /// Pages that were moved, whatever their size.
    pub moved: u64,
    /// Pages that could not be moved when they were asked to: they were in use, or their owner refused.
    pub stayed: u64,
    /// Pages that left.
    pub left: u64,
}

/// A page, as the arena knows it.
struct Entry {
    key: u64,
    order: Order,
    /// Where it is; none when it is gone.
    place: RwLock<Option<Pfn>>,
    /// Its handle is gone.
    abandoned: AtomicBool,
    standing: Standing,
}

impl Entry {
    /// Locks it, if nobody looks and nobody else is at it.
    fn try_lock(&self) -> Option<RwLockWriteGuard<'_, Option<Pfn>>> {
        match self.place.try_write() {
            Ok(place) => Some(place),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Stands for Entry {
    fn standing(&self) -> &Standing {
        &self.standing
    }

    fn frames(&self) -> u64 {
        self.order.frames()
    }
}

/// What pages lie in.
struct Home {
    /// Weakly: it owns the pool.
    inner: Weak<Inner>,
    memory: Memory,
    /// The pages of each node.
    lists: Vec<(PfnRange, Mutex<Lru<Entry>>)>,
}

impl Home {
    /// The lists of a frame's node.
    fn list(&self, pfn: Pfn) -> Option<MutexGuard<'_, Lru<Entry>>> {
        self.lists.iter().find(|(range, _)| range.contains(pfn)).map(|(_, lru)| lock(lru))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An arena's movable pages.
pub(crate) struct Pool {
    owner: Option<Arc<dyn PageOwner>>,
    home: OnceLock<Home>,
    index: [Mutex<HashMap<Pfn, Arc<Entry>>>; PARTS],
    frames: AtomicU64,
    moved: AtomicU64,
    stayed: AtomicU64,
    left: AtomicU64,
    /// Of the embedder's code that this pool, or a request for memory, called.
    panics: Panics,
}

impl Pool {
    /// Pages that are `owner`'s; without one they move, but do not leave.
    pub(crate) fn new(owner: Option<Arc<dyn PageOwner>>) -> Pool {
        let [frames, moved, stayed, left] = std::array::from_fn(|_| AtomicU64::new(0));
        let index = std::array::from_fn(|_| Mutex::default());
        Pool { owner, home: OnceLock::new(), index, frames, moved, stayed, left, panics: Panics::default() }
    }

    /// Tells it where its pages lie: once, before there are any. The memory is that of the allocator in `inner`.
    pub(crate) fn settle_in(&self, inner: Weak<Inner>, memory: Memory, nodes: impl Iterator<Item = PfnRange>) {
        let lists = nodes.map(|range| (range, Mutex::default())).collect();
        let _ = self.home.set(Home { inner, memory, lists });
    }

    pub(crate) fn report(&self) -> MovableReport {
        let [frames, moved, stayed, left] =
            [&self.frames, &self.moved, &self.stayed, &self.left].map(|count| count.load(Relaxed));
        MovableReport { frames, moved, stayed, left }
    }

    pub(crate) fn panics(&self) -> &Panics {
        &self.panics
    }

    /// What the owner says about a page: no, if it panics.
    fn owner_says(&self, owner: &Arc<dyn PageOwner>, question: impl FnOnce(&dyn PageOwner) -> bool) -> bool {
        self.panics.catch(|| question(&**owner)).unwrap_or(false)
    }

    /// Whether there is anything to move.
    pub(crate) fn has_pages(&self) -> bool {
        self.frames.load(Relaxed) != 0
    }

    fn part(&self, pfn: Pfn) -> MutexGuard<'_, HashMap<Pfn, Arc<Entry>>> {
        // Blocks begin at multiples of their size: the lower bits say little.
        lock(&self.index[(pfn.0.wrapping_mul(SPREAD) >> 32) as usize % PARTS])
    }

    /// Whether a block is one of its pages.
    pub(crate) fn knows(&self, pfn: Pfn) -> bool {
        self.part(pfn).contains_key(&pfn)
    }

    /// Makes a page of a block that was just allocated.
    fn adopt(&self, pfn: Pfn, order: Order, key: u64) -> Arc<Entry> {
        let place = RwLock::new(Some(pfn));
        let (abandoned, standing) = (AtomicBool::new(false), Standing::default());
        let entry = Arc::new(Entry { key, order, place, abandoned, standing });
        self.frames.fetch_add(order.frames(), Relaxed);
        let place = entry.try_lock();
        self.part(pfn).insert(pfn, Arc::clone(&entry));
        if let Some(mut list) = self.home.get().and_then(|home| home.list(pfn)) {
            list.insert(Arc::clone(&entry));
        }
        drop(place);
        entry
    }

    /// Frees a page that the caller has locked. Returns its frames.
    fn free(&self, entry: &Entry, mut place: RwLockWriteGuard<'_, Option<Pfn>>) -> u64 {
        let Some((home, pfn)) = self.home.get().zip(place.take()) else { return 0 };
        self.part(pfn).remove(&pfn);
        if let Some(mut list) = home.list(pfn) {
            list.remove(entry);
        }
        drop(place);
        self.frames.fetch_sub(entry.frames(), Relaxed);
        if let Some(inner) = home.inner.upgrade() {
            inner.free(pfn, entry.order);
        }
        entry.frames()
    }

    /// Frees a page whose handle is gone, if nobody is at it; whoever is calls this afterwards. Returns its frames.
    fn settle(&self, entry: &Entry) -> u64 {
        // Who leaves the note then fails to lock, or who unlocks then sees the note.
        fence(SeqCst);
        if !entry.abandoned.load(Relaxed) {
            return 0;
        }
        entry.try_lock().map_or(0, |place| self.free(entry, place))
    }

    /// As [`crate::Callbacks::migrate`].
    ///
    /// # Safety
    /// `to` is a block of this order in the arena's memory that is the callee's.
    pub(crate) unsafe fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        let entry = self.part(from).get(&from).cloned().ok_or(Busy)?;
        // SAFETY: the caller's promise.
        let moved = unsafe { self.move_entry(&entry, from, to, order) };
        let count = if moved.is_ok() { &self.moved } else { &self.stayed };
        count.fetch_add(1, Relaxed);
        self.settle(&entry);
        moved
    }

    /// # Safety
    /// As [`Pool::migrate`].
    unsafe fn move_entry(&self, entry: &Arc<Entry>, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        let (home, mut place) = self.home.get().zip(entry.try_lock()).ok_or(Busy)?;
        let inner = home.inner.upgrade().ok_or(Busy)?;
        let moving = Moving { key: entry.key, order, from, to };
        let may_move = || self.owner.as_ref().is_none_or(|owner| self.owner_says(owner, |owner| owner.moves(&moving)));
        if *place != Some(from) || entry.order != order || !may_move() {
            return Err(Busy);
        }
        // SAFETY: `from` is the entry's, which is locked, and `to` is ours by the caller's promise.
        unsafe { home.memory.copy(from, to, order) };
        self.part(to).insert(to, Arc::clone(entry));
        self.part(from).remove(&from);
        *place = Some(to);
        if !home.lists.iter().any(|(range, _)| range.contains(from) && range.contains(to)) {
            // On another node now.
            if let Some(mut list) = home.list(from) {
                list.remove(entry);
            }
            if let Some(mut list) = home.list(to) {
                list.insert(Arc::clone(entry));
            }
        }
        drop(place);
        inner.free(from, order);
        Ok(())
    }

    /// Has a page leave, if nobody looks and its owner lets it. Returns the frames that came free.
    fn evict(&self, entry: &Entry, gentle: bool) -> u64 {
        let Some((home, place)) = self.home.get().zip(entry.try_lock()) else { return 0 };
        let block = place.and_then(|pfn| home.memory.block(pfn, entry.order));
        let may_leave = |owner: &Arc<dyn PageOwner>| {
            // SAFETY: the block is the entry's, which is locked.
            let contents = block.map(|block| unsafe { block.as_ref() });
            let leaves =
                |contents| self.owner_says(owner, |owner| owner.leaves(&Leaving { key: entry.key, contents, gentle }));
            contents.is_some_and(leaves)
        };
        if self.owner.as_ref().is_some_and(may_leave) {
            self.left.fetch_add(1, Relaxed);
            return self.free(entry, place);
        }
        drop(place);
        self.settle(entry)
    }
}

impl Shrink for Pool {
    fn count(&self, node: NodeId) -> u64 {
        let list = self.home.get().and_then(|home| home.lists.get(node.index()));
        list.filter(|_| self.owner.is_some()).map_or(0, |(_, lru)| lock(lru).frames())
    }

    fn scan(&self, scan: &Scan) -> u64 {
        let list = self.home.get().and_then(|home| home.lists.get(scan.node.index()));
        let Some((_, lru)) = list.filter(|_| self.owner.is_some()) else { return 0 };
        let (mut freed, mut looked) = (0, 0);
        while freed < scan.wanted && looked < scan.look {
            // A statement of its own: the lists are not locked while a page leaves.
            let turn = lock(lru).turn();
            looked += match turn {
                None => break,
                Some(Turn::Used(frames)) => frames,
                Some(Turn::Oldest(entry)) => {
                    freed += self.evict(&entry, scan.gentle);
                    entry.frames()
                }
            };
        }
        freed
    }
}

/// A page that may move, and may leave; see the module's description. Freed when dropped.
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
    entry: Arc<Entry>,
}

impl Arena {
    /// Allocates a block that may move, and leave if [`crate::ArenaBuilder::movable_pages`] says whose it is. `key` tells its owner which it is; `fill`
    /// writes to it before anybody else knows it, and finds what [`Arena::alloc`] would.
    ///
    /// # Errors
    /// As [`framewright::Allocator::alloc`]. The request is for movable memory, whatever its flags say.
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
    /// What it was allocated with.
    pub fn key(&self) -> u64 {
        self.entry.key
    }

    /// Its contents, to be read. It stays where it is as long as that lives. None if it has left. Waits for who writes it, moves it or
    /// decides about it.
    pub fn read(&self) -> Option<Contents<'_>> {
        self.entry.standing.touch();
        let pin = self.entry.place.read().unwrap_or_else(PoisonError::into_inner);
        let block = self.arena.block(pin.as_ref().copied()?, self.entry.order)?;
        Some(Contents { block, _pin: pin })
    }

    /// Its contents, to be written; otherwise as [`MovablePage::read`].
    pub fn write(&self) -> Option<ContentsMut<'_>> {
        self.entry.standing.touch();
        let pin = self.entry.place.write().unwrap_or_else(PoisonError::into_inner);
        let block = self.arena.block(pin.as_ref().copied()?, self.entry.order)?;
        Some(ContentsMut { block, _pin: pin })
    }
}

impl Drop for MovablePage {
    fn drop(&mut self) {
        self.entry.abandoned.store(true, Relaxed);
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
pub struct Contents<'a> {
    /// No reference: none must be left when the lock is let go.
    block: NonNull<[u8]>,
    _pin: RwLockReadGuard<'a, Option<Pfn>>,
}

/// A movable page's bytes, to be written. The page stays where it is as long as this lives.
#[derive(Debug)]
pub struct ContentsMut<'a> {
    block: NonNull<[u8]>,
    _pin: RwLockWriteGuard<'a, Option<Pfn>>,
}

impl Deref for Contents<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is the page's, to which nobody writes as long as it is locked for reading.
        unsafe { self.block.as_ref() }
    }
}

impl Deref for ContentsMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is the page's, which is locked.
        unsafe { self.block.as_ref() }
    }
}

impl DerefMut for ContentsMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and this value is borrowed uniquely.
        unsafe { self.block.as_mut() }
    }
}
