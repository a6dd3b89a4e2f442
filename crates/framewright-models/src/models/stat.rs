//! Statistics: the counts that a CPU keeps, while another CPU folds them.
//!
//! Every model ends with the invariants: hits and misses sum to the allocations, and the free frames that the zone
//! counts plus those that CPUs keep are the frames on the lists. A count that is lost or made twice violates S1 or B4,
//! or makes a node's counter differ from the changes that were counted.

use framewright::mechanisms::{NumaStat, Threshold, ZoneStat};
use framewright::report::Source;
use framewright::{CpuId, Mechanisms, NodeId};

use super::{model, sound};
use crate::explore::Model;
use crate::stage::{PLAIN, Sizes, Stage};

/// Events that are folded at every second one, and numbers of free frames that CPUs keep.
const COUNTING: Mechanisms = Mechanisms {
    zone_stat: ZoneStat::Differentials,
    numa_stat: NumaStat::U16,
    numa_threshold: match Threshold::new(1) {
        Some(threshold) => threshold,
        None => Threshold::COMPUTED,
    },
    ..PLAIN
};

/// Models of the statistics of zones.
pub const MODELS: &[Model] = &[
    model("stat_fold", counting, cpus!(0 [alloc_and_free(0)], 1 fold_0)).bound(3),
    model("stat_offline", counting, cpus!(0[alloc_and_free(0)], 1[offline_cpu(0)])).bound(2),
    model("stat_events", events, cpus!(0[alloc_and_free(0)], 1[offline_cpu(0)])).bound(2),
];

/// Models of the statistics of nodes.
pub const NODES: &[Model] = &[
    model("stat_node", node, cpus!(0 [count(&[3, 3])], 1 fold_0)).check(nothing_is_lost).bound(3),
    model("stat_node_both", node, cpus!(0[count(&[5, 1])], 1[count(&[7, -1])])).check(nothing_is_lost).bound(3),
    model("stat_node_offline", node, cpus!(0[count(&[-2, 4])], 1[offline_cpu(0)])).check(nothing_is_lost).bound(3),
];

/// Models of lists that a refresh finds idle.
pub const IDLE: &[Model] = &[
    model("stat_idle", idle, cpus!(0 [alloc_and_free(0)], 1 fold_0)).bound(3),
    model("stat_idle_both", idle, cpus!(0 fold_0, 1 fold_0)).check(one_drained).bound(3),
];

fn counting() -> Stage {
    Stage::new(&Sizes { cpus: 2, mechanisms: COUNTING, ..Sizes::TINY })
}

fn events() -> Stage {
    let mechanisms = Mechanisms { numa_stat: NumaStat::Events, ..PLAIN };
    Stage::new(&Sizes { cpus: 2, mechanisms, ..Sizes::TINY })
}

/// The embedder has a counter in the node.
fn node() -> Stage {
    Stage::new(&Sizes { cpus: 2, mechanisms: COUNTING, node_counters: &["counted"], ..Sizes::TINY })
}

/// CPU 0 has a block of another node's zone, and the next refresh will find it idle.
fn idle() -> Stage {
    let stage = Stage::new(&Sizes { far: true, ..Sizes::TINY }).then(does!([alloc_and_free(0)]));
    for _ in 0..2 {
        assert_eq!(stage.on(|allocator| allocator.refresh_statistics(CpuId(0)).waiting), 1);
    }
    stage
}

/// Refreshes CPU 0, and counts the frames that were given back.
fn fold_0(stage: &Stage) {
    let drained = stage.on(|allocator| allocator.refresh_statistics(CpuId(0)).drained);
    stage.counted.set(stage.counted.get() + drained as i64);
}

/// The embedder's counter reads the sum of the changes that were counted in it.
fn nothing_is_lost(stage: &Stage) {
    let read = stage.on(|allocator| allocator.node_counter(NodeId(0), 0).map(|(_, count)| count));
    assert_eq!(read, Some(stage.counted.get() as u64), "changes are lost or made twice");
    sound(stage);
}

fn one_drained(stage: &Stage) {
    assert_eq!(stage.counted.get(), 1, "frames that both gave back");
    sound(stage);
}
