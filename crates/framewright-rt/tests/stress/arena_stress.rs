//! Everything at once on real memory: threads that come and go, blocks that change hands, drains, trims, changes of
//! affinity, and changes of the arena's size. Each frame has a shadow owner, and each block carries its mark at both ends of every page.
//!
//! Runs for two seconds; `FRAMEWRIGHT_STRESS_SECONDS=60` makes it longer.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use framewright::request::GFP_USER;
use framewright::{NodeId, NodeSet, Order, Policy, Request};
use framewright_ops::rng::Rng;
use framewright_rt::{Arena, Backing, CpuMode, Pages, Placement};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::watchdog;

const NODE_BYTES: u64 = 32 << 20;
const WORKERS: usize = 4;
/// Operations of a thread before it exits and another takes its place.
const LIFE: u32 = 3_000;
/// Blocks that a thread holds at most.
const MOST_HELD: usize = 300;

fn seconds() -> u64 {
    std::env::var("FRAMEWRIGHT_STRESS_SECONDS").map_or(2, |text| text.parse().expect("a number of seconds"))
}

/// A block and the mark that its pages carry.
struct Held<'a> {
    pages: Pages<'a>,
    mark: u64,
}

struct Stage {
    arena: Arena,
    /// Owner of each frame: a mark's low half, or 0.
    owners: Vec<AtomicU32>,
    /// Marks given out.
    marks: AtomicU64,
    /// Operations that were served.
    served: AtomicU64,
}

impl Stage {
    fn new(mode: CpuMode, backing: Backing, grows: bool) -> Stage {
        let builder = Arena::builder()
            .without_background()
            .node(NODE_BYTES, Placement::Anywhere)
            .node(NODE_BYTES, Placement::Anywhere);
        let builder = if grows { builder.limit(2 * NODE_BYTES) } else { builder };
        let arena = builder.backing(backing).cpu_mode(mode).background(Duration::from_millis(3)).build().unwrap();
        let owners = (0..arena.frames().frames()).map(|_| AtomicU32::new(0)).collect();
        Stage { arena, owners, marks: AtomicU64::new(1), served: AtomicU64::new(0) }
    }

    fn own(&self, pages: &Pages<'_>, from: u32, to: u32) {
        for pfn in pages.frames().start.0..pages.frames().end.0 {
            assert_eq!(self.owners[pfn as usize].swap(to, SeqCst), from, "frame {pfn:#x} has two owners");
        }
    }

    /// Marks a new block as its taker's.
    fn take<'a>(&'a self, mut pages: Pages<'a>) -> Held<'a> {
        let mark = self.marks.fetch_add(1, SeqCst);
        self.own(&pages, 0, mark as u32);
        for page in pages.chunks_exact_mut(4096) {
            page[..8].copy_from_slice(&mark.to_ne_bytes());
            page[4088..].copy_from_slice(&mark.to_ne_bytes());
        }
        self.served.fetch_add(1, SeqCst);
        Held { pages, mark }
    }

    fn check(held: &Held<'_>) {
        for page in held.pages.chunks_exact(4096) {
            assert_eq!([&page[..8], &page[4088..]], [held.mark.to_ne_bytes(); 2], "somebody wrote to {:?}", held.pages);
        }
    }

    /// Frees a block that is as it was left.
    fn give(&self, held: Held<'_>) {
        Stage::check(&held);
        self.own(&held.pages, held.mark as u32, 0);
        drop(held);
    }
}

/// Runs on one of the processors that the process may use, or on all again.
fn move_about(rng: &mut Rng, all: &CpuSet) {
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).collect();
    let mut one = CpuSet::new();
    one.set(*rng.pick(&allowed));
    let set = if rng.below(2) == 0 { &one } else { all };
    // A sandbox may deny it: then there is less to endure.
    let _ = sched_setaffinity(None, set);
}

/// One thread's life.
fn live<'a>(stage: &'a Stage, exchange: &Mutex<Vec<Held<'a>>>, rng: &mut Rng, all: &CpuSet) {
    let mut held: Vec<Held<'a>> = Vec::new();
    let policies = [
        Policy::Local,
        Policy::Prefer(NodeId(1)),
        Policy::Bind(NodeSet::only(NodeId(0))),
        Policy::Interleave(NodeSet::first(2)),
    ];
    for _ in 0..LIFE {
        watchdog::beat(None);
        let order = *rng.pick(&[0, 0, 0, 1, 2, 3, 5, 9]);
        let request = Request::new(GFP_USER, order).with(*rng.pick(&policies));
        match rng.below(12) {
            0..=4 if held.len() < MOST_HELD => held.extend(stage.arena.alloc(&request).map(|pages| stage.take(pages))),
            5 if held.len() < MOST_HELD => {
                let mut blocks = Vec::new();
                let _ = stage.arena.alloc_bulk(
                    &Request { order: Order(0), ..request },
                    rng.below(100) as usize,
                    &mut blocks,
                );
                held.extend(blocks.into_iter().map(|pages| stage.take(pages)));
            }
            6 if !held.is_empty() => {
                let Held { pages, mark } = held.swap_remove(rng.below(held.len() as u64) as usize);
                let order = Order(pages.order().0 / 2);
                held.extend(pages.split(order).unwrap().map(|pages| Held { pages, mark }));
            }
            7 if !held.is_empty() => {
                let given = held.swap_remove(rng.below(held.len() as u64) as usize);
                exchange.lock().unwrap().push(given);
            }
            8 => {
                let taken = exchange.lock().unwrap().pop();
                taken.into_iter().for_each(|block| stage.give(block));
            }
            9 if rng.one_in(50) => move_about(rng, all),
            _ if !held.is_empty() => stage.give(held.swap_remove(rng.below(held.len() as u64) as usize)),
            _ => {}
        }
    }
    held.into_iter().for_each(|block| stage.give(block));
}

/// Returns the bytes by which the arena shrank, in all.
fn stress(stage: &Stage, duration: Duration, grows: bool) -> u64 {
    let all = sched_getaffinity(None).unwrap();
    let (exchange, over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let (seeds, resizes) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while !over.load(SeqCst) {
                    let mut rng = Rng::new(seeds.fetch_add(1, SeqCst));
                    // A thread of its own, which exits.
                    std::thread::scope(|life| drop(life.spawn(|| live(stage, &exchange, &mut rng, &all))));
                }
            });
        }
        scope.spawn(|| {
            while !over.load(SeqCst) {
                stage.arena.drain();
                let _ = stage.arena.trim(Order(9)).unwrap();
                if grows {
                    resizes.fetch_add(stage.arena.shrink(NODE_BYTES).unwrap(), SeqCst);
                    let _ = stage.arena.grow(8 << 20);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let end = Instant::now() + duration;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        over.store(true, SeqCst);
    });
    exchange.into_inner().unwrap().into_iter().for_each(|block| stage.give(block));
    resizes.into_inner()
}

#[test]
fn nothing_is_lost_or_shared() {
    watchdog::guarded(every_case);
}

fn every_case() {
    let cases = [
        (CpuMode::Lease, Backing::Private, false),
        (CpuMode::PerCpu, Backing::Private, false),
        (CpuMode::Lease, Backing::Memfd, false),
        (CpuMode::PerCpu, Backing::Memfd, false),
        (CpuMode::Lease, Backing::Private, true),
        (CpuMode::PerCpu, Backing::Memfd, true),
    ];
    for (mode, backing, grows) in cases {
        let stage = Stage::new(mode, backing, grows);
        let shrunk = stress(&stage, Duration::from_millis(seconds() * 1_000 / cases.len() as u64), grows);
        let Stage { mut arena, owners, served, .. } = stage;
        assert!(owners.iter().all(|owner| owner.load(SeqCst) == 0));
        assert!(arena.background().is_some_and(|background| background.is_running()));
        arena.drain();
        let census = arena.validate().unwrap();
        assert_eq!((census.allocated, census.free, arena.refused_frees()), (0, arena.present() / 4096, 0));
        assert_eq!(shrunk != 0, grows);
        println!("{mode:?} over {backing}: {} blocks allocated, shrunk by {} MiB", served.into_inner(), shrunk >> 20);
    }
}
