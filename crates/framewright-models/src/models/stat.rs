//! Statistics: what a CPU counts and keeps, while another folds it.
//!
//! Every model ends with the invariants: hits and misses are as many as the allocations, and what the zone was told of free frames
//! and what CPUs keep of them is what is on the lists. A count that is lost or made twice is a violation of S1 or B4, or makes a node's
//! counter read something else than was counted in it.

use framewright::mechanisms::{NumaStat, Threshold, ZoneStat};
use framewright::report::Source;
use framewright::{CpuId, Mechanisms, NodeId};

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
    device: None,
    fences: Fences::Promoted,
    stage: || Stage::new(&Sizes { cpus: 2, mechanisms: COUNTING, ..Sizes::TINY }),
    threads: &[],
    check: sound,
};

/// A counter of the embedder's in the node, which reads what was counted in it.
const NODES: Model = Model {
    stage: || {
        let node_counters = &["counted"];
        Stage::new(&Sizes { cpus: 2, mechanisms: COUNTING, node_counters, ..Sizes::TINY })
    },
    check: |stage| {
        let read = stage.on(|allocator| allocator.node_counter(NodeId(0), 0).map(|(_, count)| count));
        assert_eq!(read, Some(stage.counted.get() as u64), "changes are lost or made twice");
        sound(stage);
    },
    ..KEEPS
};

/// CPU 0 has a block of another node's zone, and the next refresh will find it idle.
const IDLE: Model = Model {
    stage: || {
        let stage = Stage::new(&Sizes { far: true, ..Sizes::TINY });
        stage.alloc_and_free(0);
        for _ in 0..2 {
            assert_eq!(stage.on(|allocator| allocator.refresh_statistics(CpuId(0)).waiting), 1);
        }
        stage
    },
    ..KEEPS
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
    Model { name: "stat_node", threads: &[(0, |stage| count(stage, [3, 3])), (1, fold_0)], ..NODES },
    Model {
        name: "stat_node_both",
        threads: &[(0, |stage| count(stage, [5, 1])), (1, |stage| count(stage, [7, -1]))],
        ..NODES
    },
    Model {
        name: "stat_node_offline",
        threads: &[
            (0, |stage| count(stage, [-2, 4])),
            (1, |stage| {
                stage.on(|allocator| allocator.offline_cpu(CpuId(0)));
            }),
        ],
        ..NODES
    },
    Model { name: "stat_idle", threads: &[(0, |stage| stage.alloc_and_free(0)), (1, fold_0)], ..IDLE },
    Model {
        name: "stat_idle_both",
        threads: &[(0, fold_0), (1, fold_0)],
        check: |stage| {
            assert_eq!(stage.counted.get(), 1, "frames that both gave back");
            sound(stage);
        },
        ..IDLE
    },
];

/// Counts in the node's counter; the running CPU may keep up to 4.
fn count(stage: &Stage, changes: [i64; 2]) {
    for change in changes {
        assert!(stage.on(|allocator| allocator.count_in_node(NodeId(0), 0, change)));
        stage.counted.set(stage.counted.get() + change);
    }
}

/// Refreshes CPU 0, and counts the frames that were given back.
fn fold_0(stage: &Stage) {
    let drained = stage.on(|allocator| allocator.refresh_statistics(CpuId(0)).drained);
    stage.counted.set(stage.counted.get() + drained as i64);
}
