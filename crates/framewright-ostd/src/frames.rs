//! The three calls of OSTD's trait, and boot.
//!
//! OSTD adds all memory on one CPU, and then allocates on it. Boot is therefore the first allocation:
//!
//! 1. The noted ranges, with the memory below them, are the map ([`crate::ranges`]).
//! 2. The descriptors take the end of the highest range that has room, and OSTD's metadata says so ([`Host::claim`]).
//! 3. The memory below the ranges is allocated, because OSTD uses it already.
//!
//! Marks are 0: nothing here reclaims memory, so a reserve would be memory that nobody gets.
//!
//! Cost: boot writes the descriptors, about 23 bytes a frame of 1 GiB.
//!
//! Rejected: descriptors in a static. Their size would limit the memory of every machine that a kernel runs on. Boot in
//! `add_free_memory`: the map is not whole then, and no call says that it is.

use core::alloc::Layout;
use core::fmt;

use framewright::request::GFP_NOWAIT;
use framewright::{Config, FreeError, NodeId, Pfn, PfnRange, Request};
use framewright_kernel::{Framewright, Pages, bytes, place};

use crate::host::{Host, Hosted};
use crate::ranges::{MOST, Ranges};

/// Binary logarithm of OSTD's page size.
const PAGE_SHIFT: u8 = 12;
/// What OSTD's callers ask for: no one may wait, and nothing can be moved.
const REQUEST: Request = Request::page(GFP_NOWAIT);
/// The node of each CPU, for as many CPUs as there may be.
static NODES: [NodeId; 4096] = [NodeId(0); 4096];

/// All frames of a kernel.
pub struct Frames<H: Host> {
    cell: Framewright<Hosted<H>>,
    ranges: Ranges,
}

/// Why the allocator has not booted.
enum Refused {
    Cpus(usize),
    Kit(framewright_kernel::Error),
    NoPlace { bytes: usize },
    InUse { place: PfnRange },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Cpus(cpus) => write!(f, "{cpus} CPUs are more than {}", NODES.len()),
            Refused::Kit(error) => error.fmt(f),
            Refused::NoPlace { bytes } => write!(f, "no added range has room for {bytes} bytes of descriptors"),
            Refused::InUse { place } => write!(f, "frames {place}, for the descriptors, are in use"),
        }
    }
}

impl<H: Host> Frames<H> {
    /// Returns an allocator without memory.
    #[expect(clippy::new_without_default, reason = "a static needs a constant, which a trait cannot give")]
    pub const fn new() -> Self {
        Frames { cell: Framewright::new(), ranges: Ranges::new() }
    }

    /// Allocates frames by their layout; returns the first one's address.
    ///
    /// The first call boots the allocator. None if no memory is left, or no stretch of it is long enough.
    pub fn alloc(&self, layout: Layout) -> Option<usize> {
        H::without_interrupts(|| {
            let pages = match self.cell.get() {
                Some(pages) => pages,
                None => self.boot()?,
            };
            let range = pages.alloc_exact(layout.size() as u64, layout.align() as u64, &REQUEST).ok()?;
            usize::try_from(range.bytes(PAGE_SHIFT).start).ok()
        })
    }

    /// Frees frames that were allocated, or that OSTD took early: all of an allocation, or any part.
    ///
    /// A refused free changes nothing, and the console says why.
    pub fn dealloc(&self, addr: usize, size: usize) {
        let range = frames(addr, size);
        match self.with_pages(|pages| pages.free_exact(range)) {
            Some(Ok(())) => {}
            Some(Err(error)) => not_freed::<H>(range, error),
            None => H::say(format_args!("frames {range} were freed before any was allocated; they are lost")),
        }
    }

    /// Adds memory, before the first allocation. Memory that comes later is lost, and the console says so.
    pub fn add_free_memory(&self, addr: usize, size: usize) {
        let range = frames(addr, size);
        if self.cell.get().is_some() {
            H::say(format_args!("frames {range} were added after the first allocation; they are lost"));
        } else if !self.ranges.note(range) {
            H::say(format_args!("frames {range} are one range more than {MOST}; they are lost"));
        }
    }

    /// Calls `call` with the allocator and the CPU's interrupts off; none before the first allocation.
    pub fn with_pages<R>(&self, call: impl FnOnce(&Pages<Hosted<H>>) -> R) -> Option<R> {
        H::without_interrupts(|| self.cell.get().map(call))
    }

    #[cold]
    #[inline(never)]
    fn boot(&self) -> Option<&Pages<Hosted<H>>> {
        self.try_boot().map_err(|refused| H::say(format_args!("no allocator: {refused}"))).ok()
    }

    fn try_boot(&self) -> Result<&Pages<Hosted<H>>, Refused> {
        let map = self.ranges.map();
        let cpus = NODES.get(..H::cpus()).ok_or(Refused::Cpus(H::cpus()))?;
        let early = map.early.as_slice();
        // One zone: OSTD has no word for others.
        let config = Config {
            allocated: early,
            dma_end: Pfn(0),
            dma32_end: Pfn(0),
            min_free_kbytes: Some(0),
            watermark_scale_factor: 0,
            ..Config::new(map.regions.as_slice(), cpus)
        };
        let bytes = bytes::<Hosted<H>>(&config).map_err(Refused::Kit)?;
        let own = place(&config, bytes, PfnRange::new(0, u64::MAX)).ok_or(Refused::NoPlace { bytes })?;
        let at = own.bytes(PAGE_SHIFT);
        let claimed = usize::try_from(at.start).ok().zip(usize::try_from(at.end).ok());
        let block = claimed.and_then(|(start, end)| H::claim(start..end)).ok_or(Refused::InUse { place: own })?;
        let config = Config { reserved: &[own], ..config };
        self.cell.boot(Hosted::KERNEL, &config, own, block).map_err(Refused::Kit)
    }
}

#[cold]
fn not_freed<H: Host>(range: PfnRange, error: FreeError) {
    H::say(format_args!("frames {range} are not freed: {error}"));
}

/// Returns the whole frames of `size` bytes from `addr` on.
fn frames(addr: usize, size: usize) -> PfnRange {
    PfnRange::within_bytes(addr as u64, (addr as u64).saturating_add(size as u64), PAGE_SHIFT)
}
