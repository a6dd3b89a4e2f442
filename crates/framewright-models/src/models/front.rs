//! The fast path of a CPU at its per-CPU lists, while another CPU claims these.
//!
//! The stages have two frames or more, and the free ones lie on CPU 0's list at the start unless a model says
//! otherwise. So a page that a drain took goes to the next allocation, on whichever CPU: nothing hides an early or a
//! second owner.

use framewright::watermark::PcpSize;

use super::{free_0, model};
use crate::explore::Model;
use crate::stage::{Sizes, Stage};

/// Models of the fast path.
pub const MODELS: &[Model] = &[
    // A push meets a drain of the page that lies there already, so that the push may come in the middle of the drain.
    model("front_free", listed_and_held, cpus!(0 free_0, 1 drain_and_alloc_two)).bound(3),
    model("front_free_struck", listed_and_held, cpus!(0 free_0, 1 drain_and_alloc_two)).struck().bound(2),
    // A pop meets a drain: both want the last entry.
    model("front_alloc", listed_one, cpus!(0 alloc, 1 drain_and_alloc)).bound(3),
    model("front_alloc_struck", listed_one, cpus!(0 alloc, 1 drain_and_alloc)).struck().bound(2),
    // As before, with an entry below the last.
    model("front_alloc_two", listed_two, cpus!(0 alloc_two, 1 drain_and_alloc)).bound(2),
    model("front_alloc_two_struck", listed_two, cpus!(0 alloc_two, 1 drain_and_alloc)).struck().bound(2),
    // One call pops both entries, while another CPU wants them.
    model("front_alloc_bulk", listed_two, cpus!(0 alloc_bulk, 1 drain_and_alloc)).bound(2),
    model("front_alloc_bulk_struck", listed_two, cpus!(0 alloc_bulk, 1 drain_and_alloc)).struck().bound(2),
    // One call pushes two entries at once, above one that a drain takes.
    model("front_free_bulk", listed_and_held_two, cpus!(0 free_bulk, 1 drain_and_alloc_two)).bound(3),
    model("front_free_bulk_struck", listed_and_held_two, cpus!(0 free_bulk, 1 drain_and_alloc_two)).struck().bound(2),
    // The slot of the last entry is used again.
    model("front_again", listed_one, cpus!(0 [alloc_and_free(0)], 1 drain_and_alloc)).bound(2),
    model("front_again_struck", listed_one, cpus!(0 [alloc_and_free(0)], 1 drain_and_alloc)).struck().bound(2),
    // The owner finds the window closed, or the list empty, and serves itself from the zone, which has a page.
    model("front_away", listed_one_and_free, cpus!(0 [alloc_into(0, 0), free_from(0)], 1 drain_and_alloc)).bound(2),
    // The list is empty at first and filled, through a magazine that it gets, while a drain wants it.
    model("front_refill", listed_none, cpus!(0 [alloc_and_free(0)], 1 drain_and_alloc)).bound(2),
    // A full list gets an empty magazine while a drain wants it.
    model("front_unload", full, cpus!(0 free_0, 1 drain_and_alloc)).bound(2),
    model("front_unload_struck", full, cpus!(0 free_0, 1 drain_and_alloc)).struck().bound(0),
    // Two drains, one after the other, and an owner that is in the middle of a pop all the while.
    model("front_two_drains", listed_one, cpus!(0 alloc, 1 drain_and_alloc, 2 [drain(0)])).bound(1),
    model("front_drain_twice", listed_one, cpus!(0 alloc, 1 drain_twice)).bound(2),
    model("front_drain_twice_struck", listed_one, cpus!(0 alloc, 1 drain_twice)).struck().bound(2),
    // A CPU hands its last page to another, which drains it.
    model(
        "front_handover",
        held_one,
        cpus!(0 [signal(1), drain(1), alloc_into(1, 0)], 1 [await_signal(1), free_from(0)]),
    )
    .bound(3),
    // A CPU whose counters are folded runs again. It is turned away, serves itself from the zone and counts that: the
    // sum must contain both.
    model("front_fold", listed_one_and_free, cpus!(0 alloc, 1 [offline_cpu(0)])).bound(2),
    // CPU 0 looks into a list that never had a magazine while CPU 1 drains it. CPU 1 must find nothing there, and not
    // the page that CPU 2 has.
    model("front_unused", listed_elsewhere, cpus!(0 alloc, 1 drain_and_alloc)).bound(2),
];

fn alloc(stage: &Stage) {
    stage.alloc_into(0, 0);
}

fn alloc_two(stage: &Stage) {
    stage.alloc_into(0, 0);
    stage.alloc_into(1, 0);
}

fn alloc_bulk(stage: &Stage) {
    stage.alloc_bulk_into(&[0, 1]);
}

fn free_bulk(stage: &Stage) {
    stage.free_bulk_from(&[0, 1]);
}

/// Drains CPU 0 and takes the page that it gave back, because the zone has no other.
fn drain_and_alloc(stage: &Stage) {
    stage.drain(0);
    stage.alloc_into(3, 0);
}

fn drain_and_alloc_two(stage: &Stage) {
    drain_and_alloc(stage);
    stage.alloc_into(2, 0);
}

fn drain_twice(stage: &Stage) {
    stage.drain(0);
    drain_and_alloc(stage);
}

fn frames(frames: u64) -> Stage {
    Stage::new(&Sizes { frames, cpus: 3, ..Sizes::FRONT })
}

/// Both pages are allocated.
fn held_one() -> Stage {
    frames(2).then(does!([alloc_into(0, 0), alloc(0)]))
}

/// One page is on CPU 0's list, the other allocated.
fn listed_one() -> Stage {
    held_one().then(free_0)
}

/// One page is on CPU 0's list, which holds the other in slot 0.
fn listed_and_held() -> Stage {
    listed_two().then(alloc)
}

/// Both pages are on CPU 0's list.
fn listed_two() -> Stage {
    frames(2).then(alloc_two).then(does!([free_from(0), free_from(1)]))
}

/// One of four pages is on CPU 0's list, which has room for two more in one magazine. The others are allocated.
fn listed_and_held_two() -> Stage {
    let stage = Stage::new(&Sizes { cpus: 2, pcp: PcpSize { batch: 1, high: 8 }, ..Sizes::FRONT });
    alloc_two(&stage);
    stage.then(does!([alloc_into(2, 0), alloc(0), free_from(2)]))
}

/// One page is on CPU 0's list, the other in the zone.
fn listed_one_and_free() -> Stage {
    frames(2).then(does!([alloc_and_free(0)]))
}

/// CPU 0's list is empty, and one page in the zone.
fn listed_none() -> Stage {
    frames(2).then(does!([alloc(0)]))
}

/// One page is on CPU 2's list, the other allocated.
fn listed_elsewhere() -> Stage {
    let stage = frames(2);
    stage.as_cpu(2, does!([alloc(0), alloc_and_free(0)]));
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
