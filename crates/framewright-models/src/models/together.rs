//! Blocks that two CPUs give back at once while they share the zone's lock: with locks on ranges, and without.
//!
//! No CPU keeps pages of its own, so each free of a thread is one batch of one block.

use framewright::mechanisms::{FreePath, ZoneLock};
use framewright::units::{Order, Pfn};
use framewright::{FrameState, Mechanisms};

use super::{free_0, free_1, model};
use crate::explore::{Model, Never};
use crate::stage::{self, EVERY, Sizes, Stage};

const RANGED: Sizes = sizes(FreePath::RangeLocks);
const SPLICED: Sizes = sizes(FreePath::Splice);

/// A block that was taken is not on its list: its links are damaged, or this CPU sees old ones.
const LINKS_ARE_WRONG: Never = Never {
    file: "free_path/concurrent_free.rs",
    source: include_str!("../../../framewright/src/free_path/concurrent_free.rs"),
    text: "word.store(state.0, Ordering::Release);",
};

/// Two ranges of two frames each.
const fn sizes(free_path: FreePath) -> Sizes {
    let mechanisms = Mechanisms { zone_lock: ZoneLock::Rw, free_path, ..stage::PLAIN };
    Sizes { bypass_pcp: EVERY, cpus: 2, mechanisms, ..Sizes::TINY }
}

/// Models of free paths that share the lock.
pub const MODELS: &[Model] = &[
    // Two halves of a block: one of the two CPUs comes later, and merges them.
    model("zone_ranged", || halves(&RANGED), cpus!(0 free_0, 1 free_1)).check(|stage| stage.is_whole(1)),
    // As before, with the other half of a larger block free.
    model("zone_ranged_third", quarters, cpus!(0 free_0, 1 free_1)).check(|stage| stage.is_whole(2)),
    // Blocks of two ranges, whose buddies are neighbours on one list.
    model("zone_ranged_apart", || apart(&RANGED), cpus!(0 free_0, 1 free_1)).check(both_whole).bound(3),
    // A free meets a call that has the lock alone.
    model("zone_ranged_alloc", || half(&RANGED), cpus!(0 free_0, 1 [alloc_and_free(0)])).bound(3),
    // Two halves of a block: they are merged, or both are marked. Marked blocks merge afterwards. (Holds with any
    // number of preemptions as well, after 88,543 executions.)
    model("zone_spliced", || halves(&SPLICED), cpus!(0 free_0, 1 free_1))
        .check(whole_once_drained)
        .never(LINKS_ARE_WRONG)
        .bound(4),
    model("zone_spliced_apart", || apart(&SPLICED), cpus!(0 free_0, 1 free_1)).never(LINKS_ARE_WRONG).bound(3),
    model("zone_spliced_alloc", || half(&SPLICED), cpus!(0 free_0, 1 [alloc_and_free(0)])).bound(3),
    // A larger request merges the blocks that it finds marked.
    model("zone_spliced_larger", || halves(&SPLICED).then(free_1), cpus!(0 free_0, 1 [alloc_into(1, 1)])).bound(2),
];

/// One of two frames is allocated.
fn half(sizes: &Sizes) -> Stage {
    holds(&Sizes { frames: 2, ..*sizes }, &[(0, 0)])
}

/// Two frames are allocated, which are buddies.
fn halves(sizes: &Sizes) -> Stage {
    holds(&Sizes { frames: 2, ..*sizes }, &[(0, 0), (1, 1)])
}

/// The first two of four frames are allocated, all of which can be one block.
fn quarters() -> Stage {
    holds(&Sizes { max_order: 2, pageblock_order: 2, ..RANGED }, &[(0, 0), (1, 1)])
}

/// Two frames are allocated, each of which has its buddy free.
fn apart(sizes: &Sizes) -> Stage {
    holds(sizes, &[(0, 0), (2, 1)])
}

/// All memory in pages, of which those of `held` lie in slots, and the others are free.
fn holds(sizes: &Sizes, held: &[(u64, usize)]) -> Stage {
    let stage = Stage::new(sizes);
    stage.keep(stage.alloc_all(), held);
    stage
}

fn both_whole(stage: &Stage) {
    stage.is_whole(1);
    assert_eq!(stage.on(|allocator| allocator.state_of(Pfn(3))), FrameState::Free(Pfn(2), Order(1)));
}

fn whole_once_drained(stage: &Stage) {
    stage.check();
    assert_eq!(stage.on(|allocator| allocator.drain_all()), 0);
    stage.is_whole(1);
}
