//! The description of an arena, option by option.

use std::sync::Arc;
use std::time::Duration;

use framewright::watermark::PcpSize;
use framewright::{Mechanisms, Order};

use super::backing::{Backing, Transparent};
use super::reclaim::Asked;
use crate::background::Background;
use crate::callbacks::Callbacks;
use crate::cpus::CpuMode;
use crate::movable::{PageOwner, Shrink};
use crate::os::{Placement, page_size};

/// One node's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) bytes: u64,
    pub(super) placement: Placement,
}

/// What an [`crate::Arena`] shall be. Begin with [`crate::Arena::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing is built until `build` is called"]
pub struct ArenaBuilder {
    pub(super) parts: Vec<Part>,
    pub(super) backing: Backing,
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
}

impl Default for ArenaBuilder {
    fn default() -> Self {
        ArenaBuilder {
            parts: Vec::new(),
            backing: Backing::Private,
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
        }
    }
}

impl ArenaBuilder {
    /// One node of `bytes` bytes, anywhere. Replaces the nodes named so far.
    pub fn size(self, bytes: u64) -> Self {
        ArenaBuilder { parts: Vec::new(), ..self }.node(bytes, Placement::Anywhere)
    }

    /// One more node, of `bytes` bytes; the first is node 0. With several nodes each is a multiple of the pageblock (2 MiB).
    /// Where the machine has fewer nodes, or for a try on a laptop, nodes placed [`Placement::Anywhere`] are labels only.
    pub fn node(mut self, bytes: u64, placement: Placement) -> Self {
        self.parts.push(Part { bytes, placement });
        self
    }

    /// What stands behind the addresses; private memory by default.
    pub fn backing(self, backing: Backing) -> Self {
        ArenaBuilder { backing, ..self }
    }

    /// Transparent huge pages; as the system is set up by default.
    pub fn transparent(self, transparent: Transparent) -> Self {
        ArenaBuilder { transparent, ..self }
    }

    /// Makes every page when the arena is built (Linux 5.14), so that memory that there is not is an error then, and neither
    /// a signal nor a killed process later.
    pub fn populate(self, populate: bool) -> Self {
        ArenaBuilder { populate, ..self }
    }

    /// Whether a placement or advice that the system refuses is an error. By default it is not: [`crate::Arena::report`] says
    /// what was refused.
    pub fn strict(self, strict: bool) -> Self {
        ArenaBuilder { strict, ..self }
    }

    /// Size of a page in bytes: what order 0 is. By default that of the kernel, which is also the least: 4 KiB on x86-64.
    pub fn page(self, bytes: u64) -> Self {
        ArenaBuilder { page: bytes, ..self }
    }

    /// Number of the first frame, a multiple of the largest block; 0 by default.
    pub fn first_pfn(self, pfn: u64) -> Self {
        ArenaBuilder { first_pfn: pfn, ..self }
    }

    /// Order of the largest block; by default the largest up to 1 GiB that fits into the largest node.
    pub fn max_order(self, order: u8) -> Self {
        ArenaBuilder { max_order: Some(Order(order)), ..self }
    }

    /// How threads come to the allocator's CPUs: by lease unless told otherwise. Where [`CpuMode::PerCpu`] is not to be had, the
    /// arena leases, and [`crate::Arena::report`] says so; unless the builder is strict.
    pub fn cpu_mode(self, mode: CpuMode) -> Self {
        ArenaBuilder { cpu_mode: mode, ..self }
    }

    /// CPU slots to lease, one more than threads that shall not wait for each other; by default twice as many as the
    /// process may use, and one. They are dealt out to the nodes in turn.
    pub fn cpus(self, slots: usize) -> Self {
        ArenaBuilder { cpus: Some(slots), ..self }
    }

    /// Whether signal handlers that [`crate::interrupts::handle`] has set may allocate and free here; by default their requests
    /// are refused. The arena then has twice as many CPUs, and what they keep.
    ///
    /// A handler that was set by other means must not call the arena, whatever is said here: no call can tell that it comes from one.
    /// If one calls all the same, while its thread holds a lock, it is refused and does not wait for itself ([`crate::interrupts`]).
    pub fn interrupts(self, interrupts: bool) -> Self {
        ArenaBuilder { interrupts, ..self }
    }

    /// Keeps the last `bytes` bytes of each node for movable requests, as zone Movable; whole pageblocks.
    pub fn movable(self, bytes: u64) -> Self {
        ArenaBuilder { movable: bytes, ..self }
    }

    /// Keeps `bytes` bytes from ordinary requests (`min_free_kbytes`), shared out among the nodes, and reserves as Linux does; none by default.
    pub fn min_free(self, bytes: u64) -> Self {
        ArenaBuilder { min_free: bytes, ..self }
    }

    /// Sizes of the per-CPU lists, in frames; by default a sixteenth of each node shared among the CPU slots, at most
    /// 4,096 frames for each.
    ///
    /// A CPU's lists of a node never hold more than `high` frames, blocks of all orders counted. What they hold is within reach of every
    /// request: none fails while it is free.
    pub fn pcp(self, size: PcpSize) -> Self {
        ArenaBuilder { pcp: Some(size), ..self }
    }

    /// The mechanisms at work; [`Mechanisms::DEFAULT`] by default.
    pub fn mechanisms(self, mechanisms: Mechanisms) -> Self {
        ArenaBuilder { mechanisms, ..self }
    }

    /// How often a thread looks which CPUs and depots nobody used since, and gives back what they keep: each second, if nobody
    /// says otherwise.
    pub fn background(self, interval: Duration) -> Self {
        ArenaBuilder { background: Some(interval), ..self }
    }

    /// Starts no thread. What CPUs keep stays with them then until somebody drains: [`crate::Arena::drain`], or
    /// a request that finds no memory elsewhere.
    pub fn without_background(self) -> Self {
        ArenaBuilder { background: None, ..self }
    }

    /// Whose the movable pages are ([`crate::Arena::alloc_movable`]): they leave if it lets them when memory is short. A closure that says whether is enough.
    pub fn movable_pages(mut self, owner: impl PageOwner + 'static) -> Self {
        self.asked.owner = Some(Arc::new(owner));
        self
    }

    /// Somebody else who can do without memory; asked behind the movable pages and those named before.
    pub fn shrinker(mut self, shrinker: Arc<dyn Shrink>) -> Self {
        self.asked.shrinkers.push(shrinker);
        self
    }

    /// Callbacks of the program's own: asked for memory if movable pages and shrinkers gave too little, and to move blocks that are no
    /// movable pages.
    pub fn callbacks(mut self, callbacks: Arc<dyn Callbacks>) -> Self {
        self.asked.callbacks = Some(callbacks);
        self
    }

    /// Starts two threads for each node that free memory and move it together when it becomes short ([`crate::BackgroundReclaim`]). When that
    /// is say the marks, which are 0 unless [`ArenaBuilder::min_free`] says otherwise: then only when there is none.
    pub fn background_reclaim(self) -> Self {
        ArenaBuilder { background_reclaim: true, ..self }
    }
}
