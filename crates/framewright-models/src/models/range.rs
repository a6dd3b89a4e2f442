//! Ranges of frames: two calls at once that concern the same frames.
//!
//! Isolation meets allocations and frees; two isolations of one pageblock both succeed where their ranges are disjoint;
//! and parts of one block are freed, which splits it. Three parts of one block and two isolations that overlap have too
//! many schedules: tests of the runtime cover them with threads.

use framewright::request::{__GFP_MOVABLE, __GFP_THISNODE};
use framewright::units::PfnRange;
use framewright::{AllocError, NodeId, NodeSet, Policy, Request};

use super::{free_0, model, one_was_right, tiny};
use crate::explore::Model;
use crate::stage::{EVERY, Sizes, Stage};

/// Models of ranges.
pub const MODELS: &[Model] = &[
    model("range_free", holds_one, cpus!(0 free_0, 1 take)).bound(1),
    model("range_alloc", tiny, cpus!(0 [alloc_into(0, 0)], 1 take)).bound(1),
    model("range_offline", holds_one, cpus!(0 free_0, 1 [offline_and_online(0, 2)])).bound(1),
    // Memory comes in one zone of a node and goes in another: the node stays one that has memory.
    model("range_nodes", two_zones, cpus!(0[online(2, 4)], 1[offline(0, 2)])).check(node_has_memory).bound(1),
    // Two ranges in one pageblock, which was one free block: neither call fails because of the other.
    model("range_both", tiny, cpus!(0[take_own(0)], 1[take_own(1)])).bound(1),
    // Two parts of one block, each freed by its owner.
    model("range_parts", two, cpus!(0[free_range(0, 1)], 1[free_range(1, 2)])).bound(2),
    // As before, but either split leaves a part that the other splits.
    model("range_parts_inner", four, cpus!(0[free_range(1, 2)], 1[free_range(2, 4)])).bound(2),
    // A part is freed while a request looks for a range there, and must be told that the rest is in use.
    model("range_parts_sought", two, cpus!(0 [free_range(0, 1)], 1 seek)).bound(1),
    // Wrong: one part twice. One of the two frees is refused, and nothing is free twice.
    model("range_twice", two, cpus!(0[try_free_range(0, 1)], 1[try_free_range(0, 1)])).check(one_was_right).bound(2),
    // Wrong: a part, and all of the block.
    model("range_part_and_all", two, cpus!(0[try_free_range(1, 2)], 1[try_free_range(0, 2)]))
        .check(one_was_right)
        .bound(2),
    // Wrong: two parts that overlap.
    model("range_overlap", four, cpus!(0[try_free_range(0, 2)], 1[try_free_range(1, 4)])).check(one_was_right).bound(2),
];

/// The second of two zones is offline.
fn two_zones() -> Stage {
    let stage = Stage::new(&Sizes { dma: 2, bypass_pcp: EVERY, ..Sizes::TINY });
    assert!(stage.offline(2, 4), "all memory is free");
    stage
}

fn node_has_memory(stage: &Stage) {
    stage.check();
    let here = Policy::Bind(NodeSet::only(NodeId(0)));
    let request = Request::page(__GFP_MOVABLE | __GFP_THISNODE).with(here);
    assert!(stage.on(|allocator| allocator.alloc(&request)).is_ok(), "the node is taken for one without memory");
}

/// Two frames of four are an allocated block.
fn two() -> Stage {
    allocated(tiny(), 2)
}

/// Four frames are an allocated block.
fn four() -> Stage {
    allocated(Stage::new(&Sizes { max_order: 2, pageblock_order: 2, ..Sizes::TINY }), 4)
}

fn allocated(stage: Stage, frames: u64) -> Stage {
    assert!(stage.alloc_range(0, frames), "all memory is free");
    stage
}

fn holds_one() -> Stage {
    tiny().then(does!([alloc_into(0, 0)]))
}

/// Looks for a range of which a part stays in use.
fn seek(stage: &Stage) {
    let found = stage.on(|allocator| allocator.alloc_range(PfnRange::new(0, 2), __GFP_MOVABLE));
    assert!(matches!(found, Err(AllocError::Busy { .. })), "memory that is in use was found {found:?}");
}

fn take(stage: &Stage) {
    if stage.alloc_range(0, 2) {
        stage.free_range(0, 2);
    }
}
