//! The size of the descriptors, and the maps that are accepted.

use framewright::report::BuddyInfo;
use framewright::request::GFP_KERNEL;
use framewright::units::{NodeId, Order, Pfn, ZoneKind};
use framewright::{Allocator, BootError, Config, Geometry, Layout, Mechanisms, Region, Request};
use framewright_rt::{Native, Solo, Storage};

/// Bytes that depend on the number of frames alone: everything but zones, CPUs and their lists.
fn bytes_of_frames(layout: &Layout) -> u64 {
    let only_frames = Layout { zones: 0, zonelists: 0, cpus: 0, pcps: 0, slots: 0, ..*layout };
    only_frames.bytes::<Native>() as u64
}

/// With everything: the lists of one CPU, and a depot that can hold all frames.
#[test]
fn a_frame_costs_at_most_25_bytes_with_the_depot() {
    const FRAMES: u64 = 1 << 18;
    for (mechanisms, most) in [(Mechanisms::BASELINE, 20), (Mechanisms::DEFAULT, 25)] {
        let regions = [Region::usable(0x10_0000, 0x10_0000 + FRAMES, 0)];
        let layout = Layout::of(&Config { mechanisms, ..Config::new(&regions, &[NodeId(0)]) }).unwrap();
        let bytes = layout.bytes::<Native>() as u64;
        println!("{mechanisms}: {:.2} bytes a frame", bytes as f64 / FRAMES as f64);
        assert!(bytes <= most * FRAMES, "{bytes} bytes for {FRAMES} frames");
    }
}

#[test]
fn a_frame_costs_at_most_20_bytes() {
    const GIB: u64 = 1 << 18;
    let holes = [Region::usable(1, 0x9f, 0), Region::usable(0x100, GIB / 4, 0), Region::usable(4 * GIB, 5 * GIB, 0)];
    let far = [Region::usable(0x80000, 3 * GIB, 0), Region::usable(1 << 28, (1 << 28) + 64 * GIB, 1)];
    let tib = [Region::usable(0, 1024 * GIB, 0)];
    for regions in [&holes[..], &far, &tib] {
        let frames: u64 = regions.iter().map(|region| region.range.frames()).sum();
        let layout = Layout::of(&Config::new(regions, &[NodeId(0)])).unwrap();
        let bytes = bytes_of_frames(&layout);
        assert!(bytes <= 20 * frames, "{} bytes a frame", bytes as f64 / frames as f64);
    }
}

/// Metadata in hundred-thousandths of memory, with the default mechanisms; all zones and records counted.
#[test]
fn metadata_takes_this_share_of_memory() {
    const GIB: u64 = 1 << 18;
    // Nodes, GiB and CPUs of each, share.
    let machines = [
        (1, 1, 2, 523),
        (1, 4, 4, 536),
        (1, 16, 16, 472),
        (1, 64, 64, 431),
        (1, 1024, 128, 418),
        (1, 1024, 256, 418),
        (8, 128, 32, 421),
        (16, 1024, 256, 420),
    ];
    let shares = machines.map(|(nodes, gib, cpus, _)| {
        let each = gib * GIB;
        // As on a PC, there is no memory from 3 to 4 GiB; what would be there follows at the end.
        let starts = (0..nodes).map(|node| (if node == 0 { 0 } else { node * each + GIB }, node * each + each + GIB));
        let mut regions: Vec<Region> =
            (0..).zip(starts).map(|(node, (start, end))| Region::usable(start, end, node)).collect();
        if each > 3 * GIB {
            regions[0].range.start = Pfn(4 * GIB);
            regions.insert(0, Region::usable(0, 3 * GIB, 0));
        } else {
            regions[0].range.end = Pfn(each);
        }
        let nodes: Vec<NodeId> = (0..nodes as u8).flat_map(|node| vec![NodeId(node); cpus]).collect();
        let layout = Layout::of(&Config::new(&regions, &nodes)).unwrap();
        let memory = regions.iter().map(|region| region.range.frames() << 12).sum::<u64>();
        (layout.bytes::<Native>() as u64 * 1_000).div_ceil(memory / 100)
    });
    assert_eq!(shares, machines.map(|(.., share)| share));
}

/// 16 TiB are accepted, and 64 TiB in pages of 16 KiB; the last largest block has no descriptor.
#[test]
fn maps_of_64_tib_and_4096_cpus_are_accepted() {
    const FRAMES: u64 = 1 << 32;
    let cpus = [NodeId(0); 4096];
    for (max_order, page_shift) in [0, 9, 10, 18].into_iter().flat_map(|order| [(order, 12), (order, 14)]) {
        let section = 1_u64 << max_order;
        for (hole, frames) in
            [(0, FRAMES), (FRAMES / 2, FRAMES), (0, FRAMES - section), (0, FRAMES - 1024.max(section))]
        {
            let regions = [Region::usable(0, FRAMES / 2, 0), Region::usable(FRAMES / 2 + hole, hole + frames, 0)];
            let mut config = Config::new(&regions, &cpus);
            let pageblock_order = Order(max_order.min(9));
            config.geometry = Geometry { max_order: Order(max_order), pageblock_order, page_shift };
            let layout = Layout::of(&config).unwrap();
            assert_eq!(
                layout.frames as u64,
                frames.min(FRAMES - section.max(1024)),
                "{max_order} {hole:#x} {frames:#x}"
            );
            assert_eq!((layout.bases, layout.cpus), (layout.frames >> max_order, 4096));
        }
    }
    let more = [Region::usable(0, FRAMES + 1, 0)];
    let frames = FRAMES + 1024;
    assert_eq!(Layout::of(&Config::new(&more, &cpus)).unwrap_err(), BootError::TooManyFrames { frames });
}

#[test]
fn maps_that_cannot_be_are_refused() {
    let cpus = [NodeId(0)];
    let layout = |regions: &[Region]| Layout::of(&Config::new(regions, &cpus)).map(|_| ());
    assert_eq!(layout(&[]), Err(BootError::NoMemory));
    assert_eq!(layout(&[Region::reserved(0, 4096, 0)]), Err(BootError::NoMemory));
    assert_eq!(layout(&[Region::usable(5, 5, 0)]), Err(BootError::BadRegion(0)));
    assert_eq!(layout(&[Region::usable(0, 10, 0), Region::usable(9, 20, 0)]), Err(BootError::BadRegion(1)));
    assert_eq!(layout(&[Region::usable(0, 1 << 53, 0)]), Err(BootError::BadRegion(0)));
    assert_eq!(layout(&[Region::usable(0, 10, 64)]), Err(BootError::BadNode(NodeId(64))));
    let enormous = layout(&[Region::usable(0, 1 << 52, 0)]);
    assert_eq!(enormous, Err(BootError::TooManyFrames { frames: 1 << 52 }));
    let regions = [Region::usable(0, 4096, 0)];
    assert_eq!(Layout::of(&Config::new(&regions, &[])).map(|_| ()), Err(BootError::BadCpus));
    let mut config = Config::new(&regions, &cpus);
    config.distances = &[10, 20];
    assert_eq!(Layout::of(&config).map(|_| ()), Err(BootError::BadDistances));
    config.distances = &[];
    for (max, pageblock, shift) in [(19, 9, 12), (10, 11, 12), (10, 9, 5), (10, 9, 31)] {
        config.geometry.max_order = Order(max);
        config.geometry.pageblock_order = Order(pageblock);
        config.geometry.page_shift = shift;
        assert_eq!(Layout::of(&config).map(|_| ()), Err(BootError::BadGeometry), "{max} {pageblock} {shift}");
    }
}

/// A limit inside a zone's first pageblock leaves it without memory, and says so; other limits are rounded down.
#[test]
fn zones_lost_by_rounding_are_named() {
    let (cpus, block) = ([NodeId(0)], 0x200);
    let regions = [Region::usable(0, 0x1000, 0), Region::usable(0x2000, 0x4000, 0)];
    let lost = |zone, end| Some((zone, Pfn(end)));
    let table = [
        ((0, 0), None),
        ((block, 2 * block), None),
        ((block + 1, 3 * block - 1), None),
        ((1, 0x2000), lost(ZoneKind::Dma, 1)),
        ((block - 1, 0x2000), lost(ZoneKind::Dma, block - 1)),
        ((block, block + 1), lost(ZoneKind::Dma32, block + 1)),
        ((0, 0x100), lost(ZoneKind::Dma32, 0x100)),
        // No memory is there that a zone could lose.
        ((0x1000, 0x1100), None),
        ((0x2100, 0x3000), None),
    ];
    for ((dma, dma32), expected) in table {
        let config = Config { dma_end: Pfn(dma), dma32_end: Pfn(dma32), ..Config::new(&regions, &cpus) };
        assert_eq!(config.lost_zone(), expected, "{dma:#x} {dma32:#x}");
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        let pages = Allocator::boot(Solo::new(&cpus), &config, storage.parts()).unwrap();
        let of_zone = format!("zone {:>8}", expected.map_or(ZoneKind::Normal, |(zone, _)| zone));
        let shown = BuddyInfo(&pages).to_string();
        assert_eq!(shown.contains(&of_zone), expected.is_none(), "{dma:#x} {dma32:#x}: {shown}");
    }
}

#[test]
fn short_parts_are_named() {
    let cpus = [NodeId(0)];
    let regions = [Region::usable(0, 4096, 0)];
    let config = Config::new(&regions, &cpus);
    let layout = Layout::of(&config).unwrap();
    let mut storage = Storage::new(&Layout { pcps: layout.pcps - 1, ..layout });
    let error = Allocator::boot(Solo::new(&cpus), &config, storage.parts()).map(|_| ()).unwrap_err();
    assert_eq!(error, BootError::TooShort { part: "pcps", needed: layout.pcps, given: layout.pcps - 1 });
    assert_eq!(error.to_string(), "the memory for pcps has room for 3 entries, 4 are needed");
}

#[test]
fn any_geometry_boots() {
    let cpus = [NodeId(0)];
    let regions = [Region::usable(3, 70_001, 0)];
    for (max, pageblock, shift) in
        [(0, 0, 12), (1, 0, 12), (3, 3, 14), (10, 4, 6), (11, 9, 16), (18, 18, 12), (13, 13, 30)]
    {
        let mut config = Config::new(&regions, &cpus);
        config.geometry.max_order = Order(max);
        config.geometry.pageblock_order = Order(pageblock);
        config.geometry.page_shift = shift;
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        let pages = Allocator::boot(Solo::new(&cpus), &config, storage.parts()).unwrap();
        let all = pages.validate().unwrap().free;
        let blocks: Vec<Pfn> = std::iter::from_fn(|| pages.alloc(&Request::page(GFP_KERNEL)).ok()).collect();
        assert!(blocks.len() > 50_000, "{max} {pageblock} {shift}: {} of {all}", blocks.len());
        pages.validate().unwrap();
        assert_eq!(pages.free_bulk(&blocks, Order(0)).freed, blocks.len());
        pages.drain_all();
        assert_eq!(pages.validate().unwrap().free, all, "{max} {pageblock} {shift}");
    }
}
