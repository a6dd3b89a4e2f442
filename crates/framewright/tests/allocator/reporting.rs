//! Free page reporting: each free block once, none that is in use, and nothing is lost.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use framewright::mechanisms::PRESETS;
use framewright::request::{GFP_KERNEL, GFP_USER};
use framewright::units::{NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::watermark::Marks;
use framewright::{AllocError, Allocator, Config, FreeError, Layout, Machine, Mechanisms, Region, Request, Tuning};
use framewright_rt::{Native, Solo, Storage};

const CPUS: [NodeId; 2] = [NodeId(0); 2];
/// 128 MiB on each of two nodes, with odd borders.
const MEMORY: [Region; 2] = [Region::usable(0x1003, 0x9000, 0), Region::usable(0x9000, 0x1_0ffd, 1)];
const HUGE: Order = Order(9);

fn boots(mechanisms: Mechanisms, test: impl FnOnce(&Allocator<'_, Solo<'_>>)) {
    let config = Config { mechanisms, ..Config::new(&MEMORY, &CPUS) };
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    test(&Allocator::boot(Solo::new(&CPUS), &config, storage.parts()).unwrap());
}

/// Reports what a pass meets; returns the blocks.
fn report<M: Machine>(pages: &Allocator<'_, M>, least: Order) -> Vec<(Pfn, Order)> {
    let mut met = Vec::new();
    for unreported in pages.report_free(least).unwrap() {
        assert!((1..=32).contains(&unreported.blocks().len()));
        met.extend_from_slice(unreported.blocks());
        unreported.reported();
    }
    met
}

/// Frames of blocks, each once.
fn frames_of(blocks: &[(Pfn, Order)]) -> HashSet<u64> {
    let mut frames = HashSet::new();
    for &(pfn, order) in blocks {
        assert!((pfn.0..pfn.0 + order.frames()).all(|frame| frames.insert(frame)), "{pfn:?} was met twice");
    }
    frames
}

/// Everything above the low mark is met, then nothing, then exactly what came back.
#[test]
fn a_block_is_reported_once_while_it_stays_free() {
    for &(name, mechanisms) in PRESETS {
        boots(mechanisms, |pages| {
            let before = pages.validate().unwrap();
            let met = report(pages, HUGE);
            let frames = frames_of(&met).len() as u64;
            assert!(frames > before.free * 9 / 10 && met.iter().all(|&(_, order)| order >= HUGE), "{name}: {frames}");
            assert_eq!(pages.validate().unwrap(), before, "{name}");
            assert_eq!(report(pages, HUGE), [], "{name}");
            let block = pages.alloc(&Request::new(GFP_USER, 10)).unwrap();
            assert_eq!(report(pages, HUGE), [], "{name}: the rest stays as it is");
            pages.free(block, Order(10)).unwrap();
            pages.drain_all();
            let again = report(pages, HUGE);
            assert!(frames_of(&again).contains(&block.0) && again.len() <= 2, "{name}: {again:?}");
            assert_eq!(report(pages, HUGE), [], "{name}");
            pages.validate().unwrap();
        });
    }
}

/// A split or a merge makes a block of which a part may be new.
#[test]
fn a_split_and_a_merge_clear_the_mark() {
    boots(Mechanisms::BASELINE, |pages| {
        report(pages, HUGE);
        let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
        pages.drain_all();
        let parts = report(pages, Order(0));
        assert!(!parts.is_empty() && !frames_of(&parts).contains(&page.0), "{parts:?}");
        pages.free(page, Order(0)).unwrap();
        pages.drain_all();
        let whole = report(pages, HUGE);
        assert_eq!(whole.len(), 1, "{whole:?}");
        assert!(frames_of(&whole).contains(&page.0));
    });
}

/// Each pass ends, and the next one meets the blocks again.
#[test]
fn blocks_that_are_not_reported_are_met_by_the_next_pass() {
    boots(Mechanisms::DEFAULT, |pages| {
        let before = pages.validate().unwrap();
        let pass = || pages.report_free(HUGE).unwrap().flat_map(|blocks| blocks.blocks().to_vec()).collect::<Vec<_>>();
        let (first, second) = (frames_of(&pass()), frames_of(&pass()));
        assert!(first.len() as u64 > before.free * 9 / 10);
        assert_eq!(first, second);
        assert_eq!(frames_of(&report(pages, HUGE)), first);
        assert_eq!(pages.validate().unwrap(), before);
    });
}

/// What is being reported is allocated to the reporter. It is little of a zone, so requests are served meanwhile.
#[test]
fn blocks_in_a_report_are_conserved_and_few() {
    boots(Mechanisms::DEFAULT, |pages| {
        let before = pages.validate().unwrap();
        let mut batches = 0;
        for held in pages.report_free(Order(0)).unwrap() {
            let taken: u64 = held.blocks().iter().map(|(_, order)| order.frames()).sum();
            let now = pages.validate().unwrap();
            assert_eq!((now.free, now.allocated), (before.free - taken, before.allocated + taken));
            assert!(held.blocks().len() == 1 || taken <= before.free / 16, "{taken} of {}", before.free);
            batches += 1;
            held.reported();
        }
        assert!(batches >= 16, "{batches}");
        assert_eq!(pages.validate().unwrap(), before);
    });
}

/// A zone keeps its low mark, and blocks small enough are still reported.
#[test]
fn what_keeps_a_zone_above_its_mark_is_not_reported() {
    let map = [Region::usable(0x1000, 0x1800, 0)];
    let zone = ZoneIdx::of(NodeId(0), ZoneKind::Dma32);
    let marks = Marks { min: 100, low: 320, high: 400 };
    let tuning = [Tuning { zone, marks: Some(marks), reserve: Some([0; ZoneKind::COUNT]), pcp: None }];
    let config = Config { tuning: &tuning, mechanisms: Mechanisms::BASELINE, ..Config::new(&map, &CPUS) };
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Solo::new(&CPUS), &config, storage.parts()).unwrap();
    let low = pages.alloc(&Request::new(GFP_KERNEL, 10)).unwrap();
    // One block of 1,024 frames is free: above the mark by as many as its own size allows only in parts.
    assert_eq!(report(&pages, Order(0)), []);
    pages.free(low, Order(10)).unwrap();
    assert_eq!(report(&pages, Order(0)).len(), 2);
}

/// A block that is being reported has an owner: the pass.
#[test]
fn a_free_of_a_block_that_is_being_reported_is_refused() {
    boots(Mechanisms::DEFAULT, |pages| {
        let mut pass = pages.report_free(HUGE).unwrap();
        let held = pass.next().unwrap();
        let (pfn, order) = held.blocks()[0];
        assert_eq!(pages.free(pfn, order), Err(FreeError::AlreadyFree(pfn)));
        assert_eq!(pages.free_nolock(pfn, order), Err(FreeError::AlreadyFree(pfn)));
        assert!(pages.free_range(PfnRange::block(pfn, order)).is_err() && pages.split(pfn, order, Order(0)).is_err());
        pages.validate().unwrap();
        held.reported();
        pages.validate().unwrap();
    });
}

#[test]
fn an_order_that_is_too_large_is_refused() {
    boots(Mechanisms::DEFAULT, |pages| {
        let refused = pages.report_free(Order(11)).map(|_| ()).unwrap_err();
        assert_eq!(refused, AllocError::BadOrder { order: Order(11), max: Order(10) });
    });
}

/// Threads write to the pages that they hold; a host clears every page that is reported to it. They run until it was
/// told of many blocks.
#[test]
fn no_page_in_use_is_reported() {
    for mechanisms in [Mechanisms::DEFAULT, Mechanisms::preset("patch9").unwrap()] {
        let config = Config { mechanisms, ..Config::new(&MEMORY, &CPUS) };
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        let pages = Allocator::boot(Native::new(&CPUS), &config, storage.parts()).unwrap();
        let memory: Vec<AtomicU64> = (0..0x1_1000).map(|_| AtomicU64::new(0)).collect();
        let (stop, reported) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let host = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for unreported in pages.report_free(Order(6)).unwrap() {
                        for &(pfn, order) in unreported.blocks() {
                            (pfn.0..pfn.0 + order.frames())
                                .for_each(|pfn| memory[pfn as usize].store(0, Ordering::Relaxed));
                            reported.fetch_add(1, Ordering::Relaxed);
                        }
                        unreported.reported();
                    }
                    pages.drain_all();
                }
            });
            let users: Vec<_> = (1..3_u64)
                .map(|user| {
                    let (pages, memory, reported) = (&pages, &memory, &reported);
                    scope.spawn(move || {
                        let mut held: Vec<(Pfn, Order)> = Vec::new();
                        for turn in 0_u64.. {
                            if turn > 10_000 && reported.load(Ordering::Relaxed) > 500 {
                                break;
                            }
                            let order = Order((turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as u8 % 11);
                            if let Ok(pfn) = pages.alloc(&Request { order, ..Request::page(GFP_USER) }) {
                                [pfn.0, pfn.0 + order.frames() - 1].into_iter().for_each(|at| {
                                    memory[at as usize].store(user << 32 | at, Ordering::Relaxed);
                                });
                                held.push((pfn, order));
                            }
                            while held.len() > 20 || (turn % 7 == 0 && !held.is_empty()) {
                                let (pfn, order) = held.swap_remove(turn as usize % held.len());
                                for at in [pfn.0, pfn.0 + order.frames() - 1] {
                                    assert_eq!(memory[at as usize].load(Ordering::Relaxed), user << 32 | at, "{at:#x}");
                                }
                                pages.free(pfn, order).unwrap();
                            }
                        }
                        held.into_iter().for_each(|(pfn, order)| pages.free(pfn, order).unwrap());
                    })
                })
                .collect();
            users.into_iter().for_each(|user| user.join().unwrap());
            stop.store(true, Ordering::Relaxed);
            host.join().unwrap();
        });
        pages.drain_all();
        pages.validate().unwrap();
    }
}
