//! What the allocator asks of its surroundings during a run, and that background threads hear of it.

use std::cell::{Cell, RefCell};

use framewright::event::Event;
use framewright::machine::{Busy, Machine, Need, Waiter};
use framewright::request::{__GFP_NOWARN, GFP_HIGHUSER_MOVABLE, GFP_KERNEL};
use framewright::{Allocator, Config, Mechanisms, NodeId, Order, Pfn, Region, Request};
use framewright_sim::Sim;
use framewright_sim::host::Host;
use framewright_sim::machine::named;
use framewright_sim::run::{Options, Schedule, Simulation, here};
use framewright_sim::stage::{Descriptors, arena_for, boot};

const OPTIONS: Options =
    Options { cpus: 2, seed: 1, schedule: Schedule::Time, warm_up: 0, window: u64::MAX, trace: false };

/// Pages that can be freed or moved, and what happened to them.
struct Cache<'a> {
    pages: &'a Allocator<'a, Sim>,
    held: RefCell<Vec<Pfn>>,
    rounds: Cell<u64>,
    /// The last need.
    need: Cell<Option<(Order, u64)>>,
    moved: Cell<u64>,
    mixed: Cell<u64>,
}

impl Host for Cache<'_> {
    fn reclaim(&self, need: &Need) -> u64 {
        assert!(Sim.now() > 0, "a CPU runs");
        self.rounds.set(self.rounds.get() + 1);
        self.need.set(Some((need.order, need.frames)));
        let held = || self.held.borrow_mut().pop();
        (0..need.frames).map_while(|_| held()).map(|pfn| self.pages.free(pfn, Order(0)).unwrap()).count() as u64
    }

    fn migrates(&self) -> bool {
        true
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        let found = self.held.borrow().iter().position(|&pfn| pfn == from).ok_or(Busy)?;
        self.held.borrow_mut()[found] = to;
        self.moved.set(self.moved.get() + 1);
        self.pages.free(from, order).map_err(|_| Busy)
    }

    fn traces(&self) -> bool {
        true
    }

    fn event(&self, event: &Event) {
        self.mixed.set(self.mixed.get() + u64::from(matches!(event, Event::ExtFrag { .. })));
    }
}

/// Runs `body` on a machine of one node of 16 MiB with all of its memory in a cache.
fn with_cache(mechanisms: &str, body: impl Fn(&Cache<'_>, usize)) {
    let model = named("skylake-desktop").unwrap().model();
    let mechanisms = Mechanisms::parse(mechanisms).unwrap();
    let (regions, cpus) = ([Region::usable(0x10_0000, 0x10_1000, 0)], [NodeId(0); 2]);
    let config = Config { mechanisms, ..Config::new(&regions, &cpus) };
    let arena = arena_for(&config, 0).unwrap();
    let pages = boot(&arena, &config, Descriptors::Compact).unwrap();
    let mut simulation = Simulation::new(&model, &arena, &OPTIONS).unwrap();
    let none = || Cell::new(0);
    let cache =
        Cache { pages, held: RefCell::default(), rounds: none(), need: Cell::new(None), moved: none(), mixed: none() };
    simulation.run_hosted(|cpu| body(&cache, cpu), &cache).unwrap();
    let held = cache.held.take();
    held.into_iter().for_each(|pfn| pages.free(pfn, Order(0)).unwrap());
    assert_eq!(pages.validate().unwrap().allocated, 0);
}

fn fill(cache: &Cache<'_>) {
    while let Ok(pfn) = cache.pages.alloc(&Request::page(GFP_HIGHUSER_MOVABLE)) {
        cache.held.borrow_mut().push(pfn);
        if cache.rounds.get() != 0 {
            break;
        }
    }
}

#[test]
fn a_request_has_memory_freed() {
    with_cache("baseline", |cache, cpu| {
        if cpu == 0 {
            fill(cache);
            assert!(cache.rounds.get() > 0 && cache.held.borrow().len() > 3_000);
            let pfn = cache.pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
            assert_eq!(
                cache.mixed.get(),
                cache.pages.counters().extfrag_fragmenting + cache.pages.counters().extfrag_whole
            );
            cache.pages.free(pfn, Order(0)).unwrap();
        }
    });
}

#[test]
fn a_request_has_memory_moved() {
    with_cache("baseline,compaction=scanners", |cache, cpu| {
        if cpu == 0 {
            fill(cache);
            // Every other page goes: enough is free, and nothing of it lies together.
            let all = cache.held.take();
            let (even, odd): (Vec<Pfn>, Vec<Pfn>) = all.into_iter().partition(|pfn| pfn.0.is_multiple_of(2));
            odd.into_iter().for_each(|pfn| cache.pages.free(pfn, Order(0)).unwrap());
            cache.held.replace(even);
            let huge = cache.pages.alloc(&Request::new(GFP_HIGHUSER_MOVABLE, 9)).unwrap();
            assert!(cache.moved.get() > 0);
            cache.pages.free(huge, Order(9)).unwrap();
        }
    });
}

#[test]
fn a_background_thread_that_is_awake_is_woken_once_more() {
    let waiter = Waiter::Kswapd(NodeId(0));
    with_cache("baseline", |_, cpu| match cpu {
        0 => {
            // The thread sleeps only later: it was woken twice by then, and comes back once.
            Sim.wake(waiter);
            Sim.wake(waiter);
        }
        _ => {
            here::work(9_000_000);
            here::turn();
            Sim.sleep_until(waiter, u64::MAX);
            assert!(here::clock() < 10_000_000);
            Sim.sleep_until(waiter, 50_000);
            assert_eq!(here::clock(), 50_000_000);
            // A CPU that waits for memory looks for it before it sleeps.
            Sim.wake(Waiter::Allocation(NodeId(0)));
            Sim.sleep_until(Waiter::Allocation(NodeId(0)), 60_000);
            assert_eq!(here::clock(), 60_000_000);
        }
    });
}

#[test]
fn frames_anywhere_do_where_compaction_empties_a_pageblock() {
    for (mechanisms, asked) in [
        ("default", (Order(0), 768)),
        ("default,compaction=scanners", (Order(9), 512)),
        ("default,compaction=off", (Order(9), 512)),
    ] {
        with_cache(mechanisms, |cache, cpu| {
            if cpu == 0 {
                fill(cache);
                assert_eq!(cache.need.take(), Some((Order(0), 32)), "{mechanisms}: a page is short of a page");
                let huge = cache.pages.alloc(&Request::new(GFP_HIGHUSER_MOVABLE | __GFP_NOWARN, 9));
                huge.into_iter().for_each(|pfn| cache.pages.free(pfn, Order(9)).unwrap());
                assert_eq!(cache.need.get(), Some(asked), "{mechanisms}");
            }
        });
    }
}
