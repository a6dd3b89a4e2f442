//! Two threads at one zone's lock, of each kind: nothing is lost, and no number runs out.

use framewright::mechanisms::ZoneLock;
use framewright::request::GFP_KERNEL;
use framewright::{Allocator, Config, Layout, Mechanisms, NodeId, Region, Request};
use framewright_rt::{Native, Storage};

/// Order of blocks that no list of a CPU keeps: each call takes the lock.
const ORDER: u8 = 4;
/// Calls of both threads together are more than the 65,536 numbers that waiters of a queued lock draw.
const ROUNDS: u32 = 20_000;

#[test]
fn two_threads_share_a_zone() {
    let map = [Region::usable(0x100000, 0x104000, 0)];
    let nodes = [NodeId(0); 3];
    for &zone_lock in ZoneLock::ALL {
        let mechanisms = Mechanisms { zone_lock, ..Mechanisms::BASELINE };
        let config = Config { mechanisms, ..Config::new(&map, &nodes) };
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        let pages = Allocator::boot(Native::new(&nodes), &config, storage.parts()).unwrap();
        let before = pages.validate().unwrap();
        let request = Request::new(GFP_KERNEL, ORDER);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let pfn = pages.alloc(&request).unwrap();
                        pages.free(pfn, request.order).unwrap();
                    }
                });
            }
        });
        assert_eq!(pages.validate(), Ok(before), "{}", zone_lock.name());
    }
}
