//! Bugs that a review proved, each by a test that failed then: a call's effects on memory and on its neighbours.
//!
//! The others: `lists.rs` (sizes and geometries), `callbacks.rs` (reclaim, migration, zeroing), `damage.rs` (flipped
//! bits, racing frees), `threads.rs` (everything at once).

use framewright::report::Source;
use framewright::request::{
    __GFP_MOVABLE, __GFP_NOMEMALLOC, __GFP_THISNODE, GFP_ATOMIC, GFP_DMA32, GFP_HIGHUSER_MOVABLE, GFP_KERNEL,
    GFP_NOWAIT, Gfp, NodeSet, Policy,
};
use framewright::units::{CpuId, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::watermark::{Marks, PcpSize};
use framewright::{
    AllocError, Allocator, BootError, Config, FrameState, FreeError, Layout, Region, Request, Tuning, Why,
};
use framewright_rt::{Solo, Storage};

type Pages = Allocator<'static, Solo<'static>>;

const CPU: [NodeId; 1] = [NodeId(0)];
const DMA32: ZoneIdx = ZoneIdx::of(NodeId(0), ZoneKind::Dma32);
/// First frame of most maps here, all of zone DMA32.
const BASE: u64 = 0x1000;
/// Frames of a pageblock.
const PAGEBLOCK: u64 = 512;

/// An allocator that lives as long as the process, so that hooks may call it.
fn boot(config: &Config<'_>) -> &'static Pages {
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(config).unwrap())));
    Box::leak(Box::new(Allocator::boot(Solo::new(config.cpus), config, storage.parts()).unwrap()))
}

/// Zone DMA32 with these marks and, if `lists` is small, next to nothing on per-CPU lists.
const fn tuned(low: u64, lists: u32) -> [Tuning; 1] {
    let marks = Marks { min: 0, low, high: low };
    [Tuning { zone: DMA32, marks: Some(marks), reserve: None, pcp: Some(PcpSize { batch: 1, high: lists }) }]
}

/// Boots `frames` frames from [`BASE`] on, with no marks and no lists to speak of.
fn boot_plain(frames: u64) -> &'static Pages {
    let regions = [Region::usable(BASE, BASE + frames, 0)];
    boot(&Config { tuning: &tuned(0, 1), ..Config::new(&regions, &CPU) })
}

/// Everything is free again, and every invariant holds.
#[track_caller]
fn assert_all_back(pages: &Pages) {
    pages.drain_all();
    let census = pages.validate().unwrap();
    assert_eq!(census.free, census.present, "{census:?}");
}

fn type_of(pages: &Pages, pfn: u64) -> MigrateType {
    pages.pageblock_type(Pfn(pfn)).unwrap()
}

fn count_of_type(pages: &Pages, frames: u64, migratetype: MigrateType) -> usize {
    let pageblocks = (0..frames / PAGEBLOCK).map(|i| type_of(pages, BASE + i * PAGEBLOCK));
    pageblocks.filter(|&found| found == migratetype).count()
}

/// Once, requests of orders with per-CPU lists never looked into the reserve that was made for them.
#[test]
fn atomic_requests_of_every_order_reach_the_reserve() {
    for order in 1..=9 {
        let pages = boot_plain(4096);
        pages.set_pageblock_type(Pfn(BASE), MigrateType::HighAtomic).unwrap();
        for rest in [9, 0] {
            while pages.alloc(&Request::new(GFP_NOWAIT | __GFP_NOMEMALLOC, rest)).is_ok() {}
        }
        assert_eq!(pages.free_frames(DMA32), PAGEBLOCK, "order {order}");
        let served = pages.alloc(&Request::new(GFP_ATOMIC, order)).unwrap();
        assert!(served < Pfn(BASE + PAGEBLOCK), "order {order}: {served}");
        let single = pages.alloc(&Request::page(GFP_ATOMIC));
        assert_eq!(single.is_ok(), order < 9, "single frames have what is left of it");
        pages.validate().unwrap();
    }
}

/// Once, the reserve was set up only by orders without per-CPU lists. (Blocks of several pageblocks are not kept.)
#[test]
fn atomic_requests_of_every_order_set_up_the_reserve() {
    for (order, reserved) in [(0, 0), (1, 1), (2, 1), (3, 1), (4, 1), (9, 1), (10, 0)] {
        let regions = [Region::usable(BASE, BASE + 65_536, 0)];
        let pages = boot(&Config { tuning: &tuned(1 << 40, 60), ..Config::new(&regions, &CPU) });
        let block = pages.alloc(&Request::new(GFP_ATOMIC, order)).unwrap();
        assert_eq!(count_of_type(pages, 65_536, MigrateType::HighAtomic), reserved, "order {order}");
        pages.free(block, Order(order)).unwrap();
        assert_all_back(pages);
    }
}

/// Once, a block whose second pageblock had another type was freed to the first one's list.
#[test]
fn block_of_two_types_is_freed_to_both() {
    for (at, migratetype) in [(0, MigrateType::Cma), (512, MigrateType::Cma), (512, MigrateType::HighAtomic)] {
        let pages = boot_plain(4096);
        let block = pages.alloc(&Request::new(GFP_HIGHUSER_MOVABLE, 10)).unwrap();
        pages.set_pageblock_type(block.add(at), migratetype).unwrap();
        pages.free(block, Order(10)).unwrap();
        assert_eq!(type_of(pages, block.0 + at), migratetype);
        assert_eq!(type_of(pages, block.0 + (512 - at)), MigrateType::Movable);
        assert_all_back(pages);
    }
}

/// Once, frees of a CPU beyond the list were lost, and a boot there managed nothing and succeeded.
#[test]
fn cpu_that_was_not_set_up_is_refused() {
    let pages = boot_plain(4096);
    let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
    let range = PfnRange::new(BASE + 1024, BASE + 2048);
    let no_cpu = Err(AllocError::no_memory(Why::NoCpu));
    pages.machine().run_on(CpuId(7));
    assert_eq!(pages.free(page, Order(0)), Err(FreeError::NoCpu));
    assert_eq!(pages.free_range(PfnRange::block(page, Order(0))), Err(FreeError::NoCpu));
    assert_eq!(pages.state_of(page), FrameState::Allocated(page, Order(0)));
    assert_eq!(pages.alloc(&Request::page(GFP_KERNEL)), no_cpu);
    assert_eq!(pages.alloc_bulk(&Request::page(GFP_KERNEL), &mut [Pfn(0); 4]), no_cpu.map(|_| 0));
    assert!(pages.alloc_range(range, GFP_KERNEL).is_err());
    assert!(pages.alloc_at(Pfn(BASE + 1024), Order(3), GFP_KERNEL).is_err());
    assert!(pages.alloc_contig(3000, Order(0), &Request::page(GFP_KERNEL)).is_err());
    assert!(pages.take_offline(range).is_err());
    assert!(pages.set_pageblock_type(page, MigrateType::Cma).is_err());
    assert_eq!((pages.bring_online(range), pages.drain_all(), pages.offline_cpu(CpuId(0))), (0, 0, 0));
    pages.machine().run_on(CpuId(0));
    pages.free(page, Order(0)).unwrap();
    assert_all_back(pages);

    let regions = [Region::usable(BASE, BASE + 4096, 0)];
    let config = Config::new(&regions, &CPU);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let machine = Solo::new(&CPU);
    machine.run_on(CpuId(7));
    assert_eq!(Allocator::boot(machine, &config, storage.parts()).err(), Some(BootError::NoCpu));
}

/// Once, the turns of nodes that do not exist were requests that failed.
#[test]
fn interleaving_skips_nodes_that_are_not_there() {
    let regions = [Region::usable(BASE, BASE + 4096, 0), Region::usable(BASE + 4096, BASE + 8192, 1)];
    let pages = boot(&Config::new(&regions, &CPU));
    for nodes in [NodeSet(0b111), NodeSet::ALL, NodeSet(1 << 63 | 0b11)] {
        let mut turn = [Pfn(0); 64];
        let request = Request::page(GFP_KERNEL).with(Policy::Interleave(nodes));
        assert_eq!(pages.alloc_bulk(&request, &mut turn), Ok(64));
        assert_eq!(turn.iter().filter(|pfn| pfn.0 < BASE + 4096).count(), 32, "{nodes:?}");
    }
    for nodes in [NodeSet(0), NodeSet(0b100)] {
        pages.alloc(&Request::page(GFP_KERNEL).with(Policy::Interleave(nodes))).unwrap();
    }
    pages.validate().unwrap();
}

/// Once, bringing memory online handed frames of one node's part of a pageblock to the node that had the rest of it.
#[test]
fn pageblock_that_two_nodes_share_stays_with_the_first() {
    let regions = [Region::usable(BASE, 0x2100, 0), Region::usable(0x2100, 0x4000, 1)];
    let pages = boot(&Config { tuning: &tuned(0, 1), ..Config::new(&regions, &CPU) });
    let before = pages.validate().unwrap();
    assert_eq!(pages.bring_online(PfnRange::new(0, 0x5000)), 0);
    assert_eq!(pages.validate().unwrap(), before);
    let mut served = 0;
    while let Ok(pfn) = pages.alloc(&Request::page(GFP_NOWAIT | __GFP_THISNODE)) {
        assert!(pfn.0 < 0x2100, "{pfn}");
        served += 1;
    }
    assert_eq!(served, 0x2100 - BASE, "all of the first node");
    let stray = PfnRange::new(0x2100, 0x2101);
    assert_eq!(pages.state_of(stray.start), FrameState::Hole);
    assert_eq!(pages.alloc_range(stray, GFP_KERNEL), Err(AllocError::Foreign(stray.start)));
    assert_eq!(pages.free(stray.start, Order(0)), Err(FreeError::Foreign(stray.start)));
}

/// Once, a zone limit inside of a pageblock lost the frames above it; now it is rounded down.
#[test]
fn zone_limit_inside_of_a_pageblock_loses_no_frame() {
    let regions = [Region::usable(BASE, 0x4000, 0)];
    let pages = boot(&Config { dma32_end: Pfn(0x2100), tuning: &tuned(0, 1), ..Config::new(&regions, &CPU) });
    assert_eq!(pages.validate().unwrap().free, 0x4000 - BASE);
    let mut served = 0;
    while let Ok(pfn) = pages.alloc(&Request::page(GFP_NOWAIT | GFP_DMA32)) {
        assert!(pfn.0 < 0x2000, "{pfn}");
        served += 1;
    }
    assert_eq!(served, 0x2000 - BASE);
}

/// Once, slices longer than the layout asks for gave the allocator zones and CPUs that are not there.
#[test]
fn longer_slices_than_needed_change_nothing() {
    let regions = [Region::usable(0, 4096, 0)];
    let cpus = [NodeId(0), NodeId(0)];
    let config = Config::new(&regions, &cpus);
    let exact = Layout::of(&config).unwrap();
    for longer in [
        Layout { sections: exact.sections + 1, bases: exact.bases + 1, ..exact },
        Layout { frames: exact.frames + 1, pageblocks: exact.pageblocks + 1, ..exact },
        Layout { zones: exact.zones + 1, ..exact },
        Layout { cpus: exact.cpus + 1, pcps: exact.pcps + 1, slots: exact.slots + 1, ..exact },
    ] {
        let mut storage = Storage::new(&longer);
        let pages = Allocator::boot(Solo::new(&cpus), &config, storage.parts()).unwrap();
        let census = pages.validate().unwrap();
        assert_eq!((census.free, pages.cpus(), pages.nodes()), (4096, 2, 1));
        for cpu in [CpuId(0), CpuId(1)] {
            pages.machine().run_on(cpu);
            let held: Vec<_> = (0..100).map(|_| pages.alloc(&Request::page(GFP_KERNEL)).unwrap()).collect();
            assert_eq!(pages.free_bulk(&held, Order(0)).freed, 100);
        }
        pages.drain_all();
        assert_eq!(pages.validate().unwrap(), census);
    }
}

/// Once, a request with an address limit took from pageblocks that its kind must stay out of.
#[test]
fn address_limit_keeps_to_the_types_of_the_request() {
    let cma = [PfnRange::new(BASE, BASE + 1024)];
    let regions = [Region::usable(BASE, BASE + 4096, 0)];
    for (gfp, may_use_cma) in [(GFP_KERNEL, false), (GFP_KERNEL | __GFP_MOVABLE, true)] {
        let pages = boot(&Config { cma: &cma, tuning: &tuned(0, 1), ..Config::new(&regions, &CPU) });
        pages.set_pageblock_type(Pfn(BASE + 1024), MigrateType::HighAtomic).unwrap();
        let limit = Pfn(BASE + 2048);
        let mut held = Vec::new();
        while let Ok(pfn) = pages.alloc(&Request::page(gfp & !GFP_KERNEL | GFP_NOWAIT | __GFP_NOMEMALLOC).below(limit))
        {
            assert!(pfn < limit);
            let migratetype = type_of(pages, pfn.0);
            assert_ne!(migratetype, MigrateType::HighAtomic);
            assert!(may_use_cma || migratetype != MigrateType::Cma, "{pfn} for {gfp}");
            held.push(pfn);
        }
        assert_eq!(held.len(), if may_use_cma { 1536 } else { 512 }, "all that the request may have, {gfp}");
        assert_eq!(pages.free_bulk(&held, Order(0)).refused, 0);
        assert_all_back(pages);
    }
}

/// Once, naming the type of one pageblock renamed the free one beside it.
#[test]
fn pageblock_keeps_its_type_when_its_neighbour_gets_one() {
    let pages = boot_plain(4096);
    pages.set_pageblock_type(Pfn(BASE), MigrateType::Unmovable).unwrap();
    assert_eq!(count_of_type(pages, 4096, MigrateType::Unmovable), 1);
    pages.set_pageblock_type(Pfn(BASE + PAGEBLOCK), MigrateType::Movable).unwrap();
    assert_eq!(type_of(pages, BASE), MigrateType::Unmovable);
    assert_all_back(pages);
}

/// With larger blocks: 512 free pageblocks once took the type of one.
#[test]
fn pageblock_is_renamed_alone_in_a_huge_free_block() {
    let regions = [Region::usable(0, 1 << 18, 0)];
    let geometry = framewright::Geometry { page_shift: 12, max_order: Order(18), pageblock_order: Order(9) };
    let pages = boot(&Config { dma_end: Pfn(0), geometry, ..Config::new(&regions, &CPU) });
    let unmovable = || (0..512).filter(|i| type_of(pages, i * PAGEBLOCK) == MigrateType::Unmovable).count();
    for (named, pageblock) in [(1, 0), (2, 5), (3, 1), (4, 511)] {
        pages.set_pageblock_type(Pfn(pageblock * PAGEBLOCK), MigrateType::Unmovable).unwrap();
        assert_eq!(unmovable(), named, "after pageblock {pageblock}");
    }
    assert_all_back(pages);
}

/// Once, these ran for years, because their loops went over frames that are not there.
#[test]
fn absurd_sizes_end_at_once() {
    let absurd = [Region::usable(0, 1 << 52, 0)];
    let layout = Layout::of(&Config::new(&absurd, &CPU));
    assert!(matches!(layout, Err(BootError::TooManyFrames { .. })), "{layout:?}");
    let sparse = [Region::usable(0, 1, 0), Region::usable((1 << 52) - 1, 1 << 52, 0)];
    let layout = Layout::of(&Config::new(&sparse, &CPU)).unwrap();
    assert!(layout.sections < 2000 && layout.frames == 2048, "{layout:?}");

    let pages = boot_plain(4096);
    let census = pages.validate().unwrap();
    let all = PfnRange::new(0, u64::MAX);
    assert_eq!(pages.bring_online(all), 0);
    let (last, backward) = (PfnRange::new(u64::MAX - 1, u64::MAX), PfnRange::new(9, 3));
    for (range, error) in [
        (all, AllocError::Foreign(Pfn(0))),
        (PfnRange::new(BASE, u64::MAX), AllocError::Foreign(Pfn(BASE + 4096))),
        (last, AllocError::Foreign(last.start)),
        (backward, AllocError::BadRange(backward)),
    ] {
        assert_eq!(pages.take_offline(range), Err(error));
        assert_eq!(pages.alloc_range(range, GFP_KERNEL), Err(error));
        assert!(pages.free_range(range).is_err());
    }
    for (frames, align) in [(u64::MAX, 0), (1 << 51, 51), (1 << 51, 63), (1, 52), (4096, 255), (4097, 0)] {
        assert!(pages.alloc_contig(frames, Order(align), &Request::page(GFP_KERNEL)).is_err(), "{frames} {align}");
    }
    assert_eq!(pages.validate().unwrap(), census);
}

/// No argument makes a call panic, and none loses a frame.
#[test]
fn hostile_arguments_are_answered() {
    let pages = boot_plain(4096);
    let mut held = Vec::new();
    for order in [0, 10, 11, 18, 19, 31, 32, 63, 64, 255] {
        for pfn in [0, BASE, BASE + 4095, u64::MAX, 1 << 52, u64::MAX - 1023] {
            let (at, order) = (Pfn(pfn), Order(order));
            assert!(pages.free(at, order).is_err());
            assert!(pages.split(at, order, Order(255)).is_err() && pages.split(at, order, Order(0)).is_err());
            held.extend(pages.alloc_at(at, order, GFP_NOWAIT).map(|got| PfnRange::block(got, order)));
            held.extend(pages.alloc(&Request { order, ..Request::page(GFP_NOWAIT) }.below(at)).map(|got| {
                assert!(got.add(order.frames()) <= at);
                PfnRange::block(got, order)
            }));
            held.extend(pages.alloc_contig(pfn, order, &Request::page(GFP_NOWAIT)));
            for range in held.drain(..) {
                pages.free_range(range).unwrap();
            }
            let _ = (pages.state_of(at), pages.pageblock_type(at), pages.set_pageblock_type(at, MigrateType::Cma));
            assert!(pages.set_pageblock_type(at, MigrateType::Isolate).is_err());
        }
    }
    for node in [1, 63, 64, 255].map(NodeId) {
        assert_eq!(pages.alloc(&Request::page(GFP_KERNEL).on(node)), Err(AllocError::BadNode(node)));
    }
    for gfp in (0..32).map(|bit| Gfp(1 << bit)).chain([Gfp(u32::MAX), Gfp(0)]) {
        if let Ok(pfn) = pages.alloc(&Request::page(gfp)) {
            pages.free(pfn, Order(0)).unwrap();
        }
    }
    assert_eq!(pages.drain_cpu(CpuId(u16::MAX)) + pages.offline_cpu(CpuId(u16::MAX)), 0);
    assert_eq!(pages.free_frames(ZoneIdx(u16::MAX)), 0);
    assert_all_back(pages);
}

/// Once, a zone that lost most of its memory kept marks that left nothing of the rest to anybody.
#[test]
fn marks_follow_memory_that_comes_and_goes() {
    let regions = [Region::usable(BASE, BASE + 65_536, 0)];
    let pages = boot(&Config::new(&regions, &CPU));
    let marks = || {
        let zone = pages.zone(DMA32).unwrap();
        (zone.managed, zone.min, zone.low, zone.high)
    };
    let before = marks();
    let away = [PfnRange::new(BASE + 4096, BASE + 65_536), PfnRange::new(BASE + 512, BASE + 4096)];
    for range in away {
        pages.take_offline(range).unwrap();
        let (managed, min, low, high) = marks();
        assert_eq!(managed, range.start.0 - BASE);
        assert!(min < low && low < high && high <= managed / 8, "{min} {low} {high} of {managed}");
        let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
        pages.free(page, Order(0)).unwrap();
    }
    for range in away {
        assert_eq!(pages.bring_online(range), range.frames());
    }
    assert_eq!(marks(), before);
    assert_all_back(pages);
}
