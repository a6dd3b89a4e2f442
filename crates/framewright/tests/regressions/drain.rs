//! Bugs that stress found: drains that leave blocks.

use framewright::request::GFP_KERNEL;
use framewright::{Allocator, Config, CpuId, Layout, NodeId, Order, Region, Request};
use framewright_rt::{Solo, Storage};

const NODES: [NodeId; 4] = [NodeId(0); 4];

/// Magazines move between the shards of a depot: one may have more full ones than it began with.
#[test]
fn a_drain_empties_a_shard_that_got_magazines_of_others() {
    let map = [Region::usable(0x100000, 0x104000, 0)];
    let mechanisms = framewright::Mechanisms::DEFAULT;
    let config = Config { mechanisms, ..Config::new(&map, &NODES) };
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Solo::new(&NODES), &config, storage.parts()).unwrap();
    let taken: Vec<_> = std::iter::from_fn(|| pages.alloc(&Request::page(GFP_KERNEL)).ok()).collect();
    pages.machine().run_on(CpuId(1));
    for pfn in taken {
        pages.free(pfn, Order(0)).unwrap();
    }
    let cached = pages.validate().unwrap().pcp;
    assert_eq!(pages.drain_all(), cached);
    assert_eq!(pages.validate().unwrap().pcp, 0);
}
