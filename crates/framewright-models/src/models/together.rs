//! Blocks given back by two CPUs at once, which share the zone's lock: with locks on ranges, and without.
//!
//! No CPU keeps pages of its own, so each free of a thread is one batch of one block.

use framewright::mechanisms::{FreePath, ZoneLock};
use framewright::units::{Order, Pfn};
use framewright::{FrameState, Mechanisms};

use super::sound;
use crate::explore::Model;
use crate::interrupt::Fences;
use crate::stage::{self, EVERY, Sizes, Stage};

const PLAIN: Model = Model {
    name: "",
    bound: None,
    spins: false,
    device: None,
    fences: Fences::Promoted,
    stage: || Stage::new(&Sizes::TINY),
    threads: &[],
    check: sound,
};
const RANGED: Sizes = sizes(FreePath::RangeLocks);
const SPLICED: Sizes = sizes(FreePath::Splice);

/// Two ranges of two frames each.
const fn sizes(free_path: FreePath) -> Sizes {
    let mechanisms = Mechanisms { zone_lock: ZoneLock::Rw, free_path, ..stage::PLAIN };
    Sizes { bypass_pcp: EVERY, cpus: 2, mechanisms, ..Sizes::TINY }
}

/// Models of free paths that share the lock.
pub const MODELS: &[Model] = &[
    // Two halves of a block: one of the two CPUs comes later, and merges them.
    Model {
        name: "zone_ranged",
        stage: || holds(&Sizes { frames: 2, ..RANGED }, &[0, 1]),
        threads: &[(0, |stage| stage.free_from(0)), (1, |stage| stage.free_from(1))],
        check: |stage| is_whole(stage, 1),
        ..PLAIN
    },
    // The same, with the other half of a larger block free.
    Model {
        name: "zone_ranged_third",
        stage: || holds(&Sizes { max_order: 2, pageblock_order: 2, ..RANGED }, &[0, 1]),
        threads: &[(0, |stage| stage.free_from(0)), (1, |stage| stage.free_from(1))],
        check: |stage| is_whole(stage, 2),
        ..PLAIN
    },
    // Blocks of two ranges, whose buddies are neighbours on one list.
    Model {
        name: "zone_ranged_apart",
        bound: Some(3),
        stage: || holds(&RANGED, &[0, 2]),
        threads: &[(0, |stage| stage.free_from(0)), (1, |stage| stage.free_from(1))],
        check: |stage| {
            is_whole(stage, 1);
            assert_eq!(stage.on(|allocator| allocator.state_of(Pfn(3))), FrameState::Free(Pfn(2), Order(1)));
        },
        ..PLAIN
    },
    // Against one who has the lock alone.
    Model {
        name: "zone_ranged_alloc",
        bound: Some(3),
        stage: || holds(&Sizes { frames: 2, ..RANGED }, &[0]),
        threads: &[(0, |stage| stage.free_from(0)), (1, |stage| stage.alloc_and_free(0))],
        ..PLAIN
    },
    // Two halves of a block: they are merged, or both are marked. What is marked merges afterwards. (With any number of preemptions
    // it holds as well, after 88,543 executions.)
    Model {
        name: "zone_spliced",
        bound: Some(4),
        stage: || holds(&Sizes { frames: 2, ..SPLICED }, &[0, 1]),
        threads: &[(0, |stage| stage.free_from(0)), (1, |stage| stage.free_from(1))],
        check: |stage| {
            stage.check();
            assert_eq!(stage.on(|allocator| allocator.drain_all()), 0);
            is_whole(stage, 1);
        },
        ..PLAIN
    },
    Model {
        name: "zone_spliced_apart",
        bound: Some(3),
        stage: || holds(&SPLICED, &[0, 2]),
        threads: &[(0, |stage| stage.free_from(0)), (1, |stage| stage.free_from(1))],
        ..PLAIN
    },
    Model {
        name: "zone_spliced_alloc",
        bound: Some(3),
        stage: || holds(&Sizes { frames: 2, ..SPLICED }, &[0]),
        threads: &[(0, |stage| stage.free_from(0)), (1, |stage| stage.alloc_and_free(0))],
        ..PLAIN
    },
    // A larger request merges what it finds marked.
    Model {
        name: "zone_spliced_larger",
        bound: Some(2),
        stage: || {
            let stage = holds(&Sizes { frames: 2, ..SPLICED }, &[0, 1]);
            stage.free_from(1);
            stage
        },
        threads: &[(0, |stage| stage.free_from(0)), (1, |stage| stage.alloc_into(1, 1))],
        ..PLAIN
    },
];

/// All memory in pages, of which those at `held` lie in slots, in that order, and the others are free.
fn holds(sizes: &Sizes, held: &[u64]) -> Stage {
    let stage = Stage::new(sizes);
    let pages: Vec<Pfn> = std::iter::from_fn(|| stage.alloc(0)).collect();
    assert_eq!(pages.len() as u64, sizes.frames);
    for (slot, &page) in held.iter().enumerate() {
        stage.put_into(slot, Pfn(page), 0);
    }
    pages.into_iter().filter(|page| !held.contains(&page.0)).for_each(|page| stage.free(page, 0));
    stage
}

/// The first frames are one free block.
fn is_whole(stage: &Stage, order: u8) {
    stage.check();
    let state = stage.on(|allocator| allocator.state_of(Pfn(1)));
    assert_eq!(state, FrameState::Free(Pfn(0), Order(order)), "buddies did not merge");
}
