//! The arena as a value: its memory by address and number, its allocator, its threads and its reports.
//!
//! # Why the unsafe code is right
//!
//! The calls that could give a frame a second owner, or change its bytes without its owner, are unsafe:
//! [`Arena::allocator`], [`Arena::memfd`] and [`Arena::discard`]. Their callers own what they name. All other calls
//! hand out an allocator that can be looked at alone.

use std::fmt;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use framewright::report::BuddyInfo;
use framewright::tags::Tags;
use framewright::{Allocator, Compacted, FrameCounts, FrameState, FreeError, NodeId, Order, Pfn, PfnRange, Violation};

use super::at_rest;
use super::backing::{ArenaReport, Backing};
use super::inner::Inner;
use super::memory::ArenaMemory;
use super::metadata::Metadata;
use super::owners::{LeakReport, OwnerTable, Owners};
use super::reclaim::{BackgroundReclaim, Job};
use super::sizing::Sizing;
use super::state::ArenaState;
use super::workers::Workers;
use crate::background::{Background, DrainIdle};
use crate::contents::{Lent, Memory};
use crate::error::ArenaError;
use crate::export::{Export, ExportError};
use crate::ledger::entries::Ledger;
use crate::movable::{FreesBlocks, MovableReport, Pool};
use crate::native::Native;
use crate::owner::Owner;

/// Memory of the process with an allocator over it ([`crate::arena`]).
///
/// ```
/// use framewright::{Request, request::GFP_USER};
/// use framewright_rt::Arena;
///
/// let arena = Arena::builder().size(64 << 20).build()?;
/// let mut huge = arena.alloc(&Request::new(GFP_USER, 9))?; // 2 MiB
/// huge[..5].copy_from_slice(b"hello");
/// let page = arena.alloc(&Request::page(GFP_USER))?;
/// assert_eq!((huge.len(), page.len()), (2 << 20, 4096));
/// drop((huge, page)); // freed
/// assert_eq!(arena.validate()?.allocated, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Arena {
    /// Dropped first, with the other threads, so that they end before the allocator goes.
    background: Option<Background>,
    reclaim: Option<BackgroundReclaim>,
    pub(super) shrinker: Option<Background>,
    pub(super) inner: Arc<Inner>,
    pub(super) first: Pfn,
    page_shift: u8,
    report: ArenaReport,
    leaks: Option<LeakReport>,
}

impl Arena {
    pub(super) fn new(
        allocator: Allocator<'static, Native>,
        metadata: Metadata,
        (memory, contents, ledger): (ArenaMemory, Memory, Option<Arc<Ledger>>),
        pool: Arc<Pool>,
        sizing: Sizing,
        (report, owners, leaks): (ArenaReport, OwnerTable, Option<LeakReport>),
    ) -> Arena {
        let page_shift = allocator.geometry().page_shift;
        let (refused, quiet, at_work) = (AtomicU64::new(0), Mutex::new(()), Workers::default());
        let state = ArenaState::new(allocator);
        let (_metadata, _lent) = (metadata, Lent(contents));
        let inner = Inner { state, _metadata, owners, ledger, _lent, memory, pool, refused, quiet, at_work, sizing };
        let inner = Arc::new(inner);
        let owner: Weak<dyn FreesBlocks> = Arc::<Inner>::downgrade(&inner);
        inner.pool.settle_in(owner, contents, report.nodes.iter().map(|node| node.range));
        if inner.memory.backing() == Some(Backing::Private) {
            at_rest::follow(&inner);
        }
        let first = report.nodes.first().map_or(Pfn(0), |node| node.range.start);
        Arena { background: None, reclaim: None, shrinker: None, inner, first, page_shift, report, leaks }
    }

    pub(super) fn with_background(mut self, interval: Option<Duration>) -> Result<Arena, ArenaError> {
        let Some(interval) = interval else { return Ok(self) };
        let (inner, mut idle) = (Arc::downgrade(&self.inner), DrainIdle::default());
        let work = move || match inner.upgrade() {
            Some(inner) => {
                let _quiet = inner.quiet.lock().unwrap_or_else(PoisonError::into_inner);
                idle.look(inner.allocator());
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        };
        let started = Background::start(interval, work);
        self.background = Some(started.map_err(|error| ArenaError::NoThread(error.raw_os_error().unwrap_or(0)))?);
        Ok(self)
    }

    /// The thread for background work, if the builder was asked for one.
    ///
    /// The handle tells whether it runs, and starts it again in a fork's child.
    pub fn background(&mut self) -> Option<&mut Background> {
        self.background.as_mut()
    }

    /// The allocator, with its interface of frame numbers.
    ///
    /// # Safety
    /// A caller that frees, splits, moves or withholds a frame through it owns that frame: it allocated it there, or
    /// has it by [`crate::Pages::into_raw`]. Blocks that others hold as [`crate::Pages`] must stay theirs. In a
    /// recoverable arena it frees or splits only what it allocated here: the ledger does not learn of these calls.
    pub unsafe fn allocator(&self) -> &Allocator<'static, Native> {
        self.inner.allocator()
    }

    /// The allocator's state, for the formats of [`framewright::report`].
    ///
    /// It can be looked at and nothing else.
    pub fn source(&self) -> &ArenaState {
        &self.inner.state
    }

    /// Free blocks by order, as `/proc/buddyinfo` prints them.
    pub fn buddyinfo(&self) -> impl fmt::Display + '_ {
        BuddyInfo(&self.inner.state)
    }

    /// The allocated blocks by their owners: the places in the source that allocated them.
    ///
    /// `println!("{}", arena.owners())` prints who has most. Without debug assertions and without the feature `owners`,
    /// no owner is recorded.
    pub fn owners(&self) -> Owners<'_> {
        Owners::new(self.inner.tags().unwrap_or(Tags::new(self.inner.allocator(), &[])))
    }

    /// Sets or forgets the owner of allocated blocks that are known by their numbers.
    ///
    /// Calls of [`Arena::allocator`] record no owner. A caller that allocates by it may set one here. Before it frees,
    /// it forgets the owner, so that the next user of the block is not taken for it. Does nothing where the arena keeps
    /// no owners.
    ///
    /// # Errors
    /// A frame is not allocated, or is part of a block that reaches out of the range.
    pub fn set_owner(&self, range: PfnRange, owner: Option<Owner>) -> Result<(), FreeError> {
        match (self.inner.tags(), owner) {
            (None, _) => Ok(()),
            (Some(tags), Some(owner)) => tags.record(range, tags.stamp(owner.tag())),
            (Some(tags), None) => tags.clear(range).map(drop),
        }
    }

    /// Exports the allocator's state to other processes, through a socket at `path`.
    ///
    /// It ends when the [`Export`] is dropped. The export does not keep the arena alive: once that is gone, askers are
    /// told so.
    ///
    /// # Errors
    /// No socket can be made at the path, or no thread can be started.
    pub fn export(&self, path: impl AsRef<Path>) -> Result<Export, ExportError> {
        let inner = Arc::downgrade(&self.inner);
        Export::start(path, move |look| {
            if let Some(inner) = inner.upgrade() {
                look(&inner.state);
            }
        })
    }

    /// How the arena was built, and which wishes were refused.
    pub const fn report(&self) -> &ArenaReport {
        &self.report
    }

    /// Its frames, with those that may come ([`crate::ArenaBuilder::limit`]).
    pub fn frames(&self) -> PfnRange {
        PfnRange { start: self.first, end: self.first.add(self.report.limit >> self.page_shift) }
    }

    /// Size of a page in bytes.
    pub const fn page_size(&self) -> usize {
        1 << self.page_shift
    }

    /// Where a frame's memory is; none if the frame is not the arena's.
    #[inline]
    pub fn address(&self, pfn: Pfn) -> Option<NonNull<u8>> {
        let offset = pfn.0.checked_sub(self.first.0)?;
        let place = || self.inner.memory.place_of((offset as usize) << self.page_shift, self.page_size());
        self.frames().contains(pfn).then(|| place().cast())
    }

    /// The frame that an address lies in; none if it is not the arena's.
    pub fn pfn_of<T: ?Sized>(&self, pointer: *const T) -> Option<Pfn> {
        let offset = pointer.cast::<u8>().addr().checked_sub(self.inner.memory.start().as_ptr().addr())?;
        ((offset as u64) < self.report.limit).then(|| self.first.add((offset >> self.page_shift) as u64))
    }

    /// Finds the machine's node that a frame's memory lies on; none before its first touch.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn machine_node_of(&self, pfn: Pfn) -> Result<Option<NodeId>, ArenaError> {
        match self.frames().contains(pfn) {
            true => Ok(self.inner.memory.node_at(((pfn.0 - self.first.0) as usize) << self.page_shift)?),
            false => Ok(None),
        }
    }

    /// The file of a memfd arena, for another process to map; that handed in, if one was; none for other memory.
    ///
    /// A memfd is sealed against changes of its size. Offsets count from the first frame's address. The file of a
    /// recoverable arena is longer than its memory: the rest is its ledger.
    ///
    /// # Safety
    /// Through this file the arena's memory can be written without the knowledge of [`crate::Pages`]. A writer, here or
    /// in another process, writes only to blocks that no thread reads or writes as slices at that time.
    pub unsafe fn memfd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.memory.file()
    }

    /// Gives the contents of frames back to the operating system.
    ///
    /// They read as zero afterwards, and take no memory until they are written. Costs a system call. For an owner that
    /// shares its memory with others by address, as a hypervisor does; [`crate::Block::discard`] is the safe call.
    ///
    /// # Errors
    /// The memory is huge pages or was handed in, the kernel refused, or the range is not the arena's. The contents are
    /// as before, or zero.
    ///
    /// # Safety
    /// The caller owns the frames, and there is no reference to their contents.
    pub unsafe fn discard(&self, range: PfnRange) -> Result<(), ArenaError> {
        let own = self.frames();
        if range.start < own.start || range.end > own.end || range.start > range.end {
            return Err(ArenaError::NotItsFrames { start: range.start.0, end: range.end.0 });
        }
        let at = ((range.start.0 - own.start.0) as usize) << self.page_shift;
        // SAFETY: the caller's promise.
        unsafe { self.inner.memory.discard(at, (range.frames() as usize) << self.page_shift) }
    }

    /// What a frame is at this moment; only an owner's frames stay what they are ([`Allocator::state_settled`]).
    pub fn state_of(&self, pfn: Pfn) -> FrameState {
        self.inner.allocator().state_settled(pfn)
    }

    /// Counts of the movable pages ([`Arena::alloc_movable`]) so far.
    pub fn movable_pages(&self) -> MovableReport {
        self.inner.pool.report()
    }

    /// Counts panics of page owners, shrinkers and callbacks that the allocator called.
    ///
    /// Each counts as a refusal ([`crate::Callbacks`]).
    pub fn callback_panics(&self) -> u64 {
        self.inner.pool.panics().count().saturating_add(self.inner.allocator().machine().callback_panics())
    }

    /// Compacts a node by moving movable pages, as its background thread does ([`Allocator::compact`]).
    ///
    /// The mechanisms decide how (`compaction`).
    pub fn compact(&self, node: NodeId) -> Compacted {
        self.inner.allocator().compact(node)
    }

    /// Drains the lists of all CPUs to the free lists. Returns the number of frames.
    pub fn drain(&self) -> u64 {
        self.inner.allocator().drain_all()
    }

    /// Checks every invariant of the allocator.
    ///
    /// Context: no other call is in progress, so not from a callback. Background work waits.
    ///
    /// # Errors
    /// The first invariant found violated.
    pub fn validate(&self) -> Result<FrameCounts, Violation> {
        let _quiet = self.inner.rest();
        self.inner.allocator().validate()
    }

    /// How many blocks could not be freed when they were dropped; see [`crate::Pages`].
    pub fn refused_frees(&self) -> u64 {
        self.inner.refused.load(Ordering::Relaxed)
    }

    /// Frees a block that has no owner any more.
    #[inline(always)]
    pub(crate) fn free(&self, pfn: Pfn, order: Order) {
        self.inner.free(pfn, order);
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.inner.pool
    }

    /// Makes smaller blocks out of an allocated one.
    pub(crate) fn split(&self, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        let stamp = self.inner.stamp_of(pfn);
        let split = || self.inner.allocator().split(pfn, from, to);
        match &self.inner.ledger {
            Some(ledger) if !self.inner.refuses() => ledger.split(pfn, (from, to), split)?,
            _ => split()?,
        }
        if let Some(stamp) = stamp {
            self.inner.stamp(PfnRange::block(pfn, from), stamp);
        }
        Ok(())
    }

    /// Checks that a block of this order is allocated here.
    ///
    /// # Errors
    /// The actual state of the frame.
    pub(crate) fn find(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        match self.state_of(pfn) {
            FrameState::Allocated(head, actual) if head == pfn && actual == order => Ok(()),
            FrameState::Allocated(head, actual) if head == pfn => Err(FreeError::WrongOrder { pfn, actual }),
            FrameState::Allocated(head, _) => Err(FreeError::NotHead { pfn, head }),
            FrameState::Free(..) | FrameState::Pcp(..) => Err(FreeError::AlreadyFree(pfn)),
            FrameState::Offline(..) => Err(FreeError::Offline(pfn)),
            FrameState::Quarantined(..) => Err(FreeError::Quarantined(pfn)),
            FrameState::Hole => Err(FreeError::Foreign(pfn)),
        }
    }

    /// Address of a frame that is known to be the arena's.
    #[inline]
    pub(crate) fn address_of(&self, pfn: Pfn) -> NonNull<u8> {
        let (base, offset) = self.place_of(pfn);
        base.map_addr(|base| base.saturating_add(offset))
    }

    /// The memory's start, and the distance of a frame that is known to be the arena's.
    #[inline]
    pub(super) fn place_of(&self, pfn: Pfn) -> (NonNull<u8>, usize) {
        (self.inner.memory.start(), (pfn.0.wrapping_sub(self.first.0) as usize) << self.page_shift)
    }

    pub(crate) const fn page_shift(&self) -> u8 {
        self.page_shift
    }
}

/// Reports blocks that are still allocated, if the builder was asked for that.
impl Drop for Arena {
    fn drop(&mut self) {
        // A thread may hold a block for a moment, which is no leak.
        drop((self.background.take(), self.reclaim.take(), self.shrinker.take()));
        if let Some(report) = &self.leaks {
            let owners = self.owners();
            if owners.blocks().next().is_some() {
                // A panic here might meet one that unwinds, and end the process.
                self.inner.pool.panics().catch(|| report.0(&owners));
            }
        }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("start", &self.inner.memory.start())
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

impl Arena {
    pub(super) fn with_reclaim(mut self, wanted: bool) -> Result<Arena, ArenaError> {
        if wanted {
            let waiters = Arc::clone(self.inner.allocator().machine().waiters());
            let job = Job { inner: Arc::downgrade(&self.inner), waiters, nodes: self.report.nodes.len() };
            let started = BackgroundReclaim::start(job);
            self.reclaim = Some(started.map_err(|error| ArenaError::NoThread(error.raw_os_error().unwrap_or(0)))?);
        }
        Ok(self)
    }

    /// The threads of background reclaim, if the builder was asked for them.
    pub fn background_reclaim(&mut self) -> Option<&mut BackgroundReclaim> {
        self.reclaim.as_mut()
    }
}
