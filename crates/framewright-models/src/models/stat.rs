//! Statistics: what a CPU counts and keeps, while another folds it.
//!
//! Every model ends with the invariants: hits and misses are as many as the allocations, and what the zone was told of free frames
//! and what CPUs keep of them is what is on the lists. A count that is lost or made twice is a violation of S1 or B4.

use framewright::mechanisms::{NumaStat, Threshold, ZoneStat};
use framewright::{CpuId, Mechanisms};

use super::sound;
use crate::explore::Model;
use crate::interrupt::Fences;
use crate::stage::{PLAIN, Sizes, Stage};

/// Counters that are told at every second event, and numbers of free frames that CPUs keep.
const COUNTING: Mechanisms = Mechanisms {
    zone_stat: ZoneStat::Differentials,
    numa_stat: NumaStat::U16,
    numa_threshold: match Threshold::new(1) {
        Some(threshold) => threshold,
        None => Threshold::COMPUTED,
    },
    ..PLAIN
};

const KEEPS: Model = Model {
    name: "",
    bound: Some(3),
    spins: false,
    fences: Fences::Promoted,
    stage: || Stage::new(&Sizes { cpus: 2, mechanisms: COUNTING, ..Sizes::TINY }),
    threads: &[],
    check: sound,
};

/// See the module's description.
pub const MODELS: &[Model] = &[
    Model { name: "stat_fold", threads: &[(0, |stage| stage.alloc_and_free(0)), (1, fold_0)], ..KEEPS },
    Model {
        name: "stat_offline",
        threads: &[
            (0, |stage| stage.alloc_and_free(0)),
            (1, |stage| {
                stage.on(|allocator| allocator.offline_cpu(CpuId(0)));
            }),
        ],
        ..KEEPS
    },
    Model {
        name: "stat_events",
        stage: || {
            let mechanisms = Mechanisms { numa_stat: NumaStat::Events, ..PLAIN };
            Stage::new(&Sizes { cpus: 2, mechanisms, ..Sizes::TINY })
        },
        threads: &[
            (0, |stage| stage.alloc_and_free(0)),
            (1, |stage| {
                stage.on(|allocator| allocator.offline_cpu(CpuId(0)));
            }),
        ],
        ..KEEPS
    },
];

fn fold_0(stage: &Stage) {
    stage.on(|allocator| allocator.refresh_statistics(CpuId(0)));
}
