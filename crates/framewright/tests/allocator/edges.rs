//! Calls at the edges of what they accept: in an interrupt, at the largest order, with the last memory that fits.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use framewright::event::Event;
use framewright::mechanisms::Hardened;
use framewright::report::Source;
use framewright::request::{__GFP_MEMALLOC, GFP_ATOMIC, GFP_KERNEL, GFP_NOWAIT};
use framewright::units::{NodeId, Order, Pfn, PfnRange};
use framewright::{AllocError, Allocator, Config, FreeError, Geometry, Layout, Mechanisms, Region, Request, Why};
use framewright_rt::{Solo, Storage};

use crate::alloc_in::boots;
use crate::maps::zones_of_two_nodes;
use crate::roles::Kept;
use crate::told::all_zones;

const MAP: [Region; 1] = [Region::usable(0x1000, 0x1800, 0)];
const CPUS: [NodeId; 1] = [NodeId(0)];

/// Boots 8 MiB of one zone for `test`.
fn on_one_zone(config: &Config<'_>, test: impl FnOnce(&Allocator<'_, Solo<'_>>)) {
    let mut storage = Storage::new(&Layout::of(config).unwrap());
    let pages = Allocator::boot(Solo::new(&CPUS), config, storage.parts()).unwrap();
    test(&pages);
    pages.validate().unwrap();
}

type Call<'c> = &'c dyn Fn() -> Result<(), AllocError>;

#[test]
fn calls_that_wait_are_refused_in_an_interrupt() {
    boots::<Kept>(&zones_of_two_nodes(Mechanisms::BASELINE), |pages| {
        let before = pages.validate().unwrap();
        let range = PfnRange::new(0x18_0400, 0x18_0600);
        let calls: [(&str, Call<'_>); 7] = [
            ("alloc_at", &|| pages.alloc_at(range.start, Order(3), GFP_KERNEL).map(|_| ())),
            ("alloc_at, without reclaim", &|| pages.alloc_at(range.start, Order(3), GFP_ATOMIC).map(|_| ())),
            ("alloc_range", &|| pages.alloc_range(range, GFP_KERNEL)),
            ("alloc_range, without reclaim", &|| pages.alloc_range(range, GFP_ATOMIC)),
            ("alloc_contig", &|| pages.alloc_contig(1500, Order(0), &Request::page(GFP_ATOMIC)).map(|_| ())),
            ("take_offline", &|| pages.take_offline(range)),
            ("report_free", &|| pages.report_free(Order(9)).map(|_| ())),
        ];
        pages.machine().interrupted.set(true);
        for (name, call) in calls {
            assert_eq!(call(), Err(AllocError::InInterrupt), "{name}");
        }
        pages.machine().interrupted.set(false);
        assert_eq!(pages.validate().unwrap(), before, "nothing was taken");
        for (name, call) in calls {
            assert_eq!(call(), Ok(()), "{name}");
            if name.starts_with("alloc_at") {
                pages.free(range.start, Order(3)).unwrap();
            }
            if name.starts_with("alloc_range") {
                pages.free_range(range).unwrap();
            }
        }
    });
}

#[test]
fn a_free_from_any_context_frees_and_refuses() {
    on_one_zone(&Config::new(&MAP, &CPUS), |pages| {
        let any = pages.any_context();
        let block = pages.alloc(&Request::new(GFP_KERNEL, 2)).unwrap();
        assert!(any.free(block, Order(3)).is_err(), "the wrong order");
        assert_eq!(any.free(Pfn(5), Order(0)), Err(FreeError::Foreign(Pfn(5))));
        assert_eq!(any.free(block, Order(2)), Ok(()));
        assert_eq!(any.free(block, Order(2)), Err(FreeError::AlreadyFree(block)));
    });
}

/// A call from any context takes no block from a list if the block has to be checked.
#[test]
fn memory_that_was_written_to_is_not_served_to_any_context() {
    let mechanisms = Mechanisms { hardened: Hardened::Poison, ..Mechanisms::DEFAULT };
    boots::<Kept>(&zones_of_two_nodes(mechanisms), |pages| {
        let request = Request::page(GFP_NOWAIT);
        let written = pages.alloc(&request).unwrap();
        pages.free(written, Order(0)).unwrap();
        pages.machine().write(written);
        let served: Vec<Pfn> = (0..200).map(|_| pages.any_context().alloc(&request).unwrap()).collect();
        assert!(!served.contains(&written));
        served.into_iter().for_each(|pfn| pages.free(pfn, Order(0)).unwrap());
        pages.validate().unwrap();
    });
}

/// Each block that leaves a per-CPU list for its zone is told of, once.
#[test]
fn drained_blocks_are_told_of() {
    for name in ["baseline", "linux-6.1", "default"] {
        let mechanisms = Mechanisms::preset(name).unwrap();
        on_one_zone(&Config { mechanisms, ..Config::new(&MAP, &CPUS) }, |pages| {
            let told = Rc::new(RefCell::new(BTreeMap::new()));
            let sink = Rc::clone(&told);
            pages.machine().on_event(move |event| {
                if let Event::PcpuDrain { pfn, order, .. } = event {
                    *sink.borrow_mut().entry((*pfn, *order)).or_insert(0) += 1;
                }
            });
            let blocks: Vec<(Pfn, Order)> = [0, 0, 1, 2, 0, 3, 0]
                .map(|order| (pages.alloc(&Request::new(GFP_KERNEL, order)).unwrap(), Order(order)))
                .into();
            pages.drain_all();
            told.borrow_mut().clear();
            blocks.iter().for_each(|&(pfn, order)| pages.free(pfn, order).unwrap());
            let drained = pages.drain_all();
            let told = told.borrow();
            assert_eq!(told.keys().map(|(_, order)| order.frames()).sum::<u64>(), drained, "{name}");
            assert!(told.values().all(|&times| times == 1), "{name}: {told:?}");
            assert!(told.keys().all(|block| blocks.contains(block)) && drained >= 4, "{name}: {told:?}");
        });
    }
}

/// A block taken under the zone's lock is told of as what it is for: a per-CPU list, or a request.
#[test]
fn refills_are_told_from_requests() {
    on_one_zone(&Config::new(&MAP, &CPUS), |pages| {
        let told = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&told);
        pages.machine().on_event(move |event| {
            if let Event::AllocZoneLocked { order, percpu_refill, .. } = event {
                sink.borrow_mut().push((*order, *percpu_refill));
            }
        });
        for (order, is_refill) in [(0, true), (5, false), (8, false)] {
            let block = pages.alloc(&Request::new(GFP_KERNEL, order)).unwrap();
            let told = told.take();
            assert!(!told.is_empty() && told.iter().all(|&told| told == (Order(order), is_refill)), "{told:?}");
            pages.free(block, Order(order)).unwrap();
        }
    });
}

/// `min_free_kbytes` is in KiB, whatever the size of a page; half a KiB is the smallest of these.
#[test]
fn memory_to_keep_free_is_counted_in_pages() {
    for (page_shift, frames) in [(9, 128), (10, 64), (12, 16), (14, 4)] {
        let geometry = Geometry { page_shift, ..Config::new(&MAP, &CPUS).geometry };
        on_one_zone(&Config { geometry, min_free_kbytes: Some(64), ..Config::new(&MAP, &CPUS) }, |pages| {
            let zones = all_zones(pages).filter_map(|zone| pages.zone(zone));
            assert_eq!(zones.map(|zone| zone.min).sum::<u64>(), frames, "pages of {} bytes", 1 << page_shift);
        });
    }
}

#[test]
fn the_largest_block_is_taken_where_it_is_free() {
    on_one_zone(&Config::new(&MAP, &CPUS), |pages| {
        let max = pages.geometry().max_order;
        assert!(pages.take_free(Pfn(0x1400), max));
        assert!(!pages.take_free(Pfn(0x1400), max), "it is allocated");
        assert!(!pages.take_free(Pfn(0x1200), max), "misaligned");
        assert!(!pages.take_free(Pfn(0x1000), Order(max.0 + 1)), "above the largest order");
        pages.free(Pfn(0x1400), max).unwrap();
    });
}

/// A range that is not found is said to be scattered as soon as that many frames are free.
#[test]
fn scattered_memory_is_told_from_missing_memory() {
    on_one_zone(&Config::new(&MAP, &CPUS), |pages| {
        let page = Request::page(GFP_KERNEL | __GFP_MEMALLOC);
        while pages.alloc(&page).is_ok() {}
        // More than the largest block, and no two frames side by side.
        let free = 1100;
        (0..free).for_each(|i| pages.free(Pfn(0x1000 + i * 2 % 0x800 + i * 2 / 0x800), Order(0)).unwrap());
        pages.drain_all();
        for (frames, why) in [(free, Why::Fragmented), (free + 1, Why::Watermark)] {
            let error = pages.alloc_contig(frames, Order(0), &page).unwrap_err();
            assert!(matches!(error, AllocError::NoMemory { why: found, .. } if found == why), "{frames}: {error:?}");
        }
    });
}

/// The alignment is rounded up to a power of two, and not doubled if it is one.
#[test]
fn bytes_take_the_only_aligned_place() {
    on_one_zone(&Config::new(&MAP, &CPUS), |pages| {
        let request = Request::page(GFP_KERNEL | __GFP_MEMALLOC);
        while pages.alloc(&request).is_ok() {}
        for (start, frames, align) in [(0x1402, 2, 2), (0x1404, 4, 4), (0x1428, 8, 8), (0x1510, 16, 16)] {
            let place = PfnRange::new(start, start + frames);
            (start..start + frames).for_each(|pfn| pages.free(Pfn(pfn), Order(0)).unwrap());
            pages.drain_all();
            let found = pages.alloc_exact(frames << 12, align << 12, &request);
            assert_eq!(found, Ok(place), "{frames} frames at a multiple of {align}");
        }
    });
}
