//! The values of CPUs, which plain calls use: one holder at a time, whatever becomes of threads, leases and allocators.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, Mutex};

use framewright::machine::{Machine, PerCpu, Pinned};
use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL};
use framewright::units::{CpuId, NodeId, Order, Pfn};
use framewright::{Allocator, Config, Layout, Region, Request};
use framewright_rt::{CpuMode, Native, Storage};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const NODES: [NodeId; 3] = [NodeId(0); 3];
const PAGE: Request = Request::page(GFP_KERNEL);

/// Both ways to a CPU, as far as they are to be had, and one CPU for all threads.
fn machines() -> impl Iterator<Item = Native> {
    let all = [Some(Native::new(&NODES)), Some(Native::new(&NODES[..1])), Native::per_cpu(1).ok()];
    all.into_iter().flatten()
}

/// Two runs of memory with a hole between, from `start` on.
fn map(start: u64) -> [Region; 2] {
    [Region::usable(start, start + 0x2000, 0), Region::usable(start + 0x8000, start + 0xa000, 0)]
}

/// Boots an allocator and hands it to `body`; all memory must be free at the end.
fn with<R>(machine: Native, map: &[Region], body: impl FnOnce(&Allocator<'_, Native>) -> R) -> R {
    let cpus = machine.nodes().to_vec();
    let config = Config::new(map, &cpus);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(machine, &config, storage.parts()).unwrap();
    let before = pages.validate().unwrap().free;
    let result = body(&pages);
    pages.drain_all();
    assert_eq!(pages.validate().unwrap().free, before);
    result
}

/// The result of `work` on a thread of its own.
fn elsewhere<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// A count without synchronisation, which is added to `total` at its end.
struct Count<'t> {
    count: Cell<u64>,
    total: &'t AtomicU64,
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.total.fetch_add(self.count.get(), SeqCst);
    }
}

/// A thread that is moved to another processor uses that one's value, and its own again when it is back.
#[test]
fn a_value_is_that_of_the_processor() {
    let Ok(machine) = Native::per_cpu(1) else { return };
    let values: <Native as Machine>::PerCpu<CpuId> = PerCpu::new(&machine, machine.nodes().len(), Some);
    let allowed = sched_getaffinity(None).unwrap();
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).take(2).collect();
    let found = elsewhere(|| {
        let go_to = |processor: usize| {
            let mut set = CpuSet::new();
            set.set(processor);
            sched_setaffinity(None, &set).unwrap();
            let first = values.with(|cpu: &CpuId| Some(*cpu));
            let any = values.with_any(|cpu| Some(*cpu)).unwrap();
            (first, any, values.with(|cpu: &CpuId| Some(*cpu)))
        };
        processors.iter().cycle().take(6).map(|&processor| (processor, go_to(processor))).collect::<Vec<_>>()
    });
    for (turn, (processor, (first, any, then))) in found.into_iter().enumerate() {
        let here = CpuId(processor as u16);
        // A sequence that the kernel interrupts finds nothing.
        let stayed = turn > 0 && processors.len() == 1;
        assert!(first.is_none_or(|cpu| cpu == here && stayed), "turn {turn}: {first:?} on processor {processor}");
        assert_eq!(any, here, "turn {turn}");
        assert!(then.is_none_or(|cpu| cpu == here), "turn {turn}: {then:?} on processor {processor}");
    }
}

/// An addition that meets another one would be lost.
#[test]
fn a_value_has_one_user_at_a_time() {
    const TURNS: u64 = 20_000;
    for machine in machines() {
        let total = AtomicU64::new(0);
        let make = |_| Some(Count { count: Cell::new(0), total: &total });
        let values: <Native as Machine>::PerCpu<Count<'_>> = PerCpu::new(&machine, machine.nodes().len(), make);
        let add = |value: &Count<'_>| {
            let before = value.count.get();
            (0..10).for_each(|_| std::hint::spin_loop());
            value.count.set(before + 1);
            Some(())
        };
        let served: u64 = std::thread::scope(|scope| {
            let turn = || (0..TURNS).filter(|_| values.with(add).or_else(|| values.with_any(add)).is_some()).count();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(turn)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap() as u64).sum()
        });
        drop(values);
        assert!(served > 0, "{:?}", machine.mode());
        assert_eq!(total.load(SeqCst), served, "{:?}", machine.mode());
    }
}

/// More threads than CPUs, which come, free blocks of other threads, and go.
#[test]
fn plain_calls_of_many_threads_lose_nothing() {
    for machine in machines() {
        with(machine, &map(0x10_0000), |pages| {
            let handed = Mutex::new(Vec::new());
            for _ in 0..3 {
                std::thread::scope(|scope| {
                    for thread in 0..8_usize {
                        let handed = &handed;
                        scope.spawn(move || {
                            let mut held: Vec<(Pfn, Order)> = Vec::new();
                            for turn in 0..3000_usize {
                                let order = [0, 0, 1, 0, 3, 2, 0, 9][(turn + thread) % 8];
                                let gfp = if turn % 5 == 0 { GFP_HIGHUSER_MOVABLE } else { GFP_KERNEL };
                                held.extend(pages.alloc(&Request::new(gfp, order)).map(|pfn| (pfn, Order(order))));
                                if held.len() > 12 {
                                    let (pfn, order) = held.swap_remove(turn * 31 % held.len());
                                    pages.free(pfn, order).unwrap();
                                }
                            }
                            handed.lock().unwrap().append(&mut held);
                        });
                    }
                });
                let mut blocks = std::mem::take(&mut *handed.lock().unwrap());
                elsewhere(|| blocks.drain(..).for_each(|(pfn, order)| pages.free(pfn, order).unwrap()));
                pages.validate().unwrap();
            }
        });
    }
}

/// Allocates and frees; the blocks must be of the allocator's own memory, which begins at `start`.
fn come_and_go(pages: &Allocator<'_, Native>, start: u64) {
    let pfn = pages.alloc(&PAGE).unwrap();
    assert!(map(start).iter().any(|region| region.range.contains(pfn)), "{pfn}");
    assert_eq!(pages.alloc_pages(PAGE.gfp, PAGE.order).map(|pfn| pages.free_pages(pfn, Order(0))), Ok(Ok(())));
    pages.free(pfn, Order(0)).unwrap();
    let again = pages.alloc(&PAGE).unwrap();
    // A thread without a CPU of its own may be on another one by now.
    assert!(again == pfn || pages.machine().mode() == CpuMode::PerCpu, "the block that was freed last");
    pages.free(again, Order(0)).unwrap();
}

/// A thread that goes from one allocator to another gets blocks of the one that it calls.
#[test]
fn allocators_in_turn_are_not_mistaken_for_each_other() {
    for (one, other) in machines().zip(machines()) {
        with(one, &map(0x10_0000), |one| {
            with(other, &map(0x20_0000), |other| {
                let turns = || {
                    for turn in 0..2000 {
                        if turn % 3 == 0 { come_and_go(one, 0x10_0000) } else { come_and_go(other, 0x20_0000) }
                    }
                };
                turns();
                elsewhere(turns);
            });
        });
    }
}

/// Two allocators on one machine at different times, at one address: the second has nothing of the first.
#[test]
fn an_allocator_where_another_was_starts_anew() {
    for turn in 0..50 {
        let start = 0x10_0000 * (1 + turn % 3);
        with(Native::new(&NODES), &map(start), |pages| {
            let blocks: Vec<Pfn> = (0..100).map(|_| pages.alloc(&PAGE).unwrap()).collect();
            assert!(blocks.iter().all(|&pfn| map(start).iter().any(|region| region.range.contains(pfn))));
            assert_eq!(pages.free_bulk(&blocks, Order(0)).freed, 100);
        });
    }
}

/// The thread that leases a CPU next has its value; the one that gave it up does not use it any more.
#[test]
fn a_value_goes_with_the_lease() {
    with(Native::new(&NODES[..3]), &map(0x10_0000), |pages| {
        let pin = || pages.machine().pin().cpu();
        let take_one = || {
            let page = pages.alloc(&PAGE).unwrap();
            pages.free(page, Order(0)).unwrap();
            assert_eq!(pages.alloc(&PAGE), Ok(page));
            pages.free(page, Order(0)).unwrap();
            page
        };
        let first = take_one();
        assert_eq!(pin(), CpuId(0));
        assert_ne!(elsewhere(|| (pin(), take_one())), (CpuId(0), first), "on a CPU of its own");
        // SAFETY: the thread has no pin and is in no call.
        assert!(unsafe { pages.machine().give_up_lease() });
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!((pin(), take_one()), (CpuId(0), first), "the CPU with its pages");
                barrier.wait();
                barrier.wait();
                assert_eq!(take_one(), first, "no other thread was here");
            });
            barrier.wait();
            let held: Vec<Pfn> = (0..20).map(|_| pages.alloc(&PAGE).unwrap()).collect();
            assert_eq!(pin(), CpuId(1));
            assert!(!held.contains(&first), "that block is on the list of another CPU");
            held.into_iter().for_each(|pfn| pages.free(pfn, Order(0)).unwrap());
            barrier.wait();
        });
    });
}

/// What a thread does last, in destructors of thread-locals, with a lease or without.
#[test]
fn destructors_of_thread_locals_may_allocate() {
    struct AtExit(&'static Allocator<'static, Native>, Pfn);
    impl Drop for AtExit {
        fn drop(&mut self) {
            self.0.free(self.1, Order(0)).unwrap();
            self.0.free(self.0.alloc(&PAGE).unwrap(), Order(0)).unwrap();
        }
    }
    thread_local!(static LAST: RefCell<Option<AtExit>> = const { RefCell::new(None) });
    for machine in machines() {
        let cpus = machine.nodes().to_vec();
        let map = map(0x10_0000);
        let config = Config::new(&map, &cpus);
        let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
        let pages: &'static _ = Box::leak(Box::new(Allocator::boot(machine, &config, storage.parts()).unwrap()));
        for _ in 0..20 {
            let page = pages.alloc(&PAGE).unwrap();
            std::thread::spawn(move || LAST.set(Some(AtExit(pages, page)))).join().unwrap();
            let here = move || LAST.set(Some(AtExit(pages, pages.alloc(&PAGE).unwrap())));
            std::thread::spawn(here).join().unwrap();
        }
        assert_eq!(pages.validate().unwrap().allocated, 0);
    }
}
