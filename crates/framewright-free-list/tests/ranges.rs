//! Page ranges over an allocator, beside a `FreeList` that serves the same calls.

use framewright::{AllocError, Config, FreeError, NodeId, Pfn, PfnRange, Region};
use framewright_free_list::PageRanges;
use framewright_kernel::{Contexts, Framewright, Kernel, Pages, bytes};
use free_list::{FreeList, PAGE_SIZE, PageLayout, PageRange};

struct One;

// SAFETY: each test has a thread and an allocator of its own.
unsafe impl Kernel for One {
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

/// Usable memory, in frames; the hole is as large as a largest block.
const MAP: [Region; 2] = [Region::usable(0x400, 0x2000, 0), Region::usable(0x2400, 0x4000, 0)];

fn boot() -> &'static Pages<One> {
    let config = Config::new(&MAP, &[NodeId(0)]);
    let block = Vec::leak(vec![0; bytes::<One>(&config).unwrap()]);
    let cell: &'static Framewright<One> = Box::leak(Box::new(Framewright::new()));
    cell.boot(&One, &config, PfnRange::new(0, 0), block).unwrap()
}

fn pages(start: usize, end: usize) -> PageRange {
    PageRange::new(start * PAGE_SIZE, end * PAGE_SIZE).unwrap()
}

/// A few random calls; the numbers repeat.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % limit
    }
}

/// Ranges of any size and alignment, at any place, freed in any parts: a `FreeList` agrees with each answer about a place.
#[test]
fn a_free_list_agrees() {
    let allocator = boot();
    let (ranges, mut list) = (PageRanges::new(allocator), FreeList::<64>::new());
    let before = allocator.validate().unwrap().free;
    for region in MAP {
        // SAFETY: no memory is touched.
        unsafe { list.deallocate(pages(region.range.start.0 as usize, region.range.end.0 as usize)) }.unwrap();
    }
    let (mut numbers, mut held) = (Numbers(7), Vec::<PageRange>::new());
    for turn in 0..6000 {
        let count = 1 + if numbers.below(8) == 0 { numbers.below(1500) } else { numbers.below(20) };
        match numbers.below(4) {
            0 => {
                let layout = PageLayout::from_size_align(count * PAGE_SIZE, PAGE_SIZE << numbers.below(8)).unwrap();
                if let Ok(range) = ranges.allocate(layout) {
                    assert_eq!((range.len().get(), range.start() % layout.align()), (layout.size(), 0));
                    list.allocate_at(range).expect("free in the list too");
                    held.push(range);
                } else {
                    assert!(turn > 100, "most memory is free");
                }
            }
            1 => {
                let start = numbers.below(0x4400 - count);
                // Two zones meet at the end of DMA memory, and a range lies in one.
                let crosses = start < 0x1000 && start + count > 0x1000;
                let range = pages(start, start + count);
                let found = ranges.allocate_at(range);
                assert!(!crosses || found.is_err());
                if !crosses {
                    assert_eq!(found.is_ok(), list.allocate_at(range).is_ok(), "{range}: {found:?}");
                }
                held.extend(found.is_ok().then_some(range));
            }
            _ if held.is_empty() => {}
            _ => {
                let range = held.swap_remove(numbers.below(held.len()));
                let (first, count) = (range.start() / PAGE_SIZE, range.pages().get());
                let part = first + numbers.below(count);
                let part = pages(part, part + 1 + numbers.below(first + count - part));
                ranges.deallocate(part).unwrap();
                // SAFETY: no memory is touched.
                unsafe { list.deallocate(part) }.unwrap();
                held.extend(PageRange::new(range.start(), part.start()));
                held.extend(PageRange::new(part.end(), range.end()));
            }
        }
    }
    assert!(held.len() > 10);
    held.into_iter().for_each(|range| ranges.deallocate(range).unwrap());
    allocator.drain_all();
    assert_eq!(allocator.validate().unwrap().free, before);
    assert_eq!(allocator.counters().bad_frees, 0);
}

#[test]
fn what_fails_says_why() {
    let ranges = PageRanges::new(boot());
    assert!(matches!(ranges.allocate(PageLayout::from_size(0).unwrap()), Err(AllocError::BadRange(_))));
    let most = PageLayout::from_size(0x4000 * PAGE_SIZE).unwrap();
    assert!(matches!(ranges.allocate(most), Err(AllocError::NoMemory { .. })));
    assert_eq!(ranges.allocate_at(pages(0x1fff, 0x2001)), Err(AllocError::Foreign(Pfn(0x2000))));
    let range = pages(0x500, 0x503);
    ranges.allocate_at(range).unwrap();
    assert_eq!(ranges.allocate_at(pages(0x4ff, 0x501)), Err(AllocError::Busy { pfn: Pfn(0x500) }));
    ranges.deallocate(pages(0x501, 0x502)).unwrap();
    assert_eq!(ranges.deallocate(range), Err(FreeError::AlreadyFree(Pfn(0x501))));
    assert_eq!(ranges.deallocate(pages(0x4400, 0x4401)), Err(FreeError::Foreign(Pfn(0x4400))));
    ranges.deallocate(pages(0x500, 0x501)).unwrap();
    ranges.deallocate(pages(0x502, 0x503)).unwrap();
}
