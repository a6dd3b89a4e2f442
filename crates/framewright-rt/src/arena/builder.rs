//! The description of an arena, option by option.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use framewright::watermark::PcpSize;
use framewright::{Mechanisms, Order};

use super::backing::{Backing, Transparent};
use super::calls::Asked;
use super::hooks::{Change, Commit, Hooks, LowMemory};
use super::owners::{LeakReport, Owners};
use crate::background::Background;
use crate::callbacks::Callbacks;
use crate::cgroup::Cgroup;
use crate::cpus::CpuMode;
use crate::movable::{PageOwner, Shrink};
use crate::os::{Placement, page_size};

/// One node's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) bytes: u64,
    pub(super) placement: Placement,
}

/// The description of an [`crate::Arena`]. Begin with [`crate::Arena::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing is built until `build` is called"]
pub struct ArenaBuilder {
    pub(super) parts: Vec<Part>,
    pub(super) backing: Backing,
    pub(super) file: Option<Arc<File>>,
    pub(super) recoverable: bool,
    pub(super) transparent: Transparent,
    pub(super) populate: bool,
    pub(super) strict: bool,
    pub(super) page: u64,
    pub(super) first_pfn: u64,
    pub(super) max_order: Option<Order>,
    pub(super) cpu_mode: CpuMode,
    pub(super) cpus: Option<usize>,
    pub(super) interrupts: bool,
    pub(super) movable: u64,
    pub(super) min_free: u64,
    pub(super) pcp: Option<PcpSize>,
    pub(super) mechanisms: Mechanisms,
    pub(super) background: Option<Duration>,
    pub(super) asked: Asked,
    pub(super) background_reclaim: bool,
    pub(super) owners: bool,
    pub(super) leaks: Option<LeakReport>,
    pub(super) limit: Option<u64>,
    pub(super) hooks: Hooks,
    pub(super) cgroup: Option<Cgroup>,
    pub(super) shrink_every: Option<Duration>,
}

impl Default for ArenaBuilder {
    fn default() -> Self {
        ArenaBuilder {
            parts: Vec::new(),
            backing: Backing::Private,
            file: None,
            recoverable: false,
            transparent: Transparent::System,
            populate: false,
            strict: false,
            page: page_size() as u64,
            first_pfn: 0,
            max_order: None,
            cpu_mode: CpuMode::Lease,
            cpus: None,
            interrupts: false,
            movable: 0,
            min_free: 0,
            pcp: None,
            mechanisms: Mechanisms::DEFAULT,
            background: Some(Background::INTERVAL),
            asked: Asked::default(),
            background_reclaim: false,
            owners: true,
            leaks: None,
            limit: None,
            hooks: Hooks::default(),
            cgroup: None,
            shrink_every: None,
        }
    }
}

impl ArenaBuilder {
    /// One node of `bytes` bytes, anywhere. Replaces the nodes named so far.
    pub fn size(self, bytes: u64) -> Self {
        ArenaBuilder { parts: Vec::new(), ..self }.node(bytes, Placement::Anywhere)
    }

    /// Adds a node of `bytes` bytes; the first is node 0.
    ///
    /// With several nodes each size is a multiple of the pageblock (2 MiB). Nodes placed [`Placement::Anywhere`] are
    /// labels only: for a machine with fewer nodes, or for a try on a laptop.
    pub fn node(mut self, bytes: u64, placement: Placement) -> Self {
        self.parts.push(Part { bytes, placement });
        self
    }

    /// Lets each node grow to `bytes` bytes, and shrink ([`crate::Arena::grow`], [`crate::Arena::shrink`]).
    ///
    /// The limit and each node's size at first are multiples of the *section*, which is the largest block. It is 2 MiB
    /// unless [`ArenaBuilder::max_order`] says otherwise. The limit's address space is reserved. It is inaccessible
    /// where no memory is present, unless it was handed in ([`ArenaBuilder::build_in`]). A request that may reclaim and
    /// finds no memory grows the arena by itself. Lists of CPUs are sized for the first size, unless
    /// [`ArenaBuilder::pcp`] says otherwise.
    pub fn limit(self, bytes: u64) -> Self {
        ArenaBuilder { limit: Some(bytes), ..self }
    }

    /// Sets the hook that may veto growth: it returns whether the arena may grow.
    pub fn on_grow(mut self, hook: impl Fn(&Change) -> bool + Send + Sync + 'static) -> Self {
        self.hooks.on_grow = Some(Arc::new(hook));
        self
    }

    /// Sets the hook that may veto shrinking: it returns whether the arena may shrink.
    pub fn on_shrink(mut self, hook: impl Fn(&Change) -> bool + Send + Sync + 'static) -> Self {
        self.hooks.on_shrink = Some(Arc::new(hook));
        self
    }

    /// Sets the hook that prepares memory before its use, and is told before it goes.
    pub fn commit(mut self, hook: Arc<dyn Commit>) -> Self {
        self.hooks.commit = Some(hook);
        self
    }

    /// Sets the hook for shortages: a request found a node below its low mark ([`ArenaBuilder::min_free`]).
    ///
    /// It runs on a thread of [`ArenaBuilder::background_reclaim`], which this starts, before that reclaims. Without
    /// marks it runs when a request finds no memory at all.
    pub fn on_low_memory(mut self, hook: impl Fn(&LowMemory) + Send + Sync + 'static) -> Self {
        self.hooks.on_low_memory = Some(Arc::new(hook));
        self.background_reclaim()
    }

    /// Keeps growth by itself away from the limit of a cgroup, which [`crate::Arena::shrink_to_limit`] then reads.
    ///
    /// Growth leaves a sixteenth of the limit. Each request that would grow the arena reads some ten small files.
    pub fn cgroup(self, cgroup: Cgroup) -> Self {
        ArenaBuilder { cgroup: Some(cgroup), ..self }
    }

    /// Starts a thread that calls [`crate::Arena::shrink_to_limit`] at each interval.
    pub fn shrink_every(self, interval: Duration) -> Self {
        ArenaBuilder { shrink_every: Some(interval), ..self }
    }

    /// Sets the kind of memory; private by default.
    pub fn backing(self, backing: Backing) -> Self {
        ArenaBuilder { backing, ..self }
    }

    /// Sets the file that the memory lies in; it must be empty. Its backing is then [`Backing::File`].
    ///
    /// The arena makes it as long as it needs. Another process that makes it shorter ends this one by `SIGBUS`, as does
    /// a file system without room. Only files of file systems in memory are as fast as other memory.
    pub fn file(self, file: File) -> Self {
        ArenaBuilder { file: Some(Arc::new(file)), backing: Backing::File, ..self }
    }

    /// Whether the arena can be recovered after its process was killed ([`crate::Arena::recover`]).
    ///
    /// Its memory is then a memfd or a file, which has a ledger of the held blocks besides. Each allocation and each
    /// free writes to it. Blocks that are allocated or freed through [`crate::Arena::allocator`] are not in it.
    ///
    /// Up to 4,096 threads use it at a time. Of further threads no block in flight is named, and they split no block.
    pub fn recoverable(self, recoverable: bool) -> Self {
        ArenaBuilder { recoverable, ..self }
    }

    /// Transparent huge pages; as the system is set up by default.
    pub fn transparent(self, transparent: Transparent) -> Self {
        ArenaBuilder { transparent, ..self }
    }

    /// Makes every page when the arena is built (Linux 5.14).
    ///
    /// A lack of memory is then an error, and neither a signal nor a killed process later.
    pub fn populate(self, populate: bool) -> Self {
        ArenaBuilder { populate, ..self }
    }

    /// Whether a placement or advice that the system refuses is an error.
    ///
    /// By default it is not, and [`crate::Arena::report`] lists the refusals.
    pub fn strict(self, strict: bool) -> Self {
        ArenaBuilder { strict, ..self }
    }

    /// Size of a page in bytes, which is a block of order 0.
    ///
    /// By default the kernel's page, which is also the least: 4 KiB on x86-64.
    pub fn page(self, bytes: u64) -> Self {
        ArenaBuilder { page: bytes, ..self }
    }

    /// Number of the first frame, a multiple of the largest block; 0 by default.
    pub fn first_pfn(self, pfn: u64) -> Self {
        ArenaBuilder { first_pfn: pfn, ..self }
    }

    /// Order of the largest block.
    ///
    /// By default the largest up to 1 GiB that fits into the largest node; with a limit, 2 MiB.
    pub fn max_order(self, order: u8) -> Self {
        ArenaBuilder { max_order: Some(Order(order)), ..self }
    }

    /// Sets how threads come to the allocator's CPUs; by lease unless told otherwise.
    ///
    /// Where [`CpuMode::PerCpu`] is not available, the arena leases and [`crate::Arena::report`] tells, unless the
    /// builder is strict.
    pub fn cpu_mode(self, mode: CpuMode) -> Self {
        ArenaBuilder { cpu_mode: mode, ..self }
    }

    /// Number of CPU slots to lease, dealt out to the nodes in turn.
    ///
    /// One more than the threads that use the arena, and must not wait for each other. A thread that finds none shares
    /// the last, which costs some 200 ns for a pair of calls. With 1 all threads share. By default one more than twice
    /// the processors that the process may use.
    ///
    /// All but one can be kept by a [`crate::LocalArena`] each.
    pub fn cpus(self, slots: usize) -> Self {
        ArenaBuilder { cpus: Some(slots), ..self }
    }

    /// Whether signal handlers set by [`crate::interrupts::handle`] may allocate and free here.
    ///
    /// By default their requests are refused. With interrupts the arena has twice as many CPUs, and as many more cached
    /// pages.
    ///
    /// A handler that was set by other means must not call the arena in either case: no call can tell that it comes
    /// from one. If one calls nevertheless, while its thread holds a lock, the call is refused and does not wait for
    /// itself ([`crate::interrupts`]).
    pub fn interrupts(self, interrupts: bool) -> Self {
        ArenaBuilder { interrupts, ..self }
    }

    /// Keeps the last `bytes` bytes of each node for movable requests, as zone Movable; whole pageblocks.
    pub fn movable(self, bytes: u64) -> Self {
        ArenaBuilder { movable: bytes, ..self }
    }

    /// Keeps `bytes` bytes from ordinary requests (`min_free_kbytes`); none by default.
    ///
    /// They are shared out among the nodes. Reserves are then those of Linux.
    pub fn min_free(self, bytes: u64) -> Self {
        ArenaBuilder { min_free: bytes, ..self }
    }

    /// Sizes of the per-CPU lists, in frames.
    ///
    /// By default a sixteenth of each node shared among the CPU slots, at most 4,096 frames for each. A CPU's lists of
    /// a node never hold more than `high` frames, blocks of all orders counted. Every request can get them: none fails
    /// while they are free.
    pub fn pcp(self, size: PcpSize) -> Self {
        ArenaBuilder { pcp: Some(size), ..self }
    }

    /// The mechanisms at work; [`Mechanisms::DEFAULT`] by default.
    pub fn mechanisms(self, mechanisms: Mechanisms) -> Self {
        ArenaBuilder { mechanisms, ..self }
    }

    /// Interval at which a thread drains unused CPUs and depots; a second by default.
    pub fn background(self, interval: Duration) -> Self {
        ArenaBuilder { background: Some(interval), ..self }
    }

    /// Starts no thread.
    ///
    /// Pages on the lists of CPUs then stay there until a call of [`crate::Arena::drain`], or a request that finds no
    /// memory elsewhere.
    pub fn without_background(self) -> Self {
        ArenaBuilder { background: None, ..self }
    }

    /// Sets the owner of the movable pages ([`crate::Arena::alloc_movable`]).
    ///
    /// When memory is short, the pages that it allows are evicted. A closure that decides is enough.
    pub fn movable_pages(mut self, owner: impl PageOwner + 'static) -> Self {
        self.asked.owner = Some(Arc::new(owner));
        self
    }

    /// Adds a holder of memory that can be given back; asked after movable pages and earlier shrinkers.
    ///
    /// The arena keeps it. A holder of [`crate::OwnedPages`] keeps the arena, so it is handed over as a
    /// [`Weak`](std::sync::Weak), or emptied at the end. It takes its locks by `try_lock`: [`Shrink`] says why.
    pub fn shrinker(mut self, shrinker: Arc<dyn Shrink>) -> Self {
        self.asked.shrinkers.push(shrinker);
        self
    }

    /// Sets the program's own callbacks.
    ///
    /// They are asked for memory if movable pages and shrinkers gave too little, and to move blocks that are no movable
    /// pages.
    pub fn callbacks(mut self, callbacks: Arc<dyn Callbacks>) -> Self {
        self.asked.callbacks = Some(callbacks);
        self
    }

    /// Starts two threads for each node that reclaim and compact when memory is short ([`crate::BackgroundReclaim`]).
    ///
    /// The marks define when it is. They are 0 unless [`ArenaBuilder::min_free`] sets them: then only when there is no
    /// memory.
    pub fn background_reclaim(self) -> Self {
        ArenaBuilder { background_reclaim: true, ..self }
    }

    /// Keeps no owners of blocks ([`crate::Arena::owners`]).
    ///
    /// By default they are kept where the crate is compiled with debug assertions or with the feature `owners`. Each
    /// allocation and free then takes some more time, and each page up to 8 bytes.
    pub fn without_owners(self) -> Self {
        ArenaBuilder { owners: false, ..self }
    }

    /// Calls `report` when the arena is dropped while blocks are allocated: those that were forgotten or leaked.
    ///
    /// `|owners| eprintln!("{owners}")` prints whose they are.
    pub fn report_leaks(self, report: impl Fn(&Owners<'_>) + Send + Sync + 'static) -> Self {
        ArenaBuilder { leaks: Some(LeakReport(Arc::new(report))), ..self }
    }
}
