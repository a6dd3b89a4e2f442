//! An allocator that one thread holds still, as for a fork, while others work in it.
//!
//! The thread that holds it owns every free page meanwhile, and writes into each. It waits for drains, and for CPUs at
//! their lists; deferred frees stay on their list.
//!
//! Other models copy the allocator while two threads work in it: all words as they are at one moment. Those stores that
//! a thread has not made yet are missing, and the thread does not exist in the copy.

use framewright::Mechanisms;
use framewright::mechanisms::{FreePath, ZoneLock};
use framewright::watermark::PcpSize;

use super::{free_0, model};
use crate::device::Device;
use crate::explore::Model;
use crate::stage::{self, EVERY, Sizes, Stage};

/// Models of held allocators.
pub const MODELS: &[Model] = &[
    // A CPU at its lists, at the zone with each kind of lock, and in the fast path.
    model("fork_lists", || holds_one(&Sizes::TINY), cpus!(0 give_and_take, 1 [freeze()])).bound(2),
    model("fork_zone", || zone_with(stage::PLAIN), cpus!(0 give_and_take, 1 [freeze()])),
    model("fork_zone_queued", queued, cpus!(0 give_and_take, 1 [freeze()])),
    model("fork_zone_shared", shared, cpus!(0 give_and_take, 1 [freeze()])),
    model("fork_front", || holds_one(&FRONT), cpus!(0 give_and_take, 1 [freeze()])).bound(1),
    model("fork_front_struck", || holds_one(&FRONT), cpus!(0 give_and_take, 1 [freeze()])).struck().bound(1),
    // A drain of lists, and one of a depot, whose magazine is on no stack meanwhile.
    model("fork_drain", || listed_elsewhere(&Sizes::TINY), cpus!(0[drain(2)], 1[freeze()])),
    model("fork_depot", stored, cpus!(0 drain_all, 1 [freeze()])).bound(1),
    // A deferred free, and the call that takes it back.
    model("fork_deferred", || zone_with(stage::PLAIN), cpus!(0 defer_and_take, 1 [freeze()])),
    // Two that hold it.
    model("fork_twice", || holds_one(&Sizes::TINY), cpus!(0[freeze()], 1[freeze()])),
];

/// Copies the allocator before any access of the first CPU.
const COPIES: Device<Stage> = Device { strikes: 0, plays: 0, unmaskable: true, handler: Stage::copy };

/// Models of copies, which a fork makes while other threads work: a copy must be whole once it is settled.
pub const COPIED: &[Model] = &[
    model("fork_copy_lists", || holds_one(&Sizes::TINY), cpus!(0 give_and_take, 1 [drain(0)])).device(COPIES),
    model("fork_copy_front", || holds_one(&FRONT), cpus!(0 give_and_take, 1 [drain(0)])).device(COPIES),
    model("fork_copy_owners", || holds_one(&FRONT), cpus!(0 give_and_take, 1 [alloc_into(2, 0)])).device(COPIES),
    model("fork_copy_depot", stored, cpus!(0 [alloc_into(1, 0)], 1 drain_all)).device(COPIES),
    model("fork_copy_deferred", || zone_with(stage::PLAIN), cpus!(0[free_nolock_from(0)], 1[alloc_and_free(0)]))
        .device(COPIES),
    model("fork_copy_shared", shared, cpus!(0 give_and_take, 1 [alloc_and_free(0)])).device(COPIES),
];

/// A copy that is not settled is found wrong.
pub const UNSETTLED: &[Model] = &[model("fork_unsettled", || holds_one(&FRONT), cpus!(0 give_and_take))
    .device(Device { handler: |stage| stage.copy_and(|_| ()), ..COPIES })];

const FRONT: Sizes = Sizes { frames: 2, ..Sizes::FRONT };

fn give_and_take(stage: &Stage) {
    free_0(stage);
    stage.alloc_into(0, 0);
}

fn defer_and_take(stage: &Stage) {
    stage.free_nolock_from(0);
    stage.alloc_into(2, 0);
}

fn drain_all(stage: &Stage) {
    stage.on(|allocator| allocator.drain_all());
    stage.alloc_into(2, 0);
}

fn holds_one(sizes: &Sizes) -> Stage {
    Stage::new(sizes).then(does!([alloc_into(0, 0)]))
}

/// One page is allocated, and no CPU keeps any.
fn zone_with(mechanisms: Mechanisms) -> Stage {
    holds_one(&Sizes { mechanisms, bypass_pcp: EVERY, frames: 2, ..Sizes::TINY })
}

fn queued() -> Stage {
    zone_with(Mechanisms { zone_lock: ZoneLock::Queued, ..stage::PLAIN })
}

fn shared() -> Stage {
    zone_with(Mechanisms { zone_lock: ZoneLock::Rw, free_path: FreePath::Splice, ..stage::PLAIN })
}

/// CPU 2 has two pages on its list.
fn listed_elsewhere(sizes: &Sizes) -> Stage {
    let stage = Stage::new(&Sizes { pcp: PcpSize { batch: 1, high: 4 }, ..*sizes });
    stage.as_cpu(2, does!([alloc_into(0, 0), alloc_into(1, 0), free_from(0), free_from(1)]));
    stage
}

/// The depot has a magazine.
fn stored() -> Stage {
    let stage = Stage::new(&Sizes { frames: 6, ..Sizes::FRONT });
    let pages: Vec<_> = (0..6).filter_map(|_| stage.alloc(0)).collect();
    pages.into_iter().for_each(|page| stage.free(page, 0));
    stage
}
