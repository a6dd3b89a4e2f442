//! Per-CPU lists: their owner, and who drains them.

use framewright::request::{__GFP_DIRECT_RECLAIM, __GFP_MOVABLE};
use framewright::units::CpuId;
use framewright::{Pfn, Request};

use super::sound;
use crate::explore::Model;
use crate::interrupt::Fences;
use crate::stage::{Sizes, Stage};

const PLAIN: Model = Model {
    name: "",
    bound: None,
    spins: false,
    device: None,
    fences: Fences::Promoted,
    stage: owner_holds_one,
    threads: &[],
    check: sound,
};

/// Models of per-CPU lists.
pub const MODELS: &[Model] = &[
    Model { name: "pcp_free", threads: &[(0, |stage| stage.free_from(0)), (1, drain_0)], ..PLAIN },
    Model {
        name: "pcp_alloc",
        bound: Some(3),
        stage: || {
            let stage = owner_holds_one();
            stage.free_from(0);
            stage
        },
        threads: &[(0, |stage| stage.alloc_into(0, 0)), (1, drain_0)],
        ..PLAIN
    },
    Model { name: "pcp_refill", threads: &[(0, |stage| stage.alloc_into(1, 0)), (1, drain_0)], ..PLAIN },
    Model {
        name: "pcp_reuse",
        threads: &[
            (0, |stage| stage.free_from(0)),
            (1, |stage| {
                stage.drain(0);
                stage.alloc_into(1, 0);
            }),
        ],
        ..PLAIN
    },
    Model {
        name: "pcp_away",
        bound: Some(3),
        stage: || {
            let stage = owner_holds_two();
            stage.alloc_into(2, 0);
            stage.free_from(2);
            stage
        },
        threads: &[(0, free_two), (1, drain_0)],
        ..PLAIN
    },
    // The same, struck: the claimer meets nothing but the last 0 of `busy`, by which the owner is turned away.
    Model {
        name: "pcp_away_struck",
        bound: Some(1),
        fences: Fences::Interrupt,
        stage: owner_holds_two,
        threads: &[(0, free_two), (1, drain_0_and_alloc)],
        ..PLAIN
    },
    Model {
        name: "pcp_drain",
        bound: Some(2),
        threads: &[
            (0, |stage| {
                stage.free_from(0);
                stage.alloc_into(0, 0);
            }),
            (1, |stage| {
                stage.drain(0);
                stage.alloc_and_free(0);
            }),
        ],
        ..PLAIN
    },
    Model {
        name: "pcp_turned_away",
        bound: Some(3),
        stage: owner_holds_two,
        threads: &[(0, free_two), (1, drain_0_and_alloc)],
        ..PLAIN
    },
    Model {
        name: "pcp_drain_refill",
        bound: Some(3),
        stage: owner_holds_one,
        threads: &[
            (0, |stage| {
                stage.alloc_into(1, 0);
                stage.free_from(0);
            }),
            (1, drain_0),
        ],
        ..PLAIN
    },
    Model {
        name: "pcp_two_drains",
        bound: Some(2),
        stage: || {
            let stage = owner_holds_two();
            stage.as_cpu(2, |stage| {
                stage.free_from(0);
                stage.free_from(1);
            });
            stage
        },
        threads: &[(0, drain_2), (1, drain_2)],
        ..PLAIN
    },
    Model {
        name: "pcp_two_drains_owner",
        bound: Some(2),
        threads: &[(0, |stage| stage.free_from(0)), (1, drain_0), (2, drain_0)],
        ..PLAIN
    },
    Model {
        name: "pcp_crowd",
        bound: Some(1),
        stage: owner_holds_two,
        threads: &[(0, free_two), (1, drain_0), (2, drain_0)],
        ..PLAIN
    },
    Model {
        name: "pcp_handover",
        threads: &[
            (0, |stage| {
                stage.signal(1);
                stage.drain(1);
                stage.alloc_and_free(0);
            }),
            (1, |stage| {
                stage.await_signal(1);
                stage.free_from(0);
            }),
        ],
        ..PLAIN
    },
    Model {
        name: "pcp_offline",
        threads: &[
            (0, |stage| {
                stage.free_from(0);
                stage.alloc_and_free(0);
                stage.signal(1);
            }),
            (1, |stage| {
                stage.await_signal(1);
                stage.on(|allocator| allocator.offline_cpu(CpuId(0)));
            }),
        ],
        ..PLAIN
    },
    Model {
        name: "pcp_gather",
        stage: || {
            let stage = Stage::new(&Sizes { frames: 2, ..Sizes::TINY });
            stage.alloc_into(0, 0);
            stage.alloc_into(1, 0);
            stage
        },
        threads: &[
            (0, |stage| stage.free_from(0)),
            (1, |stage| {
                if let Some(pfn) = stage.alloc_for(__GFP_MOVABLE | __GFP_DIRECT_RECLAIM, 0) {
                    stage.free(pfn, 0);
                }
            }),
        ],
        ..PLAIN
    },
    Model {
        name: "pcp_bulk",
        bound: Some(3),
        threads: &[
            (0, |stage| {
                let mut pages = [Pfn(0); 2];
                let request = Request::page(__GFP_MOVABLE);
                let got = stage.on(|allocator| allocator.alloc_bulk(&request, &mut pages)).unwrap_or(0);
                for &pfn in &pages[..got] {
                    stage.hold(pfn, 0);
                }
                for &pfn in &pages[..got] {
                    stage.free(pfn, 0);
                }
            }),
            (1, drain_0),
        ],
        ..PLAIN
    },
    Model {
        name: "pcp_owners",
        bound: Some(3),
        stage: || Stage::new(&Sizes { frames: 2, ..Sizes::TINY }),
        threads: &[(0, |stage| stage.alloc_and_free(0)), (1, |stage| stage.alloc_and_free(0))],
        ..PLAIN
    },
];

fn free_two(stage: &Stage) {
    stage.free_from(0);
    stage.free_from(1);
}

fn drain_0_and_alloc(stage: &Stage) {
    stage.drain(0);
    stage.alloc_into(2, 0);
}

fn drain_0(stage: &Stage) {
    stage.drain(0);
}

fn drain_2(stage: &Stage) {
    stage.drain(2);
    stage.alloc_and_free(0);
}

fn owner_holds_one() -> Stage {
    let stage = Stage::new(&Sizes::TINY);
    stage.alloc_into(0, 0);
    stage
}

fn owner_holds_two() -> Stage {
    let stage = Stage::new(&Sizes { pcp: framewright::watermark::PcpSize { batch: 1, high: 4 }, ..Sizes::TINY });
    stage.alloc_into(0, 0);
    stage.alloc_into(1, 0);
    stage
}
