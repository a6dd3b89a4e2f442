//! Ranges: isolation against allocations and frees of the same frames; two isolations of one pageblock, which both succeed where their
//! ranges are disjoint; and frees of parts of one block, which is cut. (Three parts of one block, and two ranges that overlap, are too many
//! schedules. Threads of the runtime's tests cover them.)

use framewright::AllocError;
use framewright::request::__GFP_MOVABLE;
use framewright::units::PfnRange;

use super::sound;
use crate::explore::Model;
use crate::interrupt::Fences;
use crate::stage::{Sizes, Stage};

const PLAIN: Model = Model {
    name: "",
    bound: Some(1),
    spins: false,
    device: None,
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
    // Two ranges in one pageblock, which was one free block: neither fails for the other.
    Model {
        name: "range_both",
        stage: || Stage::new(&Sizes::TINY),
        threads: &[(0, |stage| take_own(stage, 0)), (1, |stage| take_own(stage, 1))],
        ..PLAIN
    },
    // Two parts of one block, each by its owner.
    Model { name: "range_parts", threads: &[(0, |stage| stage.free_range(0, 1)), (1, tail)], ..PARTS },
    // The same where either cut leaves something for another cut.
    Model {
        name: "range_parts_inner",
        stage: || whole_block(&FOUR),
        threads: &[(0, |stage| stage.free_range(1, 2)), (1, |stage| stage.free_range(2, 4))],
        ..PARTS
    },
    // A part is freed while somebody looks for a range there, and must be told that it is in use.
    Model {
        name: "range_parts_sought",
        bound: Some(1),
        threads: &[(0, |stage| stage.free_range(0, 1)), (1, seek)],
        ..PARTS
    },
    // Wrong: the same part twice. One of the two is refused, and nothing is free twice.
    Model {
        name: "range_twice",
        threads: &[(0, |stage| stage.try_free_range(0, 1)), (1, |stage| stage.try_free_range(0, 1))],
        check: one_was_right,
        ..PARTS
    },
    // Wrong: a part, and all of it.
    Model {
        name: "range_part_and_all",
        threads: &[(0, |stage| stage.try_free_range(1, 2)), (1, |stage| stage.try_free_range(0, 2))],
        check: one_was_right,
        ..PARTS
    },
    // Wrong: two parts that overlap.
    Model {
        name: "range_overlap",
        stage: || whole_block(&FOUR),
        threads: &[(0, |stage| stage.try_free_range(0, 2)), (1, |stage| stage.try_free_range(1, 4))],
        check: one_was_right,
        ..PARTS
    },
];

/// Two frames of four, which are one block.
const PARTS: Model = Model { bound: Some(2), stage: || whole_block(&Sizes::TINY), ..PLAIN };
/// Four frames, which are one block.
const FOUR: Sizes = Sizes { max_order: 2, pageblock_order: 2, ..Sizes::TINY };

/// The first largest block is allocated.
fn whole_block(sizes: &Sizes) -> Stage {
    let stage = Stage::new(sizes);
    assert!(stage.alloc_range(0, 1 << sizes.max_order), "all memory is free");
    stage
}

fn tail(stage: &Stage) {
    stage.free_range(1, 2);
}

/// Looks for a range of which a part is in use for good.
fn seek(stage: &Stage) {
    let found = stage.on(|allocator| allocator.alloc_range(PfnRange::new(0, 2), __GFP_MOVABLE));
    assert!(matches!(found, Err(AllocError::Busy { .. })), "memory that is in use was found {found:?}");
}

/// Of two wrong frees one came first, so that the other was refused.
fn one_was_right(stage: &Stage) {
    assert_eq!(stage.tried(), (1, 1), "frees that were right, and refused");
    stage.check();
}

/// Takes a frame that nobody else wants.
fn take_own(stage: &Stage, frame: u64) {
    assert!(stage.alloc_range(frame, frame + 1), "frame {frame} is free, and nobody else wants it");
}

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
