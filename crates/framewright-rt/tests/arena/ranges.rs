//! Ranges of pages, orders of sizes, and the arena's counters.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;

use framewright_rt::request::{GFP_ATOMIC, GFP_USER};
use framewright_rt::{AllocError, Arena, Order, Request};

const PAGE: Request = Request::page(GFP_USER);
const MIB: usize = 1 << 20;

fn arena() -> Arena {
    Arena::builder().size(16 << 20).max_order(10).without_background().build().unwrap()
}

fn layout(bytes: usize, align: usize) -> Layout {
    Layout::from_size_align(bytes, align).unwrap()
}

#[test]
fn a_range_is_as_long_as_asked_and_frees_itself() {
    let arena = Arc::new(arena());
    // Smaller than a page, inside a block, a whole block, above the largest block.
    for (bytes, align) in [(1, 1), (5 * MIB, 1 << 21), (4 * MIB, 1 << 22), (9 * MIB + 1, 1 << 12)] {
        let mut range = arena.alloc_range(&PAGE, layout(bytes, align)).unwrap();
        assert_eq!(range.len(), bytes.next_multiple_of(4096));
        assert_eq!(range.address().addr().get() % align.max(4096), 0);
        range.fill(7);
        let pages = range.len() as u64 / 4096;
        assert_eq!((arena.stats().allocated, range.frames().frames()), (pages, pages));
        drop(range);
        assert_eq!((arena.stats().allocated, arena.refused_frees()), (0, 0));
    }
    let owned = arena.alloc_range_owned(&PAGE, layout(MIB, MIB)).unwrap();
    let kept = Arc::downgrade(&arena);
    drop(arena);
    assert_eq!((owned.arena().stats().allocated, kept.strong_count()), (256, 1));
    drop(owned);
    assert_eq!(kept.strong_count(), 0);
}

#[test]
fn a_range_that_cannot_be_is_refused() {
    let arena = arena();
    let error_of = |bytes, align| arena.alloc_range(&PAGE, layout(bytes, align)).unwrap_err();
    assert!(matches!(error_of(0, 1), AllocError::BadRange(_)));
    assert_eq!(error_of(4096, 1 << 23), AllocError::BadAlignment { align: Order(11), max: Order(10) });
    assert!(matches!(error_of(17 * MIB, 1), AllocError::NoMemory { .. }));
    assert_eq!(arena.stats().allocated, 0);
}

/// Memory that is handed in may begin at a page, which is not a multiple of the largest block.
#[test]
fn ranges_are_aligned_as_far_as_the_memory() {
    let outer = arena();
    for (skipped, order) in [(1, 0), (2, 1), (12, 2), (1024, 10)] {
        let whole = outer.alloc_range(&PAGE, layout(12 * MIB, 4 * MIB)).unwrap();
        let start = whole.address().addr().get() + skipped * 4096;
        let memory = NonNull::slice_from_raw_parts(whole.address().with_addr(start.try_into().unwrap()), 8 * MIB);
        // SAFETY: the range outlives the arena, and nothing else uses it.
        let arena = unsafe { Arena::builder().max_order(10).without_background().build_in(memory) }.unwrap();
        assert_eq!(arena.aligned_order(), Order(order));
        let range = arena.alloc_range(&PAGE, layout(MIB, 4096 << order)).unwrap();
        assert_eq!(range.address().addr().get() % (4096 << order), 0);
        let refused = arena.alloc_range(&PAGE, layout(MIB, 8192 << order)).map(drop).unwrap_err();
        assert_eq!(refused, AllocError::BadAlignment { align: Order(order + 1), max: Order(order) });
    }
}

#[test]
fn ranges_above_a_section_grow_it() {
    let arena = Arena::builder().without_background().size(4 << 20).limit(16 << 20).build().unwrap();
    let refused = arena.alloc_range(&Request::page(GFP_ATOMIC), layout(7 * MIB, 2 * MIB)).map(drop);
    assert!(matches!(refused, Err(AllocError::NoMemory { .. })) && arena.present() == 4 << 20, "{refused:?}");
    let held = arena.alloc_range(&PAGE, layout(7 * MIB, 2 * MIB)).unwrap();
    assert_eq!((held.len(), arena.present()), (7 * MIB, 12 << 20));
    let refused = arena.alloc_range(&PAGE, layout(15 * MIB, 2 * MIB)).map(drop);
    assert!(matches!(refused, Err(AllocError::NoMemory { .. })), "{refused:?}");
    drop(held);
    assert_eq!(arena.validate().unwrap().allocated, 0);
}

#[test]
fn sizes_have_orders() {
    let arena = arena();
    let orders = [0, 1, 4096, 4097, 4 * MIB, 4 * MIB + 1, usize::MAX].map(|bytes| arena.order_of(bytes));
    assert_eq!(orders, [Some(0), Some(0), Some(0), Some(1), Some(10), None, None].map(|order| order.map(Order)));
}

#[test]
fn counters_add_up() {
    let arena = arena();
    let held: Vec<_> = (0..100).map(|_| arena.alloc(&PAGE).unwrap()).collect();
    let one = arena.stats();
    assert_eq!((one.present, one.allocated, one.total_allocated, one.total_freed), (4096, 100, 100, 0));
    assert_eq!(one.free + one.cached + one.allocated, one.present);
    drop(held);
    let all: Vec<_> = (0..5).filter_map(|_| arena.alloc(&Request::new(GFP_USER, 10)).ok()).collect();
    let two = arena.stats();
    assert_eq!((all.len(), two.allocated, two.total_freed, two.failed), (4, 4096, 100, 1));
    assert_eq!((two.bad_frees, two.written_after_free, two.repairs), (0, 0, 0));
}

#[test]
fn a_range_has_an_owner() {
    let arena = arena();
    let range = arena.alloc_range(&PAGE, layout(9 * MIB, 1)).unwrap();
    let place = format!("{}:{}:", file!(), line!() - 1);
    let totals = arena.owners().totals();
    assert_eq!(totals.iter().map(|total| total.frames).sum::<u64>(), (9 * MIB / 4096) as u64);
    // No owner where none is kept.
    let owners: Vec<_> = totals.iter().filter_map(|total| total.owner).map(|owner| owner.to_string()).collect();
    assert!(owners.iter().all(|owner| owner.starts_with(&place)), "{owners:?}");
    assert_eq!(owners.is_empty(), cfg!(not(debug_assertions)));
    drop(range);
    assert_eq!(arena.owners().totals(), []);
}
