//! A zone's lists under its lock.

use framewright::request::{__GFP_MOVABLE, Gfp};
use framewright::units::{MigrateType, Order, Pfn};

use super::sound;
use crate::explore::Model;
use crate::interrupt::Fences;
use crate::stage::{EVERY, Sizes, Stage};

const PLAIN: Model = Model {
    name: "",
    bound: None,
    spins: false,
    device: None,
    fences: Fences::Promoted,
    stage: holds_buddies,
    threads: &[],
    check: sound,
};
const BYPASS: Sizes = Sizes { bypass_pcp: EVERY, frames: 2, ..Sizes::TINY };
/// Blocks of order 4 are above what per-CPU lists keep.
const LARGE: Sizes = Sizes { frames: 32, max_order: 4, pageblock_order: 3, ..Sizes::TINY };

/// Models of zones.
pub const MODELS: &[Model] = &[
    Model {
        name: "zone_buddies",
        threads: &[(0, |stage| stage.free_from(0)), (1, |stage| stage.free_from(1))],
        check: |stage| {
            stage.check();
            let largest = stage.on(|allocator| allocator.state_of(Pfn(1)));
            assert_eq!(largest, framewright::FrameState::Free(Pfn(0), Order(1)), "buddies did not merge");
        },
        ..PLAIN
    },
    Model {
        name: "zone_large",
        stage: || {
            let stage = Stage::new(&LARGE);
            stage.alloc_into(0, 4);
            stage
        },
        threads: &[(0, |stage| stage.free_from(0)), (1, |stage| stage.alloc_and_free(4))],
        ..PLAIN
    },
    Model {
        name: "zone_split_merge",
        stage: || {
            let stage = Stage::new(&Sizes { frames: 4, ..BYPASS });
            stage.alloc_into(0, 0);
            stage
        },
        threads: &[(0, |stage| stage.free_from(0)), (1, |stage| stage.alloc_into(1, 0))],
        ..PLAIN
    },
    Model {
        name: "zone_last",
        stage: || {
            let stage = Stage::new(&BYPASS);
            stage.alloc_into(0, 0);
            stage
        },
        threads: &[(0, |stage| stage.alloc_into(1, 0)), (1, |stage| stage.alloc_into(2, 0))],
        check: |stage| {
            assert_eq!(stage.check().free, 0);
            assert!(stage.block_in(1).is_some() != stage.block_in(2).is_some(), "the last page has one owner");
        },
        ..PLAIN
    },
    Model {
        name: "zone_steal",
        stage: || Stage::new(&Sizes { frames: 4, ..BYPASS }),
        threads: &[
            (0, |stage| stage.alloc_into(0, 0)),
            (1, |stage| {
                let _ = stage.alloc_for(Gfp::NONE, 0);
            }),
        ],
        ..PLAIN
    },
    Model {
        name: "zone_retype",
        bound: Some(3),
        stage: holds_buddies,
        threads: &[
            (0, |stage| stage.free_from(0)),
            (1, |stage| {
                let set = |allocator: &framewright::Allocator<'_, _>| {
                    allocator.set_pageblock_type(Pfn(0), MigrateType::Unmovable)
                };
                assert_eq!(stage.on(set), Ok(()));
                let _ = stage.alloc_for(__GFP_MOVABLE, 0);
            }),
        ],
        ..PLAIN
    },
];

fn holds_buddies() -> Stage {
    let stage = Stage::new(&BYPASS);
    stage.alloc_into(0, 0);
    stage.alloc_into(1, 0);
    stage
}
