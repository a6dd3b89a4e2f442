//! Physical memory of a kernel like Hermit, by Framewright.
//!
//! `PageRangeAllocator` has the shape of the trait in Hermit's kernel, which is private. There `AllocError` is that of
//! the standard library.

use std::marker::PhantomData;

use framewright::{Config, NodeId, PfnRange, Region, report};
use framewright_free_list::PageRanges;
use framewright_kernel::{Contexts, Framewright, Kernel, bytes};
use free_list::{PageLayout, PageRange};

/// The error of the trait, which has no reason.
#[derive(Debug)]
struct AllocError;

/// What the kernel asks of an allocator of pages.
trait PageRangeAllocator {
    /// Boots the allocator.
    unsafe fn init();
    /// Allocates pages by their layout.
    fn allocate(layout: PageLayout) -> Result<PageRange, AllocError>;
    /// Allocates these pages.
    fn allocate_at(range: PageRange) -> Result<(), AllocError>;
    /// Frees allocated pages.
    unsafe fn deallocate(range: PageRange);
}

/// A range that is freed when it is dropped.
struct PageRangeBox<A: PageRangeAllocator>(PageRange, PhantomData<A>);

impl<A: PageRangeAllocator> Drop for PageRangeBox<A> {
    fn drop(&mut self) {
        // SAFETY: the range is this box's, and nothing uses it any more.
        unsafe { A::deallocate(self.0) }
    }
}

struct Machine;

// SAFETY: the program has one thread and no interrupts.
unsafe impl Kernel for Machine {
    const CONTEXTS: Contexts = Contexts::InterruptsOff;
    fn pin(&self) {}
    fn unpin(&self) {}
    fn irq_save(&self) -> usize {
        0
    }
    fn irq_restore(&self, _: usize) {}
    fn cpu(&self) -> usize {
        0
    }
}

static PAGES: Framewright<Machine> = Framewright::new();

fn ranges() -> Result<PageRanges<'static, 'static, framewright_kernel::KernelMachine<Machine>>, AllocError> {
    PAGES.get().map(PageRanges::new).ok_or(AllocError)
}

/// The allocator of physical memory.
struct FrameAlloc;

impl PageRangeAllocator for FrameAlloc {
    unsafe fn init() {
        let map = [Region::usable(0x100, 0x9000, 0)]; // a kernel reads it from its device tree
        let config = Config::new(&map, &[NodeId(0)]);
        let block = vec![0; bytes::<Machine>(&config).expect("a configuration")].leak();
        PAGES.boot(&Machine, &config, PfnRange::new(0, 0), block).expect("a boot");
    }

    fn allocate(layout: PageLayout) -> Result<PageRange, AllocError> {
        ranges()?.allocate(layout).map_err(|_| AllocError)
    }

    fn allocate_at(range: PageRange) -> Result<(), AllocError> {
        ranges()?.allocate_at(range).map_err(|_| AllocError)
    }

    unsafe fn deallocate(range: PageRange) {
        ranges().expect("booted").deallocate(range).expect("an allocated range");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: called once, and no memory is touched.
    unsafe { FrameAlloc::init() };
    let pages = PAGES.get().ok_or("not booted")?;
    let before = pages.validate()?.free;
    let layout = PageLayout::from_size_align(11 * free_list::PAGE_SIZE, 1 << 16).map_err(|error| error.to_string())?;
    let stack = PageRangeBox::<FrameAlloc>(FrameAlloc::allocate(layout).map_err(|_| "no memory")?, PhantomData);
    println!("a stack: {}", stack.0);
    let device = PageRange::new(0x500_0000, 0x500_3000).map_err(|error| error.to_string())?;
    FrameAlloc::allocate_at(device).map_err(|_| "in use")?;
    assert!(FrameAlloc::allocate_at(device).is_err(), "its pages have an owner now");
    drop(stack);
    // SAFETY: nothing uses the pages.
    unsafe { FrameAlloc::deallocate(device) };
    pages.drain_all();
    assert_eq!(pages.validate()?.free, before, "every page came back");
    print!("{}", report::BuddyInfo(pages));
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
