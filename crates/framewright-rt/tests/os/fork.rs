//! Forks, with other threads in the midst of it: the parent goes on, the child has a working allocator or a clear
//! refusal.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, RwLock};
use std::time::Duration;

use framewright::machine::{Machine, Pinned};
use framewright::request::GFP_KERNEL;
use framewright::units::{CpuId, NodeId, Order, Pfn};
use framewright::{AllocError, Allocator, Config, FreeError, Layout, Region, Request, Why};
use framewright_rt::{Background, Native, Rest, Storage};

use crate::forked::in_child;

const MAP: [Region; 1] = [Region::usable(0x100000, 0x110000, 0)];
const NODES: [NodeId; 4] = [NodeId(0); 4];

fn boot(machine: Native) -> &'static Allocator<'static, Native> {
    let cpus = machine.nodes().to_vec();
    let config = Config::new(&MAP, &cpus);
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
    Box::leak(Box::new(Allocator::boot(machine, &config, storage.parts()).unwrap()))
}

/// Both ways to a CPU, as far as they are to be had.
fn machines() -> impl Iterator<Item = Native> {
    [Some(Native::new(&NODES)), Native::per_cpu(1).ok()].into_iter().flatten()
}

/// Operations hold it shared, a fork alone: a stand-in for bringing the allocator to rest.
type Gate = &'static RwLock<()>;

fn gate(machine: &Native) -> Gate {
    let gate: Gate = Box::leak(Box::default());
    machine.set_fork_hook(Some(Box::new(|| Some(Box::new(gate.write().unwrap()) as Rest))));
    gate
}

fn come_and_go(pages: &Allocator<'_, Native>, gate: Gate, turns: u64) {
    let mut held: Vec<(Pfn, Order)> = Vec::new();
    for turn in 0..turns {
        let _open = gate.read().unwrap();
        if held.len() > 40 || (turn % 3 == 2 && !held.is_empty()) {
            let (pfn, order) = held.swap_remove((turn * 31 % held.len() as u64) as usize);
            pages.free(pfn, order).unwrap();
        } else {
            let order = [0, 0, 1, 3, 9][(turn % 5) as usize];
            held.extend(pages.alloc(&Request::new(GFP_KERNEL, order)).map(|pfn| (pfn, Order(order))));
        }
    }
    let _open = gate.read().unwrap();
    held.into_iter().for_each(|(pfn, order)| pages.free(pfn, order).unwrap());
}

#[test]
fn children_of_busy_parents_go_on() {
    for machine in machines() {
        let gate = gate(&machine);
        let pages = boot(machine);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !over.load(SeqCst) {
                        come_and_go(pages, gate, 200);
                    }
                });
            }
            for _ in 0..15 {
                let went_well = in_child(|| {
                    pages.validate().unwrap();
                    // New threads find free slots, for those that had them are not here.
                    std::thread::scope(|scope| {
                        let threads = [0; 3].map(|_| scope.spawn(|| come_and_go(pages, gate, 300)));
                        threads.into_iter().for_each(|thread| thread.join().unwrap());
                    });
                    come_and_go(pages, gate, 300);
                    pages.drain_all();
                    pages.validate().unwrap();
                });
                assert!(went_well);
            }
            over.store(true, SeqCst);
        });
        pages.validate().unwrap();
    }
}

#[test]
fn slots_of_other_threads_are_free_in_the_child() {
    let machine = Native::new(&NODES[..3]);
    gate(&machine);
    let barrier = Barrier::new(2);
    let cpu = || machine.pin().cpu();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(cpu(), CpuId(0));
            barrier.wait();
            barrier.wait();
        });
        barrier.wait();
        assert_eq!(cpu(), CpuId(1));
        assert!(in_child(|| {
            assert_eq!(cpu(), CpuId(1), "the forking thread keeps its own");
            let other = std::thread::scope(|scope| scope.spawn(cpu).join().unwrap());
            assert_eq!(other, CpuId(0));
        }));
        assert_eq!(std::thread::scope(|scope| scope.spawn(cpu).join().unwrap()), CpuId(2), "shared, in the parent");
        barrier.wait();
    });
}

#[test]
fn without_a_hook_children_refuse() {
    for machine in machines() {
        let pages = boot(machine);
        let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
        assert!(in_child(|| {
            assert!(pages.machine().refuses());
            assert_eq!(pages.machine().pin().cpu(), CpuId(u16::MAX));
            let refused = pages.alloc(&Request::page(GFP_KERNEL));
            assert_eq!(refused, Err(AllocError::no_memory(Why::NoCpu)));
            assert_eq!(pages.free(page, Order(0)), Err(FreeError::NoCpu));
            // A new machine works here.
            assert_ne!(Native::new(&NODES).pin().cpu(), CpuId(u16::MAX));
            // Its own children do not forget.
            assert!(in_child(|| assert!(pages.machine().refuses())));
        }));
        assert!(!pages.machine().refuses());
        pages.free(page, Order(0)).unwrap();
    }
}

#[test]
fn a_hook_that_fails_has_the_child_refuse() {
    let machine = Native::new(&NODES);
    machine.set_fork_hook(Some(Box::new(|| None)));
    assert!(in_child(|| assert!(machine.refuses())));
    gate(&machine);
    assert!(in_child(|| assert!(!machine.refuses())));
    machine.set_fork_hook(None);
    assert!(in_child(|| assert!(machine.refuses())));
}

#[test]
fn hooks_are_let_go_in_both_processes_and_not_called_for_what_is_gone() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    static ENDS: AtomicU64 = AtomicU64::new(0);
    struct Rest;
    impl Drop for Rest {
        fn drop(&mut self) {
            ENDS.fetch_add(1, SeqCst);
        }
    }
    let machine = Native::new(&NODES);
    machine.set_fork_hook(Some(Box::new(|| {
        CALLS.fetch_add(1, SeqCst);
        Some(Box::new(Rest))
    })));
    // Other tests may fork too.
    assert!(in_child(|| assert!(ENDS.load(SeqCst) == CALLS.load(SeqCst) && CALLS.load(SeqCst) > 0)));
    drop(machine);
    let calls = CALLS.load(SeqCst);
    assert!(in_child(|| assert_eq!(CALLS.load(SeqCst), calls)));
}

#[test]
fn machines_come_and_go_while_others_fork() {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                let machine = Native::new(&NODES);
                drop(machine.pin());
            }
        });
        for _ in 0..30 {
            assert!(in_child(|| drop(Native::new(&NODES).pin())));
        }
        over.store(true, SeqCst);
    });
}

#[test]
fn background_work_stays_behind_unless_asked_for() {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let work = || {
        DONE.fetch_add(1, SeqCst);
        ControlFlow::Continue(())
    };
    let wait_for_work = || {
        let before = DONE.load(SeqCst);
        while DONE.load(SeqCst) == before {
            std::thread::yield_now();
        }
    };
    let mut background = Background::start(Duration::from_millis(1), work).unwrap();
    wait_for_work();
    for restarts in [false, true] {
        assert!(in_child(|| {
            assert!(!background.is_running());
            if restarts {
                background.restart().unwrap();
                wait_for_work();
            }
            // Dropped without waiting for a thread that is not here.
            let leaked: *mut Background = &raw mut background;
            // SAFETY: the child ends without using it again.
            unsafe { leaked.drop_in_place() };
        }));
        wait_for_work();
    }
    assert!(background.is_running());
}
