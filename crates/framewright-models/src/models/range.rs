//! Ranges: isolation against allocations and frees of the same frames. (Two ranges at once do not end: each may undo what
//! the other waits for, over and over; threads of the runtime's stress cover them.)

use super::sound;
use crate::explore::Model;
use crate::interrupt::Fences;
use crate::stage::{Sizes, Stage};

const PLAIN: Model = Model {
    name: "",
    bound: Some(1),
    spins: false,
    fences: Fences::Promoted,
    stage: holds_one,
    threads: &[],
    check: sound,
};

/// Models of ranges.
pub const MODELS: &[Model] = &[
    Model { name: "range_free", threads: &[(0, |stage| stage.free_from(0)), (1, take)], ..PLAIN },
    Model {
        name: "range_alloc",
        stage: || Stage::new(&Sizes::TINY),
        threads: &[(0, |stage| stage.alloc_into(0, 0)), (1, take)],
        ..PLAIN
    },
    Model {
        name: "range_offline",
        threads: &[(0, |stage| stage.free_from(0)), (1, |stage| stage.offline_and_online(0, 2))],
        ..PLAIN
    },
];

fn take(stage: &Stage) {
    if stage.alloc_range(0, 2) {
        stage.free_range(0, 2);
    }
}

fn holds_one() -> Stage {
    let stage = Stage::new(&Sizes::TINY);
    stage.alloc_into(0, 0);
    stage
}
