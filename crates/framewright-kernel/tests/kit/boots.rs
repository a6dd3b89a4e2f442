//! Boot: the least kernel, blocks of any alignment and contents, and what is refused.

use framewright::error::Feature;
use framewright::mechanisms::{Hardened, PRESETS};
use framewright::request::{__GFP_ZERO, GFP_KERNEL};
use framewright::{
    AllocError, BootError, Config, CpuId, Features, Mechanisms, NodeId, Order, Pfn, PfnRange, Region, Request, Rights,
    ZoneIdx, ZoneKind,
};
use framewright_kernel::{Context, Contexts, Error, Framewright, Kernel, Pages, bytes, place};

use crate::board::{Board, Least, MEMORY, Single, block, boot, of_one_thread, run_on, small};

const PAGE: Request = Request::page(GFP_KERNEL);
/// Where the descriptors lie that are in no frame.
const NOWHERE: PfnRange = PfnRange::new(0, 0);

/// Allocates all memory in blocks, then in pages, frees it in turn, and checks everything.
fn use_up<K: Kernel>(pages: &Pages<K>) -> usize {
    let mut held = Vec::new();
    for order in [Order(10), Order(3), Order(0)] {
        while let Ok(pfn) = pages.alloc(&Request { order, ..PAGE }) {
            held.push((pfn, order));
        }
    }
    let frames = held.iter().map(|(_, order)| order.frames() as usize).sum();
    for (pfn, order) in held {
        pages.free(pfn, order).unwrap();
    }
    pages.drain_all();
    pages.validate().unwrap();
    frames
}

#[test]
fn the_least_kernel_boots() {
    assert!(use_up(small(&Least, 1)) > 0x3000);
    assert!(use_up(small(&Single, 1)) > 0x3000);
}

/// Memory was in use before: nothing relies on its contents, whatever the mechanisms.
#[test]
fn every_preset_boots_in_dirty_memory() {
    for &(name, mechanisms) in PRESETS {
        let cpus = [NodeId(0); 2];
        let config = Config { mechanisms, ..Config::new(&MEMORY, &cpus) };
        let pages = boot(&Board::<2>, &config).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(pages.cpus(), 4, "{name}");
        assert!(use_up(pages) > 0x3000, "{name}");
    }
}

#[test]
fn a_block_may_lie_anywhere() {
    let cpus = [NodeId(0)];
    let config = Config::new(&MEMORY, &cpus);
    let bytes = bytes::<Least>(&config).unwrap();
    for skew in [0, 1, 7, 64, 127, 128, 129, 255] {
        let cell: &'static Framewright<Least> = Box::leak(Box::new(Framewright::new()));
        assert!(cell.get().is_none());
        let pages = cell.boot(&Least, &config, NOWHERE, block(bytes, skew)).unwrap();
        pages.validate().unwrap();
        assert!(std::ptr::eq(pages, cell.get().unwrap()));
    }
}

#[test]
fn a_boot_that_is_refused_may_be_tried_again_and_one_that_was_not_may_not() {
    static CELL: Framewright<Least> = Framewright::new();
    let cpus = [NodeId(0)];
    let config = Config::new(&MEMORY, &cpus);
    let needed = bytes::<Least>(&config).unwrap();
    for given in [0, 1, 127, needed / 2, needed - 1] {
        let refused = CELL.boot(&Least, &config, NOWHERE, block(given, 3)).err();
        assert_eq!(refused, Some(Error::TooShort { needed, given }));
        assert!(CELL.get().is_none());
    }
    let none = Config::new(&[], &cpus);
    assert_eq!(CELL.boot(&Least, &none, NOWHERE, block(needed, 0)).err(), Some(Error::Boot(BootError::NoMemory)));
    assert_eq!(bytes::<Least>(&none), Err(Error::Boot(BootError::NoMemory)));
    CELL.boot(&Least, &config, NOWHERE, block(needed, 0)).unwrap().validate().unwrap();
    assert_eq!(CELL.boot(&Least, &config, NOWHERE, block(needed, 0)).err(), Some(Error::Twice));
    let told = [
        Error::TooShort { needed: 9, given: 8 },
        Error::TooLarge,
        Error::Unreserved(PfnRange::new(8, 9)),
        Error::BadPlace(PfnRange::new(8, 9)),
        Error::NoPlace { needed: 9 },
        Error::ManyReserved { given: 32, most: 31 },
        Error::OneCpu(2),
        Error::Twice,
        BootError::NoMemory.into(),
    ];
    assert_eq!(
        told.map(|error| error.to_string()),
        [
            "the descriptors need a block of 9 bytes; it has 8",
            "the descriptors need more than the address space",
            "the descriptors lie in frames 0x8..0x9, which no single reserved range of the configuration holds",
            "the place of the descriptors, 0x8..0x9, is too short or above all memory; are these frames?",
            "no usable range in the given memory has the 9 bytes that the descriptors need; are these frames?",
            "32 reserved ranges are more than 31; find a place for the descriptors, and call boot",
            "the kernel says Fences::OneCpu, and the configuration has 2 CPUs",
            "the allocator was booted before",
            "the memory map has no usable frame, or all of them are reserved"
        ]
    );
}

#[test]
fn one_call_finds_the_place_and_boots() {
    static CELL: Framewright<Least> = Framewright::new();
    let cpus = [NodeId(0)];
    let in_use = [PfnRange::new(0x4fff, 0x5000), PfnRange::new(0x1000, 0x1001)];
    let config = Config { reserved: &in_use, ..Config::new(&MEMORY, &cpus) };
    let needed = bytes::<Least>(&config).unwrap();
    let refused = |config: &Config<'_>, within| CELL.boot_within(&Least, config, within, |_| panic!("no place")).err();
    assert_eq!(refused(&config, PfnRange::new(0x1000, 0x1002)), Some(Error::NoPlace { needed }));
    let many = [PfnRange::new(0x1000, 0x1001); 32];
    let error = Error::ManyReserved { given: 32, most: 31 };
    assert_eq!(refused(&Config { reserved: &many, ..config }, MEMORY[0].range), Some(error));
    let mut found = PfnRange::new(0, 0);
    let map = |own| {
        found = own;
        block(needed, 1)
    };
    let pages = CELL.boot_within(&Least, &Config { reserved: &many[..31], ..config }, MEMORY[0].range, map).unwrap();
    assert_eq!(found.end, MEMORY[0].range.end, "as high as possible");
    assert_eq!(refused(&config, MEMORY[0].range), Some(Error::Twice), "its memory is not asked for again");
    assert_eq!(pages.validate().unwrap().offline, found.frames() + 1, "the place and what was in use are withheld");
}

#[test]
fn a_wrong_number_of_cpus_is_named() {
    let two = [NodeId(0); 2];
    let config = Config::new(&MEMORY, &two);
    assert_eq!(boot(&Single, &config).err(), Some(Error::OneCpu(2)));
    run_on(7, Context::Task);
    assert_eq!(boot(&Board::<1>, &config).err(), Some(Error::Boot(BootError::NoCpu)));
    run_on(0, Context::Task);
}

/// Its constants choose, not the configuration's defaults.
struct Small;

of_one_thread! {
    Small:
    const CONTEXTS: Contexts = Contexts::Tasks;
    const MECHANISMS: Option<Mechanisms> = Some(Mechanisms::MINIMAL);
    const FEATURES: Features = Features::NONE;
}

#[test]
fn a_kernel_that_compiles_few_mechanisms_boots_with_them() {
    let pages = small(&Small, 1);
    assert_eq!(pages.mechanisms(), Mechanisms::MINIMAL);
    assert!(use_up(pages) > 0x3000);
}

/// The highest place: below what is reserved, in a usable region, in what is mapped.
#[test]
fn the_block_gets_the_highest_place() {
    let cpus = [NodeId(0)];
    let map =
        [Region::usable(0x100, 0x1000, 0), Region::reserved(0x1000, 0x1100, 0), Region::usable(0x2000, 0x3000, 0)];
    let all = PfnRange::new(0, u64::MAX);
    let taken = [PfnRange::new(0x2ff0, 0x2ff8), PfnRange::new(0x2fe0, 0x2ff4), PfnRange::new(0x2f00, 0x2f10)];
    for (reserved, within, pages, expected) in [
        (&[][..], all, 16, Some(0x2ff0)),
        (&[], PfnRange::new(0, 0x2800), 16, Some(0x27f0)),
        (&[], PfnRange::new(0, 0x2008), 16, Some(0xff0)),
        (&taken, all, 8, Some(0x2ff8)),
        (&taken, all, 9, Some(0x2fd7)),
        (&taken, all, 0xd1, Some(0x2e2f)),
        (&taken, all, 0xf00, Some(0x2000)),
        (&taken, all, 0xf01, None),
        (&[all], all, 1, None),
    ] {
        let config = Config { reserved, ..Config::new(&map, &cpus) };
        let found = place(&config, pages << 12, within);
        let expected = expected.map(|start| PfnRange::new(start, start + pages as u64));
        assert_eq!(found, expected, "{pages} pages in {within:?} without {reserved:?}");
        assert_eq!(place(&config, (pages << 12) - 4095, within), expected, "a part of a page is a page");
        for cut in 0..reserved.len() {
            let (allocated, reserved) = reserved.split_at(cut + 1);
            let config = Config { allocated, reserved, ..config };
            assert_eq!(place(&config, pages << 12, within), expected, "{allocated:?} are allocated");
        }
    }
}

/// An early allocator's memory is its owners', and they free it in parts.
#[test]
fn memory_allocated_at_boot_is_freed_later() {
    let (cpus, early) = ([NodeId(0)], [PfnRange::new(0x4f00, 0x5000), PfnRange::new(0x1200, 0x1203)]);
    let config = Config::new(&MEMORY, &cpus);
    let pages = boot(&Least, &Config { allocated: &early, ..config }).unwrap();
    let free = pages.validate().unwrap().free;
    assert_eq!(free, boot(&Least, &config).unwrap().validate().unwrap().free - 0x103);
    pages.free_part(Pfn(0x4f80), Order(5)).unwrap();
    pages.free_range(PfnRange::new(0x4fa0, 0x5000)).unwrap();
    pages.free_range(PfnRange::new(0x4f00, 0x4f80)).unwrap();
    pages.free_part(Pfn(0x1202), Order(0)).unwrap();
    pages.free_part(Pfn(0x1200), Order(1)).unwrap();
    pages.drain_all();
    assert_eq!(pages.validate().unwrap().free, free + 0x103);
    // Its owner frees it, so descriptors may not lie there.
    let cell: &'static Framewright<Least> = Box::leak(Box::new(Framewright::new()));
    let needed = bytes::<Least>(&config).unwrap();
    let own = PfnRange::new(0x4000, 0x4000 + needed.div_ceil(4096) as u64);
    let refused = cell.boot(&Least, &Config { allocated: &[own], ..config }, own, block(needed, 0)).err();
    assert_eq!(refused, Some(Error::Unreserved(own)));
}

/// Movable and CMA memory is for ranges, so descriptors lie there only if they must.
#[test]
fn the_block_leaves_memory_for_ranges_alone() {
    let cpus = [NodeId(0)];
    let map = [Region::usable(0x1000, 0x3000, 0)];
    let (movable, cma) = ([PfnRange::new(0x2800, 0x3000)], [PfnRange::new(0x2400, 0x2600)]);
    let config = Config { movable: &movable, cma: &cma, ..Config::new(&map, &cpus) };
    let found = |pages: usize| place(&config, pages << 12, PfnRange::new(0, u64::MAX)).map(|range| range.start.0);
    assert_eq!((found(0x10), found(0x200), found(0x201)), (Some(0x27f0), Some(0x2600), Some(0x21ff)));
    assert_eq!((found(0x1400), found(0x1401), found(0x2001)), (Some(0x1000), Some(0x1bff), None));
}

/// All memory is zero at boot, as in a machine that was just switched on.
struct Fresh;

of_one_thread! {
    Fresh:
    const CONTEXTS: Contexts = Contexts::Tasks;
    fn starts_zeroed(&self) -> bool {
        true
    }
}

#[test]
fn memory_that_starts_zeroed_is_not_cleared_again() {
    let cpus = [NodeId(0)];
    for mechanisms in [Mechanisms::DEFAULT, Mechanisms::preset("owned-pageblocks").unwrap()] {
        let config = Config { mechanisms, ..Config::new(&MEMORY, &cpus) };
        let cell: &'static Framewright<Fresh> = Box::leak(Box::new(Framewright::new()));
        let block = Vec::leak(vec![0; bytes::<Fresh>(&config).unwrap()]);
        assert!(use_up(cell.boot(&Fresh, &config, NOWHERE, block).unwrap()) > 0x3000);
    }
}

/// A kernel that cannot zero or fill memory says so by what it leaves out; memory is never handed out as it is.
#[test]
fn what_a_kernel_cannot_do_with_contents_is_refused() {
    let pages = small(&Least, 1);
    let zeroed = Request::page(GFP_KERNEL | __GFP_ZERO);
    let refused = AllocError::LeftOut(Feature::Zero);
    for order in [0, 3, 9] {
        assert_eq!(pages.alloc(&Request { order: Order(order), ..zeroed }), Err(refused));
    }
    assert_eq!(pages.alloc_pages(zeroed.gfp, Order(0)), Err(refused));
    assert_eq!(pages.alloc_nolock(&zeroed), Err(refused));
    let zone = ZoneIdx::of(NodeId(0), ZoneKind::Dma32);
    assert_eq!(pages.alloc_in(zone, zone, &zeroed, Rights::default()), Err(refused));
    assert_eq!(pages.alloc_contig(3, Order(0), &zeroed), Err(refused));
    assert_eq!(pages.alloc_range(PfnRange::new(0x200, 0x203), zeroed.gfp), Err(refused));
    assert_eq!(pages.alloc_bulk(&zeroed, &mut [Pfn(0); 3]), Err(refused));
    assert_eq!(pages.local().unwrap().alloc(&zeroed), Err(refused));
    assert_eq!(pages.cpu_handle(CpuId(0)).unwrap().alloc(&zeroed), Err(refused));
    pages.validate().unwrap();
    let cpus = [NodeId(0)];
    for hardened in [Hardened::Zero, Hardened::Poison] {
        let mechanisms = Mechanisms { hardened, ..Mechanisms::DEFAULT };
        let config = Config { mechanisms, ..Config::new(&MEMORY, &cpus) };
        assert_eq!(bytes::<Least>(&config), Err(Error::Boot(BootError::LeftOut(Feature::Hardened))));
    }
}

/// A place that is not reserved is refused, whole or in part; none is needed where no memory is usable.
#[test]
fn descriptors_lie_in_reserved_memory() {
    static CELL: Framewright<Least> = Framewright::new();
    let cpus = [NodeId(0)];
    let config = Config::new(&MEMORY, &cpus);
    let needed = bytes::<Least>(&config).unwrap();
    let own = place(&config, needed, PfnRange::new(0, u64::MAX)).unwrap();
    let boot =
        |reserved: &[PfnRange], own| CELL.boot(&Least, &Config { reserved, ..config }, own, block(needed, 0)).err();
    assert_eq!(boot(&[], own), Some(Error::Unreserved(own)));
    let middle = own.start.0 + own.frames() / 2;
    let (begin, end) = (PfnRange::new(own.start.0, middle), PfnRange::new(middle, own.end.0));
    assert_eq!(boot(&[begin], own), Some(Error::Unreserved(own)));
    assert_eq!(boot(&[end], own), Some(Error::Unreserved(own)));
    let bytes = own.bytes(12);
    let in_bytes = PfnRange::new(bytes.start, bytes.end);
    assert_eq!(boot(&[], in_bytes), Some(Error::BadPlace(in_bytes)));
    assert_eq!(boot(&[own], begin), Some(Error::BadPlace(begin)));
    assert_eq!(boot(&[begin, PfnRange::new(own.start.0 - 1, own.end.0)], own), None);
}
