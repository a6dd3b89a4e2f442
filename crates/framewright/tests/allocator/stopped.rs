//! A thread is stopped in the middle of the allocator, and a request that must not wait ends nevertheless.
//!
//! One thread works, and stops at one access to a shared word after the other: while it holds a zone's lock, a shard's,
//! or its own lists, or is half-way through a list. Each time, another thread makes requests that must not wait, and
//! frees without a lock. None of them may begin a wait without limit, nor take more steps than [`MOST`].

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use framewright::machine::{Busy, Machine, Ordering, Patience, Word};
use framewright::request::{
    __GFP_MEMALLOC, __GFP_NOWARN, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT, Gfp,
};
use framewright::watermark::PcpSize;
use framewright::{
    AllocError, Allocator, Config, Features, Geometry, Layout, Mechanisms, NodeId, Order, Pfn, Region, Request, Tuning,
    ZoneIdx, ZoneKind,
};
use framewright_rt::{Native, Storage};

use crate::threads::runs_on_threads;

const BASE: u64 = 0x1_0000;
const FRAMES: u64 = 0x400;
const MAP: [Region; 1] = [Region::usable(BASE, BASE + FRAMES, 0)];
const NODES: [NodeId; 3] = [NodeId(0); 3];
/// Most accesses to words by one call that must not wait.
///
/// A look at the caches of this machine is a few thousand accesses; the clock ends the looks after some three hundred.
const MOST: u64 = 4_000_000;
/// Time that passes between two readings of the clock, in nanoseconds.
const TICK: u64 = 10_000_000;

/// What the threads of a test do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Other,
    /// It stops now and then.
    Stopping(&'static Gate),
    /// It must not wait while the other one is stopped.
    Hasty(&'static Gate),
    /// Once it has looked in vain, it lets the other one go on to the end.
    Patient(&'static Gate),
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Other) };
    static STEPS: Cell<u64> = const { Cell::new(0) };
    static WAITS: Cell<u32> = const { Cell::new(0) };
}

/// Where one thread stops until the other lets it go.
#[derive(Debug, Default)]
struct Gate {
    stride: u64,
    state: AtomicU32,
}

const RUNS: u32 = 0;
const STOPPED: u32 = 1;
const DONE: u32 = 2;
/// From here on nothing stops: a test has failed.
const OPEN: u32 = 3;

impl PartialEq for Gate {
    fn eq(&self, other: &Gate) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Gate {}

impl Gate {
    fn stop(&self) {
        if self.state.compare_exchange(RUNS, STOPPED, SeqCst, SeqCst).is_err() {
            return;
        }
        while self.state.load(SeqCst) == STOPPED {
            std::thread::yield_now();
        }
    }

    /// Lets the other thread go on, and waits until it is done.
    fn finish(&self) {
        let _ = self.state.compare_exchange(STOPPED, OPEN, SeqCst, SeqCst);
        while self.state.load(SeqCst) != DONE {
            std::thread::yield_now();
        }
    }

    /// Waits until the other thread stopped or is done; returns whether it stopped.
    fn is_stopped(&self) -> bool {
        while self.state.load(SeqCst) == RUNS {
            std::thread::yield_now();
        }
        self.state.load(SeqCst) == STOPPED
    }
}

/// Every access to a word.
fn point() {
    STEPS.set(STEPS.get() + 1);
    if let Role::Stopping(gate) = ROLE.get()
        && STEPS.get().is_multiple_of(gate.stride)
    {
        gate.stop();
    }
}

/// A word whose accesses are counted.
struct Counted<W>(W);

impl<T: Copy, W: Word<T>> Word<T> for Counted<W> {
    fn new(value: T) -> Self {
        Counted(W::new(value))
    }

    fn load(&self, order: Ordering) -> T {
        point();
        self.0.load(order)
    }

    fn store(&self, value: T, order: Ordering) {
        self.0.store(value, order);
        point();
    }

    fn swap(&self, value: T, order: Ordering) -> T {
        let old = self.0.swap(value, order);
        point();
        old
    }

    fn cas(&self, current: T, new: T, order: Ordering) -> Result<T, T> {
        let done = self.0.cas(current, new, order);
        point();
        done
    }

    fn add(&self, value: T, order: Ordering) -> T {
        let old = self.0.add(value, order);
        point();
        old
    }

    fn wait_while(&self, patience: Patience, mut waiting: impl FnMut(T) -> bool) -> Result<T, Busy> {
        if let Role::Hasty(gate) = ROLE.get()
            && patience == Patience::Turn
            && waiting(self.0.load(Ordering::Relaxed))
        {
            WAITS.set(WAITS.get() + 1);
            gate.state.store(OPEN, SeqCst);
        }
        self.0.wait_while(patience, |value| {
            point();
            waiting(value)
        })
    }
}

/// Threads whose pins are leases, and whose clock ticks when it is read.
struct Stoppable {
    threads: Native,
    clock: AtomicU64,
}

impl Machine for Stoppable {
    runs_on_threads!(threads, Counted);

    const FEATURES: Features = Native::FEATURES;
    const SLEEPS_PINNED: bool = true;

    fn pin_now(&self) -> Self::Pin<'_> {
        self.threads.pin_now()
    }

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn may_fence(&self) -> bool {
        true
    }

    // Read between two looks.
    fn now(&self) -> u64 {
        if let Role::Patient(gate) = ROLE.get() {
            gate.finish();
        }
        self.clock.fetch_add(TICK, SeqCst)
    }
}

type Pages = Allocator<'static, Stoppable>;

fn boot(mechanisms: Mechanisms) -> &'static Pages {
    let geometry = Geometry { max_order: Order(7), pageblock_order: Order(5), page_shift: 12 };
    // The zone of these frames.
    let zone = ZoneIdx::of(NodeId(0), ZoneKind::Dma32);
    let tuning = [Tuning { zone, marks: None, reserve: None, pcp: Some(PcpSize { batch: 4, high: 24 }) }];
    let tuning = &tuning;
    let config = Config { mechanisms, geometry, tuning, min_free_kbytes: Some(64), ..Config::new(&MAP, &NODES) };
    // Threads outlive the call that starts them.
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
    let machine = Stoppable { threads: Native::new(&NODES), clock: AtomicU64::new(0) };
    Box::leak(Box::new(Allocator::boot(machine, &config, storage.parts()).unwrap()))
}

/// What the stopping thread does: every kind of work that holds a lock or lists.
fn work(pages: &Pages) {
    let take = |gfp, order, count| -> Vec<(Pfn, Order)> {
        let request = Request::new(gfp | __GFP_NOWARN, order);
        (0..count).map_while(|_| pages.alloc(&request).ok().map(|pfn| (pfn, Order(order)))).collect()
    };
    for (gfp, order, count) in
        [(GFP_HIGHUSER_MOVABLE, 0, 60), (GFP_KERNEL, 0, 30), (GFP_KERNEL, 2, 12), (GFP_HIGHUSER_MOVABLE, 5, 3)]
    {
        let blocks = take(gfp, order, count);
        blocks.into_iter().for_each(|(pfn, order)| pages.free(pfn, order).unwrap());
    }
    let mut bulk = [Pfn(0); 40];
    let served = pages.alloc_bulk(&Request::page(GFP_HIGHUSER_MOVABLE), &mut bulk).unwrap_or(0);
    pages.free_bulk(&bulk[..served], Order(0));
    pages.drain_all();
    pages.compact(NodeId(0));
}

/// Runs `call`, which must not wait.
#[track_caller]
fn hastily<T>(gate: &'static Gate, what: &str, call: impl FnOnce() -> T) -> T {
    ROLE.set(Role::Hasty(gate));
    STEPS.set(0);
    let result = call();
    ROLE.set(Role::Other);
    assert_eq!(WAITS.get(), 0, "{what} waits without limit");
    assert!(STEPS.get() <= MOST, "{what} takes {} steps", STEPS.get());
    result
}

/// The requests that must not wait, by name.
fn requests() -> [(&'static str, Request); 7] {
    let page = |gfp: Gfp| Request::page(gfp | __GFP_NOWARN);
    [
        ("page", page(GFP_HIGHUSER_MOVABLE & !GFP_KERNEL | GFP_NOWAIT)),
        ("unmovable page", page(GFP_NOWAIT)),
        ("urgent page", page(GFP_ATOMIC)),
        ("page for reclaim", page(GFP_NOWAIT | __GFP_MEMALLOC)),
        ("urgent block", Request::new(GFP_ATOMIC | __GFP_NOWARN, 3)),
        ("pageblock", Request::new(GFP_NOWAIT | __GFP_NOWARN, 5)),
        ("low page", Request { below: Some(Pfn(BASE + FRAMES / 2)), ..page(GFP_NOWAIT) }),
    ]
}

/// What became of the requests while the other thread was stopped.
#[derive(Default, Debug)]
struct Tried {
    stops: u64,
    served: BTreeMap<&'static str, u64>,
    /// Requests that failed although there is memory: they would have had to wait.
    refused: u64,
}

/// Makes every request, and frees what it got.
fn try_all(pages: &Pages, gate: &'static Gate, tried: &mut Tried) {
    let mut taken = Vec::new();
    for (name, request) in requests() {
        match hastily(gate, name, || pages.alloc(&request)) {
            Ok(pfn) => {
                *tried.served.entry(name).or_default() += 1;
                taken.push((pfn, request.order));
            }
            Err(AllocError::NoMemory { .. }) => tried.refused += 1,
            Err(error) => panic!("{name}: {error}"),
        }
    }
    let mut bulk = [Pfn(0); 9];
    let request = Request::page(GFP_NOWAIT | __GFP_NOWARN);
    let served = hastily(gate, "bulk", || pages.alloc_bulk(&request, &mut bulk)).unwrap_or(0);
    taken.extend(bulk[..served].iter().map(|&pfn| (pfn, Order(0))));
    for (pfn, order) in taken {
        hastily(gate, "free", || pages.free_nolock(pfn, order)).unwrap();
    }
}

/// Lets one thread work and stop at every `stride`-th access; calls `at_stop` each time.
fn stop_and_go(pages: &'static Pages, stride: u64, mut at_stop: impl FnMut(&'static Gate)) {
    let gate: &'static Gate = Box::leak(Box::new(Gate { stride, ..Gate::default() }));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            ROLE.set(Role::Stopping(gate));
            work(pages);
            ROLE.set(Role::Other);
            gate.state.store(DONE, SeqCst);
        });
        while gate.is_stopped() {
            at_stop(gate);
            let _ = gate.state.compare_exchange(STOPPED, RUNS, SeqCst, SeqCst);
        }
    });
}

/// Lets one thread work and stop at every `stride`-th access, while the other tries.
fn run(mechanisms: &str, stride: u64) -> Tried {
    let pages = boot(Mechanisms::parse(mechanisms).unwrap());
    let mut tried = Tried::default();
    stop_and_go(pages, stride, |gate| {
        tried.stops += 1;
        try_all(pages, gate, &mut tried);
    });
    pages.drain_all();
    let census = pages.validate().unwrap_or_else(|violation| panic!("{mechanisms}: {violation}"));
    assert_eq!((census.free, census.isolated), (FRAMES, 0), "{mechanisms}");
    tried
}

#[test]
fn a_request_that_must_not_wait_ends_while_another_thread_is_stopped() {
    let table = [
        "default",
        "linux-6.1",
        "patch1",
        "patch7",
        "patch9",
        "no_merge+cluster_alloc",
        "owned-pageblocks",
        "tuned-pcp",
        "default,hardened=poison",
    ];
    for mechanisms in table {
        let tried = run(mechanisms, 199);
        println!("{mechanisms}: {tried:?}");
        // Some stops are inside a section of the zone's lock, and most are not.
        let tries = tried.stops * requests().len() as u64;
        assert!(tried.stops > 50 && tried.refused > 0 && tried.refused < tries / 2, "{mechanisms}: {tried:?}");
    }
}

/// What is held at the first look and free at the next one serves the request.
#[test]
fn a_request_that_must_not_wait_looks_again() {
    let mut waited = 0;
    for stop in 1..60 {
        let pages = boot(Mechanisms::DEFAULT);
        // Once: after it the other thread is done.
        stop_and_go(pages, 61 * stop, |gate| {
            ROLE.set(Role::Patient(gate));
            let request = Request::new(GFP_NOWAIT, 4);
            let served = pages.alloc(&request);
            ROLE.set(Role::Other);
            waited += u32::from(gate.state.load(SeqCst) == DONE);
            let pfn = served.unwrap_or_else(|error| panic!("stopped at access {}: {error}", 61 * stop));
            gate.finish();
            pages.free(pfn, request.order).unwrap();
        });
        assert_eq!(pages.validate().unwrap().allocated, 0);
    }
    assert!(waited > 0, "it never found anything held");
}
