//! Memory that is in use at boot, and contexts of CPUs: neither changes the sizes of lists, nor the layout.

use framewright::report::ZoneInfo;
use framewright::request::GFP_KERNEL;
use framewright::units::{CpuId, NodeId, Order, Pfn, PfnRange};
use framewright::{Allocator, BootError, Config, FrameState, Layout, Mechanisms, Region, Request};
use framewright_rt::{Solo, Storage};
use proptest::prelude::*;

use crate::maps::{maps, usable_frames};

const CPUS: [NodeId; 2] = [NodeId(0), NodeId(0)];
const PAGE: Request = Request::page(GFP_KERNEL);

fn boots(config: &Config<'_>, test: impl FnOnce(&Allocator<'_, Solo<'_>>)) {
    let mut storage = Storage::new(&Layout::of(config).unwrap());
    test(&Allocator::boot(Solo::new(config.cpus), config, storage.parts()).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// A kernel asks for the layout, takes that much of its memory, and says so in the configuration that boots.
    #[test]
    fn reserved_memory_changes_no_layout_and_is_never_allocated(
        (regions, [reserved]) in maps(), depot in any::<bool>(),
    ) {
        let mechanisms = if depot { Mechanisms::DEFAULT } else { Mechanisms::BASELINE };
        let asked = Config { mechanisms, ..Config::new(&regions, &CPUS) };
        let booted = Config { reserved: &reserved, ..asked };
        let frames = || usable_frames(&regions);
        let is_reserved = |pfn: u64| reserved.iter().any(|range| range.contains(Pfn(pfn)));
        let managed = frames().filter(|&pfn| !is_reserved(pfn)).count() as u64;
        prop_assert_eq!(Layout::of(&booted).is_ok(), managed != 0);
        if managed == 0 {
            return Ok(());
        }
        prop_assert_eq!(Layout::of(&booted), Layout::of(&asked));
        boots(&booted, |pages| {
            let free = pages.validate().unwrap().free;
            // A part of a pageblock that another zone has is a hole.
            assert!(free <= managed && managed - free < 512 * 2 * regions.len() as u64, "{free} of {managed}");
            for pfn in frames() {
                match pages.state_of(Pfn(pfn)) {
                    FrameState::Free(head, order) => {
                        assert!(!is_reserved(pfn), "{pfn:#x} is in a free block of {order:?} at {head:?}");
                    }
                    FrameState::Hole | FrameState::Offline(..) => {}
                    other => panic!("{pfn:#x}: {other:?}"),
                }
            }
            let before = pages.cpus();
            let online: u64 = reserved.iter().map(|&range| pages.bring_online(range)).sum();
            assert_eq!((pages.cpus(), pages.validate().unwrap().free), (before, free + online));
        });
    }
}

/// An image, an initial RAM disk within it, nothing, and frames that are no memory.
#[test]
fn ranges_may_overlap_be_empty_and_lie_outside() {
    let regions = [Region::usable(0x1000, 0x3000, 0)];
    let reserved = [(0x1080, 0x1180), (0x1100, 0x1200), (0x1500, 0x1500), (0x2f00, 0x9000), (0, 0x10)];
    let reserved = reserved.map(|(start, end)| PfnRange::new(start, end));
    let config = Config { reserved: &reserved, ..Config::new(&regions, &CPUS) };
    boots(&config, |pages| {
        assert_eq!(pages.validate().unwrap().free, 0x2000 - 0x180 - 0x100);
        assert_eq!(pages.state_of(Pfn(0x11ff)), FrameState::Offline(Pfn(0x1180), Order(7)));
        // The kernel frees its initial RAM disk.
        assert_eq!(pages.bring_online(PfnRange::new(0x1180, 0x1200)), 0x80);
        assert_eq!(pages.validate().unwrap().free, 0x2000 - 0x100 - 0x100);
    });
}

#[test]
fn a_range_that_ends_before_it_starts_or_lies_above_all_is_refused() {
    let regions = [Region::usable(0x1000, 0x3000, 0)];
    let reserved = [PfnRange::new(0x1000, 0x1001), PfnRange { start: Pfn(0x1200), end: Pfn(0x1100) }];
    let config = Config { reserved: &reserved, ..Config::new(&regions, &CPUS) };
    assert_eq!(Layout::of(&config), Err(BootError::BadReserved(1)));
    for (start, is_refused) in [(0x2fff, false), (0x3000, true), (0x108_0000, true)] {
        let reserved = [PfnRange::new(start, start + 1)];
        let error = Layout::of(&Config { reserved: &reserved, ..config }).err();
        assert_eq!(error, is_refused.then_some(BootError::BadReserved(0)), "{start:#x}");
    }
    let all = [PfnRange::new(0, 0x3000)];
    assert_eq!(Layout::of(&Config { reserved: &all, ..config }), Err(BootError::NoMemory));
}

/// Each context of each CPU has lists, as long as those of a machine where one context calls.
#[test]
fn contexts_have_lists_of_their_own_and_shrink_none() {
    let regions = [Region::usable(0x10_0000, 0x14_0000, 0)];
    let highs = |config: &Config<'_>| {
        let mut highs = Vec::new();
        boots(config, |pages| {
            let shown = ZoneInfo(pages).to_string();
            highs = shown.lines().filter(|line| line.contains("high:")).map(str::to_owned).collect();
            for cpu in 0..pages.cpus() as u16 {
                pages.machine().run_on(CpuId(cpu));
                let page = pages.alloc(&PAGE).unwrap();
                pages.free(page, Order(0)).unwrap();
            }
            pages.validate().unwrap();
        });
        highs
    };
    let one = Config::new(&regions, &CPUS);
    let (single, threefold) = (highs(&one), highs(&Config { contexts: 3, ..one }));
    assert_eq!((single.len(), threefold.len()), (2, 6));
    assert!(threefold.iter().all(|high| *high == single[0]), "{single:?} {threefold:?}");
    assert_eq!(Layout::of(&Config { contexts: 0, ..one }), Err(BootError::BadCpus));
    assert_eq!(Layout::of(&Config { contexts: usize::MAX, ..one }), Err(BootError::BadCpus));
}
