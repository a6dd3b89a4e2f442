//! The queued lock by itself, compiled from the core's own `queued_lock.rs`, and as the lock of a zone.

use framewright::Mechanisms;
use framewright::machine::{Machine, Ordering, Word};
use framewright::mechanisms::ZoneLock;

use super::{free_0, model, sound, tiny};
use crate::explore::Model;
use crate::loom_machine::LoomMachine;
use crate::stage::{self, EVERY, Sizes, Stage};
use crate::sync::queued_lock::WaitSlots;

/// Models of the lock.
pub const MODELS: &[Model] = &[
    model("lock_queued", tiny, cpus!(0 twice, 1 once)).check(at_rest).spins(),
    // The last in line waits at a slot of its own.
    model("lock_queued_3", tiny, cpus!(0 once, 1 once, 2 once)).check(at_rest).bound(3),
    // As before, but the lock is held at the start.
    model("lock_queued_far", held, cpus!(0 release, 1 once, 2 once)).check(at_rest).bound(2),
    // Some words serve as wait slots for two numbers each.
    model("lock_queued_places", tiny, cpus!(0 twice_crowded, 1 once_crowded, 2 once_crowded)).check(at_rest).bound(2),
    // The numbers wrap to zero.
    model("lock_queued_wraps", about_to_wrap, cpus!(0 twice, 1 once, 2 once)).check(at_rest).bound(2),
    model("zone_queued", || zone_with(ZoneLock::Queued), cpus!(0 free_0, 1 [alloc_into(1, 0)])),
];

type Place = <LoomMachine as Machine>::U32;

impl WaitSlots<LoomMachine> for [Place] {
    fn place(&self, number: u16) -> Option<&Place> {
        self.get(usize::from(number) % self.len())
    }
}

/// Checks that no thread holds the lock or waits for it.
pub(super) fn at_rest(stage: &Stage) {
    sound(stage);
    let turns = stage.queued.turns.load(Ordering::Relaxed);
    assert_eq!((turns >> 48, turns as u32), (turns >> 32 & 0xffff, 0), "somebody is left over: {turns:#x}");
}

/// A zone of two frames, of which one is allocated.
pub(super) fn zone_with(zone_lock: ZoneLock) -> Stage {
    let mechanisms = Mechanisms { zone_lock, ..stage::PLAIN };
    let sizes = Sizes { bypass_pcp: EVERY, frames: 2, mechanisms, ..Sizes::TINY };
    Stage::new(&sizes).then(does!([alloc_into(0, 0)]))
}

fn once(stage: &Stage) {
    lock_and_write(stage, &stage.places[..]);
}

fn twice(stage: &Stage) {
    once(stage);
    once(stage);
}

fn once_crowded(stage: &Stage) {
    lock_and_write(stage, &stage.places[..1]);
}

fn twice_crowded(stage: &Stage) {
    once_crowded(stage);
    once_crowded(stage);
}

fn lock_and_write(stage: &Stage, places: &[Place]) {
    let ticket = stage.queued.take(places);
    stage.write(0);
    stage.queued.release(&ticket, places);
}

/// The next two numbers to be drawn are the last two.
fn about_to_wrap() -> Stage {
    tiny().then(|stage| stage.queued.turns.store(0xfffe_fffe_0000_0000, Ordering::Relaxed))
}

/// CPU 0 has the lock.
fn held() -> Stage {
    tiny().then(|stage| _ = stage.queued.take(&stage.places[..]))
}

fn release(stage: &Stage) {
    stage.write(0);
    stage.queued.release_held(&stage.places[..]);
}
