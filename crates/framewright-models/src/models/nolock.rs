//! Calls from any context: an interrupt that nothing masks frees and allocates inside any other call, on one CPU.
//!
//! The parts that these calls are made of also run on two CPUs. Both at once have too many schedules.

use framewright::Mechanisms;
use framewright::mechanisms::{FreePath, NumaStat, ZoneLock, ZoneStat};

use super::cluster::MERGING;
use super::{model, one_was_right};
use crate::device::Device;
use crate::explore::Model;
use crate::stage::{self, EVERY, Sizes, Stage};

const STRIKES: Device<Stage> = Device { strikes: 0, plays: 0, unmaskable: true, handler: free_and_alloc };

/// Models of calls from any context.
pub const MODELS: &[Model] = &[
    // In a section under the zone lock; also of a lock that is shared.
    model("nolock_zone", plain, cpus!(0 give_and_take)).device(STRIKES),
    model("nolock_zone_queued", queued, cpus!(0 give_and_take)).device(STRIKES),
    model("nolock_zone_shared", shared, cpus!(0 give_and_take)).device(STRIKES),
    // In the fast path, at the lists, and in a drain.
    model("nolock_front", || stocked(&Sizes::FRONT), cpus!(0 give_and_take)).device(STRIKES),
    model("nolock_lists", || stocked(&Sizes::TINY), cpus!(0 give_and_take)).device(STRIKES),
    model("nolock_drain", || stocked(&Sizes::TINY), cpus!(0[drain(0)])).device(STRIKES),
    // While a cut is in progress, on the CPU that cuts and on another.
    model("nolock_cut", cuts, cpus!(0[alloc_into(1, 0)])).device(STRIKES),
    model("nolock_cut_elsewhere", cuts, cpus!(0[alloc_into(1, 0)], 1[free_nolock_from(0)])),
    // Between the load and the store of a count.
    model("nolock_counts", counts, cpus!(0 give_and_take)).device(STRIKES),
    // A try meets a CPU that waits for the lock, of each kind.
    model("nolock_ticket", plain, cpus!(0 [alloc_nolock_into(2, 0)], 1 give_and_take)).bound(3),
    model("nolock_queued", queued, cpus!(0 [alloc_nolock_into(2, 0)], 1 give_and_take)).bound(3),
    model("nolock_shared", shared, cpus!(0 [alloc_nolock_into(2, 0)], 1 give_and_take)).bound(3),
    // A free of a page is deferred while another CPU holds the lock, takes deferred pages back, and hands them out.
    model("nolock_push_pop", plain, cpus!(0 [free_nolock_from(0)], 1 takes_back)).bound(3),
    // Two pushes while the lock is held: on two CPUs, and one inside the other.
    model("nolock_push_push", plain, cpus!(0 defer, 1 [free_nolock_from(0)])).bound(3),
    model("nolock_push_nested", plain, cpus!(0 defer)).device(STRIKES),
    // A zone takes over the counts of a CPU that is gone, meanwhile.
    model("nolock_counted", plain, cpus!(0[alloc_nolock_into(2, 0)], 1[offline_cpu(2)])),
    // Wrong: one page twice.
    model("nolock_twice", holds_range, cpus!(0[try_free_nolock(0)], 1[try_free_nolock(0)]))
        .check(one_was_right)
        .bound(3),
];

/// The interrupted calls.
fn give_and_take(stage: &Stage) {
    stage.free_from(1);
    stage.alloc_into(1, 0);
}

/// The calls of the interrupt.
fn free_and_alloc(stage: &Stage) {
    stage.free_nolock_from(0);
    stage.alloc_nolock_into(2, 0);
}

/// Frees with the lock held, so that this free and any other meanwhile is deferred.
fn defer(stage: &Stage) {
    stage.on(|allocator| {
        let frozen = allocator.freeze();
        stage.free_nolock_from(1);
        drop(frozen);
    });
    stage.alloc_into(3, 0);
}

fn takes_back(stage: &Stage) {
    stage.free_from(1);
    stage.alloc_into(2, 0);
    stage.alloc_into(3, 0);
}

/// Two pages are allocated, and no CPU keeps any.
fn zone_with(mechanisms: Mechanisms) -> Stage {
    let stage = Stage::new(&Sizes { mechanisms, bypass_pcp: EVERY, ..Sizes::TINY });
    stage.then(does!([alloc_into(0, 0), alloc_into(1, 0)]))
}

fn plain() -> Stage {
    zone_with(stage::PLAIN)
}

fn queued() -> Stage {
    zone_with(Mechanisms { zone_lock: ZoneLock::Queued, ..stage::PLAIN })
}

fn shared() -> Stage {
    zone_with(Mechanisms { zone_lock: ZoneLock::Rw, free_path: FreePath::Splice, ..stage::PLAIN })
}

fn counts() -> Stage {
    zone_with(Mechanisms { numa_stat: NumaStat::Events, zone_stat: ZoneStat::Differentials, ..stage::PLAIN })
}

fn holds_range() -> Stage {
    let stage = Stage::new(&Sizes { bypass_pcp: EVERY, ..Sizes::TINY });
    assert!(stage.alloc_range(0, 1), "all memory is free");
    stage
}

/// The first CPU has a page on its list.
fn stocked(sizes: &Sizes) -> Stage {
    Stage::new(sizes).then(does!([alloc_into(0, 0), alloc_into(1, 0), alloc_and_free(0)]))
}

/// A refill cuts off three pages. The interrupt frees the buddy of the one in the middle, which disagrees with nothing
/// yet.
fn cuts() -> Stage {
    let stage = Stage::new(&Sizes { frames: 6, ..MERGING });
    stage.as_cpu(1, |stage| stage.keep(stage.alloc_all(), &[(3, 0), (1, 2), (5, 3)]));
    stage
}
