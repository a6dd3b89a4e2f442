//! Owners at the front of their per-CPU lists, and who claims these meanwhile.
//!
//! The stages have two frames or three, and what is free of them at the start lies on CPU 0's list unless a model says
//! otherwise. So a page that a drain took goes to the next allocation, on whichever CPU: nothing hides an early or a second
//! owner.

use framewright::units::CpuId;

use super::sound;
use crate::explore::{Model, Part};
use crate::interrupt::Fences;
use crate::stage::{Sizes, Stage};

const PLAIN: Model = Model {
    name: "",
    bound: None,
    spins: false,
    device: None,
    fences: Fences::Promoted,
    stage: listed_one,
    threads: &[],
    check: sound,
};

/// Models of the front.
pub const MODELS: &[Model] = &[
    // A push against a drain of what lies there already, so that the push may come in the middle of it.
    Model { name: "front_free", bound: Some(3), stage: listed_and_held, threads: PUSH, ..PLAIN },
    Model { name: "front_free_struck", bound: Some(2), stage: listed_and_held, threads: PUSH, ..STRUCK },
    // A pop against a drain: both want the last entry.
    Model { name: "front_alloc", bound: Some(3), threads: ALLOC, ..PLAIN },
    Model { name: "front_alloc_struck", bound: Some(2), threads: ALLOC, ..STRUCK },
    // The same with an entry below the last.
    Model { name: "front_alloc_two", bound: Some(2), stage: listed_two, threads: ALLOC_TWO, ..PLAIN },
    Model { name: "front_alloc_two_struck", bound: Some(2), stage: listed_two, threads: ALLOC_TWO, ..STRUCK },
    // The slot of the last entry is used again.
    Model { name: "front_again", bound: Some(2), threads: AGAIN, ..PLAIN },
    Model { name: "front_again_struck", bound: Some(2), threads: AGAIN, ..STRUCK },
    // The owner finds the window closed, or the list empty, and serves itself from the zone, which has a page.
    Model { name: "front_away", bound: Some(2), stage: listed_one_and_free, threads: AWAY, ..PLAIN },
    // The list is empty at first and filled, through a magazine that it gets, while a drain wants it.
    Model { name: "front_refill", bound: Some(2), stage: listed_none, threads: REFILL, ..PLAIN },
    // A full list gets an empty magazine while a drain wants it.
    Model { name: "front_unload", bound: Some(2), stage: full, threads: FREE, ..PLAIN },
    Model { name: "front_unload_struck", bound: Some(0), stage: full, threads: FREE, ..STRUCK },
    // Two drains, one after the other, and an owner who is in the middle of a pop all the while.
    Model { name: "front_two_drains", bound: Some(1), threads: TWO_DRAINS, ..PLAIN },
    Model { name: "front_drain_twice", bound: Some(2), threads: DRAIN_TWICE, ..PLAIN },
    Model { name: "front_drain_twice_struck", bound: Some(2), threads: DRAIN_TWICE, ..STRUCK },
    // A CPU hands its last page to another, which drains it.
    Model { name: "front_handover", bound: Some(3), stage: held_one, threads: HANDOVER, ..PLAIN },
    // A CPU whose counters are folded has come back. It is turned away, serves itself from the zone and counts that: both must
    // be in the sum.
    Model { name: "front_fold", bound: Some(2), stage: listed_one_and_free, threads: FOLD, ..PLAIN },
    // CPU 0 looks into a list that never had a magazine while another drains it, who must find nothing there: not the page that
    // CPU 2 has.
    Model { name: "front_unused", bound: Some(2), stage: listed_elsewhere, threads: ALLOC, ..PLAIN },
];

const STRUCK: Model = Model { fences: Fences::Interrupt, ..PLAIN };

const PUSH: &[(u16, Part)] = &[
    (0, |stage| stage.free_from(0)),
    (1, |stage| {
        drain_and_alloc(stage);
        stage.alloc_into(2, 0);
    }),
];
const FREE: &[(u16, Part)] = &[(0, |stage| stage.free_from(0)), (1, drain_and_alloc)];
const ALLOC: &[(u16, Part)] = &[(0, |stage| stage.alloc_into(0, 0)), (1, drain_and_alloc)];
const ALLOC_TWO: &[(u16, Part)] = &[
    (0, |stage| {
        stage.alloc_into(0, 0);
        stage.alloc_into(1, 0);
    }),
    (1, drain_and_alloc),
];
const AGAIN: &[(u16, Part)] = &[(0, |stage| stage.alloc_and_free(0)), (1, drain_and_alloc)];
const AWAY: &[(u16, Part)] = &[
    (0, |stage| {
        stage.alloc_into(0, 0);
        stage.free_from(0);
    }),
    (1, drain_and_alloc),
];
const REFILL: &[(u16, Part)] = &[(0, |stage| stage.alloc_and_free(0)), (1, drain_and_alloc)];
const TWO_DRAINS: &[(u16, Part)] = &[
    (0, |stage| stage.alloc_into(0, 0)),
    (1, drain_and_alloc),
    (2, |stage| {
        stage.drain(0);
    }),
];
const DRAIN_TWICE: &[(u16, Part)] = &[
    (0, |stage| stage.alloc_into(0, 0)),
    (1, |stage| {
        stage.drain(0);
        drain_and_alloc(stage);
    }),
];
const FOLD: &[(u16, Part)] = &[
    (0, |stage| stage.alloc_into(0, 0)),
    (1, |stage| {
        stage.on(|allocator| allocator.offline_cpu(CpuId(0)));
    }),
];
const HANDOVER: &[(u16, Part)] = &[
    (0, |stage| {
        stage.signal(1);
        stage.drain(1);
        stage.alloc_into(1, 0);
    }),
    (1, |stage| {
        stage.await_signal(1);
        stage.free_from(0);
    }),
];

/// Whoever drains takes what came of it, as the zone has nothing else.
fn drain_and_alloc(stage: &Stage) {
    stage.drain(0);
    stage.alloc_into(3, 0);
}

fn frames(frames: u64) -> Stage {
    Stage::new(&Sizes { frames, cpus: 3, ..Sizes::FRONT })
}

/// Both pages are allocated.
fn held_one() -> Stage {
    let stage = frames(2);
    stage.alloc_into(0, 0);
    let _ = stage.alloc(0);
    stage
}

/// One page is on CPU 0's list, the other allocated.
fn listed_one() -> Stage {
    let stage = held_one();
    stage.free_from(0);
    stage
}

/// One page is on CPU 0's list, which holds the other in slot 0.
fn listed_and_held() -> Stage {
    let stage = listed_two();
    stage.alloc_into(0, 0);
    stage
}

/// Both pages are on CPU 0's list.
fn listed_two() -> Stage {
    let stage = frames(2);
    stage.alloc_into(0, 0);
    stage.alloc_into(1, 0);
    stage.free_from(0);
    stage.free_from(1);
    stage
}

/// One page is on CPU 0's list, the other in the zone.
fn listed_one_and_free() -> Stage {
    let stage = frames(2);
    stage.alloc_and_free(0);
    stage
}

/// CPU 0's list is empty, and one page in the zone.
fn listed_none() -> Stage {
    let stage = frames(2);
    let _ = stage.alloc(0);
    stage
}

/// One page is on CPU 2's list, the other allocated.
fn listed_elsewhere() -> Stage {
    let stage = frames(2);
    stage.as_cpu(2, |stage| {
        let _ = stage.alloc(0);
        stage.alloc_and_free(0);
    });
    stage
}

/// CPU 0's list is full, and a page allocated.
fn full() -> Stage {
    let stage = frames(4);
    let pages: Vec<_> = (0..3).filter_map(|_| stage.alloc(0)).collect();
    stage.alloc_into(0, 0);
    for &pfn in &pages[..2] {
        stage.free(pfn, 0);
    }
    stage
}
