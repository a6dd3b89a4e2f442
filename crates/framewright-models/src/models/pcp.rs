//! Per-CPU lists: their owner, and the CPUs that drain them.

use framewright::request::{__GFP_DIRECT_RECLAIM, __GFP_MOVABLE};
use framewright::watermark::PcpSize;
use framewright::{Pfn, Request};

use super::{drain_0, free_0, model, tiny};
use crate::explore::Model;
use crate::stage::{Sizes, Stage};

/// Models of per-CPU lists.
pub const MODELS: &[Model] = &[
    model("pcp_free", holds_one, cpus!(0 free_0, 1 drain_0)),
    model("pcp_alloc", || holds_one().then(free_0), cpus!(0 [alloc_into(0, 0)], 1 drain_0)).bound(3),
    model("pcp_refill", holds_one, cpus!(0 [alloc_into(1, 0)], 1 drain_0)),
    model("pcp_reuse", holds_one, cpus!(0 free_0, 1 [drain(0), alloc_into(1, 0)])),
    model("pcp_away", holds_two_listed_one, cpus!(0 free_two, 1 drain_0)).bound(3),
    // The claimer is interrupted, so it meets only the last 0 of `busy`, by which the owner is turned away.
    model("pcp_away_struck", holds_two, cpus!(0 free_two, 1 [drain(0), alloc_into(2, 0)])).struck().bound(1),
    model("pcp_drain", holds_one, cpus!(0 [free_from(0), alloc_into(0, 0)], 1 [drain(0), alloc_and_free(0)])).bound(2),
    model("pcp_turned_away", holds_two, cpus!(0 free_two, 1 [drain(0), alloc_into(2, 0)])).bound(3),
    model("pcp_drain_refill", holds_one, cpus!(0 [alloc_into(1, 0), free_from(0)], 1 drain_0)).bound(3),
    model("pcp_two_drains", listed_elsewhere, cpus!(0 drain_2, 1 drain_2)).bound(2),
    model("pcp_two_drains_owner", holds_one, cpus!(0 free_0, 1 drain_0, 2 drain_0)).bound(2),
    model("pcp_crowd", holds_two, cpus!(0 free_two, 1 drain_0, 2 drain_0)).bound(1),
    model(
        "pcp_handover",
        holds_one,
        cpus!(0 [signal(1), drain(1), alloc_and_free(0)], 1 [await_signal(1), free_from(0)]),
    ),
    model(
        "pcp_offline",
        holds_one,
        cpus!(0 [free_from(0), alloc_and_free(0), signal(1)], 1 [await_signal(1), offline_cpu(0)]),
    ),
    model("pcp_gather", holds_both, cpus!(0 free_0, 1 reclaim)),
    model("pcp_bulk", holds_one, cpus!(0 bulk, 1 drain_0)).bound(3),
    model("pcp_owners", two_frames, cpus!(0[alloc_and_free(0)], 1[alloc_and_free(0)])).bound(3),
];

fn free_two(stage: &Stage) {
    stage.free_from(0);
    stage.free_from(1);
}

fn drain_2(stage: &Stage) {
    stage.drain(2);
    stage.alloc_and_free(0);
}

/// Allocates by a request that may drain the lists of other CPUs.
fn reclaim(stage: &Stage) {
    if let Some(pfn) = stage.alloc_for(__GFP_MOVABLE | __GFP_DIRECT_RECLAIM, 0) {
        stage.free(pfn, 0);
    }
}

fn bulk(stage: &Stage) {
    let mut pages = [Pfn(0); 2];
    let request = Request::page(__GFP_MOVABLE);
    let got = stage.on(|allocator| allocator.alloc_bulk(&request, &mut pages)).unwrap_or(0);
    for &pfn in &pages[..got] {
        stage.hold(pfn, 0);
    }
    for &pfn in &pages[..got] {
        stage.free(pfn, 0);
    }
}

fn two_frames() -> Stage {
    Stage::new(&Sizes { frames: 2, ..Sizes::TINY })
}

/// All memory is allocated.
fn holds_both() -> Stage {
    two_frames().then(does!([alloc_into(0, 0), alloc_into(1, 0)]))
}

fn holds_one() -> Stage {
    tiny().then(does!([alloc_into(0, 0)]))
}

/// Two pages are allocated, and fit into the list.
fn holds_two() -> Stage {
    let sizes = Sizes { pcp: PcpSize { batch: 1, high: 4 }, ..Sizes::TINY };
    Stage::new(&sizes).then(does!([alloc_into(0, 0), alloc_into(1, 0)]))
}

fn holds_two_listed_one() -> Stage {
    holds_two().then(does!([alloc_into(2, 0), free_from(2)]))
}

/// CPU 2 has two pages on its list.
fn listed_elsewhere() -> Stage {
    let stage = holds_two();
    stage.as_cpu(2, free_two);
    stage
}
