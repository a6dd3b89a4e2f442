//! Calls from any context: an interrupt that nothing holds off frees and allocates in the middle of any other call, on one CPU; and the
//! parts that these calls are made of on two CPUs. (Both at once are too many schedules.)

use framewright::Mechanisms;
use framewright::mechanisms::{FreePath, NumaStat, Refill, ZoneLock, ZoneStat};
use framewright::units::CpuId;
use framewright::watermark::PcpSize;

use super::sound;
use crate::device::Device;
use crate::explore::{Model, Part};
use crate::interrupt::Fences;
use crate::stage::{self, EVERY, Sizes, Stage};

const PLAIN: Model = Model {
    name: "",
    // The device is one thread more, and strikes once.
    bound: Some(1),
    spins: false,
    device: STRIKES,
    fences: Fences::Promoted,
    stage: past_the_lists,
    threads: ALONE,
    check: sound,
};

const STRIKES: Option<Device<Stage>> = Some(Device { strikes: 0, plays: 0, unmaskable: true, handler: free_and_alloc });

const ALONE: &[(u16, Part)] = &[(0, give_and_take)];

/// Without an interrupt: on two CPUs.
const PAIR: Model = Model { device: None, bound: Some(3), ..PLAIN };

/// Models of calls from any context.
pub const MODELS: &[Model] = &[
    // In a section under the zone lock; also of a lock that is shared.
    Model { name: "nolock_zone", ..PLAIN },
    Model { name: "nolock_zone_queued", stage: || zone_with(QUEUED), ..PLAIN },
    Model { name: "nolock_zone_shared", stage: || zone_with(SHARED), ..PLAIN },
    // At the front, at the lists, and in a drain.
    Model { name: "nolock_front", stage: || stocked(Sizes::FRONT), ..PLAIN },
    Model { name: "nolock_lists", stage: || stocked(Sizes::TINY), ..PLAIN },
    Model {
        name: "nolock_drain",
        stage: || stocked(Sizes::TINY),
        threads: &[(0, |stage| _ = stage.drain(0))],
        ..PLAIN
    },
    // While a cut is in progress, on the CPU that cuts and on another.
    Model { name: "nolock_cut", stage: cuts, threads: &[(0, |stage| stage.alloc_into(1, 0))], ..PLAIN },
    Model {
        name: "nolock_cut_elsewhere",
        stage: cuts,
        threads: &[(0, |stage| stage.alloc_into(1, 0)), (1, |stage| stage.free_nolock_from(0))],
        ..PAIR
    },
    // In the middle of a count.
    Model { name: "nolock_counts", stage: || zone_with(COUNTS), ..PLAIN },
    // A try against who waits for the lock, of each kind.
    Model { name: "nolock_ticket", threads: TRIES, ..PAIR },
    Model { name: "nolock_queued", stage: || zone_with(QUEUED), threads: TRIES, ..PAIR },
    Model { name: "nolock_shared", stage: || zone_with(SHARED), threads: TRIES, ..PAIR },
    // A page is deferred while another CPU holds the lock, takes back what was deferred, and hands it out.
    Model { name: "nolock_push_pop", threads: &[(0, |stage| stage.free_nolock_from(0)), (1, takes_back)], ..PAIR },
    // Two push while the lock is held: on two CPUs, and one in the middle of the other.
    Model { name: "nolock_push_push", threads: &[(0, defer), (1, |stage| stage.free_nolock_from(0))], ..PAIR },
    Model { name: "nolock_push_nested", threads: &[(0, defer)], ..PLAIN },
    // A zone takes over the counts of a CPU that is gone, meanwhile.
    Model {
        name: "nolock_counted",
        bound: Some(2),
        threads: &[
            (0, |stage| stage.alloc_nolock_into(2, 0)),
            (1, |stage| stage.on(|allocator| _ = allocator.offline_cpu(CpuId(2)))),
        ],
        ..PAIR
    },
    // Wrong: the same page twice.
    Model {
        name: "nolock_twice",
        threads: &[(0, |stage| stage.try_free_nolock(0)), (1, |stage| stage.try_free_nolock(0))],
        stage: || {
            let stage = Stage::new(&BYPASS);
            assert!(stage.alloc_range(0, 1), "all memory is free");
            stage
        },
        check: |stage| {
            assert_eq!(stage.tried(), (1, 1), "frees that were right, and refused");
            stage.check();
        },
        ..PAIR
    },
];

const TRIES: &[(u16, Part)] = &[(0, |stage| stage.alloc_nolock_into(2, 0)), (1, give_and_take)];
const BYPASS: Sizes = Sizes { bypass_pcp: EVERY, ..Sizes::TINY };
const QUEUED: Mechanisms = Mechanisms { zone_lock: ZoneLock::Queued, ..stage::PLAIN };
const SHARED: Mechanisms = Mechanisms { zone_lock: ZoneLock::Rw, free_path: FreePath::Splice, ..stage::PLAIN };
const COUNTS: Mechanisms =
    Mechanisms { numa_stat: NumaStat::Events, zone_stat: ZoneStat::Differentials, ..stage::PLAIN };

/// What is interrupted.
fn give_and_take(stage: &Stage) {
    stage.free_from(1);
    stage.alloc_into(1, 0);
}

/// What the interrupt does.
fn free_and_alloc(stage: &Stage) {
    stage.free_nolock_from(0);
    stage.alloc_nolock_into(2, 0);
}

/// Whoever frees meanwhile, on any CPU, finds the lock taken.
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

fn zone_with(mechanisms: Mechanisms) -> Stage {
    let stage = Stage::new(&Sizes { mechanisms, ..BYPASS });
    stage.alloc_into(0, 0);
    stage.alloc_into(1, 0);
    stage
}

fn past_the_lists() -> Stage {
    zone_with(stage::PLAIN)
}

/// The first CPU has a page on its list.
fn stocked(sizes: Sizes) -> Stage {
    let stage = Stage::new(&sizes);
    stage.alloc_into(0, 0);
    stage.alloc_into(1, 0);
    stage.alloc_and_free(0);
    stage
}

/// A refill cuts off three pages; the interrupt frees the buddy of the one in the middle, which disagrees with nothing yet.
fn cuts() -> Stage {
    let mechanisms = Mechanisms { refill: Refill::Cluster, ..stage::PLAIN };
    let pcp = PcpSize { batch: 4, high: 4 };
    let stage = Stage::new(&Sizes { frames: 6, pcp, bypass_pcp: &[1], mechanisms, ..Sizes::TINY });
    stage.as_cpu(1, |stage| {
        let pages: Vec<_> = std::iter::from_fn(|| stage.alloc(0)).collect();
        for page in pages {
            match page.0 {
                3 => stage.put_into(0, page, 0),
                1 => stage.put_into(2, page, 0),
                5 => stage.put_into(3, page, 0),
                _ => stage.free(page, 0),
            }
        }
    });
    stage
}
