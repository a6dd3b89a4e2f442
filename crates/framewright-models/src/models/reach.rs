//! Requests that find nothing in the zone while a page is free on some CPU's list.
//!
//! They must get that page, whatever its owner does at the moment. The stages have two frames, and no thread ever needs
//! the last free one, so no request may fail.

use super::{free_0, model};
use crate::explore::Model;
use crate::stage::{Sizes, Stage};

/// Models of drains that serve a request.
pub const MODELS: &[Model] = &[
    // The owner frees another page meanwhile.
    model("reach_freed", || listed_and_held(&Sizes::FRONT), cpus!(0 free_0, 1 must_be_served)).bound(2),
    // The owner takes one of two pages.
    model("reach_taken", listed_two, cpus!(0 must_be_served, 1 must_be_served_too)).bound(1),
    // As the first, without a depot and so without the fast path.
    model("reach_freed_plain", || listed_and_held(&Sizes::TINY), cpus!(0 free_0, 1 must_be_served)).bound(2),
];

/// One page is on CPU 0's list, the other in slot 0.
fn listed_and_held(sizes: &Sizes) -> Stage {
    let stage = Stage::new(&Sizes { frames: 2, cpus: 2, drains: true, ..*sizes });
    stage.then(does!([alloc_into(0, 0), alloc_into(1, 0), free_from(1)]))
}

fn listed_two() -> Stage {
    listed_and_held(&Sizes::FRONT).then(free_0)
}

fn must_be_served(stage: &Stage) {
    must_get(stage, 3);
}

fn must_be_served_too(stage: &Stage) {
    must_get(stage, 2);
}

fn must_get(stage: &Stage, slot: usize) {
    stage.alloc_into(slot, 0);
    assert!(stage.block_in(slot).is_some(), "a page is free all the while");
}
