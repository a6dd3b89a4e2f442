//! Bulk calls: arrays, arrays with holes, lists of anything; with every preset, so by every way to the per-CPU lists.

use std::cell::Cell;

use framewright::mechanisms::{Hardened, NumaStat, PRESETS, PcpProtection};
use framewright::report::Source;
use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_USER};
use framewright::{
    AllocError, Allocator, Config, FreeError, Gfp, Layout, Mechanisms, NodeId, Order, Pfn, Region, Request, ZoneIdx,
};
use framewright_rt::{Native, Storage};

/// 128 MiB, half of it in zone DMA32 and half in zone Normal.
const REGIONS: [Region; 2] = [Region::usable(0xf_c000, 0x10_0000, 0), Region::usable(0x10_0000, 0x10_4000, 0)];
const FRAMES: u64 = 0x8000;

/// With an allocator of each preset, and of the default with each protection, and hardened.
fn with_each(test: impl Fn(&Allocator<'_, Native>, &str)) {
    let default = |name: &'static str, change: fn(&mut Mechanisms)| {
        let mut mechanisms = Mechanisms::DEFAULT;
        change(&mut mechanisms);
        (name, mechanisms)
    };
    let changed = [
        default("default, interrupts-off", |m| m.pcp_protection = PcpProtection::InterruptsOff),
        default("default, trylock", |m| m.pcp_protection = PcpProtection::Trylock),
        default("default, hardened", |m| m.hardened = Hardened::Zero),
    ];
    for &(name, mechanisms) in PRESETS.iter().chain(&changed) {
        let cpus = [NodeId(0); 3];
        let config = Config { mechanisms, ..Config::new(&REGIONS, &cpus) };
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        test(&Allocator::boot(Native::new(&cpus), &config, storage.parts()).unwrap(), name);
    }
}

fn free_frames(pages: &Allocator<'_, Native>) -> u64 {
    pages.drain_all();
    pages.validate().unwrap().free
}

fn hits(pages: &Allocator<'_, Native>) -> u64 {
    (0..4).filter_map(|kind| pages.zone(ZoneIdx(kind))).map(|zone| zone.numa.hit).sum()
}

/// Blocks of several orders, mobilities and zones, allocated in bulk.
fn mixed(pages: &Allocator<'_, Native>) -> Vec<(Pfn, Order)> {
    let mut blocks = Vec::new();
    for (order, gfp, count) in
        [(0, GFP_KERNEL, 300), (1, GFP_USER, 70), (3, GFP_HIGHUSER_MOVABLE, 65), (5, GFP_USER, 3)]
    {
        for zone in [Gfp(0), framewright::request::__GFP_DMA32] {
            let request = Request::new(gfp | zone, order);
            let served = pages.alloc_each(&request, count, |pfn| blocks.push((pfn, Order(order))));
            assert_eq!(served, Ok(count));
        }
    }
    // In an order that has nothing to do with zones and orders.
    blocks.sort_by_key(|(pfn, _)| pfn.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    blocks
}

#[test]
fn lists_of_anything_come_back_whole() {
    with_each(|pages, name| {
        let before = free_frames(pages);
        assert_eq!(before, FRAMES);
        let blocks = mixed(pages);
        let frames: u64 = blocks.iter().map(|(_, order)| order.frames()).sum();
        assert_eq!(before - free_frames(pages), frames, "{name}");
        // The other mechanisms keep some counts in differentials, or count nothing.
        if matches!(pages.mechanisms().numa_stat, NumaStat::Events | NumaStat::Derived) {
            assert_eq!(hits(pages), blocks.len() as u64, "{name}");
        }
        let freed = pages.free_each(blocks.iter().copied());
        assert_eq!((freed.freed, freed.refused, freed.first), (blocks.len(), 0, None), "{name}");
        assert_eq!(free_frames(pages), before, "{name}");
    });
}

#[test]
fn each_wrong_free_of_a_list_is_refused_alone() {
    with_each(|pages, name| {
        let blocks = mixed(pages);
        // A wrong one follows every third: freed already, of another order, foreign.
        let (mut list, mut wrong) = (Vec::new(), 0);
        for (i, &(pfn, order)) in blocks.iter().enumerate() {
            if i % 3 == 1 {
                list.push((pfn, Order(order.0 + 1)));
                wrong += 1;
            }
            list.push((pfn, order));
            if i % 3 == 2 {
                list.extend([(pfn, order), (Pfn(7), order)]);
                wrong += 2;
            }
        }
        let freed = pages.free_each(list);
        assert_eq!((freed.freed, freed.refused), (blocks.len(), wrong), "{name}");
        let (pfn, order) = blocks[1];
        let first = if pfn.is_aligned(Order(order.0 + 1)) {
            FreeError::WrongOrder { pfn, actual: order }
        } else {
            FreeError::Misaligned(pfn, Order(order.0 + 1))
        };
        assert_eq!(freed.first, Some((1, first)), "{name}");
        assert_eq!(pages.counters().bad_frees, wrong as u64, "{name}");
        assert_eq!(free_frames(pages), FRAMES, "{name}");
    });
}

#[test]
fn holes_are_filled_and_what_is_there_stays() {
    with_each(|pages, name| {
        let page = Request::page(GFP_KERNEL);
        let mut entries = [None; 150];
        assert_eq!(pages.alloc_missing(&page, &mut entries), Ok(150), "{name}");
        let full = entries;
        assert_eq!(pages.alloc_missing(&page, &mut entries), Ok(150));
        assert_eq!(entries, full, "{name}: nothing was missing");
        let consumed: Vec<usize> = (0..150).filter(|i| i % 7 < 4).collect();
        for &i in &consumed {
            pages.free(entries[i].take().unwrap(), Order(0)).unwrap();
        }
        assert_eq!(pages.alloc_missing(&page, &mut entries), Ok(150), "{name}");
        for (i, (now, then)) in entries.iter().zip(&full).enumerate() {
            assert!(now.is_some() && (consumed.contains(&i) || now == then), "{name}: entry {i}");
        }
        let freed = pages.free_each(entries.iter().flatten().map(|&pfn| (pfn, Order(0))));
        assert_eq!(freed.freed, 150, "{name}: no block was there twice");
        assert_eq!(free_frames(pages), FRAMES, "{name}");
    });
}

#[test]
fn short_memory_fills_what_it_can() {
    with_each(|pages, name| {
        let block = Request::new(GFP_KERNEL, 9);
        let mut entries = [None; 100];
        let served = pages.alloc_missing(&block, &mut entries).unwrap();
        assert!((40..=64).contains(&served), "{name}: {served} of at most 64 blocks");
        assert!(entries[..served].iter().all(Option::is_some) && entries[served..].iter().all(Option::is_none));
        assert!(matches!(pages.alloc_missing(&block, &mut entries), Err(AllocError::NoMemory { .. })), "{name}");
        assert!(matches!(pages.alloc_each(&block, 2, |_| ()), Err(AllocError::NoMemory { .. })), "{name}");
        assert_eq!(pages.alloc_each(&block, 0, |_| ()), Ok(0), "{name}");
        assert_eq!(pages.alloc_missing(&block, &mut []), Ok(0), "{name}");
        let freed = pages.free_each(entries.iter().flatten().map(|&pfn| (pfn, Order(9))));
        assert_eq!(freed.freed, served, "{name}");
        assert_eq!(free_frames(pages), FRAMES, "{name}");
    });
}

/// A closure that gets blocks, or provides them, may call the allocator.
#[test]
fn lists_may_be_kept_in_the_allocators_own_pages() {
    with_each(|pages, name| {
        let page = Request::page(GFP_KERNEL);
        let more = Cell::new(Vec::new());
        let mut list = Vec::new();
        pages
            .alloc_each(&page, 200, |pfn| {
                list.push(pfn);
                let mut others = more.take();
                others.push(pages.alloc(&page).unwrap());
                more.set(others);
            })
            .unwrap();
        let mut others = more.take().into_iter();
        let freed = pages.free_each(list.iter().map(|&pfn| {
            pages.free(others.next().unwrap(), Order(0)).unwrap();
            (pfn, Order(0))
        }));
        assert_eq!((freed.freed, freed.refused), (200, 0), "{name}");
        assert_eq!(free_frames(pages), FRAMES, "{name}");
    });
}
