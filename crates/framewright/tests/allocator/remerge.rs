//! Blocks left unmerged: the request that looks for them, how often it looks, and that nothing is missed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use framewright::machine::{Machine, Step};
use framewright::mechanisms::FreePath;
use framewright::request::{__GFP_MOVABLE, Gfp};
use framewright::units::ZoneKind;
use framewright::watermark::{Marks, PcpSize};
use framewright::{
    Allocator, Config, CpuId, Geometry, Layout, Mechanisms, NodeId, Order, Pfn, Region, Request, Tuning, ZoneIdx,
};
use framewright_rt::{Native, Storage};
use proptest::prelude::*;

use crate::threads::runs_on_threads;

const CPUS: [NodeId; 2] = [NodeId(0); 2];
const GEOMETRY: Geometry = Geometry { page_shift: 12, max_order: Order(6), pageblock_order: Order(5) };
const FRAMES: u64 = 0x200;
/// The largest block, for a caller that must not wait.
const LARGEST: Request = Request::new(NOWAIT, 6);
const NOWAIT: Gfp = __GFP_MOVABLE;
/// Failures after which a request looks at the zone again at the latest, whatever was found before.
const AT_MOST: usize = 64;

/// Threads, and a count of the places that are looked at. The first look may be made to wait.
struct Watched {
    threads: Native,
    looks: AtomicU64,
    waits: AtomicBool,
    gate: Mutex<Option<(SyncSender<()>, Receiver<()>)>>,
}

impl Machine for Watched {
    runs_on_threads!(threads);

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn step(&self, step: Step) {
        if step != Step::Around {
            return;
        }
        self.looks.fetch_add(1, Ordering::Relaxed);
        if self.waits.swap(false, Ordering::Relaxed) {
            let (arrived, go_on) = self.gate.lock().unwrap().take().unwrap();
            arrived.send(()).unwrap();
            let _ = go_on.recv();
        }
    }
}

type Pages<'a> = Allocator<'a, Watched>;

/// A zone where pages go back unmerged, at once.
fn with_pages(test: impl FnOnce(&Pages<'_>)) {
    let map = [Region::usable(0, FRAMES, 0)];
    let zone = ZoneIdx::of(NodeId(0), ZoneKind::Normal);
    let tuning = [Tuning {
        zone,
        marks: Some(Marks::default()),
        reserve: Some([0; ZoneKind::COUNT]),
        pcp: Some(PcpSize { batch: 1, high: 1 }),
    }];
    let mechanisms = Mechanisms { free_path: FreePath::NoMerge, ..Mechanisms::BASELINE };
    let config = Config {
        geometry: GEOMETRY,
        dma_end: Pfn(0),
        dma32_end: Pfn(0),
        tuning: &tuning,
        mechanisms,
        ..Config::new(&map, &CPUS)
    };
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let machine = Watched {
        threads: Native::new(&CPUS),
        looks: AtomicU64::new(0),
        waits: AtomicBool::new(false),
        gate: Mutex::new(None),
    };
    test(&Allocator::boot(machine, &config, storage.parts()).unwrap());
}

/// All memory, page by page, in the order of the frames.
fn take_all(pages: &Pages<'_>) -> Vec<Pfn> {
    let mut all: Vec<Pfn> = (0..FRAMES).map(|_| pages.alloc(&Request::page(NOWAIT)).unwrap()).collect();
    all.sort();
    all
}

fn free(pages: &Pages<'_>, pfn: Pfn) {
    pages.free(pfn, Order(0)).unwrap();
}

/// Whether a request looks at the zone's frames before it fails.
fn looks_in_vain(pages: &Pages<'_>, request: &Request) -> bool {
    let looks = || pages.machine().looks.load(Ordering::Relaxed);
    let before = looks();
    assert!(pages.alloc(request).is_err(), "there is no such block");
    looks() != before
}

/// One page of each largest block stays; the others are free. Returns those that stay.
fn keep_one_of_each(pages: &Pages<'_>) -> Vec<Pfn> {
    let (kept, freed): (Vec<Pfn>, Vec<Pfn>) =
        take_all(pages).into_iter().partition(|pfn| pfn.is_aligned(GEOMETRY.max_order));
    freed.into_iter().for_each(|pfn| free(pages, pfn));
    kept
}

/// Something new to be merged.
fn leave_one_unmerged(pages: &Pages<'_>) {
    free(pages, pages.alloc(&Request::page(NOWAIT)).unwrap());
}

#[test]
fn no_request_fails_before_all_is_merged() {
    with_pages(|pages| {
        let kept = keep_one_of_each(pages);
        let failures_before_looks = |turns: usize| -> Vec<usize> {
            let mut gaps = Vec::new();
            let mut gap = 1;
            while gaps.len() < turns {
                leave_one_unmerged(pages);
                if looks_in_vain(pages, &LARGEST) {
                    gaps.push(gap);
                    gap = 0;
                }
                gap += 1;
            }
            gaps
        };
        assert_eq!(failures_before_looks(9), [1; 9]);
        let pair = Request::new(NOWAIT, 1);
        let pairs: Vec<Pfn> = std::iter::from_fn(|| pages.alloc(&pair).ok()).collect();
        pages.split(pairs[0], Order(1), Order(0)).unwrap();
        [pairs[0], pairs[0].add(1)].into_iter().for_each(|pfn| free(pages, pfn));
        assert!(looks_in_vain(pages, &LARGEST));
        assert!(!looks_in_vain(pages, &LARGEST), "all is merged");
        assert_eq!(pages.alloc(&pair), Ok(pairs[0]));
        pairs.into_iter().for_each(|pfn| pages.free(pfn, Order(1)).unwrap());
        // Until it is found.
        kept.into_iter().for_each(|pfn| free(pages, pfn));
        let served = (0..AT_MOST).find_map(|_| pages.alloc(&LARGEST).ok()).expect("all is free");
        pages.free(served, LARGEST.order).unwrap();
        keep_one_of_each(pages);
        assert_eq!(failures_before_looks(3), [1; 3]);
        pages.validate().unwrap();
    });
}

#[test]
fn one_looks_and_others_wait_for_nobody() {
    with_pages(|pages| {
        let kept = keep_one_of_each(pages);
        let (arrived, arrival) = sync_channel(1);
        let (go_on, goes_on) = sync_channel(1);
        let machine = pages.machine();
        *machine.gate.lock().unwrap() = Some((arrived, goes_on));
        machine.waits.store(true, Ordering::Relaxed);
        std::thread::scope(|scope| {
            // Dropped if an assertion here fails, so that no thread waits for it.
            let go_on = go_on;
            let looking = scope.spawn(|| looks_in_vain(pages, &LARGEST));
            arrival.recv().unwrap();
            for order in 1..=6 {
                leave_one_unmerged(pages);
                // Made of pages that are unmerged so far.
                let request = Request::new(NOWAIT, order);
                if let Ok(pfn) = pages.alloc(&request) {
                    pages.free(pfn, request.order).unwrap();
                }
            }
            // A drain does not wait, and does all the work itself.
            free(pages, kept[0]);
            pages.drain_all();
            assert_eq!(pages.alloc(&LARGEST), Ok(Pfn(0)));
            go_on.send(()).unwrap();
            assert!(looking.join().unwrap());
        });
        kept[1..].iter().for_each(|&pfn| free(pages, pfn));
        assert!((0..AT_MOST).any(|_| pages.alloc(&LARGEST).is_ok()), "who looked is done");
        pages.validate().unwrap();
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    /// Any history: a bounded number of requests finds all free blocks that can merge, and so does one drain.
    #[test]
    fn nothing_stays_unmerged(
        order in Just((0..FRAMES as usize).collect::<Vec<_>>()).prop_shuffle(),
        kept in 0..8_usize,
        requests in proptest::collection::vec((0..FRAMES as usize, 1..7_u8), 0..200),
        drains in any::<bool>(),
    ) {
        with_pages(|pages| {
            let all = take_all(pages);
            let mut requests = requests.clone();
            requests.sort_unstable();
            let mut requests = requests.into_iter().peekable();
            // Pages of the first largest blocks are free when all is done, those of the others but for one.
            let stays = |pfn: Pfn| (pfn.0 >> 6) < kept as u64 && pfn.is_aligned(Order(6));
            for (turn, &index) in order.iter().enumerate() {
                if !stays(all[index]) {
                    free(pages, all[index]);
                }
                while let Some((_, size)) = requests.next_if(|&(at, _)| at == turn) {
                    if let Ok(pfn) = pages.alloc(&Request::new(NOWAIT, size)) {
                        pages.free(pfn, Order(size)).unwrap();
                    }
                }
            }
            if drains {
                pages.drain_all();
            }
            let tries = if drains { 1 } else { AT_MOST };
            for _ in kept as u64..FRAMES >> 6 {
                assert!((0..tries).any(|_| pages.alloc(&LARGEST).is_ok()), "{tries} requests find what there is");
            }
            assert!(pages.alloc(&LARGEST).is_err());
            pages.validate().unwrap();
            assert_eq!(pages.drain_cpu(CpuId(0)), 0);
        });
    }
}
