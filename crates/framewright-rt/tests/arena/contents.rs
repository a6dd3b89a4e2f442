//! The machine's changes to the memory of its frames: zeros and poison.

use std::ptr::NonNull;

use framewright::machine::Machine;
use framewright::request::{__GFP_ZERO, GFP_KERNEL};
use framewright::units::{NodeId, Order, Pfn};
use framewright::{Allocator, Config, Layout, Region, Request};
use framewright_rt::{Memory, Native, Storage};

const FIRST: Pfn = Pfn(0x100000);
const FRAMES: u64 = 0x400;
const PAGE: usize = 4096;

#[test]
fn zeroed_requests_get_zeros_and_others_what_was_there() {
    let mut bytes = vec![0x5a_u8; FRAMES as usize * PAGE];
    // SAFETY: the bytes outlive the machine; they are looked at only while their block is allocated.
    let memory = unsafe { Memory::new(NonNull::new(bytes.as_mut_ptr()).unwrap(), FIRST, FRAMES, 12) };
    let map = [Region::usable(FIRST.0, FIRST.0 + FRAMES, 0)];
    let nodes = [NodeId(0); 2];
    let config = Config::new(&map, &nodes);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let machine = Native::new(&nodes).with_memory(memory);
    let pages = Allocator::boot(machine, &config, storage.parts()).unwrap();
    let block = |pfn: Pfn, order: Order| {
        let start = (pfn.0 - FIRST.0) as usize * PAGE;
        // SAFETY: allocated by this test, and no other code knows it.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().add(start), PAGE << order.0) }
    };
    for order in [Order(0), Order(3)] {
        let zeroed = pages.alloc(&Request::new(GFP_KERNEL | __GFP_ZERO, order.0)).unwrap();
        assert!(block(zeroed, order).iter().all(|&byte| byte == 0));
        let plain = pages.alloc(&Request::new(GFP_KERNEL, order.0)).unwrap();
        assert!(block(plain, order).iter().all(|&byte| byte == 0x5a));
        pages.free(zeroed, order).unwrap();
        pages.free(plain, order).unwrap();
    }
}

#[test]
fn without_memory_nothing_happens_and_all_is_well() {
    let machine = Native::new(&[NodeId(0)]);
    machine.zero(FIRST, Order(0));
    machine.poison(FIRST, Order(0));
    assert!(machine.is_poisoned(FIRST, Order(0)));
}
