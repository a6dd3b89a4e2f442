//! Requests in one zone: which blocks they get, what they count, and what they never do.

use framewright::machine::Machine;
use framewright::mechanisms::{Hardened, NumaStat, PRESETS};
use framewright::report::{NumaCounters, Source};
use framewright::request::{
    __GFP_KSWAPD_RECLAIM, __GFP_RECLAIMABLE, GFP_ATOMIC, GFP_DMA32, GFP_HIGHUSER_MOVABLE, GFP_KERNEL,
};
use framewright::units::{CpuId, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::{AllocError, Allocator, Config, FrameState, Gfp, Layout, Mechanisms, Request, Rights, Why};
use framewright_rt::Storage;

use crate::maps::{CMA, CPUS, zones_of_two_nodes};
use crate::roles::{Keeping, Kept, Roles, Unkept};
use crate::told::all_zones;

const GFPS: [Gfp; 5] = [
    GFP_KERNEL,
    GFP_HIGHUSER_MOVABLE,
    Gfp(GFP_KERNEL.0 | __GFP_RECLAIMABLE.0),
    GFP_ATOMIC,
    Gfp(GFP_KERNEL.0 | GFP_DMA32.0),
];
const DMA32: ZoneIdx = ZoneIdx::of(NodeId(0), ZoneKind::Dma32);
const NORMAL: ZoneIdx = ZoneIdx::of(NodeId(0), ZoneKind::Normal);
const FAR: ZoneIdx = ZoneIdx::of(NodeId(1), ZoneKind::Normal);
const NONE: Rights = Rights { highatomic: false, cma: false, nofragment: false };
const CMA_TOO: Rights = Rights { cma: true, ..NONE };

pub(crate) fn boots<K: Keeping>(config: &Config<'_>, test: impl FnOnce(&Allocator<'_, Roles<K>>)) {
    let mut storage = Storage::new(&Layout::of(config).unwrap());
    let pages = Allocator::boot(Roles::<K>::new(config.cpus), config, storage.parts()).unwrap();
    test(&pages);
    assert_eq!(pages.machine().reclaims.get(), 0, "a request in one zone reclaims");
}

/// Boots both kinds of machine under each preset.
fn with_presets(test: impl Fn(&dyn Zones, &str)) {
    for &(name, mechanisms) in PRESETS {
        boots::<Unkept>(&zones_of_two_nodes(mechanisms), |pages| test(pages, name));
        boots::<Kept>(&zones_of_two_nodes(mechanisms), |pages| test(pages, &format!("{name}, values kept")));
    }
}

/// The calls of the tests, of either machine.
trait Zones {
    fn ask(&self, zone: ZoneIdx, preferred: ZoneIdx, request: &Request, rights: Rights) -> Result<Pfn, AllocError>;
    fn give(&self, pfn: Pfn, order: Order);
    fn run_on(&self, cpu: u16);
    fn numa(&self, zone: ZoneIdx) -> NumaCounters;
    fn free(&self, zone: ZoneIdx) -> u64;
    fn span(&self, zone: ZoneIdx) -> PfnRange;
    fn zones(&self) -> Vec<ZoneIdx>;
    fn mechanisms(&self) -> Mechanisms;
    fn offline(&self, cpu: u16);
    fn listed(&self, zone: ZoneIdx, cpu: u16) -> u64;
    fn retype(&self, pfn: Pfn, migratetype: MigrateType);
    fn has_block(&self, zone: ZoneIdx, order: u8, rights: Rights) -> bool;
    fn check(&self, case: &str);
}

impl<K: Keeping> Zones for Allocator<'_, Roles<K>> {
    fn ask(&self, zone: ZoneIdx, preferred: ZoneIdx, request: &Request, rights: Rights) -> Result<Pfn, AllocError> {
        self.alloc_in(zone, preferred, request, rights).map(|served| served.pfn)
    }

    fn give(&self, pfn: Pfn, order: Order) {
        self.free(pfn, order).unwrap();
    }

    fn run_on(&self, cpu: u16) {
        self.machine().run_on(CpuId(cpu));
    }

    fn numa(&self, zone: ZoneIdx) -> NumaCounters {
        for cpu in 0..CPUS.len() as u16 {
            self.refresh_statistics(CpuId(cpu));
        }
        Source::zone(self, zone).unwrap().numa
    }

    fn free(&self, zone: ZoneIdx) -> u64 {
        self.zone_memory(zone).unwrap().free
    }

    fn span(&self, zone: ZoneIdx) -> PfnRange {
        self.zone_memory(zone).unwrap().span
    }

    fn zones(&self) -> Vec<ZoneIdx> {
        all_zones(self).filter(|&zone| self.zone_memory(zone).unwrap().present != 0).collect()
    }

    fn mechanisms(&self) -> Mechanisms {
        self.mechanisms()
    }

    fn offline(&self, cpu: u16) {
        self.offline_cpu(CpuId(cpu));
    }

    fn listed(&self, zone: ZoneIdx, cpu: u16) -> u64 {
        self.pcp(zone, CpuId(cpu)).map_or(0, |list| list.count)
    }

    fn retype(&self, pfn: Pfn, migratetype: MigrateType) {
        self.set_pageblock_type(pfn, migratetype).unwrap();
    }

    fn has_block(&self, zone: ZoneIdx, order: u8, rights: Rights) -> bool {
        self.has_block_in(zone, Order(order), rights)
    }

    fn check(&self, case: &str) {
        self.validate().unwrap_or_else(|violation| panic!("{case}: {violation}"));
        self.machine().told.borrow().check_free(self, case);
    }
}

/// Takes blocks of a zone until it has none.
fn exhaust(pages: &dyn Zones, zone: ZoneIdx, request: &Request, rights: Rights) -> Vec<Pfn> {
    std::iter::from_fn(|| pages.ask(zone, zone, request, rights).ok()).collect()
}

/// Whatever the request's flags would like best, and whatever lies on the CPU's lists.
#[test]
fn the_zone_asked_for_serves() {
    with_presets(|pages, case| {
        let mut held = Vec::new();
        for turn in 0..600_usize {
            pages.run_on((turn / 7 % CPUS.len()) as u16);
            let zones = pages.zones();
            let (zone, preferred) = (zones[turn % zones.len()], zones[turn / 5 % zones.len()]);
            let order = [0, 0, 1, 0, 3, 5, 0][turn % 7];
            let request = Request::new(GFPS[turn / 3 % GFPS.len()], order);
            let pfn = pages.ask(zone, preferred, &request, CMA_TOO).unwrap_or_else(|why| panic!("{case}: {why}"));
            let block = PfnRange::block(pfn, Order(order));
            assert_eq!(block.intersect(pages.span(zone)), block, "{case}: turn {turn}, {zone:?}");
            held.push((pfn, Order(order)));
            if turn % 3 != 0 {
                let (pfn, order) = held.swap_remove(turn % held.len());
                pages.give(pfn, order);
            }
        }
        pages.check(case);
        held.into_iter().for_each(|(pfn, order)| pages.give(pfn, order));
        pages.check(case);
    });
}

/// A pinned caller gets what lies on its CPU's list, and nothing else; what is not done changes nothing.
#[test]
fn lists_serve_a_caller_that_is_pinned() {
    fn check<K: Keeping>(name: &str, mechanisms: Mechanisms) {
        boots::<K>(&zones_of_two_nodes(mechanisms), |pages| {
            let page = Request::page(GFP_HIGHUSER_MOVABLE);
            let held: Vec<Pfn> = (0..8).map(|_| pages.ask(NORMAL, NORMAL, &page, CMA_TOO).unwrap()).collect();
            let pin = pages.machine().pin();
            let listed = held.iter().filter(|&&pfn| {
                let at_once = pages.free_listed(&pin, pfn, Order(0));
                if !at_once {
                    pages.free_part(pfn, Order(0)).unwrap();
                }
                // Free it is in any case.
                assert!(!pages.free_listed(&pin, pfn, Order(0)), "{name}: freed twice");
                at_once
            });
            assert_eq!(listed.count() > 4, pages.serves_listed(), "{name}");
            // The CPU remembers where the last block of a list came from.
            assert_eq!(pages.ask(NORMAL, NORMAL, &page, CMA_TOO).ok(), held.last().copied(), "{name}");
            held.last().into_iter().for_each(|&pfn| pages.give(pfn, Order(0)));
            let take = |zone, mobility| pages.alloc_listed(&pin, zone, Order(0), mobility);
            let top = take(NORMAL, MigrateType::Movable);
            assert_eq!(top, held.last().copied().filter(|_| pages.serves_listed()), "{name}");
            assert_eq!((take(FAR, MigrateType::Movable), take(NORMAL, MigrateType::Isolate)), (None, None), "{name}");
            top.into_iter().for_each(|pfn| pages.give(pfn, Order(0)));
            pages.check(name);
        });
    }
    for &(name, mechanisms) in PRESETS {
        check::<Kept>(name, mechanisms);
        check::<Unkept>(name, mechanisms);
    }
}

/// The blocks are those that a machine without values of its CPUs gets, one by one.
#[test]
fn values_of_cpus_change_no_block() {
    for &(name, mechanisms) in PRESETS {
        let play = |pages: &dyn Zones, served: &mut Vec<Result<Pfn, AllocError>>| {
            let mut held = Vec::new();
            for turn in 0..3_000_usize {
                let mixed = turn.wrapping_mul(0x9e37_79b9) >> 7;
                pages.run_on((mixed % CPUS.len()) as u16);
                let (zone, preferred) = ([DMA32, NORMAL, FAR][mixed / 4 % 3], [NORMAL, FAR, DMA32][mixed / 32 % 3]);
                let order = [0, 0, 0, 1, 2, 3, 5][mixed / 8 % 7];
                let rights =
                    Rights { highatomic: mixed / 64 % 4 == 0, cma: mixed % 8 > 3, nofragment: mixed % 16 == 9 };
                let found = pages.ask(zone, preferred, &Request::new(GFPS[mixed / 128 % GFPS.len()], order), rights);
                held.extend(found.ok().map(|pfn| (pfn, Order(order))));
                served.push(found);
                if mixed % 5 < 2 && !held.is_empty() {
                    let (pfn, order) = held.swap_remove(mixed % held.len());
                    pages.give(pfn, order);
                }
            }
            pages.check(name);
        };
        let (mut kept, mut unkept) = (Vec::new(), Vec::new());
        boots::<Kept>(&zones_of_two_nodes(mechanisms), |pages| play(pages, &mut kept));
        boots::<Unkept>(&zones_of_two_nodes(mechanisms), |pages| play(pages, &mut unkept));
        let first = kept.iter().zip(&unkept).position(|(kept, unkept)| kept != unkept);
        assert_eq!(first.map(|turn| (turn, kept[turn], unkept[turn])), None, "{name}");
    }
}

/// Linux: `zone_statistics`. The zone that the embedder preferred decides, and the CPU's node.
#[test]
fn numa_counters_compare_the_zone_with_the_preferred_one() {
    with_presets(|pages, case| {
        if pages.mechanisms().numa_stat == NumaStat::Off {
            return;
        }
        let mut expected = [DMA32, NORMAL, FAR].map(|zone| (zone, pages.numa(zone)));
        for turn in 0..240_usize {
            let cpu = turn / 4 % CPUS.len();
            pages.run_on(cpu as u16);
            let (zone, preferred) = ([DMA32, NORMAL, FAR][turn % 3], [NORMAL, FAR][turn / 12 % 2]);
            let order = [0, 0, 3, 9][turn / 2 % 4];
            let pfn = pages.ask(zone, preferred, &Request::new(GFPS[turn / 7 % 2], order), CMA_TOO).unwrap();
            for (of, counters) in &mut expected {
                let is_hit = zone.node() == preferred.node();
                if *of == zone {
                    *if is_hit { &mut counters.hit } else { &mut counters.miss } += 1;
                    *if zone.node() == CPUS[cpu] { &mut counters.local } else { &mut counters.other } += 1;
                }
                counters.foreign += u64::from(*of == preferred && !is_hit);
            }
            if turn % 2 == 1 || order == 9 {
                pages.give(pfn, Order(order));
            }
        }
        for (zone, counters) in expected {
            assert_eq!(pages.numa(zone), counters, "{case}: {zone:?}");
        }
        pages.check(case);
    });
}

/// No mark keeps a frame back, and what lies in the depot, in owned pageblocks or unmerged is served.
#[test]
fn all_memory_of_a_zone_is_served_before_a_request_fails() {
    with_presets(|pages, case| {
        let all = pages.free(FAR);
        let page = Request::page(GFP_HIGHUSER_MOVABLE);
        let taken = exhaust(pages, FAR, &page, CMA_TOO);
        assert_eq!((taken.len() as u64, pages.free(FAR)), (all, 0), "{case}: single frames");
        taken.iter().for_each(|&pfn| pages.give(pfn, Order(0)));
        pages.check(case);
        // What the lists of another CPU hold stays there.
        let listed = pages.listed(FAR, 0);
        pages.run_on(2);
        let again = exhaust(pages, FAR, &page, CMA_TOO);
        assert_eq!(again.len() as u64 + listed, all, "{case}: but {listed} on the first CPU's lists");
        again.iter().for_each(|&pfn| pages.give(pfn, Order(0)));
        pages.offline(2);
        pages.run_on(1);
        pages.offline(0);
        let largest = exhaust(pages, FAR, &Request::new(GFP_KERNEL, 10), CMA_TOO);
        assert_eq!((largest.len() as u64) << 10, all, "{case}: largest blocks");
        assert_eq!(pages.free(FAR), 0, "{case}");
        pages.check(case);
        largest.into_iter().for_each(|pfn| pages.give(pfn, Order(10)));
        pages.check(case);
    });
}

#[test]
fn deferred_frees_are_served_before_a_request_fails() {
    boots::<Unkept>(&zones_of_two_nodes(Mechanisms::DEFAULT), |pages| {
        let taken = exhaust(pages, FAR, &Request::new(GFP_KERNEL, 10), NONE);
        let frozen = pages.freeze().unwrap();
        pages.free_nolock(taken[3], Order(10)).unwrap();
        drop(frozen);
        assert_eq!(pages.zone_memory(FAR).unwrap().free, 0, "the free was deferred");
        let served = pages.alloc_in(FAR, FAR, &Request::new(GFP_KERNEL, 10), NONE).unwrap();
        assert_eq!(served.pfn, taken[3]);
    });
}

#[test]
fn cma_memory_needs_the_right_and_a_movable_request() {
    with_presets(|pages, case| {
        let is_cma = |pfn: &Pfn| CMA.contains(*pfn);
        let (movable, plain) = (Request::page(GFP_HIGHUSER_MOVABLE), Request::page(GFP_KERNEL));
        // Some of it is on the CPU's lists.
        let list_some = || {
            let listed: Vec<Pfn> = (0..3_000).map(|_| pages.ask(DMA32, DMA32, &movable, CMA_TOO).unwrap()).collect();
            listed.iter().for_each(|&pfn| pages.give(pfn, Order(0)));
        };
        list_some();
        let unmovable = exhaust(pages, DMA32, &plain, CMA_TOO);
        assert!(!unmovable.iter().any(is_cma), "{case}: an unmovable request");
        unmovable.iter().for_each(|&pfn| pages.give(pfn, Order(0)));
        pages.offline(0);
        list_some();
        let without = exhaust(pages, DMA32, &movable, NONE);
        assert!(!without.iter().any(is_cma), "{case}: a movable request without the right");
        let with = exhaust(pages, DMA32, &movable, CMA_TOO);
        assert_eq!(with.iter().filter(|pfn| is_cma(pfn)).count(), 0x400, "{case}: with it");
        // What was freed to pageblocks that unmovable requests claimed is on the list for those.
        let listed = pages.listed(DMA32, 0) as usize;
        assert_eq!(with.len() + without.len() + listed, 0x2000, "{case}: all memory");
        for (index, block) in (0..0x400).step_by(0x200).enumerate() {
            assert_eq!(pages.has_block(DMA32, 0, CMA_TOO), index != 0, "{case}");
            for pfn in block..block + 0x200 {
                pages.give(CMA.start.add(pfn), Order(0));
            }
            pages.offline(0);
            let shown = [NONE, CMA_TOO].map(|rights| pages.has_block(DMA32, 0, rights));
            assert_eq!(shown, [!exhaust(pages, DMA32, &movable, NONE).is_empty(), true], "{case}");
        }
        pages.check(case);
    });
}

/// Above order 0 the reserve comes first, even before the CPU's lists; for single frames it comes last.
#[test]
fn the_reserve_needs_the_right() {
    let right = Rights { highatomic: true, ..NONE };
    with_presets(|pages, case| {
        let reserve = PfnRange::new(0x18_0400, 0x18_0600);
        let is_reserved = |pfn: &Pfn| reserve.contains(*pfn);
        pages.run_on(2);
        for order in [0, 3] {
            let warm = Request::new(GFP_KERNEL, order);
            let pfn = pages.ask(FAR, FAR, &warm, NONE).unwrap();
            pages.give(pfn, Order(order));
        }
        pages.retype(reserve.start, MigrateType::HighAtomic);
        let first = pages.ask(FAR, FAR, &Request::new(GFP_KERNEL, 3), right).unwrap();
        assert!(is_reserved(&first), "{case}: {first}");
        let single = pages.ask(FAR, FAR, &Request::page(GFP_ATOMIC), right).unwrap();
        assert!(!is_reserved(&single), "{case}: {single}");
        let without = exhaust(pages, FAR, &Request::page(GFP_ATOMIC), NONE);
        assert!(!without.iter().any(is_reserved), "{case}: without the right");
        let shown = [NONE, right].map(|rights| pages.has_block(FAR, 4, rights));
        assert_eq!(shown, [false, true], "{case}");
        let with = exhaust(pages, FAR, &Request::page(GFP_ATOMIC), right);
        assert_eq!((with.len(), with.iter().all(is_reserved)), (0x200 - 8, true), "{case}: with it");
        pages.check(case);
    });
}

/// A frame that was written to after its free is quarantined, as for any request.
#[test]
fn memory_that_was_written_to_after_its_free_is_not_served() {
    for hardened in [Hardened::Poison, Hardened::Zero] {
        let mechanisms = Mechanisms { hardened, ..Mechanisms::DEFAULT };
        boots::<Kept>(&zones_of_two_nodes(mechanisms), |pages| {
            pages.machine().run_on(CpuId(2));
            for (order, gfp, rights) in
                [(0, GFP_KERNEL, NONE), (3, GFP_HIGHUSER_MOVABLE, NONE), (9, GFP_KERNEL, CMA_TOO)]
            {
                let request = Request::new(gfp, order);
                let pfn = pages.alloc_in(FAR, FAR, &request, rights).unwrap().pfn;
                pages.free(pfn, Order(order)).unwrap();
                pages.machine().write(pfn);
                // Freed blocks wait on the CPU's list.
                pages.drain_all();
                let blocks = exhaust(pages, FAR, &request, rights);
                assert!(!blocks.contains(&pfn), "order {order}, {hardened:?}");
                assert!(matches!(pages.state_of(pfn), FrameState::Quarantined(..)), "{:?}", pages.state_of(pfn));
                blocks.into_iter().for_each(|pfn| pages.free(pfn, Order(order)).unwrap());
                pages.drain_all();
                pages.check("hardened");
            }
        });
    }
}

/// A hit of the CPU's list costs what a plain allocation does, of whatever run of memory the list's top is.
#[test]
fn the_fast_path_serves_hits() {
    boots::<Kept>(&zones_of_two_nodes(Mechanisms::DEFAULT), |pages| {
        for (cpu, zone, gfp) in [(2, FAR, GFP_KERNEL), (2, FAR, GFP_HIGHUSER_MOVABLE), (0, DMA32, GFP_KERNEL)] {
            pages.machine().run_on(CpuId(cpu));
            let movable = ZoneIdx::of(NodeId(0), ZoneKind::Movable);
            for (order, zone) in [(0, zone), (3, zone), (0, if cpu == 0 { movable } else { zone })] {
                let request = Request::new(gfp, order);
                let first = pages.alloc_in(zone, zone, &request, CMA_TOO).unwrap().pfn;
                pages.free(first, Order(order)).unwrap();
                let before = pages.machine().zone_tries.get();
                for _ in 0..100 {
                    let again = pages.alloc_in(zone, zone, &request, CMA_TOO).unwrap();
                    assert_eq!((again.pfn, again.boosts), (first, false), "last in, first out");
                    pages.free(again.pfn, Order(order)).unwrap();
                }
                assert_eq!(pages.machine().zone_tries.get(), before, "{zone:?}, order {order}");
            }
        }
    });
}

#[test]
fn mixing_mobilities_is_told_once_to_a_request_that_wakes() {
    let boost = Mechanisms::preset("boost").unwrap();
    for gfp in [GFP_KERNEL, Gfp(GFP_KERNEL.0 & !__GFP_KSWAPD_RECLAIM.0)] {
        boots::<Unkept>(&zones_of_two_nodes(boost), |pages| {
            let movable = exhaust(pages, FAR, &Request::page(GFP_HIGHUSER_MOVABLE), NONE);
            // Single free frames in movable pageblocks.
            movable.iter().step_by(4).for_each(|&pfn| pages.free(pfn, Order(0)).unwrap());
            pages.drain_all();
            let told = (0..64).filter(|_| pages.alloc_in(FAR, FAR, &Request::page(gfp), NONE).unwrap().boosts).count();
            assert_eq!(told != 0, gfp.contains(__GFP_KSWAPD_RECLAIM), "{gfp}: told {told} times");
            let boosted = pages.zone_memory(FAR).unwrap().boost;
            assert!(boosted > 0, "the marks are raised");
            // Nothing is left to tell.
            let page = pages.alloc_in(FAR, FAR, &Request::page(GFP_HIGHUSER_MOVABLE), NONE).unwrap();
            assert!(!page.boosts);
        });
    }
}

#[test]
fn mobilities_stay_apart_where_the_embedder_says_so() {
    let mechanisms = Mechanisms::DEFAULT;
    boots::<Unkept>(&zones_of_two_nodes(mechanisms), |pages| {
        let movable = exhaust(pages, FAR, &Request::page(GFP_HIGHUSER_MOVABLE), NONE);
        movable.iter().step_by(4).for_each(|&pfn| pages.free(pfn, Order(0)).unwrap());
        pages.drain_all();
        let apart = Rights { nofragment: true, ..NONE };
        let page = Request::page(GFP_KERNEL);
        let refused = AllocError::no_memory(Why::Watermark);
        assert_eq!(pages.alloc_in(FAR, FAR, &page, apart), Err(refused));
        pages.alloc_in(FAR, FAR, &page, NONE).unwrap();
    });
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    boots::<Kept>(&zones_of_two_nodes(Mechanisms::DEFAULT), |pages| {
        let page = Request::page(GFP_KERNEL);
        let ask = |zone, preferred| pages.alloc_in(zone, preferred, &page, NONE).map_err(|why| why.to_string());
        let no_zone = AllocError::no_memory(Why::NoZone).to_string();
        let beyond = ZoneIdx::of(NodeId(2), ZoneKind::Normal);
        assert_eq!([ask(beyond, NORMAL), ask(NORMAL, beyond)], [Err(no_zone.clone()), Err(no_zone)]);
        let empty = ZoneIdx::of(NodeId(1), ZoneKind::Dma);
        assert_eq!(ask(empty, FAR), Err(AllocError::no_memory(Why::Watermark).to_string()));
        let large = pages.alloc_in(NORMAL, NORMAL, &Request::new(GFP_KERNEL, 11), NONE);
        assert_eq!(large, Err(AllocError::BadOrder { order: Order(11), max: Order(10) }));
        assert_eq!(
            (pages.has_block_in(beyond, Order(0), NONE), pages.has_block_in(empty, Order(0), NONE)),
            (false, false)
        );
        assert_eq!(
            (pages.gather(beyond, Order(0), NONE), pages.free_blocks(beyond, Order(0), MigrateType::Movable)),
            (0, 0)
        );
        assert!(!pages.unreserve_highatomic(beyond, Order(0), MigrateType::Movable));
        pages.machine().run_on(CpuId(7));
        assert_eq!(ask(NORMAL, NORMAL), Err(AllocError::no_memory(Why::NoCpu).to_string()));
        pages.machine().run_on(CpuId(0));
    });
}
