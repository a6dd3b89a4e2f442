//! Background reclaim on threads: a request that finds memory short wakes it, and it frees cached pages.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use framewright::machine::{Need, Waiter};
use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL};
use framewright::{Allocator, Config, Layout, Mechanisms, NodeId, Order, Pfn, Region, Request};
use framewright_rt::{Callbacks, Native, Storage};

/// 64 MiB.
const FRAMES: u64 = 1 << 14;
/// Pages that each worker puts into the cache.
const PAGES: usize = 60_000;
const WORKERS: usize = 3;

/// Pages that can be had back: the oldest first.
#[derive(Default)]
struct Cache {
    pages: Mutex<VecDeque<Pfn>>,
    /// The allocator, once there is one.
    allocator: OnceLock<Weak<Allocator<'static, Native>>>,
    gentle: AtomicU64,
    freed: AtomicU64,
}

impl Callbacks for Cache {
    fn reclaim(&self, need: &Need) -> u64 {
        let Some(allocator) = self.allocator.get().and_then(Weak::upgrade) else { return 0 };
        let mut freed = 0;
        while freed < need.frames {
            let Some(page) = self.pages.lock().unwrap().pop_front() else { break };
            allocator.free(page, Order(0)).unwrap();
            freed += 1;
        }
        self.gentle.fetch_add(u64::from(need.gentle), SeqCst);
        self.freed.fetch_add(freed, SeqCst);
        freed
    }
}

/// Fills a cache several times the memory from all workers.
///
/// Every tenth page stays for a while and cannot move.
fn fill(mechanisms: &str) -> (Arc<Cache>, u64) {
    let cache = Arc::new(Cache::default());
    let callbacks: Arc<dyn Callbacks> = cache.clone();
    let machine = Native::new(&[NodeId(0); WORKERS + 2]).with_callbacks(callbacks);
    let nodes = machine.nodes().to_vec();
    let regions = [Region::usable(0x10_0000, 0x10_0000 + FRAMES, 0)];
    let mechanisms = Mechanisms::parse(mechanisms).unwrap();
    let config = Config { mechanisms, ..Config::new(&regions, &nodes) };
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
    let allocator = Arc::new(Allocator::boot(machine, &config, storage.parts()).unwrap());
    cache.allocator.set(Arc::downgrade(&allocator)).unwrap();
    let (over, runs) = (AtomicBool::new(false), AtomicU64::new(0));
    let kswapd = || {
        let (machine, waiter) = (allocator.machine(), Waiter::Kswapd(NodeId(0)));
        let mut seen = 0;
        while !over.load(SeqCst) {
            let now = machine.wait(waiter, seen, Duration::from_millis(50));
            if std::mem::replace(&mut seen, now) != now {
                allocator.balance(NodeId(0));
                runs.fetch_add(1, SeqCst);
            }
        }
    };
    let work = || {
        let mut held = VecDeque::new();
        for number in 0..PAGES {
            let gfp = if number % 10 == 0 { GFP_KERNEL } else { GFP_HIGHUSER_MOVABLE };
            let page = allocator.alloc(&Request::page(gfp)).unwrap_or_else(|error| panic!("page {number}: {error}"));
            if number % 10 == 0 {
                held.push_back(page)
            } else {
                cache.pages.lock().unwrap().push_back(page)
            }
            if held.len() > 1_000
                && let Some(page) = held.pop_front()
            {
                allocator.free(page, Order(0)).unwrap();
            }
        }
        held.into_iter().for_each(|page| allocator.free(page, Order(0)).unwrap());
    };
    std::thread::scope(|scope| {
        let background = scope.spawn(kswapd);
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        over.store(true, SeqCst);
        background.join().unwrap();
        ended.into_iter().for_each(|result| result.unwrap());
    });
    cache.pages.lock().unwrap().drain(..).for_each(|page| allocator.free(page, Order(0)).unwrap());
    allocator.drain_all();
    let census = allocator.validate().unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!((census.free, census.allocated), (FRAMES, 0), "{census:?}");
    (cache, runs.into_inner())
}

#[test]
fn no_request_fails_while_others_pages_can_be_had_back() {
    for mechanisms in ["default", "vanilla-4.20", "default,nofragment=enforced"] {
        let (cache, runs) = fill(mechanisms);
        assert!(runs != 0 && cache.freed.load(SeqCst) > FRAMES, "{mechanisms}: {runs} runs");
        assert_eq!(cache.gentle.load(SeqCst), 0, "{mechanisms}: nothing was boosted");
    }
}

#[test]
fn boosts_are_worked_off_gently() {
    for mechanisms in ["boost", "stall", "default,watermark-boost=15000"] {
        let (cache, runs) = fill(mechanisms);
        assert!(runs != 0 && cache.freed.load(SeqCst) > FRAMES, "{mechanisms}: {runs} runs");
    }
}
