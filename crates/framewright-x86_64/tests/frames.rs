//! The traits of `x86_64` over an allocator: each size, every frame once, and what is refused.

use framewright::request::{__GFP_MOVABLE, GFP_KERNEL};
use framewright::{AllocError, Config, FrameState, FreeError, NodeId, Order, Pfn, PfnRange, Region, Request};
use framewright_kernel::{Contexts, Framewright, Kernel, Pages, bytes};
use framewright_x86_64::Frames;
use x86_64::structures::paging::{FrameAllocator, FrameDeallocator, PageSize, PhysFrame, Size1GiB, Size2MiB, Size4KiB};

struct One;

// SAFETY: each test has a thread and an allocator of its own.
unsafe impl Kernel for One {
    const CONTEXTS: Contexts = Contexts::Tasks;
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

/// Boots an allocator of the frames up to `end`, checks that all came back from `test`.
fn on_memory(end: u64, test: impl FnOnce(&Pages<One>, Frames<'_, '_, framewright_kernel::KernelMachine<One>>)) {
    let map = [Region::usable(0x100, end, 0)];
    let config = Config::new(&map, &[NodeId(0)]);
    let block = Vec::leak(vec![0; bytes::<One>(&config).unwrap()]);
    let cell: &'static Framewright<One> = Box::leak(Box::new(Framewright::new()));
    let pages = cell.boot(&One, &config, PfnRange::new(0, 0), block).unwrap();
    let before = pages.validate().unwrap().free;
    // SAFETY: no memory is touched.
    test(pages, unsafe { Frames::new(pages) });
    pages.drain_all();
    assert_eq!(pages.validate().unwrap().free, before);
}

fn come_and_go<S: PageSize>(
    pages: &Pages<One>,
    mut frames: impl FrameAllocator<S> + FrameDeallocator<S>,
    least: usize,
) {
    let held: Vec<PhysFrame<S>> = std::iter::from_fn(|| frames.allocate_frame()).collect();
    assert!(held.len() >= least, "{} frames of {} bytes", held.len(), S::SIZE);
    let mut starts: Vec<u64> = held.iter().map(|frame| frame.start_address().as_u64()).collect();
    starts.sort_unstable();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= S::SIZE), "no two overlap");
    assert!(starts.iter().all(|start| start % S::SIZE == 0));
    // SAFETY: nothing uses the frames.
    held.into_iter().for_each(|frame| unsafe { frames.deallocate_frame(frame) });
    assert_eq!(pages.counters().bad_frees, 0);
}

#[test]
fn frames_of_each_size_come_and_go() {
    on_memory(0x8000, |pages, frames| come_and_go::<Size4KiB>(pages, frames, 0x7000));
    on_memory(0x8000, |pages, frames| come_and_go::<Size2MiB>(pages, frames, 58));
    // Four largest blocks of a GiB lie below; the first begins with a hole.
    on_memory(0x10_0000, |pages, frames| come_and_go::<Size1GiB>(pages, frames, 3));
}

#[test]
fn frames_are_unmovable_unless_asked() {
    on_memory(0x8000, |pages, frames| {
        let movable = frames.with(Request::page(GFP_KERNEL | __GFP_MOVABLE));
        let held: [PhysFrame<Size4KiB>; 2] = [frames.allocate().unwrap(), movable.allocate().unwrap()];
        let pageblock = |frame: PhysFrame| Pfn(frame.start_address().as_u64() >> 12).align_down(Order(9));
        assert_ne!(pageblock(held[0]), pageblock(held[1]), "mobilities are kept apart");
        // SAFETY: nothing uses the frames.
        held.into_iter().for_each(|frame| unsafe { frames.deallocate(frame).unwrap() });
        assert_eq!(pages.counters().bad_frees, 0);
    });
}

#[test]
fn a_huge_frame_is_freed_in_small_ones() {
    on_memory(0x8000, |pages, frames| {
        let huge: PhysFrame<Size2MiB> = frames.allocate().unwrap();
        let first = PhysFrame::<Size4KiB>::containing_address(huge.start_address());
        for small in PhysFrame::range(first, first + 512) {
            // SAFETY: nothing uses the frame.
            unsafe { frames.deallocate(small) }.unwrap();
        }
        assert_eq!(pages.counters().bad_frees, 0);
    });
}

#[test]
fn what_fails_says_why_and_changes_nothing() {
    on_memory(0x8000, |pages, mut frames| {
        assert!(matches!(frames.allocate::<Size1GiB>(), Err(AllocError::NoMemory { .. })));
        let page: PhysFrame<Size4KiB> = frames.allocate().unwrap();
        let pfn = Pfn(page.start_address().as_u64() >> 12);
        assert_eq!(pages.state_of(pfn), FrameState::Allocated(pfn, Order(0)));
        // SAFETY: nothing uses the frames; all frees but the first are refused.
        unsafe {
            frames.deallocate(page).unwrap();
            assert_eq!(frames.deallocate(page), Err(FreeError::AlreadyFree(pfn)));
            frames.deallocate_frame(page);
            let outside = PhysFrame::<Size2MiB>::containing_address(x86_64::PhysAddr::new(1 << 51));
            assert_eq!(frames.deallocate(outside), Err(FreeError::Foreign(Pfn(1 << 39))));
        }
        assert_eq!(pages.counters().bad_frees, 3);
    });
}
