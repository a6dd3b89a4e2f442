//! Memory that is allocated at boot: it changes no layout, nobody else gets it, and its owners free it in any pieces.

use framewright::config::SectionInit;
use framewright::mechanisms::{Hardened, PRESETS};
use framewright::request::GFP_KERNEL;
use framewright::units::{MigrateType, NodeId, Order, Pfn, PfnRange, ZoneKind};
use framewright::{Allocator, BootError, Config, FrameState, Layout, Region, Request, Rights, ZoneIdx};
use framewright_rt::Storage;
use proptest::prelude::*;

use crate::maps::{dirty, maps, usable_frames};
use crate::roles::{Roles, Unkept};
use crate::told::all_zones;

type Pages<'p> = Allocator<'p, Roles<Unkept>>;

const CPUS: [NodeId; 2] = [NodeId(0), NodeId(0)];
/// Every right, so that nothing free is refused.
const ALL: Rights = Rights { highatomic: true, cma: true, nofragment: false };

fn boots(config: &Config<'_>, test: impl FnOnce(&Pages<'_>)) {
    let mut storage = Storage::new(&Layout::of(config).unwrap());
    if !config.is_zeroed {
        dirty(&mut storage.parts());
    }
    test(&Allocator::boot(Roles::new(config.cpus), config, storage.parts()).unwrap());
}

/// Checks every invariant, and what the allocator told; returns the number of free frames, those of lists included.
fn checked(pages: &Pages<'_>, case: &str) -> u64 {
    let census = pages.validate().unwrap_or_else(|violation| panic!("{case}: {violation}"));
    pages.machine().told.borrow().check_free(pages, case);
    census.free + census.pcp
}

/// Takes all free memory, from the largest blocks on; returns the blocks.
fn take_all(pages: &Pages<'_>) -> Vec<(Pfn, Order)> {
    let mut taken = Vec::new();
    for order in Order(0).up_to(pages.geometry().max_order).rev() {
        let request = Request::new(GFP_KERNEL, order.0);
        for zone in all_zones(pages) {
            taken.extend(std::iter::from_fn(|| {
                pages.alloc_in(zone, zone, &request, ALL).ok().map(|served| (served.pfn, order))
            }));
        }
    }
    taken
}

/// The stretches of frames for which `wanted` holds.
fn stretches(frames: impl Iterator<Item = u64>, wanted: impl Fn(u64) -> bool) -> Vec<PfnRange> {
    let mut found: Vec<PfnRange> = Vec::new();
    for pfn in frames.filter(|&pfn| wanted(pfn)) {
        match found.last_mut() {
            Some(last) if last.end == Pfn(pfn) => last.end = Pfn(pfn + 1),
            _ => found.push(PfnRange::new(pfn, pfn + 1)),
        }
    }
    found
}

/// Frees a stretch in pieces of random lengths, by each of both calls.
fn free_in_pieces(pages: &Pages<'_>, stretch: PfnRange, random: &mut u64) {
    let mut start = stretch.start;
    while start < stretch.end {
        *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let piece = PfnRange { start, end: start.add(1 + (*random >> 40) % 900).min(stretch.end) };
        if *random >> 63 == 0 {
            pages.free_range(piece).unwrap();
        } else {
            for (pfn, order) in piece.blocks(pages.geometry().max_order) {
                pages.free_part(pfn, order).unwrap();
            }
        }
        start = piece.end;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn allocated_memory_is_its_owners(
        (regions, [allocated, reserved]) in maps(),
        preset in any::<prop::sample::Index>(),
        (hardened, lazy, is_zeroed) in any::<(bool, bool, bool)>(),
        mut random in any::<u64>(),
    ) {
        let (name, preset) = *preset.get(PRESETS);
        let mechanisms = framewright::Mechanisms { hardened: if hardened { Hardened::Poison } else { preset.hardened }, ..preset };
        if mechanisms.conflict().is_some() {
            return Ok(());
        }
        let section_init = if lazy { SectionInit::WhenUsed } else { SectionInit::AtBoot };
        let asked = Config { mechanisms, section_init, is_zeroed, ..Config::new(&regions, &CPUS) };
        let booted = Config { allocated: &allocated, reserved: &reserved, ..asked };
        let case = format!("{name}, hardened {hardened}, lazy {lazy}, zeroed {is_zeroed}");
        let has = |ranges: &[PfnRange], pfn: u64| ranges.iter().any(|range| range.contains(Pfn(pfn)));
        let is_allocated = |pfn: u64| has(&allocated, pfn) && !has(&reserved, pfn);
        if usable_frames(&regions).all(|pfn| has(&reserved, pfn)) {
            prop_assert_eq!(Layout::of(&booted), Err(BootError::NoMemory));
            return Ok(());
        }
        prop_assert_eq!(Layout::of(&booted), Layout::of(&asked));
        boots(&booted, |pages| {
            let free = checked(pages, &case);
            let mut counted = 0;
            for pfn in usable_frames(&regions) {
                // A part of a pageblock that another zone has is a hole.
                match pages.state_of(Pfn(pfn)) {
                    FrameState::Hole => {}
                    FrameState::Free(..) => {
                        assert!(!has(&allocated, pfn) && !has(&reserved, pfn), "{case}: {pfn:#x} is free");
                        counted += 1;
                    }
                    FrameState::Allocated(..) => assert!(is_allocated(pfn), "{case}: {pfn:#x} is allocated"),
                    FrameState::Offline(..) => assert!(has(&reserved, pfn), "{case}: {pfn:#x} is withheld"),
                    other => panic!("{case}: {pfn:#x}: {other:?}"),
                }
                assert!(!(is_allocated(pfn) && pages.machine().is_filled(Pfn(pfn))), "{case}: {pfn:#x} was written");
            }
            assert_eq!(free, counted, "{case}");
            let owned = stretches(usable_frames(&regions), |pfn| {
                is_allocated(pfn) && pages.state_of(Pfn(pfn)) != FrameState::Hole
            });
            let taken = take_all(pages);
            assert_eq!(taken.iter().map(|(_, order)| order.frames()).sum::<u64>(), free, "{case}: taken");
            for &(pfn, order) in &taken {
                let block = PfnRange::block(pfn, order);
                let other = owned.iter().find(|owned| !owned.intersect(block).is_empty());
                assert_eq!(other, None, "{case}: {block} is handed out");
            }
            checked(pages, &case);
            let mut back = 0;
            for (turn, &stretch) in owned.iter().enumerate() {
                free_in_pieces(pages, stretch, &mut random);
                back += stretch.frames();
                assert!(pages.free_range(stretch).is_err(), "{case}: {stretch} was free already");
                if turn < 4 {
                    assert_eq!(checked(pages, &case), back, "{case}: after {stretch}");
                }
            }
            for (pfn, order) in taken {
                pages.free(pfn, order).unwrap();
            }
            pages.drain_all();
            assert_eq!(checked(pages, &case), free + back, "{case}: all of it");
            let is_filled = |pfn: u64| pages.machine().is_filled(Pfn(pfn));
            let all_are = |range: &PfnRange| (range.start.0..range.end.0).all(is_filled);
            assert!(!hardened || owned.iter().all(all_are), "{case}: freed memory is filled");
        });
    }
}

/// A kernel's image and its initial RAM disk, which it frees later; a range twice, ranges of nothing, and reserved memory.
#[test]
fn ranges_may_overlap_be_empty_and_lie_outside() {
    let regions = [Region::reserved(0x800, 0x1000, 0), Region::usable(0x1000, 0x3000, 0)];
    let allocated = [(0x1080, 0x1180), (0x1100, 0x1200), (0x1500, 0x1500), (0x2f00, 0x9000), (0, 0x1010)];
    let allocated = allocated.map(|(start, end)| PfnRange::new(start, end));
    let reserved = [PfnRange::new(0x1190, 0x11a0)];
    boots(&Config { allocated: &allocated, reserved: &reserved, ..Config::new(&regions, &CPUS) }, |pages| {
        assert_eq!(pages.validate().unwrap().free, 0x2000 - 0x180 - 0x100 - 0x10);
        let zone = ZoneIdx::of(NodeId(0), ZoneKind::Dma32);
        assert_eq!(pages.zone_memory(zone).unwrap().managed, 0x2000 - 0x10, "allocated memory is managed");
        for (pfn, is_owned) in [(0x900, false), (0x1000, true), (0x1195, false), (0x11a0, true), (0x2fff, true)] {
            let found = pages.state_of(Pfn(pfn));
            assert_eq!(matches!(found, FrameState::Allocated(..)), is_owned, "{pfn:#x}: {found:?}");
            assert_eq!(matches!(found, FrameState::Offline(..)), !is_owned, "{pfn:#x}: {found:?}");
        }
        assert!(pages.free_range(PfnRange::new(0x1080, 0x1200)).is_err(), "a part of it is reserved");
        pages.free_range(PfnRange::new(0x1080, 0x1190)).unwrap();
        pages.free_range(PfnRange::new(0x11a0, 0x1200)).unwrap();
        assert_eq!(pages.bring_online(PfnRange::new(0x1190, 0x11a0)), 0x10);
        pages.drain_all();
        assert_eq!(pages.validate().unwrap().free, 0x2000 - 0x100 - 0x10);
    });
}

/// All of memory may be allocated: the allocator boots, and has nothing until its owners free some.
#[test]
fn all_memory_may_be_allocated() {
    let regions = [Region::usable(0x1000, 0x3000, 0)];
    let config = Config { allocated: &[PfnRange::new(0, 0x3000)], ..Config::new(&regions, &CPUS) };
    boots(&config, |pages| {
        assert_eq!(pages.validate().unwrap().free, 0);
        assert!(pages.alloc(&Request::page(GFP_KERNEL)).is_err());
        pages.free_part(Pfn(0x2000), Order(10)).unwrap();
        assert_eq!(pages.alloc_at(Pfn(0x2000), Order(10), GFP_KERNEL), Ok(Pfn(0x2000)));
        pages.free(Pfn(0x2000), Order(10)).unwrap();
        pages.free_range(PfnRange::new(0x1000, 0x2000)).unwrap();
        pages.free_range(PfnRange::new(0x2400, 0x3000)).unwrap();
        assert_eq!(pages.validate().unwrap().free, 0x2000);
    });
}

/// Freed memory goes to the list of its pageblock's type, and to its own zone.
#[test]
fn allocated_memory_of_kept_pageblocks_returns_to_them() {
    let regions = [Region::usable(0x10_0000, 0x10_4000, 0)];
    let (cma, movable) = ([PfnRange::new(0x10_0400, 0x10_0600)], [PfnRange::new(0x10_2000, 0x10_4000)]);
    let allocated = [PfnRange::new(0x10_04f0, 0x10_0510), PfnRange::new(0x10_1fff, 0x10_2001)];
    for section_init in [SectionInit::AtBoot, SectionInit::WhenUsed] {
        let config = Config {
            allocated: &allocated,
            cma: &cma,
            movable: &movable,
            section_init,
            ..Config::new(&regions, &CPUS)
        };
        boots(&config, |pages| {
            let [normal, movable] = [ZoneKind::Normal, ZoneKind::Movable].map(|kind| ZoneIdx::of(NodeId(0), kind));
            let now = || {
                let [normal, movable] = [normal, movable].map(|zone| pages.zone_memory(zone).unwrap());
                (normal.free, normal.free_cma, movable.free)
            };
            assert_eq!(now(), (0x2000 - 0x21, 0x200 - 0x20, 0x2000 - 1));
            assert_eq!(pages.pageblock_type(Pfn(0x10_04f0)), Some(MigrateType::Cma));
            allocated.iter().for_each(|&range| pages.free_range(range).unwrap());
            pages.drain_all();
            assert_eq!(now(), (0x2000, 0x200, 0x2000));
            checked(pages, "after the frees");
        });
    }
}
