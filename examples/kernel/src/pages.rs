//! The page allocator: this kernel as Framewright sees it, and its boot.
//!
//! This file is what a kernel writes to embed it. Everything else is a kernel with or without it.

use core::sync::atomic::{AtomicU64, Ordering};

use framewright::request::GFP_KERNEL;
use framewright::units::{NodeId, Order, Pfn, PfnRange};
use framewright::{Config, Features, Region, Request};
use framewright_kernel::{Context, Contexts, Fences, Framewright, Kernel};

use crate::arch::{self, Loaded};
use crate::cpu::{self, MAX_CPUS, Running};
use crate::fence;
use crate::plant::{self, Plant};
use crate::serial::{self, println};

/// This kernel, to the allocator.
pub(crate) struct Machine;

/// The allocator.
pub(crate) type Pages = framewright_kernel::Pages<Machine>;

static PAGES: Framewright<Machine> = Framewright::new();

// SAFETY: threads switch only where no pin is held, a CPU knows its own number, and a handler says which it is. The
// planted faults break this, which is what they are for.
unsafe impl Kernel for Machine {
    const CONTEXTS: Contexts = Contexts::Interrupts;
    const FENCES: Fences<Self> = Fences::Interrupts {
        fence_others: |_| {
            if !plant::is(Plant::FenceReachesNobody) {
                fence::others();
            }
        },
        interrupts_on: |_| arch::is_interruptible(),
    };
    const FEATURES: Features = Features { zero: true, ..Features::WITHOUT_CONTENTS };

    #[inline]
    fn pin(&self) {
        if !plant::is(Plant::PinKeepsPreemption) {
            cpu::pin();
        }
    }

    #[inline]
    fn unpin(&self) {
        if !plant::is(Plant::PinKeepsPreemption) {
            cpu::unpin();
        }
    }

    #[inline]
    fn irq_save(&self) -> usize {
        arch::irq_save()
    }

    #[inline]
    fn irq_restore(&self, saved: usize) {
        arch::irq_restore(saved);
    }

    #[inline]
    fn cpu(&self) -> usize {
        cpu::number()
    }

    #[inline]
    fn context(&self) -> Context {
        match cpu::running() {
            Running::Thread => Context::Task,
            Running::Interrupt if plant::is(Plant::SharedInterruptCpu) => Context::Task,
            Running::Interrupt => Context::Interrupt,
            Running::Nmi => Context::Other,
        }
    }

    fn zero(&self, pfn: Pfn, order: Order) {
        // SAFETY: the block was just allocated, and all memory is mapped at its address.
        unsafe { core::ptr::write_bytes((pfn.0 << PAGE_SHIFT) as *mut u8, 0, (order.frames() << PAGE_SHIFT) as usize) };
    }
}

const PAGE_SHIFT: u8 = 12;
/// What the page tables map.
const MAPPED: PfnRange = PfnRange::new(0, arch::MAPPED >> PAGE_SHIFT);
/// Entries of the memory map that are used.
const MAX_REGIONS: usize = 32;
/// Stacks have 32 KiB.
const STACK_ORDER: Order = Order(3);

unsafe extern "C" {
    static kernel_start: u8;
    static kernel_end: u8;
}

/// Sets the allocator up over the loader's memory map.
///
/// Context: the first CPU, once, before the others start.
pub(crate) fn boot(loaded: Loaded, cpus: usize) {
    let mut regions = [Region::usable(0, 0, 0); MAX_REGIONS];
    let whole = |(start, end): (u64, u64)| {
        let PfnRange { start, end } = PfnRange::within_bytes(start, end, PAGE_SHIFT);
        Region::usable(start.0, end.0, 0)
    };
    let usable = loaded.memory().map(whole).filter(|region| !region.range.is_empty());
    let count = regions.iter_mut().zip(usable).map(|(place, region)| *place = region).count();
    let regions = &mut regions[..count];
    regions.sort_unstable_by_key(|region| region.range.start);
    for Region { range, .. } in &*regions {
        println!("memory: frames {:#x} to {:#x}", range.start.0, range.end.0);
    }
    let image = PfnRange::around_bytes(&raw const kernel_start as u64, &raw const kernel_end as u64, PAGE_SHIFT);
    let (start, end) = loaded.in_use();
    let firmware = PfnRange::around_bytes(start, end, PAGE_SHIFT);
    let nodes = [NodeId(0); MAX_CPUS];
    let config = Config { reserved: &[firmware, image], ..Config::new(regions, &nodes[..cpus]) };
    if let Some((zone, end)) = config.lost_zone() {
        println!("memory: no zone {zone}: its end, frame {end}, lies inside its first pageblock");
    }
    let map = |own: PfnRange| {
        println!("descriptors: frames {:#x} to {:#x}", own.start.0, own.end.0);
        let (start, bytes) = ((own.start.0 << PAGE_SHIFT) as *mut u8, (own.frames() << PAGE_SHIFT) as usize);
        // SAFETY: these frames are usable and not reserved, so nothing else is there, and all memory is mapped.
        unsafe { core::slice::from_raw_parts_mut(start, bytes) }
    };
    if let Err(error) = PAGES.boot_within(&Machine, &config, MAPPED, map) {
        serial::refuse(format_args!("the allocator does not boot: {error}"));
    }
}

/// Returns the allocator; `None` before its boot.
pub(crate) fn started() -> Option<&'static Pages> {
    PAGES.get()
}

/// Returns the allocator. Context: after its boot.
pub(crate) fn get() -> &'static Pages {
    let Some(pages) = started() else { serial::die(format_args!("the allocator is used before its boot")) };
    pages
}

/// Frames of all stacks.
static STACK_FRAMES: AtomicU64 = AtomicU64::new(0);

/// Returns the end of a new stack.
pub(crate) fn stack() -> u64 {
    let request = Request { order: STACK_ORDER, ..Request::page(GFP_KERNEL) };
    match get().alloc(&request) {
        Ok(pfn) => {
            STACK_FRAMES.fetch_add(STACK_ORDER.frames(), Ordering::Relaxed);
            (pfn.0 + STACK_ORDER.frames()) << PAGE_SHIFT
        }
        Err(error) => serial::die(format_args!("no memory for a stack: {error}")),
    }
}

/// Returns the frames that stacks have.
pub(crate) fn stack_frames() -> u64 {
    STACK_FRAMES.load(Ordering::Relaxed)
}
