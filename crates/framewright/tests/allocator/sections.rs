//! Sections that are put on the free lists when they are first used.

use framewright::config::SectionInit;
use framewright::mechanisms::Hardened;
use framewright::report::{BuddyInfo, PageTypeInfo, ZoneInfo};
use framewright::request::{__GFP_MEMALLOC, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, Gfp};
use framewright::units::{NodeId, Pfn, PfnRange};
use framewright::{
    AllocError, Allocator, BootError, Config, FrameState, FreeError, Layout, Mechanisms, Order, Region, Request,
};
use framewright_rt::{Solo, Storage};

use crate::maps::dirty;
use crate::roles::{Roles, Unkept};

const CPUS: [NodeId; 2] = [NodeId(0), NodeId(1)];

/// Boots a machine and passes it to `body`; every descriptor is written first if the configuration says so.
fn with<T>(config: &Config<'_>, body: impl FnOnce(&Allocator<'_, Solo<'_>>) -> T) -> T {
    let mut storage: Storage<Solo<'_>> = Storage::new(&Layout::of(config).unwrap());
    if !config.is_zeroed {
        dirty(&mut storage.parts());
    }
    body(&Allocator::boot(Solo::new(&CPUS), config, storage.parts()).unwrap())
}

/// 16 MiB of zone DMA, 2 and a half GiB in two nodes, one reserved stretch and one of CMA.
const REGIONS: [Region; 4] = [
    Region::usable(1, 0x3_0100, 0),
    Region::reserved(0x3_0100, 0x3_0200, 0),
    Region::usable(0x3_0200, 0x6_0000, 0),
    Region::usable(0x6_0000, 0xa_0000, 1),
];
const CMA: [PfnRange; 1] = [PfnRange::new(0x8_0000, 0x8_0200)];

fn configs() -> [Config<'static>; 4] {
    let plain = Config { cma: &CMA, ..Config::new(&REGIONS, &CPUS) };
    let with = |section_init, is_zeroed| Config { section_init, is_zeroed, ..plain };
    [
        with(SectionInit::AtBoot, true),
        with(SectionInit::WhenUsed, true),
        with(SectionInit::WhenUsed, false),
        with(SectionInit::AtBoot, false),
    ]
}

/// Neither the reports nor the served addresses tell when sections were initialised.
#[test]
fn requests_and_reports_do_not_depend_on_it() {
    let found = configs().map(|config| {
        with(&config, |pages| {
            let reports =
                || [BuddyInfo(pages).to_string(), PageTypeInfo(pages).to_string(), ZoneInfo(pages).to_string()];
            let booted = (pages.validate().unwrap(), reports());
            let kinds: [(Gfp, u8); 4] =
                [(GFP_HIGHUSER_MOVABLE, 0), (GFP_KERNEL, 3), (GFP_HIGHUSER_MOVABLE, 10), (GFP_KERNEL, 10)];
            let ask = |turn: usize| pages.alloc(&Request::new(kinds[turn % 4].0, kinds[turn % 4].1));
            let served: Vec<_> = (0..1_000).map(ask).collect();
            assert!(served.iter().filter(|pfn| pfn.is_ok()).count() > 600);
            (booted, served, pages.validate().unwrap(), reports())
        })
    });
    found.iter().for_each(|other| assert_eq!(*other, found[0]));
}

/// A frame of a section that was never used is free, and no call takes it for anything else.
#[test]
fn untouched_frames_are_free() {
    for config in configs() {
        with(&config, |pages| {
            let (pfn, block) = (Pfn(0x9_0123), Pfn(0x9_0000));
            assert_eq!(pages.state_of(pfn), FrameState::Free(block, Order(10)));
            assert_eq!(pages.free(pfn, Order(0)), Err(FreeError::AlreadyFree(pfn)));
            assert_eq!(pages.free(block, Order(10)), Err(FreeError::AlreadyFree(block)));
            pages.alloc_range(PfnRange::new(0x9_0123, 0x9_0923), GFP_KERNEL).unwrap();
            assert_eq!(pages.state_of(pfn), FrameState::Allocated(pfn, Order(0)));
            pages.take_offline(PfnRange::new(0x9_4000, 0x9_8000)).unwrap();
            assert_eq!(pages.validate().unwrap().offline, 0x4100);
            pages.set_pageblock_type(Pfn(0x9_8200), framewright::MigrateType::Unmovable).unwrap();
            pages.validate().unwrap();
        });
    }
}

/// Each call initialises one whole section of the node, until there is none.
#[test]
fn sections_can_be_initialised_ahead() {
    let expected =
        [(0, 0), (0x6_0000 / 1024 - 2, 0x4_0000 / 1024 - 1), (0x6_0000 / 1024 - 2, 0x4_0000 / 1024 - 1), (0, 0)];
    for (config, (first, second)) in configs().into_iter().zip(expected) {
        with(&config, |pages| {
            let before = (pages.validate().unwrap(), BuddyInfo(pages).to_string());
            let all =
                |node| std::iter::repeat_with(|| pages.init_section(NodeId(node))).take_while(|done| *done).count();
            assert_eq!((all(0), all(1), all(0), all(2)), (first, second, 0, 0));
            assert_eq!((pages.validate().unwrap(), BuddyInfo(pages).to_string()), before);
        });
    }
}

/// 4 GiB on x86-64 are initialised at boot; a machine with more is not.
#[test]
fn the_size_decides() {
    for (sections, is_lazy) in [(1_024, false), (1_025, true)] {
        let regions = [Region::usable(0, sections << 10, 0)];
        let config = Config { mechanisms: Mechanisms::BASELINE, ..Config::new(&regions, &CPUS[..1]) };
        with(&config, |pages| assert_eq!(pages.init_section(NodeId(0)), is_lazy, "{sections}"));
    }
}

/// Memory that comes later is free at once, counts everywhere, and can go offline.
#[test]
fn memory_may_be_added_where_the_map_says_so() {
    let regions = [
        Region::usable(0, 0x4000, 0),
        Region::possible(0x1_0000, 0x2_0000, 0),
        Region::possible(0x10_0000, 0x20_0000, 1),
    ];
    for (section_init, is_zeroed) in [
        (SectionInit::AtBoot, true),
        (SectionInit::AtBoot, false),
        (SectionInit::WhenUsed, false),
        (SectionInit::BySize, true),
    ] {
        let config = Config { section_init, is_zeroed, ..Config::new(&regions, &CPUS) };
        with(&config, |pages| {
            let add = |start, end| pages.add_memory(PfnRange::new(start, end));
            let present = || pages.validate().unwrap().present;
            assert_eq!((present(), pages.state_of(Pfn(0x1_0000))), (0x4000, FrameState::Hole));
            assert_eq!(pages.free(Pfn(0x1_0000), Order(0)), Err(FreeError::Foreign(Pfn(0x1_0000))));
            assert_eq!(pages.bring_online(PfnRange::new(0, 0x20_0000)), 0);
            let ask = Request::new(GFP_KERNEL, 10).on(NodeId(1));
            let low = pages.alloc(&ask).unwrap();
            assert!(low < Pfn(0x4000));
            assert_eq!(add(0x1_0000, 0x1_0001), Err(AllocError::BadRange(PfnRange::new(0x1_0000, 0x1_0001))));
            assert_eq!(add(0x3000, 0x4000), Err(AllocError::Foreign(Pfn(0x3000))));
            assert_eq!(add(0x1_f000, 0x2_1000), Err(AllocError::Foreign(Pfn(0x2_0000))));
            assert_eq!((add(0x1_4000, 0x1_8000), add(0x18_0000, 0x1c_0000)), (Ok(0x4000), Ok(0x4_0000)));
            assert_eq!(add(0x1_0000, 0x2_0000), Err(AllocError::Foreign(Pfn(0x1_4000))));
            assert_eq!(present(), 0x4_8000);
            let high = pages.alloc(&ask).unwrap();
            assert_eq!(high, Pfn(0x18_0000));
            assert_eq!(pages.state_of(Pfn(0x17_ffff)), FrameState::Hole);
            let contiguous = pages.alloc_contig(0x2000, Order(10), &Request::page(GFP_KERNEL)).unwrap();
            pages.take_offline(PfnRange::new(0x1a_0000, 0x1c_0000)).unwrap();
            assert_eq!(pages.validate().unwrap().offline, 0x2_0000);
            assert_eq!(pages.bring_online(PfnRange::new(0x10_0000, 0x20_0000)), 0x2_0000);
            pages.free_range(contiguous).unwrap();
            [low, high].into_iter().for_each(|pfn| pages.free(pfn, Order(10)).unwrap());
            pages.drain_all();
            assert_eq!(pages.validate().unwrap().free, 0x4_8000);
        });
    }
    let odd = [Region::usable(0, 0x4000, 0), Region::possible(0x1_0001, 0x2_0000, 0)];
    assert_eq!(Layout::of(&Config::new(&odd, &CPUS)).unwrap_err(), BootError::BadRegion(1));
}

/// With `hardened`, memory that comes later is filled before it is free: what it held is no write after a free.
#[test]
fn added_memory_is_filled() {
    const FRAMES: u64 = 0x400;
    let regions = [Region::usable(0, FRAMES, 0), Region::possible(FRAMES, 2 * FRAMES, 0)];
    let mechanisms = Mechanisms { hardened: Hardened::Poison, ..Mechanisms::DEFAULT };
    let config = Config { mechanisms, ..Config::new(&regions, &CPUS[..1]) };
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Roles::<Unkept>::new(&CPUS[..1]), &config, storage.parts()).unwrap();
    let added = PfnRange::new(FRAMES, 2 * FRAMES);
    assert_eq!(pages.add_memory(added), Ok(FRAMES));
    assert!((FRAMES..2 * FRAMES).all(|pfn| pages.machine().is_filled(Pfn(pfn))));

    pages.take_offline(PfnRange::new(0, FRAMES)).unwrap();
    assert_eq!(pages.alloc(&Request::new(GFP_KERNEL | __GFP_MEMALLOC, 10)), Ok(added.start));
    assert_eq!(pages.validate().unwrap().quarantined, 0);
}
