//! The core embedded over a small memory map, every call once.

use framewright::pfn::{CpuId, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::report::{BuddyInfo, PageTypeInfo, VmStat, ZoneInfo};
use framewright::request::{__GFP_THISNODE, GFP_ATOMIC, GFP_DMA32, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, NodeSet, Policy};
use framewright::{Allocator, Config, FrameState, FreeError, Layout, MigrateType, Region, Request};
use framewright_rt::{Native, Solo, Storage};

const MAP: [Region; 3] =
    [Region::usable(1, 0x9f, 0), Region::usable(0x100, 0x20000, 0), Region::usable(0x100000, 0x120000, 1)];
const CPUS: [NodeId; 3] = [NodeId(0), NodeId(0), NodeId(1)];

#[test]
fn every_call_works_on_a_small_machine() {
    let config = Config::new(&MAP, &CPUS);
    let layout = Layout::of(&config).unwrap();
    let mut storage = Storage::new(&layout);
    let pages = Allocator::boot(Solo::new(&CPUS), &config, storage.parts()).unwrap();
    let before = pages.validate().unwrap();
    assert_eq!(before.present, 0x9f - 1 + 0x1ff00 + 0x20000);
    assert_eq!(before.free, before.present);
    println!("{}{}", BuddyInfo(&pages), PageTypeInfo(&pages));

    let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
    assert_eq!(pages.state_of(page), FrameState::Allocated(page, Order(0)));
    pages.validate().unwrap();
    assert_eq!(
        pages.free(page, Order(1)),
        Err(if page.is_aligned(Order(1)) {
            FreeError::WrongOrder { pfn: page, actual: Order(0) }
        } else {
            FreeError::Misaligned(page, Order(1))
        })
    );
    pages.free(page, Order(0)).unwrap();
    assert_eq!(pages.free(page, Order(0)), Err(FreeError::AlreadyFree(page)));
    pages.validate().unwrap();

    pages.machine().run_on(CpuId(2));
    let far = pages.alloc(&Request::new(GFP_HIGHUSER_MOVABLE, 9)).unwrap();
    assert!(far >= Pfn(0x100000));
    let near = pages.alloc(&Request::new(GFP_KERNEL | __GFP_THISNODE, 4).on(NodeId(0))).unwrap();
    assert!(near < Pfn(0x20000));
    let low = pages.alloc(&Request::page(GFP_KERNEL | GFP_DMA32)).unwrap();
    assert!(low < Pfn(0x100000));
    let below = pages.alloc(&Request::new(GFP_KERNEL, 2).below(Pfn(0x400))).unwrap();
    assert!(below < Pfn(0x400));
    let mut turn = [Pfn(0); 4];
    let spread = Request::page(GFP_KERNEL).with(Policy::Interleave(NodeSet(3)));
    assert_eq!(pages.alloc_bulk(&spread, &mut turn), Ok(4));
    assert_eq!(turn.iter().filter(|pfn| pfn.0 >= 0x100000).count(), 2);
    pages.validate().unwrap();

    let mut bulk = [Pfn(0); 300];
    assert_eq!(pages.alloc_bulk(&Request::page(GFP_ATOMIC), &mut bulk), Ok(300));
    pages.validate().unwrap();
    assert_eq!(pages.free_bulk(&bulk, Order(0)).freed, 300);
    pages.validate().unwrap();

    let at = pages.alloc_at(Pfn(0x110040), Order(3), GFP_KERNEL).unwrap();
    let range = PfnRange::new(0x111003, 0x112807);
    pages.alloc_range(range, GFP_KERNEL).unwrap();
    pages.validate().unwrap();
    pages.free_range(PfnRange::new(0x111010, 0x112000)).unwrap();
    pages.validate().unwrap();
    assert!(pages.free_range(range).is_err());
    pages.validate().unwrap();
    pages.free_range(PfnRange::new(0x111003, 0x111010)).unwrap();
    pages.free_range(PfnRange::new(0x112000, 0x112807)).unwrap();
    let run = pages.alloc_contig(1500, Order(4), &Request::page(GFP_KERNEL)).unwrap();
    pages.validate().unwrap();
    pages.free_range(run).unwrap();
    let run = pages.alloc_contig(700, Order(0), &Request::page(GFP_KERNEL)).unwrap();
    pages.validate().unwrap();
    pages.free_range(run).unwrap();
    pages.split(far, Order(9), Order(0)).unwrap();
    for i in 0..512 {
        pages.free(far.add(i), Order(0)).unwrap();
    }
    for (pfn, order) in
        [(near, 4), (low, 0), (below, 2), (at, 3), (turn[0], 0), (turn[1], 0), (turn[2], 0), (turn[3], 0)]
    {
        pages.free(pfn, Order(order)).unwrap();
    }
    pages.set_pageblock_type(Pfn(0x100000), MigrateType::Reclaimable).unwrap();
    assert_eq!(pages.pageblock_type(Pfn(0x100000)), Some(MigrateType::Reclaimable));
    pages.validate().unwrap();
    pages.set_pageblock_type(Pfn(0x100000), MigrateType::Movable).unwrap();
    pages.take_offline(PfnRange::new(0x118000, 0x118400)).unwrap();
    assert_eq!(pages.validate().unwrap().offline, 0x400);
    assert_eq!(pages.bring_online(PfnRange::new(0x118000, 0x118400)), 0x400);
    pages.offline_cpu(CpuId(2));
    pages.drain_all();
    let after = pages.validate().unwrap();
    assert_eq!(after.free, before.free, "all memory came back");
    assert_eq!(pages.free_frames(ZoneIdx::of(NodeId(1), ZoneKind::Normal)), 0x20000);
    println!("{}{}{}", BuddyInfo(&pages), ZoneInfo(&pages), VmStat(&pages));
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
