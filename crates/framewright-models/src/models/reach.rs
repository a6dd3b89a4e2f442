//! Requests that find nothing in the zone while a page is free on some CPU's list: they must get it, whatever its owner is at.
//!
//! The stages have two frames, and no thread ever needs the last one that is free. So no request may fail.

use super::sound;
use crate::explore::Model;
use crate::interrupt::Fences;
use crate::stage::{Sizes, Stage};

const PLAIN: Model = Model {
    name: "",
    bound: Some(2),
    spins: false,
    device: None,
    fences: Fences::Promoted,
    stage: listed_and_held,
    threads: &[],
    check: sound,
};

/// Models of drains that serve a request.
pub const MODELS: &[Model] = &[
    // The owner frees another page meanwhile.
    Model { name: "reach_freed", threads: &[(0, |stage| stage.free_from(0)), (1, must_be_served)], ..PLAIN },
    // The owner takes one of two pages.
    Model {
        name: "reach_taken",
        bound: Some(1),
        stage: listed_two,
        threads: &[(0, must_be_served), (1, |stage| must_get(stage, 2))],
        ..PLAIN
    },
    // The same without a depot, so without a front.
    Model {
        name: "reach_freed_plain",
        bound: Some(1),
        stage: || hold_one(stage_of(&Sizes::TINY)),
        threads: &[(0, |stage| stage.free_from(0)), (1, must_be_served)],
        ..PLAIN
    },
];

fn stage_of(sizes: &Sizes) -> Stage {
    Stage::new(&Sizes { frames: 2, cpus: 2, drains: true, ..*sizes })
}

/// One page is on CPU 0's list, the other in slot 0.
fn hold_one(stage: Stage) -> Stage {
    stage.alloc_into(0, 0);
    stage.alloc_into(1, 0);
    stage.free_from(1);
    stage
}

fn listed_and_held() -> Stage {
    hold_one(stage_of(&Sizes::FRONT))
}

fn listed_two() -> Stage {
    let stage = listed_and_held();
    stage.free_from(0);
    stage
}

fn must_be_served(stage: &Stage) {
    must_get(stage, 3);
}

fn must_get(stage: &Stage, slot: usize) {
    stage.alloc_into(slot, 0);
    assert!(stage.block_in(slot).is_some(), "a page is free all the while");
}
