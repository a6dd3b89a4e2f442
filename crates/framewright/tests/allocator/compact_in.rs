//! Compaction of one zone for an embedder that keeps its own watermarks.

use std::cell::RefCell;
use std::rc::Rc;

use framewright::mechanisms::Compaction;
use framewright::request::GFP_HIGHUSER_MOVABLE;
use framewright::units::{MigrateType, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::{Allocator, Compacted, Config, Layout, Mechanisms, Region, Request, Rights};
use framewright_rt::{Solo, Storage};

const CPU: [NodeId; 1] = [NodeId(0)];
const BASE: u64 = 0x1000;
const FRAMES: u64 = 8192;
const PAGEBLOCK: Order = Order(9);
const ZONE: ZoneIdx = ZoneIdx::of(NodeId(0), ZoneKind::Dma32);
const RIGHTS: Rights = Rights { highatomic: false, cma: false, nofragment: false };

/// Like [`scattered_below_cma`], without CMA memory.
fn scattered(nth: u64, compaction: Compaction, test: impl FnOnce(&Allocator<'static, Solo<'static>>, u64)) {
    scattered_below_cma(nth, compaction, &[], test);
}

/// Frames that are in use, in a zone whose every `nth` frame is free, and all CMA memory; the machine moves what it is
/// asked to.
fn scattered_below_cma(
    nth: u64,
    compaction: Compaction,
    cma: &[PfnRange],
    test: impl FnOnce(&Allocator<'static, Solo<'static>>, u64),
) {
    let mechanisms = Mechanisms { compaction, ..Mechanisms::DEFAULT };
    let regions = [Region::usable(BASE, BASE + FRAMES, 0)];
    let config = Config { mechanisms, cma, ..Config::new(&regions, &CPU) };
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
    let pages: &'static Allocator<'_, Solo<'_>> =
        Box::leak(Box::new(Allocator::boot(Solo::new(&CPU), &config, storage.parts()).unwrap()));
    let page = Request::page(GFP_HIGHUSER_MOVABLE);
    let take = || pages.alloc_in(ZONE, ZONE, &page, RIGHTS).ok().map(|block| block.pfn);
    let (gone, kept): (Vec<Pfn>, Vec<Pfn>) = std::iter::from_fn(take).partition(|pfn| pfn.0 % nth == 0);
    pages.free_bulk(&gone, Order(0));
    pages.drain_all();
    let owned = Rc::new(RefCell::new(kept));
    let moving = Rc::clone(&owned);
    pages.machine().on_migrate(move |from, to, order| {
        assert_eq!(order, Order(0));
        let mut owned = moving.borrow_mut();
        let at = owned.iter().position(|&pfn| pfn == from).expect("a frame in use");
        owned[at] = to;
        pages.free(from, order).unwrap();
        Ok(())
    });
    // The machine changes what is owned meanwhile.
    let free = FRAMES - owned.borrow().len() as u64;
    test(pages, free);
    pages.drain_all();
    assert_eq!(pages.validate().unwrap().free, FRAMES - owned.borrow().len() as u64, "all but what is in use");
    let mut seen = owned.borrow().clone();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), owned.borrow().len(), "each frame has one owner");
}

#[test]
fn a_zone_gets_the_block() {
    for compaction in [Compaction::Scanners, Compaction::Emptiest] {
        scattered(2, compaction, |pages, _| {
            assert!(!pages.has_block_in(ZONE, PAGEBLOCK, RIGHTS), "{compaction:?}");
            let done = pages.compact_in(ZONE, PAGEBLOCK, RIGHTS, 0, true);
            assert!(done.is_enough && done.moved > 0, "{compaction:?}: {done:?}");
            assert_eq!(done.ranges, 1, "{compaction:?}: the block that was wanted");
            assert!(pages.has_block_in(ZONE, PAGEBLOCK, RIGHTS), "{compaction:?}");
            let again = pages.compact_in(ZONE, PAGEBLOCK, RIGHTS, 0, true);
            assert_eq!((again.is_enough, again.moved), (true, 0), "{compaction:?}: there is nothing left to do");
        });
    }
}

#[test]
fn full_ranges_are_emptied_for_a_request_that_insists() {
    scattered(8, Compaction::Emptiest, |pages, _| {
        let done = pages.compact_in(ZONE, PAGEBLOCK, RIGHTS, 0, false);
        assert_eq!((done.is_enough, done.moved), (false, 0), "seven of eight frames are in use");
        assert!(pages.compact_in(ZONE, PAGEBLOCK, RIGHTS, 0, true).is_enough);
    });
}

#[test]
fn frames_that_are_to_stay_free_stay() {
    scattered(2, Compaction::Emptiest, |pages, free| {
        let keep = free - PAGEBLOCK.frames();
        assert_eq!(pages.compact_in(ZONE, PAGEBLOCK, RIGHTS, keep, true), Compacted::default());
        assert!(pages.compact_in(ZONE, PAGEBLOCK, RIGHTS, keep - 1, true).is_enough);
    });
}

/// A free pageblock is what compaction makes, so it receives nothing: not even one that the request may not use.
#[test]
fn whole_pageblocks_stay_whole() {
    let whole = PfnRange::new(BASE + FRAMES - 512, BASE + FRAMES);
    for compaction in [Compaction::Scanners, Compaction::Emptiest] {
        scattered_below_cma(2, compaction, &[whole], |pages, _| {
            let blocks = || pages.free_blocks(ZONE, PAGEBLOCK, MigrateType::Cma);
            assert_eq!(blocks(), 1);
            assert!(!pages.has_block_in(ZONE, PAGEBLOCK, RIGHTS), "{compaction:?}");
            assert!(pages.compact_in(ZONE, PAGEBLOCK, RIGHTS, 0, true).moved > 0, "{compaction:?}");
            assert_eq!(blocks(), 1, "{compaction:?}");
        });
    }
}

#[test]
fn nothing_moves_where_compaction_is_off_or_there_is_no_zone() {
    scattered(2, Compaction::Off, |pages, _| {
        assert_eq!(pages.compact_in(ZONE, PAGEBLOCK, RIGHTS, 0, true), Compacted::default());
    });
    scattered(2, Compaction::Emptiest, |pages, _| {
        let none = ZoneIdx::of(NodeId(3), ZoneKind::Normal);
        assert_eq!(pages.compact_in(none, PAGEBLOCK, RIGHTS, 0, true), Compacted::default());
    });
}
