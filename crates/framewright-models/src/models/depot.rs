//! Depots: magazines that change hands between CPUs, and go back to the zone.
//!
//! A magazine has two entries. No page is free in the zone at the start, so each page that a CPU gets was freed by
//! another.

use super::{free_0, free_1, model};
use crate::explore::Model;
use crate::running::running_cpu;
use crate::stage::{Sizes, Stage};

/// Models of depots.
pub const MODELS: &[Model] = &[
    // CPU 0 puts a magazine into its shard, CPU 1 takes it from there.
    model("depot_exchange", about_to_put, cpus!(0 free_0, 1 take_two)),
    // Two CPUs want the one full magazine, which is in the shard of one of them.
    model("depot_steal", one_magazine, cpus!(0 take_two, 1 take_two)),
    // A request that only merged blocks can serve empties the depot. A put (into the magazine that was emptied, if it
    // comes late enough) and a take meet it.
    model("depot_merge_put", about_to_put_again, cpus!(0 free_0, 1 [alloc_into(2, 1)])).bound(3),
    model("depot_merge_take", one_magazine, cpus!(0 take_two, 1 [alloc_into(2, 1)])).bound(2),
    // A drain of everything, lists and depots, meets both.
    model("depot_drain_put", about_to_put, cpus!(0 free_0, 1 drain_all)).bound(2),
    model("depot_drain_take", one_magazine, cpus!(0 take_two, 1 drain_all)).bound(2),
    // CPU 0's shard has no empty magazine left and borrows one from CPU 1, which takes one itself.
    model("depot_borrow", used_up, cpus!(0 free_0, 1 free_1)).bound(2),
];

fn take_two(stage: &Stage) {
    let slot = usize::from(running_cpu()) * 2;
    stage.alloc_into(slot, 0);
    stage.alloc_into(slot + 1, 0);
}

fn drain_all(stage: &Stage) {
    stage.on(|allocator| allocator.drain_all());
    stage.alloc_into(2, 0);
}

/// All `frames` pages are allocated but for `free`, which CPU 0 freed; slots 0 and 1 hold two.
fn freed(frames: u64, free: usize) -> Stage {
    let stage = Stage::new(&Sizes { frames, ..Sizes::FRONT }).then(does!([alloc_into(0, 0), alloc_into(1, 0)]));
    let pages: Vec<_> = (2..frames).filter_map(|_| stage.alloc(0)).collect();
    for &pfn in &pages[..free] {
        stage.free(pfn, 0);
    }
    stage
}

/// CPU 0 has two full magazines: one more page, and one of them goes into the depot.
fn about_to_put() -> Stage {
    freed(6, 4)
}

/// Like [`about_to_put`], with a full magazine in the depot already.
fn about_to_put_again() -> Stage {
    freed(8, 6)
}

/// CPU 0's shard has a full magazine, and its list is empty.
fn one_magazine() -> Stage {
    let stage = freed(7, 5);
    for _ in 0..3 {
        assert!(stage.alloc(0).is_some(), "CPU 0 keeps three pages besides");
    }
    stage
}

/// CPU 0's shard has only full magazines.
fn used_up() -> Stage {
    freed(52, 50)
}
