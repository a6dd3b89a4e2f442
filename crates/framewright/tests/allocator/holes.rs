//! Memory maps with holes: every way to allocate and free works on both sides of each, and nothing is lost.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use framewright::request::{GFP_DMA32, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT};
use framewright::units::{CpuId, NodeId, Order, Pfn, PfnRange, ZoneIdx};
use framewright::{
    AllocError, Allocator, Config, FrameCounts, FreeError, Layout, Machine, Mechanisms, Region, Request, Why,
};
use framewright_rt::{Native, Solo, Storage};

const NODE: [NodeId; 1] = [NodeId(0)];
const PAGE: Request = Request::new(GFP_KERNEL, 0);

/// Boots an allocator and hands it to `body`, after which all memory must be free again.
fn with<M: Machine>(machine: M, config: &Config<'_>, body: impl FnOnce(&Allocator<'_, M>)) -> FrameCounts {
    let mut storage = Storage::new(&Layout::of(config).unwrap());
    let pages = Allocator::boot(machine, config, storage.parts()).unwrap();
    let before = pages.validate().unwrap();
    body(&pages);
    pages.drain_all();
    let after = pages.validate().unwrap();
    assert_eq!((after.free, after.pcp, after.allocated), (before.free, 0, 0), "{:?}", config.regions);
    after
}

fn with_solo(map: &[Region], body: impl FnOnce(&Allocator<'_, Solo<'_>>)) -> FrameCounts {
    with(Solo::new(&NODE), &Config { mechanisms: Mechanisms::DEFAULT, ..Config::new(map, &NODE) }, body)
}

/// Of 2 GiB and 4 GiB, with and without a hole: reported from outside, where each pair lost a frame.
#[test]
fn what_lies_above_a_hole_is_served_as_what_lies_below() {
    let closed = [Region::usable(0x100, 0x80000, 0), Region::usable(0x80000, 0x180000, 0)];
    let open = [Region::usable(0x100, 0x80000, 0), Region::usable(0x100000, 0x180000, 0)];
    for map in [closed, open] {
        let census = with_solo(&map, |pages| {
            for _ in 0..1000 {
                let pfn = pages.alloc(&PAGE).unwrap();
                pages.free(pfn, Order(0)).unwrap();
            }
            let local = pages.local().unwrap();
            for _ in 0..1000 {
                let pfn = local.alloc(&PAGE).unwrap();
                assert_eq!(local.free(pfn.add(1 << 40), Order(0)), Err(FreeError::Foreign(pfn.add(1 << 40))));
                local.free(pfn, Order(0)).unwrap();
            }
            let mut batch = [Pfn(0); 100];
            assert_eq!(pages.alloc_bulk(&PAGE, &mut batch), Ok(100));
            assert_eq!(pages.free_bulk(&batch, Order(0)).freed, 100);
        });
        assert_eq!(census.free, map.iter().map(|region| region.range.frames()).sum::<u64>());
    }
}

/// A CPU's lists hold blocks of several stretches, which come and go in any order.
#[test]
fn lists_of_several_stretches_are_mixed() {
    let map: [Region; 8] = std::array::from_fn(|n| Region::usable(n as u64 * 0x3000, n as u64 * 0x3000 + 0x400, 0));
    let zones = Config { dma_end: Pfn(0), dma32_end: Pfn(0x9000), ..Config::new(&map, &NODE) };
    let config = Config { mechanisms: Mechanisms::DEFAULT, ..zones };
    with(Solo::new(&NODE), &config, |pages| {
        let local = pages.local().unwrap();
        let requests = [PAGE, Request::page(GFP_DMA32 | GFP_KERNEL), Request::page(GFP_HIGHUSER_MOVABLE)];
        let mut held: Vec<Pfn> = (0..6000).map(|n| local.alloc(&requests[n % 3]).unwrap()).collect();
        for round in 0..20_000_usize {
            let pfn = held.swap_remove(round * 7919 % held.len());
            assert!(map.iter().any(|region| region.range.contains(pfn)), "{pfn}");
            local.free(pfn, Order(0)).unwrap();
            assert_eq!(local.free(pfn, Order(0)), Err(FreeError::AlreadyFree(pfn)));
            held.push(local.alloc(&requests[round % 3]).unwrap());
        }
        held.iter().for_each(|&pfn| local.free(pfn, Order(0)).unwrap());
    });
}

#[test]
fn a_range_longer_than_every_stretch_says_whether_there_is_as_much() {
    let map = [Region::usable(0x10_0000, 0x10_2000, 0), Region::usable(0x10_3000, 0x10_5000, 0)];
    with_solo(&map, |pages| {
        let error_of = |frames| pages.alloc_contig(frames, Order(0), &PAGE).unwrap_err();
        assert_eq!(error_of(0x3000), AllocError::no_memory(Why::Fragmented));
        assert_eq!(error_of(0x5000), AllocError::no_memory(Why::Watermark));
    });
}

/// Once refused, because the table of sections would have taken gigabytes.
///
/// Loops over a zone's span would have run for years.
#[test]
fn stretches_may_lie_anywhere() {
    const END: u64 = 1 << 52;
    let maps = [
        [Region::usable(0, 0x1000, 0), Region::usable(1 << 40, (1 << 40) + 0x2000, 0)],
        [Region::usable(0, 0x1000, 0), Region::usable(END - 0x1003, END, 0)],
        [Region::usable(0x123, 0x1456, 0), Region::usable((1 << 51) + 0x77, (1 << 51) + 0x1801, 0)],
    ];
    for map in maps {
        let config = Config { mechanisms: Mechanisms::DEFAULT, ..Config::new(&map, &NODE) };
        let closed = [Region::usable(0, map.iter().map(|region| region.range.frames()).sum(), 0)];
        let bytes = |map: &[Region]| Layout::of(&Config { regions: map, ..config }).unwrap().bytes::<Solo<'_>>();
        assert!(bytes(&map) < 2 * bytes(&closed), "{} bytes, {} without the hole", bytes(&map), bytes(&closed));
        with_solo(&map, |pages| {
            let upper = map[1].range;
            let local = pages.local().unwrap();
            let held: Vec<Pfn> = (0..0x400).map(|_| local.alloc(&PAGE).unwrap()).collect();
            assert!(held.iter().all(|&pfn| upper.contains(pfn)));
            held.iter().for_each(|&pfn| local.free(pfn, Order(0)).unwrap());
            for (pfn, order) in upper.blocks(Order(3)) {
                pages.alloc_at(pfn, order, GFP_KERNEL).unwrap();
                local.free(pfn, order).unwrap();
            }
            let range = pages.alloc_contig(0x600, Order(0), &PAGE).unwrap();
            assert!(upper.intersect(range) == range);
            let part = PfnRange { start: range.start.add(3), end: range.start.add(0x400) };
            pages.free_range(part).unwrap();
            pages.free_range(PfnRange { end: part.start, ..range }).unwrap();
            let rest = PfnRange { start: part.end, ..range };
            assert_eq!(
                pages.free_range(PfnRange { end: upper.end.add(1), ..rest }),
                Err(FreeError::AlreadyFree(range.end))
            );
            pages.free_range(rest).unwrap();
            assert!(pages.alloc_contig(0x4000, Order(0), &PAGE).is_err(), "no stretch is as long");
            let order = Order(2);
            let low = pages.alloc(&Request { order, below: Some(upper.start.add(8)), ..PAGE }).unwrap();
            pages.split(low, order, Order(0)).unwrap();
            (0..4).for_each(|n| pages.free_nolock(low.add(n), Order(0)).unwrap());
            for hole in [map[0].range.end, Pfn(upper.start.0 - 1), Pfn(upper.start.0 / 2), upper.end, Pfn(u64::MAX)] {
                assert_eq!(local.free(hole, Order(0)), Err(FreeError::Foreign(hole)));
                assert_eq!(pages.free(hole, Order(0)), Err(FreeError::Foreign(hole)));
            }
            pages.take_offline(PfnRange { start: upper.start, end: upper.start.add(9) }).unwrap();
            assert_eq!(pages.bring_online(PfnRange::new(0, u64::MAX)), 9);
        });
    }
}

/// Threads that stay on CPUs for a while, and free blocks of others on either side of a hole.
#[test]
fn threads_share_memory_on_both_sides() {
    const THREADS: usize = 4;
    let map = [Region::usable(0, 0x900, 0), Region::usable(0x1000, 0x1400, 0), Region::usable(0x3000, 0x3800, 1)];
    let cpus: [NodeId; THREADS + 2] = std::array::from_fn(|cpu| NodeId(cpu as u8 % 2));
    let zones = Config { dma_end: Pfn(0), dma32_end: Pfn(0x1000), ..Config::new(&map, &cpus) };
    let owners: Vec<AtomicU32> = (0..0x3800).map(|_| AtomicU32::new(0)).collect();
    let exchange: Mutex<Vec<Pfn>> = Mutex::default();
    let config = Config { mechanisms: Mechanisms::DEFAULT, ..zones };
    with(Native::new(&cpus), &config, |pages| {
        let work = |thread: u32| {
            let mut held: Vec<Pfn> = Vec::new();
            for _ in 0..300 {
                let local = pages.local().unwrap();
                for n in 0..64 {
                    let gfp = if n % 3 == 0 { GFP_NOWAIT | GFP_DMA32 } else { GFP_NOWAIT };
                    let request = Request::page(gfp);
                    let result = if n % 5 == 0 { pages.alloc(&request) } else { local.alloc(&request) };
                    if let Ok(pfn) = result {
                        assert_eq!(
                            owners[pfn.0 as usize].swap(thread, Ordering::Relaxed),
                            0,
                            "{pfn} was handed out twice"
                        );
                        held.push(pfn);
                    }
                }
                let mut exchange = exchange.lock().unwrap();
                exchange.append(&mut held);
                let kept = exchange.len().saturating_sub(70);
                let taken = exchange.split_off(kept);
                drop(exchange);
                for (n, pfn) in taken.into_iter().enumerate() {
                    assert_ne!(owners[pfn.0 as usize].swap(0, Ordering::Relaxed), 0);
                    if n % 5 == 0 { pages.free(pfn, Order(0)).unwrap() } else { local.free(pfn, Order(0)).unwrap() }
                }
            }
        };
        std::thread::scope(|scope| (1..=THREADS as u32).for_each(|thread| _ = scope.spawn(move || work(thread))));
        exchange.lock().unwrap().drain(..).for_each(|pfn| pages.free(pfn, Order(0)).unwrap());
        (0..cpus.len()).for_each(|cpu| _ = pages.drain_cpu(CpuId(cpu as u16)));
        (0..8).for_each(|zone| _ = pages.drain_depot(ZoneIdx(zone)));
    });
}
