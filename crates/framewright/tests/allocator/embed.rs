//! The core embedded over a small memory map, every call once.

use std::cell::Cell;
use std::rc::Rc;

use framewright::event::Event;
use framewright::request::{
    __GFP_DIRECT_RECLAIM, __GFP_THISNODE, GFP_ATOMIC, GFP_DMA32, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, Gfp, NodeSet, Policy,
};
use framewright::units::{CpuId, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::{Allocator, Config, FrameState, FreeError, Layout, MigrateType, Region, Request};
use framewright_rt::{Native, Solo, Storage};

const MAP: [Region; 3] =
    [Region::usable(1, 0x9f, 0), Region::usable(0x100, 0x20000, 0), Region::usable(0x100000, 0x120000, 1)];
const CPUS: [NodeId; 3] = [NodeId(0), NodeId(0), NodeId(1)];

/// Boots an allocator over the map, runs `test`, and checks that every frame came back.
fn on_small_machine(test: impl FnOnce(&Allocator<'_, Solo<'_>>)) {
    let config = Config::new(&MAP, &CPUS);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Solo::new(&CPUS), &config, storage.parts()).unwrap();
    let before = pages.validate().unwrap();
    assert_eq!(before.present, 0x9f - 1 + 0x1ff00 + 0x20000);
    assert_eq!(before.free, before.present);
    test(&pages);
    pages.validate().unwrap();
    pages.drain_all();
    assert_eq!(pages.validate().unwrap().free, before.free, "all memory came back");
}

#[test]
fn a_page_comes_and_goes_once() {
    on_small_machine(|pages| {
        let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
        assert_eq!(pages.state_of(page), FrameState::Allocated(page, Order(0)));
        let wrong = pages.free(page, Order(1)).unwrap_err();
        if page.is_aligned(Order(1)) {
            assert_eq!(wrong, FreeError::WrongOrder { pfn: page, actual: Order(0) });
        } else {
            assert_eq!(wrong, FreeError::Misaligned(page, Order(1)));
        }
        pages.free(page, Order(0)).unwrap();
        assert_eq!(pages.free(page, Order(0)), Err(FreeError::AlreadyFree(page)));
        assert_eq!(pages.counters().bad_frees, 2);
    });
}

#[test]
fn requests_get_memory_where_they_ask_for_it() {
    on_small_machine(|pages| {
        pages.machine().run_on(CpuId(2));
        let huge = pages.alloc(&Request::new(GFP_HIGHUSER_MOVABLE, 9)).unwrap();
        assert!(huge >= Pfn(0x100000), "near the CPU");
        let there = pages.alloc(&Request::new(GFP_KERNEL | __GFP_THISNODE, 4).on(NodeId(0))).unwrap();
        assert!(there < Pfn(0x20000));
        let low = pages.alloc(&Request::page(GFP_KERNEL | GFP_DMA32)).unwrap();
        assert!(low < Pfn(0x100000));
        let below = pages.alloc(&Request::new(GFP_KERNEL, 2).below(Pfn(0x400))).unwrap();
        assert!(below.add(4) <= Pfn(0x400));
        let mut turn = [Pfn(0); 4];
        let spread = Request::page(GFP_KERNEL).with(Policy::Interleave(NodeSet(3)));
        assert_eq!(pages.alloc_bulk(&spread, &mut turn), Ok(4));
        assert_eq!(turn.iter().filter(|pfn| pfn.0 >= 0x100000).count(), 2);
        pages.validate().unwrap();
        pages.split(huge, Order(9), Order(0)).unwrap();
        for i in 0..512 {
            pages.free(huge.add(i), Order(0)).unwrap();
        }
        assert_eq!(pages.free_bulk(&turn, Order(0)).freed, 4);
        for (pfn, order) in [(there, 4), (low, 0), (below, 2)] {
            pages.free(pfn, Order(order)).unwrap();
        }
    });
}

#[test]
fn bulk_calls_serve_many_at_once() {
    on_small_machine(|pages| {
        let mut bulk = [Pfn(0); 300];
        assert_eq!(pages.alloc_bulk(&Request::page(GFP_ATOMIC), &mut bulk), Ok(300));
        pages.validate().unwrap();
        assert_eq!(pages.free_bulk(&bulk, Order(0)).freed, 300);
        let again = pages.free_bulk(&bulk[..2], Order(0));
        assert_eq!((again.freed, again.refused, again.first), (0, 2, Some((0, FreeError::AlreadyFree(bulk[0])))));
    });
}

#[test]
fn ranges_are_taken_and_freed_in_any_pieces() {
    on_small_machine(|pages| {
        let at = pages.alloc_at(Pfn(0x110040), Order(3), GFP_KERNEL).unwrap();
        let range = PfnRange::new(0x111003, 0x112807);
        pages.alloc_range(range, GFP_KERNEL).unwrap();
        pages.validate().unwrap();
        pages.free_range(PfnRange::new(0x111010, 0x112000)).unwrap();
        pages.validate().unwrap();
        assert!(pages.free_range(range).is_err(), "a part is free already");
        pages.free_range(PfnRange::new(0x111003, 0x111010)).unwrap();
        pages.free_range(PfnRange::new(0x112000, 0x112807)).unwrap();
        pages.free(at, Order(3)).unwrap();
        for (frames, align) in [(1500, 4), (700, 0), (4096, 12)] {
            let run = pages.alloc_contig(frames, Order(align), &Request::page(GFP_KERNEL)).unwrap();
            assert_eq!((run.frames(), run.start.is_aligned(Order(align))), (frames, true));
            pages.validate().unwrap();
            pages.free_range(run).unwrap();
        }
    });
}

#[test]
fn bytes_are_allocated_exactly_and_freed_in_parts() {
    on_small_machine(|pages| {
        let request = Request::new(GFP_KERNEL, 7);
        for (bytes, align, frames, order) in [
            (1, 1, 1, 0),
            (4096, 4096, 1, 0),
            (4096, 8192, 1, 1),
            (4097, 0, 2, 0),
            (17 << 12, 3 << 12, 17, 2),
            (1 << 21, 1 << 21, 512, 9),
            (5 << 20, 1 << 23, 1280, 11),
        ] {
            let range = pages.alloc_exact(bytes, align, &request).unwrap();
            assert_eq!((range.frames(), range.start.is_aligned(Order(order))), (frames, true), "{bytes} {align}");
            pages.validate().unwrap();
            // From the middle outwards, as callers that free page by page may.
            let middle = range.start.add(frames / 2);
            for part in [
                PfnRange { start: middle, end: middle.add(1) },
                PfnRange { start: middle.add(1), end: range.end },
                PfnRange { start: range.start, end: middle },
            ] {
                if !part.is_empty() {
                    pages.free_exact(part).unwrap();
                    assert!(pages.free_exact(part).is_err(), "freed twice");
                }
            }
        }
        assert!(pages.alloc_exact(0, 1, &request).is_err());
        assert!(pages.alloc_exact(u64::MAX, 1, &request).is_err());
        assert!(pages.alloc_exact(1, u64::MAX, &request).is_err());
        assert!(pages.free_exact(PfnRange::new(0x200, 0x200)).is_err());
        let bad = pages.counters().bad_frees;
        let run = pages.alloc_exact(4 << 12, 1, &request).unwrap();
        (run.start.0..run.end.0).for_each(|pfn| pages.free_exact(PfnRange::block(Pfn(pfn), Order(0))).unwrap());
        assert_eq!(pages.counters().bad_frees, bad, "a part of a block is no bad free");
    });
}

#[test]
fn memory_and_cpus_come_and_go() {
    on_small_machine(|pages| {
        pages.set_pageblock_type(Pfn(0x100000), MigrateType::Reclaimable).unwrap();
        assert_eq!(pages.pageblock_type(Pfn(0x100000)), Some(MigrateType::Reclaimable));
        pages.validate().unwrap();
        pages.set_pageblock_type(Pfn(0x100000), MigrateType::Movable).unwrap();
        pages.take_offline(PfnRange::new(0x118000, 0x118400)).unwrap();
        assert_eq!(pages.validate().unwrap().offline, 0x400);
        assert_eq!(pages.bring_online(PfnRange::new(0x118000, 0x118400)), 0x400);
        pages.machine().run_on(CpuId(2));
        let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
        pages.free(page, Order(0)).unwrap();
        pages.machine().run_on(CpuId(0));
        assert!(pages.offline_cpu(CpuId(2)) > 0, "its list had a batch");
        assert_eq!(pages.free_frames(ZoneIdx::of(NodeId(1), ZoneKind::Normal)), 0x20000);
    });
}

#[test]
fn threads_lose_nothing() {
    let config = Config::new(&MAP, &CPUS);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Native::new(&CPUS), &config, storage.parts()).unwrap();
    let before = pages.validate().unwrap();
    std::thread::scope(|scope| {
        for seed in 1..=4_u64 {
            let pages = &pages;
            scope.spawn(move || {
                let mut state = seed;
                let mut held = Vec::new();
                for _ in 0..20_000 {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let pick = state >> 33;
                    if held.len() > 100 || (pick & 1 == 0 && !held.is_empty()) {
                        let (pfn, order) = held.swap_remove(pick as usize / 2 % held.len());
                        pages.free(pfn, order).unwrap();
                    } else {
                        let order = Order([0, 0, 0, 1, 2, 3, 5, 9][pick as usize / 2 % 8]);
                        let gfp = [GFP_KERNEL, GFP_HIGHUSER_MOVABLE, GFP_ATOMIC][pick as usize / 16 % 3];
                        if let Ok(pfn) = pages.alloc(&Request::new(gfp, order.0)) {
                            held.push((pfn, order));
                        }
                    }
                    if pick % 1000 == 0 {
                        pages.drain_all();
                    }
                }
                for (pfn, order) in held {
                    pages.free(pfn, order).unwrap();
                }
            });
        }
    });
    pages.validate().unwrap();
    pages.drain_all();
    let after = pages.validate().unwrap();
    assert_eq!(after.free + after.pcp, before.free);
}

/// The check says that the lists are in use, and claims no damage.
#[test]
fn a_check_while_lists_are_in_use_finds_no_damage() {
    on_small_machine(|pages| {
        let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
        pages.free(page, Order(0)).unwrap();
        let frozen = pages.freeze().unwrap();
        let found = pages.validate().unwrap_err();
        assert!(found.is_of_the_moment(), "{found}");
        assert_eq!(found.to_string(), "the allocator is in use, or the caller in an interrupt (invariant C2)");
        drop(frozen);
        pages.validate().unwrap();
        pages.machine().run_on(CpuId(7));
        assert_eq!(pages.validate(), Err(found), "a caller without a CPU finds out nothing either");
        pages.machine().run_on(CpuId(0));
    });
}

/// A request of an interrupt loses the right to reclaim, and nothing else.
#[test]
fn interrupts_keep_their_flags() {
    on_small_machine(|pages| {
        let seen = Rc::new(Cell::new(Gfp::NONE));
        let last = Rc::clone(&seen);
        pages.machine().on_event(move |event| {
            if let Event::PageAlloc { gfp, .. } = event {
                last.set(*gfp);
            }
        });
        for gfp in [GFP_KERNEL, GFP_HIGHUSER_MOVABLE, Gfp::NONE] {
            let page = pages.interrupt().unwrap().alloc(&Request::page(gfp)).unwrap();
            assert_eq!(seen.get(), Gfp(gfp.0 & !__GFP_DIRECT_RECLAIM.0));
            pages.free(page, Order(0)).unwrap();
            let mut bulk = [Pfn(u64::MAX); 7];
            assert_eq!(pages.interrupt().unwrap().alloc_bulk(&Request::page(gfp), &mut bulk), Ok(7));
            assert_eq!(pages.free_bulk(&bulk, Order(0)).freed, 7);
        }
    });
}
