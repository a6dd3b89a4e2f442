//! Bugs that a review proved, each by a test that failed then: per-CPU lists of every size, under every geometry.

use std::collections::HashSet;

use framewright::mechanisms::{FallbackPolicy, Mechanisms};
use framewright::request::{
    __GFP_MOVABLE, __GFP_RECLAIMABLE, GFP_ATOMIC, GFP_DMA, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT, Gfp,
};
use framewright::units::{CpuId, NodeId, Order, Pfn, ZoneIdx, ZoneKind};
use framewright::watermark::{Marks, PcpSize};
use framewright::{Allocator, BootError, Config, Geometry, Layout, Region, Request, Tuning};
use framewright_rt::{Solo, Storage};

type Pages = Allocator<'static, Solo<'static>>;

const CPU: [NodeId; 1] = [NodeId(0)];
const MOBILITIES: [Gfp; 3] = [Gfp::NONE, __GFP_MOVABLE, __GFP_RECLAIMABLE];

fn boot(config: &Config<'_>) -> &'static Pages {
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(config).unwrap())));
    Box::leak(Box::new(Allocator::boot(Solo::new(config.cpus), config, storage.parts()).unwrap()))
}

/// Zone DMA32 without marks and with lists of this size.
const fn lists(batch: u32, high: u32) -> Tuning {
    let marks = Marks { min: 0, low: 0, high: 0 };
    let zone = ZoneIdx::of(NodeId(0), ZoneKind::Dma32);
    Tuning { zone, marks: Some(marks), reserve: None, pcp: Some(PcpSize { batch, high }) }
}

/// Stocks the rings of all orders but the last, then frees many blocks of the last.
///
/// They alone push the sum over the limit, while drains go round by ring. No block may be lost.
fn fill_and_return(pages: &Pages, zone: Gfp, orders: &[u8], last: Request, case: &str) {
    let mut held = Vec::new();
    for (&order, mobility) in orders.iter().flat_map(|order| MOBILITIES.map(|mobility| (order, mobility))) {
        let request = Request::new(GFP_NOWAIT | zone | mobility, order);
        held.extend((0..20).map_while(|_| pages.alloc(&request).ok()).map(|pfn| (pfn, request.order)));
    }
    held.extend((0..60).map_while(|_| pages.alloc(&last).ok()).map(|pfn| (pfn, last.order)));
    for (pfn, order) in held {
        pages.free(pfn, order).unwrap();
    }
    pages.validate().unwrap_or_else(|violation| panic!("{case}: {violation}"));
    pages.drain_all();
    let census = pages.validate().unwrap_or_else(|violation| panic!("{case}, drained: {violation}"));
    assert_eq!(census.free, census.present, "{case}");
}

/// Once, a ring without room took one more block and lost another: a drain may take from all rings but the full one.
#[test]
fn full_ring_makes_room() {
    let regions = [Region::usable(0x1000, 0x1000 + 36_864, 0)];
    for (batch, high) in [(7, 559), (0, 0), (1, 1), (1, 4), (2, 3), (63, 10), (4096, 1), (1, 600), (u32::MAX, 1)] {
        for (orders, last) in [(&[0, 1, 2, 3][..], 9), (&[0], 3), (&[3], 0), (&[9], 0), (&[], 0)] {
            let pages = boot(&Config { tuning: &[lists(batch, high)], ..Config::new(&regions, &CPU) });
            let last = Request::new(GFP_NOWAIT | __GFP_MOVABLE, last);
            fill_and_return(
                pages,
                Gfp::NONE,
                orders,
                last,
                &format!("batch {batch}, high {high}, {orders:?}, {last:?}"),
            );
        }
    }
}

/// Like `full_ring_makes_room`, with the computed sizes of a small zone.
#[test]
fn full_ring_of_computed_size_makes_room() {
    let regions = [Region::usable(0x1, 0x1000, 0), Region::usable(0x10_0000, 0x14_0000, 0)];
    let pages = boot(&Config::new(&regions, &CPU));
    fill_and_return(pages, GFP_DMA, &[0], Request::new(GFP_NOWAIT | GFP_DMA, 3), "zone DMA");
}

/// Once, these sizes overflowed while the layout was computed.
#[test]
fn absurd_list_sizes_are_refused() {
    let regions = [Region::usable(0x1000, 0x1000 + 4096, 0)];
    for (batch, high) in [(1, u32::MAX), (u32::MAX, u32::MAX), (u32::MAX, 1), (0, u32::MAX)] {
        let cpus = vec![NodeId(0); usize::from(u16::MAX)];
        match Layout::of(&Config { tuning: &[lists(batch, high)], ..Config::new(&regions, &cpus) }) {
            Ok(layout) => {
                assert!(layout.bytes::<Solo<'_>>() > layout.slots && layout.slots >= cpus.len(), "{layout:?}")
            }
            Err(error) => assert!(matches!(error, BootError::TooManySlots { slots } if slots > 1 << 32), "{error}"),
        }
    }
    let absurd = Layout { frames: usize::MAX, slots: usize::MAX, ..Layout::default() };
    assert_eq!(absurd.bytes::<Solo<'_>>(), usize::MAX);
}

/// Blocks held in a seeded run, and every frame of them: no frame may be handed out twice.
#[derive(Default)]
struct Held {
    blocks: Vec<(Pfn, Order)>,
    frames: HashSet<u64>,
}

impl Held {
    fn add(&mut self, pfn: Pfn, order: Order) {
        for frame in pfn.0..pfn.0 + order.frames() {
            assert!(self.frames.insert(frame), "{frame:#x} is handed out twice");
        }
        self.blocks.push((pfn, order));
    }

    fn remove(&mut self, pick: usize) -> Option<(Pfn, Order)> {
        let count = self.blocks.len();
        let (pfn, order) = (count != 0).then(|| self.blocks.swap_remove(pick % count))?;
        for frame in pfn.0..pfn.0 + order.frames() {
            self.frames.remove(&frame);
        }
        Some((pfn, order))
    }
}

/// Once, small pageblocks and largest orders broke rings, merges and types. Page shift, largest order, pageblock order.
#[test]
fn every_geometry_keeps_its_frames() {
    let regions = [Region::usable(0x1001, 0x1000 + 3333, 0), Region::usable(0x40_0000, 0x40_0000 + 70_001, 1)];
    let cpus = [NodeId(0), NodeId(1), NodeId(2)];
    for (page_shift, max, pageblock) in [
        (12, 0, 0),
        (12, 1, 0),
        (12, 1, 1),
        (12, 3, 0),
        (12, 3, 2),
        (12, 3, 3),
        (12, 4, 4),
        (12, 9, 4),
        (6, 10, 9),
        (30, 10, 9),
        (12, 10, 0),
        (12, 18, 9),
        (12, 18, 18),
    ] {
        let geometry = Geometry { page_shift, max_order: Order(max), pageblock_order: Order(pageblock) };
        let pages = boot(&Config { geometry, ..Config::new(&regions, &cpus) });
        shuffle(pages, geometry, u64::from(page_shift) << 16 | u64::from(max) << 8 | u64::from(pageblock));
    }
}

fn shuffle(pages: &Pages, geometry: Geometry, seed: u64) {
    let before = pages.validate().unwrap();
    let mut random = seed;
    let mut held = Held::default();
    // A claim looks at every frame of a pageblock.
    for step in 0..if geometry.pageblock_order > Order(12) { 300 } else { 10_000 } {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = (random >> 33) as usize;
        pages.machine().run_on(CpuId((pick % 3) as u16));
        if pick % 7 < 4 {
            let small = Order((pick >> 8) as u8 % 4).min(geometry.max_order);
            let order = if pick.is_multiple_of(97) { geometry.pageblock_order } else { small };
            let gfp = [GFP_KERNEL, GFP_HIGHUSER_MOVABLE, GFP_KERNEL | __GFP_RECLAIMABLE, GFP_ATOMIC][(pick >> 16) % 4];
            if let Ok(pfn) = pages.alloc(&Request::new(gfp, order.0)) {
                held.add(pfn, order);
            }
        } else if let Some((pfn, order)) = held.remove(pick >> 8) {
            pages.free(pfn, order).unwrap();
        }
        if step % 2_000 == 0 {
            pages.validate().unwrap_or_else(|violation| panic!("{violation} at step {step}, {geometry:?}"));
        }
    }
    while let Some((pfn, order)) = held.remove(0) {
        pages.free(pfn, order).unwrap();
    }
    pages.drain_all();
    let after = pages.validate().unwrap_or_else(|violation| panic!("{violation} at the end, {geometry:?}"));
    assert_eq!(after, before, "{geometry:?}");
}

/// Once, a refill without a block left the ring's window at its old place.
///
/// The next request took an entry that was none.
#[test]
fn refill_without_a_block_leaves_an_empty_list() {
    let regions = [Region::usable(0, 1, 0)];
    let mechanisms = Mechanisms { fallback: FallbackPolicy::ClaimSteal, ..Mechanisms::DEFAULT };
    let config = Config { mechanisms, dma_end: Pfn(0), dma32_end: Pfn(0), ..Config::new(&regions, &CPU) };
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Solo::new(&CPU), &config, storage.parts()).unwrap();
    let mut out = [Pfn(u64::MAX); 2];
    assert_eq!(pages.alloc_bulk(&Request::page(GFP_NOWAIT), &mut out), Ok(1));
    assert_eq!((out[0], pages.validate().unwrap().allocated), (Pfn(0), 1));
    assert!(pages.alloc(&Request::page(GFP_NOWAIT)).is_err());
    pages.free(Pfn(0), Order(0)).unwrap();
    assert_eq!(pages.validate().unwrap().allocated, 0);
}
