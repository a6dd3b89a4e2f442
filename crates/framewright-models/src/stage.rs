//! What a model runs on: a tiny allocator, the pages it hands out, and locks by themselves.
//!
//! Every page has a *payload*, plain memory that loom watches. The owner of the page writes it right after it got the
//! page and right before it gives the page up. An allocator made of atomics has no race that a detector could see. The
//! payload has one if the handover of a page is not ordered, or if two threads own the page at once.
//!
//! When all threads of an execution have finished, the stage is checked. Every numbered invariant of the core must
//! hold, no frame may be lost, and the model must own as many frames as are allocated.

use framewright::machine::{Ordering, Word};
use framewright::mechanisms::{Depot, NumaStat, PcpMark, PcpProtection};
use framewright::report::Source;
use framewright::request::{__GFP_MOVABLE, Gfp, Request};
use framewright::units::{CpuId, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::watermark::{Marks, PcpSize};
use framewright::{Allocator, Config, FrameCounts, FrameState, Geometry, Layout, Machine, Mechanisms, Region, Tuning};
use framewright_rt::Storage;
use self_cell::MutBorrow;

use crate::kept::{Note, Payload};
use crate::loom_machine::LoomMachine;
use crate::running::{run_on, running_cpu};
use crate::sync::queued_lock::QueuedLock;
use crate::sync::ticket_lock::TicketLock;
use crate::word::CPUS;

type TinyAllocator<'a> = Allocator<'a, LoomMachine>;

self_cell::self_cell!(
    struct Tiny {
        owner: MutBorrow<Storage<LoomMachine>>,
        #[not_covariant]
        dependent: TinyAllocator,
    }
);

/// The baseline without statistics, which no model looks at.
pub const PLAIN: Mechanisms = Mechanisms { numa_stat: NumaStat::Off, ..Mechanisms::BASELINE };
/// All CPUs of a stage, for [`Sizes::bypass_pcp`].
pub const EVERY: &[u16] = &[0, 1, 2];

/// Sizes of a stage. All memory is one zone of one node, from frame 0 on, with no watermarks.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Frames; at most 64.
    pub frames: u64,
    /// Frames of the first of two zones; 0 if there is one zone.
    pub dma: u64,
    /// Order of the largest block.
    pub max_order: u8,
    /// Order of a pageblock.
    pub pageblock_order: u8,
    /// Per-CPU lists.
    pub pcp: PcpSize,
    /// CPUs of the allocator.
    pub cpus: usize,
    /// The CPUs are on a node of their own, which has no memory.
    pub far: bool,
    /// CPUs that never enter their per-CPU lists, so that all their calls go to the zone.
    pub bypass_pcp: &'static [u16],
    /// Requests that found nothing drain the cached blocks.
    pub drains: bool,
    /// The mechanisms. With a depot, owners use the fast path.
    pub mechanisms: Mechanisms,
    /// Counters that the embedder keeps in the node.
    pub node_counters: &'static [&'static str],
}

impl Sizes {
    /// Four frames and three CPUs. Pages move one by one between lists and zone, and a list has at most two.
    pub const TINY: Sizes = Sizes {
        frames: 4,
        dma: 0,
        max_order: 1,
        pageblock_order: 1,
        pcp: PcpSize { batch: 1, high: 2 },
        cpus: 3,
        far: false,
        bypass_pcp: &[],
        drains: false,
        mechanisms: PLAIN,
        node_counters: &[],
    };

    /// Like [`Sizes::TINY`], with two CPUs, the fast path, and a depot of magazines with two entries each.
    pub const FRONT: Sizes = Sizes {
        cpus: 2,
        mechanisms: Mechanisms {
            depot: Depot::Eighth,
            pcp_mark: PcpMark::Refill,
            pcp_protection: PcpProtection::OwnLists,
            ..PLAIN
        },
        ..Sizes::TINY
    };
}

/// A page: its memory, and whether a thread owns it.
struct Page {
    payload: Payload,
    owned: Note<bool>,
}

/// A tiny allocator, and what a model notes of it.
pub struct Stage {
    tiny: Tiny,
    pages: Vec<Page>,
    /// Slots: blocks that the set-up leaves to the threads, or a thread keeps. One thread at a time uses a slot.
    held: [Note<Option<(Pfn, Order)>>; 4],
    pub(crate) frames: u64,
    /// CPUs keep pages in lists, and never use the fast path.
    pub(crate) has_plain_lists: bool,
    /// Frames that were allocated and freed.
    traffic: Note<(u64, u64)>,
    /// Frees of pages that another thread may free as well: the number of right ones, and of refused ones.
    tried: Note<(u32, u32)>,
    /// Sum of the changes that the model counted.
    pub counted: Note<i64>,
    /// A word by which one thread signals to another.
    pub flag: <LoomMachine as Machine>::U32,
    /// Locks by themselves; page 0 stands for the data that they protect.
    pub(crate) lock: TicketLock<LoomMachine>,
    pub(crate) queued: QueuedLock<LoomMachine>,
    /// Wait slots of the queued lock.
    pub(crate) places: [<LoomMachine as Machine>::U32; CPUS],
}

/// A request that waits for nothing. It is movable, like the pageblocks at the start, so that no block is stolen.
const NOWAIT: Gfp = __GFP_MOVABLE;

fn boot(sizes: &Sizes) -> Tiny {
    let regions = [Region::usable(0, sizes.frames, 0)];
    let cpus = vec![NodeId(u8::from(sizes.far)); sizes.cpus];
    let zone = ZoneIdx::of(NodeId(0), ZoneKind::Normal);
    let marks = Some(Marks::default());
    let tuning = [Tuning { zone, marks, reserve: Some([0; ZoneKind::COUNT]), pcp: Some(sizes.pcp) }];
    let geometry =
        Geometry { page_shift: 12, max_order: Order(sizes.max_order), pageblock_order: Order(sizes.pageblock_order) };
    let config = Config {
        geometry,
        dma_end: Pfn(sizes.dma),
        dma32_end: Pfn(0),
        tuning: &tuning,
        mechanisms: sizes.mechanisms,
        node_counters: sizes.node_counters,
        ..Config::new(&regions, &cpus)
    };
    let layout = Layout::of(&config).expect("the sizes of a model describe a machine");
    let machine = LoomMachine { bypass_pcp: sizes.bypass_pcp, drains: sizes.drains };
    Tiny::new(MutBorrow::new(Storage::new(&layout)), |storage| {
        Allocator::boot(machine, &config, storage.borrow_mut().parts()).expect("the sizes of a model boot")
    })
}

impl Stage {
    /// A booted allocator with all memory free.
    pub fn new(sizes: &Sizes) -> Stage {
        let page = || Page { payload: Payload::default(), owned: Note::new(false) };
        Stage {
            tiny: boot(sizes),
            pages: std::iter::repeat_with(page).take(sizes.frames as usize).collect(),
            held: std::array::from_fn(|_| Note::new(None)),
            frames: sizes.frames,
            has_plain_lists: sizes.mechanisms.depot == Depot::Off && sizes.bypass_pcp.is_empty(),
            traffic: Note::new((0, 0)),
            tried: Note::new((0, 0)),
            counted: Note::new(0),
            flag: Word::new(0),
            lock: TicketLock::default(),
            queued: QueuedLock::default(),
            places: std::array::from_fn(|_| Word::new(0)),
        }
    }

    /// Runs a part of the set-up.
    pub fn then(self, part: fn(&Stage)) -> Stage {
        part(&self);
        self
    }

    /// Runs `operation` on the allocator.
    pub fn on<T>(&self, operation: impl FnOnce(&Allocator<'_, LoomMachine>) -> T) -> T {
        self.tiny.with_dependent(|_, allocator| operation(allocator))
    }

    /// Runs `operation` of the set-up as another CPU.
    pub fn as_cpu(&self, cpu: u16, operation: impl FnOnce(&Stage)) {
        let own = running_cpu();
        run_on(cpu);
        operation(self);
        run_on(own);
    }

    /// Writes the payload of a page: a race with an earlier access, unless that is ordered before this.
    pub fn write(&self, page: u64) {
        self.page(page).payload.write();
    }

    /// Reads the payload of a page: a race with a write of it, unless one is ordered before the other.
    pub fn read(&self, page: u64) {
        self.page(page).payload.read();
    }

    /// Whether a thread owns a page.
    pub(crate) fn is_owned(&self, page: u64) -> bool {
        self.page(page).owned.get()
    }

    fn page(&self, page: u64) -> &Page {
        &self.pages[page as usize]
    }

    /// Notes that the running thread got a block by a call to the allocator.
    pub fn hold(&self, pfn: Pfn, order: u8) {
        self.own(pfn, Order(order).frames());
    }

    fn own(&self, start: Pfn, frames: u64) {
        let (allocated, freed) = self.traffic.get();
        self.traffic.set((allocated + frames, freed));
        for page in start.0..start.0 + frames {
            assert!(!self.page(page).owned.replace(true), "page {page} was handed out twice");
            self.write(page);
        }
    }

    fn disown(&self, start: Pfn, frames: u64) {
        let (allocated, freed) = self.traffic.get();
        self.traffic.set((allocated, freed + frames));
        for page in start.0..start.0 + frames {
            self.write(page);
            assert!(self.page(page).owned.replace(false), "page {page} was taken from its owner");
        }
    }

    /// Allocates a block without waiting for memory; none if there is none at this moment.
    pub fn alloc(&self, order: u8) -> Option<Pfn> {
        self.alloc_for(NOWAIT, order)
    }

    /// Allocates a block as `gfp` says.
    pub fn alloc_for(&self, gfp: Gfp, order: u8) -> Option<Pfn> {
        let pfn = self.on(|allocator| allocator.alloc(&Request::new(gfp, order))).ok()?;
        self.hold(pfn, order);
        Some(pfn)
    }

    /// Frees a block.
    pub fn free(&self, pfn: Pfn, order: u8) {
        self.disown(pfn, Order(order).frames());
        self.on(|allocator| allocator.free(pfn, Order(order))).expect("an owner's free is right");
    }

    /// Allocates a block from any context.
    pub fn alloc_nolock(&self, order: u8) -> Option<Pfn> {
        let pfn = self.on(|allocator| allocator.any_context().alloc(&Request::new(NOWAIT, order))).ok()?;
        self.hold(pfn, order);
        Some(pfn)
    }

    /// Allocates a block from any context and leaves it in a slot.
    pub fn alloc_nolock_into(&self, slot: usize, order: u8) {
        self.held[slot].set(self.alloc_nolock(order).map(|pfn| (pfn, Order(order))));
    }

    /// Frees the block in a slot from any context.
    pub fn free_nolock_from(&self, slot: usize) {
        if let Some((pfn, order)) = self.held[slot].replace(None) {
            self.disown(pfn, order.frames());
            self.on(|allocator| allocator.any_context().free(pfn, order)).expect("an owner's free is right");
        }
    }

    /// Frees a page from any context that another thread may free as well, without writing its payload.
    pub fn try_free_nolock(&self, page: u64) {
        let is_right = self.on(|allocator| allocator.free_nolock(Pfn(page), Order(0))).is_ok();
        let (right, refused) = self.tried.get();
        self.tried.set((right + u32::from(is_right), refused + u32::from(!is_right)));
    }

    /// Allocates a block and frees it at once.
    pub fn alloc_and_free(&self, order: u8) {
        if let Some(pfn) = self.alloc(order) {
            self.free(pfn, order);
        }
    }

    /// Allocates a block and leaves it in a slot.
    pub fn alloc_into(&self, slot: usize, order: u8) {
        self.held[slot].set(self.alloc(order).map(|pfn| (pfn, Order(order))));
    }

    /// Allocates pages by one call, as many as there are up to that of the slots, and leaves them in these.
    pub fn alloc_bulk_into(&self, slots: &[usize]) {
        let mut pages = vec![Pfn(u64::MAX); slots.len()];
        let request = Request::page(NOWAIT);
        let served = self.on(|allocator| allocator.alloc_bulk(&request, &mut pages)).unwrap_or(0);
        for (&slot, &page) in slots.iter().zip(&pages[..served]) {
            self.hold(page, 0);
            self.put_into(slot, page, 0);
        }
    }

    /// Frees the pages in some slots by one call.
    pub fn free_bulk_from(&self, slots: &[usize]) {
        let pages: Vec<Pfn> =
            slots.iter().filter_map(|&slot| self.held[slot].replace(None)).map(|(pfn, _)| pfn).collect();
        pages.iter().for_each(|&page| self.disown(page, 1));
        let result = self.on(|allocator| allocator.free_bulk(&pages, Order(0)));
        assert_eq!((result.freed, result.first), (pages.len(), None), "an owner's free is right");
    }

    /// Leaves a block in a slot.
    pub fn put_into(&self, slot: usize, pfn: Pfn, order: u8) {
        self.held[slot].set(Some((pfn, Order(order))));
    }

    /// Allocates all memory, page by page.
    pub fn alloc_all(&self) -> Vec<Pfn> {
        let pages: Vec<Pfn> = std::iter::from_fn(|| self.alloc(0)).collect();
        assert_eq!(pages.len() as u64, self.frames, "all memory was free");
        pages
    }

    /// Leaves those of these pages that `held` names in the slots given there, and frees the others.
    pub fn keep(&self, pages: Vec<Pfn>, held: &[(u64, usize)]) {
        for page in pages {
            match held.iter().find(|&&(held, _)| held == page.0) {
                Some(&(_, slot)) => self.put_into(slot, page, 0),
                None => self.free(page, 0),
            }
        }
    }

    /// Frees the block in a slot.
    pub fn free_from(&self, slot: usize) {
        if let Some((pfn, order)) = self.held[slot].replace(None) {
            self.free(pfn, order.0);
        }
    }

    /// The block in a slot.
    pub fn block_in(&self, slot: usize) -> Option<(Pfn, Order)> {
        self.held[slot].get()
    }

    /// Allocates a range; returns whether that succeeded.
    pub fn alloc_range(&self, start: u64, end: u64) -> bool {
        let range = PfnRange::new(start, end);
        let taken = self.on(|allocator| allocator.alloc_range(range, NOWAIT)).is_ok();
        if taken {
            self.own(range.start, range.frames());
        }
        taken
    }

    /// Allocates a free frame that no other thread wants.
    pub fn take_own(&self, frame: u64) {
        assert!(self.alloc_range(frame, frame + 1), "frame {frame} is free, and nobody else wants it");
    }

    /// Frees a range.
    pub fn free_range(&self, start: u64, end: u64) {
        let range = PfnRange::new(start, end);
        self.disown(range.start, range.frames());
        self.on(|allocator| allocator.free_range(range)).expect("an owner's free is right");
    }

    /// Frees a range of which another thread may free a part as well, without writing payloads.
    pub fn try_free_range(&self, start: u64, end: u64) {
        let is_right = self.on(|allocator| allocator.free_range(PfnRange::new(start, end))).is_ok();
        let (right, refused) = self.tried.get();
        self.tried.set((right + u32::from(is_right), refused + u32::from(!is_right)));
    }

    /// Returns the number of these frees that were right, and that were refused; drops the owners of the freed pages.
    pub fn tried(&self) -> (u32, u32) {
        for (page, pfn) in self.pages.iter().zip(0..) {
            let state = self.on(|allocator| allocator.state_of(Pfn(pfn)));
            if page.owned.get() && !matches!(state, FrameState::Allocated(..)) {
                page.owned.set(false);
                let (allocated, freed) = self.traffic.get();
                self.traffic.set((allocated, freed + 1));
            }
        }
        self.tried.get()
    }

    /// Takes a range offline; returns whether that succeeded.
    pub fn offline(&self, start: u64, end: u64) -> bool {
        let range = PfnRange::new(start, end);
        let is_offline = self.on(|allocator| allocator.take_offline(range)).is_ok();
        if is_offline {
            let (allocated, freed) = self.traffic.get();
            self.traffic.set((allocated + range.frames(), freed + range.frames()));
        }
        is_offline
    }

    /// Brings a range online that is offline.
    pub fn online(&self, start: u64, end: u64) {
        let range = PfnRange::new(start, end);
        assert_eq!(self.on(|allocator| allocator.bring_online(range)), range.frames());
    }

    /// Takes a range offline and, if that succeeded, online again.
    pub fn offline_and_online(&self, start: u64, end: u64) {
        if self.offline(start, end) {
            self.online(start, end);
        }
    }

    /// Gives the first pageblock another type.
    pub fn set_type(&self, migratetype: MigrateType) {
        assert_eq!(self.on(|allocator| allocator.set_pageblock_type(Pfn(0), migratetype)), Ok(()));
    }

    /// Drains the lists of a CPU; returns the number of frames.
    pub fn drain(&self, cpu: u16) -> u64 {
        self.on(|allocator| allocator.drain_cpu(CpuId(cpu)))
    }

    /// Counts changes in the embedder's counter; the running CPU may keep up to 4.
    pub fn count(&self, changes: &[i64]) {
        for &change in changes {
            assert!(self.on(|allocator| allocator.count_in_node(NodeId(0), 0, change)));
            self.counted.set(self.counted.get() + change);
        }
    }

    /// Takes a CPU offline.
    pub fn offline_cpu(&self, cpu: u16) {
        self.on(|allocator| _ = allocator.offline_cpu(CpuId(cpu)));
    }

    /// Signals to another thread.
    pub fn signal(&self, value: u32) {
        self.flag.store(value, Ordering::Release);
    }

    /// Waits until another thread signalled `value`.
    pub fn await_signal(&self, value: u32) {
        let _ = self.flag.wait_while(framewright::machine::Patience::Turn, |now| now < value);
    }

    /// Like [`Stage::check`]; also checks that the first frames are one free block.
    ///
    /// # Panics
    /// They are not, or an invariant is violated.
    pub fn is_whole(&self, order: u8) {
        self.check();
        let state = self.on(|allocator| allocator.state_of(Pfn(1)));
        assert_eq!(state, FrameState::Free(Pfn(0), Order(order)), "buddies did not merge");
    }

    /// Checks every invariant, the number of frames, and the counters.
    ///
    /// # Panics
    /// One is violated.
    pub fn check(&self) -> FrameCounts {
        let census = match self.on(|allocator| allocator.validate()) {
            Ok(census) => census,
            Err(violation) => panic!("{violation}"),
        };
        let owned = self.pages.iter().filter(|page| page.owned.get()).count() as u64;
        assert_eq!((census.present, census.allocated), (self.frames, owned), "frames are lost or doubled: {census:?}");
        let events = self.on(|allocator| allocator.events());
        // Frames whose free was deferred, because their zone was locked, are counted when they are back there.
        let counted = (events.pgalloc.iter().sum::<u64>(), events.pgfree + census.in_flight);
        assert_eq!(counted, self.traffic.get(), "frames allocated and freed were counted wrong");
        assert_eq!(census.quarantined, 0, "descriptors were damaged");
        assert_eq!(self.on(|allocator| allocator.counters()).repairs, 0, "lists had to be repaired");
        census
    }
}
