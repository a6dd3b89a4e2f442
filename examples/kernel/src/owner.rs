//! An owner of blocks: a thread, the interrupts of a CPU, or its NMIs.
//!
//! Each has slots for blocks, random numbers and counts, which it alone writes. A step fills a slot, empties it, or
//! exchanges its block for one in a common slot. So blocks are freed by another owner, in another kind of context and
//! on another CPU than they were allocated by. Each block is tagged after its allocation and checked before its free.

use core::sync::atomic::{AtomicU64, Ordering};

use framewright::request::{
    __GFP_MOVABLE, __GFP_RECLAIMABLE, __GFP_ZERO, GFP_ATOMIC, GFP_KERNEL, GFP_NOWAIT, GFP_USER, Gfp,
};
use framewright::units::{Order, Pfn};
use framewright::{AllocError, FreeError, Interrupt, Request};
use framewright_kernel::KernelMachine;

use crate::arch::nanoseconds;
use crate::cpu::MAX_CPUS;
use crate::pages::{Machine, Pages};
use crate::tag::Block;
use crate::threads::MAX_THREADS;
use crate::{report, serial};

/// Blocks that an owner keeps at most.
const SLOTS: usize = 64;
/// Pages of a bulk call.
const BULK: usize = 32;

/// Number of the first CPU's interrupts as an owner; a thread's is its own.
pub(crate) const INTERRUPTS: usize = MAX_THREADS;
/// Number of the first CPU's NMIs as an owner.
pub(crate) const NMIS: usize = INTERRUPTS + MAX_CPUS;

static OWNERS: [Owner; NMIS + MAX_CPUS] = [const { Owner::new() }; NMIS + MAX_CPUS];
static COMMON: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];

/// A thread, the interrupts of a CPU or its NMIs: its blocks and counts.
#[repr(align(128))]
pub(crate) struct Owner {
    slots: [AtomicU64; SLOTS],
    random: AtomicU64,
    /// Calls of this owner, whatever they did: turns of a thread's loop, interrupts, NMIs.
    pub(crate) calls: AtomicU64,
    /// Blocks and ranges that were allocated.
    pub(crate) allocated: AtomicU64,
    /// Blocks and ranges that were freed.
    pub(crate) freed: AtomicU64,
    /// Allocations that failed: no memory, or a locked zone in an NMI.
    pub(crate) failed: AtomicU64,
    /// Pages whose tags were checked.
    pub(crate) checked: AtomicU64,
}

impl Owner {
    const fn new() -> Owner {
        Owner {
            slots: [const { AtomicU64::new(0) }; SLOTS],
            random: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            allocated: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            checked: AtomicU64::new(0),
        }
    }
}

/// Adds to a count that the caller alone writes.
pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// Calls of one kind of context, for one owner.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) owner: &'static Owner,
    pub(crate) number: u16,
    way: Way,
}

#[derive(Clone, Copy)]
pub(crate) enum Way {
    Thread,
    Interrupt,
    Nmi,
}

impl Caller {
    pub(crate) fn new(number: usize, way: Way) -> Caller {
        Caller { owner: &OWNERS[number], number: number as u16, way }
    }

    /// Returns a random number (xorshift64).
    pub(crate) fn random(self) -> u64 {
        let mut state = self.owner.random.load(Ordering::Relaxed);
        if state == 0 {
            state = nanoseconds() | 1;
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.owner.random.store(state, Ordering::Relaxed);
        state >> 8
    }

    /// Returns a random request that this kind of context may make.
    fn request(self) -> Request {
        let random = self.random();
        let order = match (self.way, random & 0xff) {
            (_, 0..160) => 0,
            (Way::Interrupt | Way::Nmi, bits) => bits % 4,
            (Way::Thread, 160..250) => 1 + (random >> 8) % 3,
            (Way::Thread, 250..255) => 4 + (random >> 8) % 5,
            (Way::Thread, _) => 9 + (random >> 8) % 2,
        };
        const OF_THREADS: [Gfp; 6] = [
            GFP_KERNEL,
            Gfp(GFP_USER.0 | __GFP_MOVABLE.0),
            Gfp(GFP_KERNEL.0 | __GFP_RECLAIMABLE.0),
            Gfp(GFP_KERNEL.0 | __GFP_ZERO.0),
            GFP_ATOMIC,
            GFP_NOWAIT,
        ];
        let gfp = match self.way {
            Way::Thread => OF_THREADS[(random >> 16) as usize % OF_THREADS.len()],
            Way::Interrupt | Way::Nmi => GFP_ATOMIC,
        };
        Request::new(gfp, order as u8)
    }

    fn alloc(self, pages: &Pages) -> Option<Block> {
        let request = self.request();
        let result = match self.way {
            Way::Thread => pages.alloc(&request),
            Way::Interrupt => in_interrupt(pages).alloc(&request),
            Way::Nmi => pages.any_context().alloc(&request),
        };
        match result {
            Ok(pfn) => {
                let block = Block::new(pfn, request.order, self.number);
                self.own(block, request.order.frames(), request.gfp.contains(__GFP_ZERO));
                Some(block)
            }
            Err(AllocError::NoMemory { .. } | AllocError::Locked) => {
                count(&self.owner.failed, 1);
                None
            }
            Err(error) => serial::die(format_args!("owner {}: allocation: {error}", self.number)),
        }
    }

    /// Checks and frees a block; returns it if that must be tried again.
    fn free(self, pages: &Pages, block: Block) -> Option<Block> {
        let order = block.order();
        self.release(block, order.frames());
        let result = match self.way {
            Way::Thread | Way::Interrupt => pages.free(block.pfn(), order),
            Way::Nmi => pages.any_context().free(block.pfn(), order),
        };
        match result {
            Ok(()) => None,
            Err(FreeError::Busy(_)) => {
                self.own(block, order.frames(), false);
                Some(block)
            }
            Err(error) => report::wrong_free(self.number, error),
        }
    }

    /// Tags a block that was just allocated, and zeroed if `zeroed` says so.
    pub(crate) fn own(self, block: Block, frames: u64, zeroed: bool) {
        block.write(frames, zeroed).unwrap_or_else(|page| report::wrong_page(self.number, &page));
        count(&self.owner.allocated, 1);
    }

    /// Checks the tags of a block that is about to be freed.
    pub(crate) fn release(self, block: Block, frames: u64) {
        block.check(frames).unwrap_or_else(|page| report::wrong_page(self.number, &page));
        count(&self.owner.freed, 1);
        count(&self.owner.checked, frames);
    }

    /// Fills or empties one slot, or exchanges its block for a common one.
    pub(crate) fn step(self, pages: &Pages) {
        let random = self.random();
        let slot = &self.owner.slots[random as usize % SLOTS];
        let block = Block(slot.swap(0, Ordering::Acquire));
        let new = if random >> 16 & 7 == 0 {
            Block(COMMON[(random >> 20) as usize % SLOTS].swap(block.0, Ordering::AcqRel))
        } else if block == Block::NONE {
            self.alloc(pages).unwrap_or(Block::NONE)
        } else {
            self.free(pages, block).unwrap_or(Block::NONE)
        };
        slot.store(new.0, Ordering::Release);
    }

    /// Allocates up to `most` contiguous frames, and frees them after `meanwhile`.
    pub(crate) fn range(self, pages: &Pages, most: u64, meanwhile: fn()) {
        let frames = 1 + self.random() % most;
        let align = Order((self.random() % 10) as u8);
        let request = Request::page(GFP_KERNEL);
        let result = match self.way {
            Way::Interrupt => in_interrupt(pages).alloc_contig(frames, align, &request),
            Way::Thread | Way::Nmi => pages.alloc_contig(frames, align, &request),
        };
        let Ok(range) = result else {
            count(&self.owner.failed, 1);
            return;
        };
        let block = Block::range(range.start, self.number);
        self.own(block, frames, false);
        meanwhile();
        self.release(block, frames);
        if let Err(error) = pages.free_range(range) {
            report::wrong_free(self.number, error);
        }
    }

    /// Allocates and frees pages in bulk.
    pub(crate) fn bulk(self, pages: &Pages) {
        let request = Request { order: Order(0), ..self.request() };
        let mut frames = [Pfn(0); BULK];
        let Ok(length) = pages.alloc_bulk(&request, &mut frames) else {
            count(&self.owner.failed, 1);
            return;
        };
        let frames = &frames[..length];
        for &pfn in frames {
            self.own(Block::new(pfn, Order(0), self.number), 1, request.gfp.contains(__GFP_ZERO));
        }
        for &pfn in frames {
            self.release(Block::new(pfn, Order(0), self.number), 1);
        }
        if let Some((_, error)) = pages.free_bulk(frames, Order(0)).first {
            report::wrong_free(self.number, error);
        }
    }
}

/// Returns the calls that an interrupt may make.
fn in_interrupt(pages: &Pages) -> Interrupt<'_, 'static, KernelMachine<Machine>> {
    let Some(calls) = pages.interrupt() else {
        serial::die(format_args!("an interrupt has no CPU of the allocator"));
    };
    calls
}

/// Returns the owners: threads, interrupts, NMIs.
pub(crate) fn all() -> [&'static [Owner]; 3] {
    let (threads, others) = OWNERS.split_at(INTERRUPTS);
    let (interrupts, nmis) = others.split_at(MAX_CPUS);
    [threads, interrupts, nmis]
}

/// Checks and frees every block that any owner has. Context: a thread, and every owner at rest.
pub(crate) fn free_all(pages: &Pages) {
    let caller = Caller::new(0, Way::Thread);
    for slot in OWNERS.iter().flat_map(|owner| &owner.slots).chain(&COMMON) {
        let block = Block(slot.swap(0, Ordering::Acquire));
        if block != Block::NONE && caller.free(pages, block).is_some() {
            serial::die(format_args!("a free at rest found the allocator busy"));
        }
    }
}
