//! Depots: magazines that change hands between CPUs, and go back to the zone.
//!
//! A magazine has two entries. No page is free in the zone at the start, so that what one CPU gets is what another gave.

use super::sound;
use crate::explore::{Model, Part};
use crate::interrupt::Fences;
use crate::stage::{Sizes, Stage};

const PLAIN: Model = Model {
    name: "",
    bound: None,
    spins: false,
    device: None,
    fences: Fences::Promoted,
    stage: about_to_put,
    threads: &[],
    check: sound,
};

/// Models of depots.
pub const MODELS: &[Model] = &[
    // CPU 0 puts a magazine into its shard, CPU 1 takes it from there.
    Model { name: "depot_exchange", bound: Some(3), threads: &[PUT, (1, take_two)], ..PLAIN },
    // Two CPUs want the one full magazine, which is in the shard of one of them.
    Model {
        name: "depot_steal",
        bound: Some(3),
        stage: one_magazine,
        threads: &[(0, take_two), (1, take_two)],
        ..PLAIN
    },
    // A request that only merged blocks can serve empties the depot, against a put (into the magazine that was emptied, if it
    // comes late enough) and against a take.
    Model { name: "depot_merge_put", bound: Some(3), stage: about_to_put_again, threads: &[PUT, (1, merge)], ..PLAIN },
    Model {
        name: "depot_merge_take",
        bound: Some(2),
        stage: one_magazine,
        threads: &[(0, take_two), (1, merge)],
        ..PLAIN
    },
    // A drain of everything, lists and depots, against both.
    Model { name: "depot_drain_put", bound: Some(2), threads: &[PUT, (1, drain_all)], ..PLAIN },
    Model {
        name: "depot_drain_take",
        bound: Some(2),
        stage: one_magazine,
        threads: &[(0, take_two), (1, drain_all)],
        ..PLAIN
    },
    // CPU 0's shard has no empty magazine left and borrows one of CPU 1's, which takes one itself.
    Model {
        name: "depot_borrow",
        bound: Some(2),
        stage: used_up,
        threads: &[PUT, (1, |stage| stage.free_from(1))],
        ..PLAIN
    },
];

const PUT: (u16, Part) = (0, |stage| stage.free_from(0));

fn take_two(stage: &Stage) {
    let slot = usize::from(crate::running::running_cpu()) * 2;
    stage.alloc_into(slot, 0);
    stage.alloc_into(slot + 1, 0);
}

fn merge(stage: &Stage) {
    stage.alloc_into(2, 1);
}

fn drain_all(stage: &Stage) {
    stage.on(|allocator| allocator.drain_all());
    stage.alloc_into(2, 0);
}

/// All `frames` pages are allocated but for `free`, which CPU 0 freed; slots 0 and 1 hold two.
fn freed(frames: u64, free: usize) -> Stage {
    let stage = Stage::new(&Sizes { frames, ..Sizes::FRONT });
    stage.alloc_into(0, 0);
    stage.alloc_into(1, 0);
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

/// The same with a full magazine in the depot already.
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

/// CPU 0's shard has none but full magazines.
fn used_up() -> Stage {
    freed(52, 50)
}
