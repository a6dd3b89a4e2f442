//! A callback that panics at its k-th call, for every k: the panic unwinds through the core, and nothing is lost.
//!
//! A workload uses every call that calls the embedder. It runs once undisturbed, which tells how often it calls. Then it
//! runs once for each of these calls, which panics. After that, no pageblock is isolated, no search runs, no place is
//! taken, and the calls go on.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use framewright::machine::Busy;
use framewright::request::{__GFP_DIRECT_RECLAIM, GFP_HIGHUSER_MOVABLE, GFP_KERNEL};
use framewright::{Allocator, Config, Geometry, Layout, Mechanisms, NodeId, Order, Pfn, PfnRange, Region, Request};
use framewright_rt::{Solo, Storage};

const BASE: u64 = 0x1_0000;
const FRAMES: u64 = 256;
const NODE: [NodeId; 1] = [NodeId(0)];
const MOVABLE: Request = Request::page(GFP_HIGHUSER_MOVABLE);

/// The embedder: what it holds, and the call at which it panics.
#[derive(Default)]
struct Embedder {
    held: RefCell<Vec<Pfn>>,
    calls: Cell<u64>,
    panics_at: u64,
}

impl Embedder {
    fn called(&self) {
        self.calls.set(self.calls.get() + 1);
        if self.calls.get() == self.panics_at {
            // Unlike `panic!`, prints nothing.
            resume_unwind(Box::new("the embedder"));
        }
    }
}

type Pages = Allocator<'static, Solo<'static>>;

/// Lets the embedder free four pages, or move a page that it holds.
fn hook(pages: &'static Pages, embedder: &'static Embedder) {
    pages.machine().on_reclaim(|_| {
        embedder.called();
        let freed: Vec<Pfn> = {
            let mut held = embedder.held.borrow_mut();
            let rest = held.len().saturating_sub(4);
            held.split_off(rest)
        };
        freed.iter().for_each(|&pfn| pages.free(pfn, Order(0)).unwrap());
        freed.len() as u64
    });
    pages.machine().on_migrate(|from, to, _| {
        embedder.called();
        let mut held = embedder.held.borrow_mut();
        let page = held.iter_mut().find(|held| **held == from).ok_or(Busy)?;
        *page = to;
        pages.free(from, Order(0)).map_err(|_| Busy)
    });
}

/// All that there is, and every second page free again.
fn scatter(pages: &Pages, embedder: &Embedder) {
    let at_once = Request::page(GFP_HIGHUSER_MOVABLE & !__GFP_DIRECT_RECLAIM);
    let more: Vec<Pfn> = std::iter::from_fn(|| pages.alloc(&at_once).ok()).collect();
    let mut held = embedder.held.borrow_mut();
    held.extend(more);
    held.sort();
    let (kept, freed): (Vec<Pfn>, Vec<Pfn>) = held.drain(..).partition(|pfn| pfn.0 % 2 == 0);
    *held = kept;
    drop(held);
    freed.into_iter().for_each(|pfn| pages.free(pfn, Order(0)).unwrap());
    pages.drain_all();
}

/// A call that may call the embedder; frees what it allocated.
type Call = fn(&Pages, &Embedder);

const CALLS: [(&str, Call); 8] = [
    ("huge page", |pages, _| {
        if let Ok(pfn) = pages.alloc(&Request::new(GFP_HIGHUSER_MOVABLE, 5)) {
            pages.free(pfn, Order(5)).unwrap();
        }
    }),
    ("unmovable block", |pages, _| {
        if let Ok(pfn) = pages.alloc(&Request::new(GFP_KERNEL, 6)) {
            pages.free(pfn, Order(6)).unwrap();
        }
    }),
    ("contiguous run", |pages, _| {
        if let Ok(range) = pages.alloc_contig(70, Order(0), &MOVABLE) {
            pages.free_range(range).unwrap();
        }
    }),
    ("hotplug", |pages, _| {
        let range = PfnRange::new(BASE + 64, BASE + 128);
        if pages.take_offline(range).is_ok() {
            assert_eq!(pages.bring_online(range), 64);
        }
    }),
    ("kcompactd", |pages, _| {
        pages.compact(NodeId(0));
    }),
    ("proactive kcompactd", |pages, _| {
        pages.compact_proactively(NodeId(0));
    }),
    ("every page", |pages, embedder| {
        for _ in 0..FRAMES {
            let page = pages.alloc(&Request::page(GFP_KERNEL));
            embedder.held.borrow_mut().extend(page);
        }
    }),
    ("kswapd", |pages, _| {
        pages.balance(NodeId(0));
    }),
];

/// Runs the workload; returns how often it called the embedder and how many calls unwound.
fn run(mechanisms: Mechanisms, panics_at: u64) -> (u64, u32) {
    let geometry = Geometry { max_order: Order(6), pageblock_order: Order(5), page_shift: 12 };
    let map = [Region::usable(BASE, BASE + FRAMES, 0)];
    let config = Config { mechanisms, min_free_kbytes: Some(64), geometry, ..Config::new(&map, &NODE) };
    // Hooks that call the allocator live as long as the process.
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
    let pages: &Pages = Box::leak(Box::new(Allocator::boot(Solo::new(&NODE), &config, storage.parts()).unwrap()));
    let embedder: &Embedder = Box::leak(Box::new(Embedder { panics_at, ..Embedder::default() }));
    hook(pages, embedder);
    let mut unwound = 0;
    for (name, call) in CALLS {
        scatter(pages, embedder);
        if catch_unwind(AssertUnwindSafe(|| call(pages, embedder))).is_err() {
            unwound += 1;
            let what = format!("{mechanisms}: {name}, call {panics_at} of the embedder panics");
            let census = pages.validate().unwrap_or_else(|violation| panic!("{what}: {violation}"));
            assert_eq!(census.isolated, 0, "{what}");
            // The call can be made again.
            call(pages, embedder);
        }
    }
    embedder.held.take().into_iter().for_each(|pfn| pages.free(pfn, Order(0)).unwrap());
    pages.drain_all();
    let census = pages.validate().unwrap_or_else(|violation| panic!("{mechanisms}, {panics_at}: {violation}"));
    assert_eq!((census.free, census.isolated), (FRAMES, 0), "{mechanisms}, {panics_at}");
    (embedder.calls.get(), unwound)
}

#[test]
fn every_call_of_the_embedder_may_panic() {
    for mechanisms in ["default", "linux-6.1", "default,compaction=scanners", "default,hardened=poison"] {
        let mechanisms = Mechanisms::parse(mechanisms).unwrap();
        let (calls, unwound) = run(mechanisms, 0);
        assert!(calls > 100 && unwound == 0, "{mechanisms}: {calls} calls, {unwound} unwound");
        for k in 1..=calls {
            assert_eq!(run(mechanisms, k).1, 1, "{mechanisms}, {k}");
        }
    }
}
