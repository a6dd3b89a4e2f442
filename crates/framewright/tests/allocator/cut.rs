//! A block that is being cut: at each of its stores, the owner of another part finds that part allocated.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::copied::{Copied, Waits, copy, put_back, run_on, running_cpu, unwatch, watch};
use framewright::request::GFP_NOWAIT;
use framewright::{Allocator, Config, CpuId, FrameState, Layout, NodeId, PfnRange, Region, Request};
use framewright_rt::Storage;

const CPUS: [NodeId; 2] = [NodeId(0); 2];

#[test]
fn a_part_is_allocated_while_the_others_are_freed() {
    let map = [Region::usable(0x1000, 0x2000, 0)];
    let config = Config::new(&map, &CPUS);
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
    let pages = Box::leak(Box::new(Allocator::boot(Copied, &config, storage.parts()).unwrap()));
    let pages: &Allocator<'_, Copied> = pages;
    let block = pages.alloc(&Request::new(GFP_NOWAIT, 3)).unwrap();
    let waits = Rc::new(Cell::new(0));
    watch({
        let waits = Rc::clone(&waits);
        move || {
            let (original, cpu) = (copy(), running_cpu());
            run_on(CpuId(1));
            for mine in 4..8 {
                let state = catch_unwind(AssertUnwindSafe(|| pages.state_settled(block.add(mine))));
                put_back(&original);
                match state {
                    Ok(state) => assert!(matches!(state, FrameState::Allocated(..)), "frame {mine}: {state:?}"),
                    Err(why) if why.is::<Waits>() => waits.set(waits.get() + 1),
                    Err(why) => panic!("{:?}", why.downcast_ref::<String>()),
                }
            }
            run_on(cpu);
        }
    });
    pages.free_range(PfnRange::new(block.0, block.0 + 3)).unwrap();
    unwatch();
    assert!(waits.get() > 0, "at some store, a part is found only under the lock");
    pages.free_range(PfnRange::new(block.0 + 3, block.0 + 8)).unwrap();
    pages.validate().unwrap();
}
