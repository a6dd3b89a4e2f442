//! Bugs that stress found: copies of an allocator that differ from the original.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use framewright::request::GFP_KERNEL;
use framewright::{Allocator, Config, Layout, Mechanisms, NodeId, Order, Region, Request};
use framewright_rt::{Arena, Solo, Storage};

use crate::forked::in_child;
use crate::watchdog;

const NODES: [NodeId; 2] = [NodeId(0); 2];

/// A freed block in the delay before reuse is on no ring, and no thread was moving it.
#[test]
fn blocks_that_wait_are_not_settled() {
    let map = [Region::usable(0x100000, 0x104000, 0)];
    let mechanisms = Mechanisms::parse("default,hardened=poison").unwrap();
    let config = Config { mechanisms, ..Config::new(&map, &NODES) };
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Solo::new(&NODES), &config, storage.parts()).unwrap();
    let pfn = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
    pages.free(pfn, Order(0)).unwrap();
    let before = pages.validate().unwrap();
    let frozen = pages.freeze().unwrap();
    assert_eq!(frozen.settle(), 0, "nothing was being moved");
    drop(frozen);
    assert_eq!(pages.validate(), Ok(before));
}

/// A block whose memory is being filled during the fork is not lost in the child.
#[test]
fn blocks_being_poisoned_are_not_lost_in_a_child() {
    watchdog::guarded(poison_and_fork);
}

fn poison_and_fork() {
    let mechanisms = Mechanisms::parse("default,hardened=poison").unwrap();
    let arena = Arena::builder().size(32 << 20).mechanisms(mechanisms).build().unwrap();
    let over = AtomicBool::new(false);
    let all_found_order = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                drop(arena.alloc(&Request::new(GFP_KERNEL, 9)).unwrap());
            }
        });
        let all_found_order = (0..20).all(|_| {
            watchdog::beat(None);
            in_child(|| arena.validate().map(drop).unwrap())
        });
        over.store(true, SeqCst);
        all_found_order
    });
    assert!(all_found_order);
}
