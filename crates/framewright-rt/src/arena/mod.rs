//! Memory of the process with an allocator over it.
//!
//! An [`Arena`] owns three things: memory, as pages from the kernel or handed in; descriptors, in memory of their own; and an
//! [`Allocator`] over both. It is described by an [`ArenaBuilder`], and is `Send + Sync`: threads share it by reference
//! (`std::thread::scope`) or as an `Arc<Arena>`. Many arenas may exist; they know nothing of each other.
//!
//! Blocks come as [`Pages`], which know their address, read as a slice and free themselves. Frames are numbered from
//! [`Arena::frames`]' start on, and lie side by side at [`Arena::address`]: frame `n` is `n` pages above frame 0.
//!
//! # Whose memory a slice is
//!
//! `&mut [u8]` of a block is sound because the allocator hands each frame out once. Frame numbers can be freed by anybody
//! who knows them, so the allocator behind an arena, with its interface of numbers, is reached by an `unsafe` call:
//! [`Arena::allocator`]. What only looks, or cannot take a block away from its owner, is safe.
//!
//! # What differs from a kernel
//!
//! One zone for each node, no watermarks, and blocks of up to 1 GiB, whose addresses are multiples of their size:
//! [`ArenaBuilder`] has an option for each. A 1 TiB arena is ready in 15 ms and takes some 20 MiB, of which 9 are page tables.
//!
//! Rejected: an arena that is a handle by itself (`Arc` inside): a reference is enough for most programs, and costs no
//! counter that all threads share.

mod backing;
mod builder;
mod fork;
mod local;
mod memory;
mod metadata;
mod reclaim;
mod shape;
mod state;
mod trim;

pub use backing::{ArenaReport, Backing, HugePage, NodeReport, Outcome, Placement, Transparent};
pub use builder::ArenaBuilder;
pub use local::LocalArena;
pub use reclaim::BackgroundReclaim;
pub use state::ArenaState;
pub use trim::Trimmed;

use std::fmt;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use framewright::report::BuddyInfo;
use framewright::{
    AllocError, Allocator, Compacted, FrameCounts, FrameState, FreeError, NodeId, Order, Pfn, PfnRange, Request,
    Violation, Why,
};

use crate::Native;
use crate::background::{Background, DrainIdle};
use crate::contents;
use crate::error::ArenaError;
use crate::export::{Export, ExportError};
use crate::movable::{MovableReport, Pool};
use crate::pages::{OwnedPages, Pages};
use memory::Memory;
use metadata::Metadata;

/// How often a free is tried that meets others on its zone's list of deferred frees.
const FREE_TRIES: u32 = 1_000;
/// Blocks of a bulk request that are asked for at a time.
const BULK: usize = 256;

/// Memory of the process with an allocator over it; see the module's description.
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
    /// Dropped first, so that it ends before what it works on.
    background: Option<Background>,
    reclaim: Option<BackgroundReclaim>,
    inner: Arc<Inner>,
    first: Pfn,
    page_shift: u8,
    report: ArenaReport,
}

/// What outlives the arena for as long as a fork or background work is busy with it.
pub(crate) struct Inner {
    // In this order: the allocator uses the descriptors until it is dropped.
    state: ArenaState,
    _metadata: Metadata,
    memory: Memory,
    pool: Arc<Pool>,
    /// Blocks whose free was refused.
    refused: AtomicU64,
    /// Held by background work while it changes anything, and by who must find nothing changing.
    quiet: Mutex<()>,
    /// Threads of background reclaim that are at work: they begin with `quiet` held, but do not hold it while they call others.
    at_work: AtomicUsize,
}

impl Inner {
    #[inline(always)]
    pub(crate) const fn allocator(&self) -> &Allocator<'static, Native> {
        self.state.allocator()
    }

    /// Frees a block whose owner is gone.
    #[inline]
    pub(crate) fn free(&self, pfn: Pfn, order: Order) {
        self.settle_free(self.allocator().free(pfn, order), pfn, order);
    }

    /// Nobody is there any more to be told that a free was refused; it is counted. One that found no CPU, in a signal handler
    /// for instance, needs none: what is refused then is not the block's fault, and it must not be lost.
    #[inline]
    fn settle_free(&self, freed: Result<(), FreeError>, pfn: Pfn, order: Order) {
        if let Err(error) = freed {
            self.free_without_cpu(error, pfn, order);
        }
    }

    #[cold]
    fn free_without_cpu(&self, mut error: FreeError, pfn: Pfn, order: Order) {
        let mut tries = 0;
        // In a fork's child that must not use the arena the block is the parent's.
        let may_retry =
            |error| matches!(error, FreeError::NoCpu | FreeError::Busy(_)) && !self.allocator().machine().refuses();
        while tries < FREE_TRIES && may_retry(error) {
            match self.allocator().free_nolock(pfn, order) {
                Ok(()) => return,
                Err(again) => error = again,
            }
            tries += 1;
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

impl Arena {
    /// Describes an arena.
    pub fn builder() -> ArenaBuilder {
        ArenaBuilder::default()
    }

    fn new(
        allocator: Allocator<'static, Native>,
        metadata: Metadata,
        (memory, contents): (Memory, contents::Memory),
        pool: Arc<Pool>,
        first: Pfn,
        report: ArenaReport,
    ) -> Arena {
        let page_shift = allocator.geometry().page_shift;
        let (refused, quiet, at_work) = (AtomicU64::new(0), Mutex::new(()), AtomicUsize::new(0));
        let state = ArenaState::new(allocator);
        let inner = Arc::new(Inner { state, _metadata: metadata, memory, pool, refused, quiet, at_work });
        inner.pool.settle_in(Arc::downgrade(&inner), contents, report.nodes.iter().map(|node| node.range));
        if inner.memory.backing() == Some(Backing::Private) {
            fork::follow(&inner);
        }
        Arena { background: None, reclaim: None, inner, first, page_shift, report }
    }

    fn with_background(mut self, interval: Option<Duration>) -> Result<Arena, ArenaError> {
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

    /// The thread for background work, if the builder was asked for one: to see whether it runs, and to start it again in a
    /// fork's child.
    pub fn background(&mut self) -> Option<&mut Background> {
        self.background.as_mut()
    }

    /// Allocates a block; it is freed when dropped.
    ///
    /// Its contents are those of its last use: only memory that was never used, or was given back by [`Arena::trim`], is
    /// zero. `__GFP_ZERO` in the request makes it so.
    ///
    /// # Errors
    /// As [`Allocator::alloc`].
    #[inline]
    pub fn alloc(&self, request: &Request) -> Result<Pages<'_>, AllocError> {
        let pfn = self.inner.allocator().alloc(request)?;
        // SAFETY: just allocated with this order.
        Ok(unsafe { Pages::new(self, pfn, request.order) })
    }

    /// Allocates a block that keeps the arena alive.
    ///
    /// # Errors
    /// As [`Allocator::alloc`].
    pub fn alloc_owned(self: &Arc<Self>, request: &Request) -> Result<OwnedPages, AllocError> {
        let pfn = self.inner.allocator().alloc(request)?;
        // SAFETY: just allocated with this order.
        Ok(unsafe { OwnedPages::new(Arc::clone(self), pfn, request.order) })
    }

    /// Allocates up to `count` blocks and puts them at the end of `out`; returns how many there were. Cheaper than one by one.
    ///
    /// # Errors
    /// As [`Allocator::alloc`], if not even one block was allocated.
    pub fn alloc_bulk<'a>(
        &'a self,
        request: &Request,
        count: usize,
        out: &mut Vec<Pages<'a>>,
    ) -> Result<usize, AllocError> {
        let mut chunk = [Pfn(0); BULK];
        let mut done = 0;
        while done < count {
            let wanted = BULK.min(count - done);
            // For these, and not for all that are asked for: the caller's number may be larger than memory. Without room nothing is
            // taken, since the blocks that it would be for could not be kept.
            if out.try_reserve(wanted).is_err() {
                return if done == 0 { Err(AllocError::NoMemory { why: Why::Watermark }) } else { Ok(done) };
            }
            let served = match self.inner.allocator().alloc_bulk(request, &mut chunk[..wanted]) {
                Ok(served) => served,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            };
            // SAFETY: just allocated with this order.
            out.extend(chunk[..served].iter().map(|&pfn| unsafe { Pages::new(self, pfn, request.order) }));
            done += served;
            if served < wanted {
                break;
            }
        }
        Ok(done)
    }

    /// The allocator, with its interface of frame numbers.
    ///
    /// # Safety
    /// Whoever frees, splits, moves or withholds a frame through it owns that frame: by having allocated it there, or by
    /// [`Pages::into_raw`]. What others hold as [`Pages`] must stay theirs.
    pub unsafe fn allocator(&self) -> &Allocator<'_, Native> {
        self.inner.allocator()
    }

    /// The allocator's state, for the formats of [`framewright::report`]. It can be looked at and nothing else.
    pub fn source(&self) -> &ArenaState {
        &self.inner.state
    }

    /// Free blocks by order, as `/proc/buddyinfo` prints them.
    pub fn buddyinfo(&self) -> impl fmt::Display + '_ {
        BuddyInfo(&self.inner.state)
    }

    /// Shows the allocator's state to other processes, through a socket at `path`, until the [`Export`] is dropped. It keeps the
    /// arena not alive: once that is gone, askers are told so.
    ///
    /// # Errors
    /// There can be no socket at the path, or no thread.
    pub fn export(&self, path: impl AsRef<Path>) -> Result<Export, ExportError> {
        let inner = Arc::downgrade(&self.inner);
        Export::start(path, move |look| {
            if let Some(inner) = inner.upgrade() {
                look(&inner.state);
            }
        })
    }

    /// What the arena was built as, and what was refused.
    pub const fn report(&self) -> &ArenaReport {
        &self.report
    }

    /// Its frames.
    pub fn frames(&self) -> PfnRange {
        PfnRange { start: self.first, end: self.first.add(self.report.bytes >> self.page_shift) }
    }

    /// Size of a page in bytes.
    pub const fn page_size(&self) -> usize {
        1 << self.page_shift
    }

    /// Where a frame's memory is; none if the frame is not the arena's.
    #[inline]
    pub fn address(&self, pfn: Pfn) -> Option<NonNull<u8>> {
        let offset = pfn.0.checked_sub(self.first.0)?;
        // SAFETY: within the arena's memory, which is one object.
        self.frames()
            .contains(pfn)
            .then(|| unsafe { self.inner.memory.start().add((offset as usize) << self.page_shift) })
    }

    /// The frame that an address lies in; none if it is not the arena's.
    pub fn pfn_of<T: ?Sized>(&self, pointer: *const T) -> Option<Pfn> {
        let offset = pointer.cast::<u8>().addr().checked_sub(self.inner.memory.start().as_ptr().addr())?;
        ((offset as u64) < self.report.bytes).then(|| self.first.add((offset >> self.page_shift) as u64))
    }

    /// The node of the machine that a frame's memory lies on; none if it has none yet, because nothing has touched it.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn machine_node_of(&self, pfn: Pfn) -> Result<Option<NodeId>, ArenaError> {
        match self.frames().contains(pfn) {
            true => Ok(self.inner.memory.node_at(((pfn.0 - self.first.0) as usize) << self.page_shift)?),
            false => Ok(None),
        }
    }

    /// The file behind a memfd arena, for another process to map; none for other memory. It is sealed against changes of its
    /// size. Its offsets are those from the first frame's address.
    ///
    /// # Safety
    /// Through this file the arena's memory can be written behind the back of [`Pages`]. Whoever does so, here or in another
    /// process, writes only to blocks that nobody reads or writes as slices at that time.
    pub unsafe fn memfd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.memory.file()
    }

    /// What became of the movable pages ([`Arena::alloc_movable`]) so far.
    pub fn movable_pages(&self) -> MovableReport {
        self.inner.pool.report()
    }

    /// How often code of the embedder's that the allocator called panicked: page owners, shrinkers and callbacks. Each counts as a
    /// refusal ([`crate::Callbacks`]).
    pub fn callback_panics(&self) -> u64 {
        self.inner.pool.panics().count().saturating_add(self.inner.allocator().machine().callback_panics())
    }

    /// Moves movable pages of a node together, as its background thread does when it is woken ([`Allocator::compact`]), where the mechanisms say
    /// how (`compaction`).
    pub fn compact(&self, node: NodeId) -> Compacted {
        self.inner.allocator().compact(node)
    }

    /// Gives what CPUs keep on their lists back to the free lists. Returns the number of frames.
    pub fn drain(&self) -> u64 {
        self.inner.allocator().drain_all()
    }

    /// Checks every invariant of the allocator. To be called while no other call is in progress, so not from a callback; background
    /// work waits.
    ///
    /// # Errors
    /// The first invariant found violated.
    pub fn validate(&self) -> Result<FrameCounts, Violation> {
        let _quiet = self.inner.rest();
        self.inner.allocator().validate()
    }

    /// How many blocks could not be freed when they were dropped; see [`Pages`].
    pub fn refused_frees(&self) -> u64 {
        self.inner.refused.load(Ordering::Relaxed)
    }

    /// Frees a block whose owner is gone.
    #[inline]
    pub(crate) fn free(&self, pfn: Pfn, order: Order) {
        self.inner.free(pfn, order);
    }

    /// The bytes of a block; none if it is not the arena's.
    pub(crate) fn block(&self, pfn: Pfn, order: Order) -> Option<NonNull<[u8]>> {
        let bytes = (order.frames() as usize) << self.page_shift;
        self.address(pfn).map(|start| NonNull::slice_from_raw_parts(start, bytes))
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.inner.pool
    }

    /// Makes smaller blocks out of an allocated one.
    pub(crate) fn split(&self, pfn: Pfn, from: Order, to: Order) -> Result<(), FreeError> {
        self.inner.allocator().split(pfn, from, to)
    }

    /// Whether a block of this order is allocated here; if not, what there is.
    pub(crate) fn find(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        match self.inner.allocator().state_of(pfn) {
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
        let offset = (pfn.0.wrapping_sub(self.first.0) as usize) << self.page_shift;
        // SAFETY: the allocator hands out frames of the arena only.
        unsafe { self.inner.memory.start().add(offset) }
    }

    pub(crate) const fn page_shift(&self) -> u8 {
        self.page_shift
    }

    /// Forgets the contents of an allocated block.
    ///
    /// # Safety
    /// Nobody holds a reference to them.
    pub(crate) unsafe fn discard(&self, pfn: Pfn, order: Order) -> Result<(), ArenaError> {
        let at = (pfn.0.wrapping_sub(self.first.0) as usize) << self.page_shift;
        // SAFETY: the caller's promise.
        unsafe { self.inner.memory.discard(at, (order.frames() as usize) << self.page_shift) }
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
