//! Threads and the CPUs they lease: the choice of a CPU, the end of a lease, and too few CPUs.

use std::cell::RefCell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use framewright::machine::{Machine, Pinned};
use framewright::request::GFP_KERNEL;
use framewright::units::{CpuId, NodeId, Order, ZoneIdx, ZoneKind};
use framewright::{Allocator, Config, Layout, Region, Request};
use framewright_rt::{CpuMode, Native, Storage};

const NODES: [NodeId; 3] = [NodeId(0); 3];

fn cpu(machine: &Native) -> u16 {
    machine.pin().cpu().0
}

/// The result of `work` on a thread of its own.
fn elsewhere<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

#[test]
fn a_thread_keeps_its_cpu_until_it_exits() {
    let machine = Native::new(&NODES);
    assert_eq!(machine.mode(), CpuMode::Lease);
    let mine = cpu(&machine);
    assert_eq!([cpu(&machine), cpu(&machine)], [mine; 2]);
    let theirs = elsewhere(|| [cpu(&machine), cpu(&machine)]);
    assert_eq!(theirs[0], theirs[1]);
    assert_ne!(theirs[0], mine);
    assert_eq!(elsewhere(|| cpu(&machine)), theirs[0], "the next thread adopts it");
}

#[test]
fn who_finds_no_lease_shares_until_there_is_one() {
    let machine = Native::new(&NODES);
    let mine = cpu(&machine);
    let (leased, seen) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let theirs = cpu(&machine);
            leased.wait();
            seen.wait();
            theirs
        });
        let late = scope.spawn(|| {
            leased.wait();
            let shared = [cpu(&machine), cpu(&machine)];
            // Pins of one thread may nest and end in any order.
            let (one, two) = (machine.pin(), machine.pin());
            drop(one);
            assert_eq!(two.cpu(), CpuId(2));
            drop(two);
            seen.wait();
            let theirs = holder.join().unwrap();
            assert_eq!(cpu(&machine), theirs, "adopted");
            (shared, theirs)
        });
        let (shared, theirs) = late.join().unwrap();
        assert_eq!(shared, [2, 2]);
        assert!(theirs < 2 && theirs != mine);
    });
}

/// Every pin has its CPU to itself: each thread counts in a word that no other may touch.
#[test]
fn no_two_threads_are_on_one_cpu() {
    for cpus in 1..=3 {
        let machine = Native::new(&NODES[..cpus]);
        let inside = [const { AtomicU32::new(0) }; 3];
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (machine, inside) = (&machine, &inside);
                scope.spawn(move || {
                    for turn in 0..2000 {
                        let outer = machine.pin();
                        let here = &inside[outer.cpu().index()];
                        assert_eq!(here.fetch_add(1, SeqCst), 0);
                        if turn % 7 == thread {
                            std::thread::yield_now();
                        }
                        // The thread's CPU again, or one leased just now.
                        drop(machine.pin());
                        here.fetch_sub(1, SeqCst);
                    }
                });
            }
        });
    }
}

#[test]
fn machines_are_not_mistaken_for_each_other() {
    let machines: Vec<_> = (0..5).map(|_| Native::new(&NODES)).collect();
    elsewhere(|| machines.iter().for_each(|machine| assert_eq!(cpu(machine), 0)));
    // This thread has the second CPU of every other machine, and the first of the rest.
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            machines.iter().step_by(2).for_each(|machine| assert_eq!(cpu(machine), 0));
            barrier.wait();
            barrier.wait();
        });
        barrier.wait();
        for _ in 0..3 {
            let cpus: Vec<_> = machines.iter().map(cpu).collect();
            assert_eq!(cpus, [1, 0, 1, 0, 1]);
        }
        barrier.wait();
    });
    // A new machine where an old one was is new.
    for _ in 0..100 {
        let machine = Native::new(&NODES[..2]);
        assert_eq!(cpu(&machine), 0);
        assert_eq!(elsewhere(|| cpu(&machine)), 1);
    }
    assert_eq!(cpu(&machines[0]), 1);
}

#[test]
fn a_lease_given_up_is_adopted_at_once() {
    let machine = Native::new(&NODES[..2]);
    assert_eq!(cpu(&machine), 0);
    elsewhere(|| assert_eq!(cpu(&machine), 1));
    // SAFETY: the thread has no pin.
    assert!(unsafe { machine.give_up_lease() });
    // SAFETY: the thread has no pin.
    assert!(!unsafe { machine.give_up_lease() });
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(cpu(&machine), 0);
            barrier.wait();
            barrier.wait();
        });
        barrier.wait();
        assert_eq!(cpu(&machine), 1);
        barrier.wait();
    });
}

/// Pins the machine when its thread exits.
struct AtExit {
    machine: &'static Native,
    seen: &'static AtomicU32,
}

impl Drop for AtExit {
    fn drop(&mut self) {
        self.seen.store(u32::from(cpu(self.machine)), SeqCst);
    }
}

#[test]
fn destructors_of_thread_locals_may_pin() {
    thread_local!(static LAST: RefCell<Option<AtExit>> = const { RefCell::new(None) });
    let machine: &'static Native = Box::leak(Box::new(Native::new(&NODES[..2])));
    let seen: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(u32::MAX)));
    for pins_before in [false, true] {
        // A scope's end does not wait for destructors of thread-locals, a join does.
        let thread = std::thread::spawn(move || {
            LAST.set(Some(AtExit { machine, seen }));
            if pins_before {
                assert_eq!(cpu(machine), 0);
            }
        });
        thread.join().unwrap();
        assert_eq!(seen.swap(u32::MAX, SeqCst), 0, "still leased, or leased so late");
    }
    assert_eq!(cpu(machine), 0, "and given back");
}

#[test]
fn pages_of_an_exited_thread_are_adopted() {
    let map = [Region::usable(0x100000, 0x110000, 0)];
    let config = Config::new(&map, &NODES);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Native::new(&NODES), &config, storage.parts()).unwrap();
    let normal = ZoneIdx::of(NodeId(0), ZoneKind::Normal);
    let take_one = || {
        let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
        pages.free(page, Order(0)).unwrap();
        (page, pages.free_frames(normal))
    };
    let first = elsewhere(take_one);
    assert_eq!(elsewhere(take_one), first, "the same page, and no refill");
}
