//! An arena's movable pages: their index by frame, their moves and their eviction.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockWriteGuard, Weak};

use framewright::machine::Busy;
use framewright::{NodeId, Order, Pfn, PfnRange};

use super::lru::{Lru, Standing, Stands, Turn};
use super::note::Abandoned;
use super::owner::{Leaving, MovableReport, Moving, PageOwner};
use super::page::Page;
use super::shrink::{Scan, Shrink};
use crate::callbacks::Panics;
use crate::contents::{Given, Memory};
use crate::view;

/// Parts of the index.
const PARTS: usize = 64;
/// Spreads frames over them: 2^64 by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Frees the pool's blocks.
pub(crate) trait FreesBlocks: Send + Sync {
    /// Frees the block of a page that is gone.
    fn free_block(&self, pfn: Pfn, order: Order);

    /// Whether the calling thread may move a page.
    fn may_move(&self) -> bool;

    /// Notes that the contents of a block are at `to` now; both blocks are allocated, and the page is locked.
    fn moved(&self, from: Pfn, to: Pfn, order: Order);
}

/// The memory that pages lie in, and its allocator.
struct Home {
    /// Weakly: it owns the pool.
    owner: Weak<dyn FreesBlocks>,
    memory: Memory,
    /// The pages of each node.
    lists: Vec<(PfnRange, Mutex<Lru<Page>>)>,
}

impl Home {
    /// The lists of a frame's node.
    fn list(&self, pfn: Pfn) -> Option<MutexGuard<'_, Lru<Page>>> {
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
    index: [Mutex<HashMap<Pfn, Arc<Page>>>; PARTS],
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

    /// Tells the pool where its pages lie: once, before there are any.
    ///
    /// `owner` frees blocks of the allocator over `memory`.
    pub(crate) fn settle_in(
        &self,
        owner: Weak<dyn FreesBlocks>,
        memory: Memory,
        nodes: impl Iterator<Item = PfnRange>,
    ) {
        let lists = nodes.map(|range| (range, Mutex::default())).collect();
        let _ = self.home.set(Home { owner, memory, lists });
    }

    pub(crate) fn report(&self) -> MovableReport {
        let [frames, moved, stayed, left] =
            [&self.frames, &self.moved, &self.stayed, &self.left].map(|count| count.load(Relaxed));
        MovableReport { frames, moved, stayed, left }
    }

    pub(crate) fn panics(&self) -> &Panics {
        &self.panics
    }

    /// Asks the owner about a page. A panic means no.
    fn owner_says(&self, owner: &Arc<dyn PageOwner>, question: impl FnOnce(&dyn PageOwner) -> bool) -> bool {
        self.panics.catch(|| question(&**owner)).unwrap_or(false)
    }

    /// Whether there is anything to move.
    pub(crate) fn has_pages(&self) -> bool {
        self.frames.load(Relaxed) != 0
    }

    fn part(&self, pfn: Pfn) -> MutexGuard<'_, HashMap<Pfn, Arc<Page>>> {
        // Blocks begin at multiples of their size: the lower bits say little.
        lock(&self.index[(pfn.0.wrapping_mul(SPREAD) >> 32) as usize % PARTS])
    }

    /// Whether a block is one of its pages.
    pub(crate) fn knows(&self, pfn: Pfn) -> bool {
        self.part(pfn).contains_key(&pfn)
    }

    /// Makes a page of a block that was just allocated.
    pub(crate) fn adopt(&self, pfn: Pfn, order: Order, key: u64) -> Arc<Page> {
        let place = RwLock::new(Some(pfn));
        let (abandoned, standing) = (Abandoned::default(), Standing::default());
        let memory = self.home.get().map(|home| home.memory);
        let entry = Arc::new(Page { key, order, memory, place, abandoned, standing });
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
    fn free(&self, entry: &Page, mut place: RwLockWriteGuard<'_, Option<Pfn>>) -> u64 {
        let Some((home, pfn)) = self.home.get().zip(place.take()) else { return 0 };
        self.part(pfn).remove(&pfn);
        if let Some(mut list) = home.list(pfn) {
            list.remove(entry);
        }
        drop(place);
        self.frames.fetch_sub(entry.frames(), Relaxed);
        if let Some(owner) = home.owner.upgrade() {
            owner.free_block(pfn, entry.order);
        }
        entry.frames()
    }

    /// Frees a page whose handle is gone, unless it is locked. Returns its frames.
    ///
    /// The holder of the lock calls this afterwards.
    pub(crate) fn settle(&self, entry: &Page) -> u64 {
        if !entry.abandoned.is_noted() {
            return 0;
        }
        entry.try_lock().map_or(0, |place| self.free(entry, place))
    }

    /// Moves the page at `from`, as [`crate::Callbacks::migrate`] does.
    pub(crate) fn migrate(&self, from: Pfn, to: &Given) -> Result<(), Busy> {
        let entry = self.part(from).get(&from).cloned().ok_or(Busy)?;
        let moved = self.move_entry(&entry, from, to);
        let count = if moved.is_ok() { &self.moved } else { &self.stayed };
        count.fetch_add(1, Relaxed);
        self.settle(&entry);
        moved
    }

    fn move_entry(&self, entry: &Arc<Page>, from: Pfn, given: &Given) -> Result<(), Busy> {
        let (home, place) = self.home.get().zip(entry.try_lock()).ok_or(Busy)?;
        let allocator = home.owner.upgrade().filter(|allocator| allocator.may_move()).ok_or(Busy)?;
        let (to, order) = given.block();
        let moving = Moving { key: entry.key, order, from, to };
        let may_move = || self.owner.as_ref().is_none_or(|owner| self.owner_says(owner, |owner| owner.moves(&moving)));
        if *place != Some(from) || entry.order != order || !may_move() {
            return Err(Busy);
        }
        let contents = entry.contents(place).map_err(|_| Busy)?;
        home.memory.copy(view::read(&contents), given);
        let mut place = contents.into_guard();
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
        // While it is locked: a user of the page finds it where a recovery would.
        allocator.moved(from, to, order);
        drop(place);
        allocator.free_block(from, order);
        Ok(())
    }

    /// Evicts a page, if it is not in use and its owner allows.
    ///
    /// Returns the freed frames.
    fn evict(&self, entry: &Page, gentle: bool) -> u64 {
        let Some(place) = entry.try_lock() else { return 0 };
        let place = match entry.contents(place) {
            Ok(contents) => {
                let may_leave = |owner: &Arc<dyn PageOwner>| {
                    let leaving = Leaving { key: entry.key, contents: view::read(&contents), gentle };
                    self.owner_says(owner, |owner| owner.leaves(&leaving))
                };
                if self.owner.as_ref().is_some_and(may_leave) {
                    self.left.fetch_add(1, Relaxed);
                    return self.free(entry, contents.into_guard());
                }
                contents.into_guard()
            }
            Err(place) => place,
        };
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
        // No owner is asked about a page over and over: each page has its second chance and is asked about once.
        let most = scan.look.min(lock(lru).frames().saturating_mul(2));
        while freed < scan.wanted && looked < most {
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
