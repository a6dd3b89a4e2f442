//! The queued lock by itself, compiled from the core's own `queued_lock.rs`, and a zone behind it.

use framewright::Mechanisms;
use framewright::machine::{Machine, Ordering, Word};
use framewright::mechanisms::ZoneLock;

use super::sound;
use crate::explore::Model;
use crate::interrupt::Fences;
use crate::loom_machine::LoomMachine;
use crate::stage::{self, EVERY, Sizes, Stage};
use crate::sync::queued_lock::WaitSlots;

const PLAIN: Model = Model {
    name: "",
    bound: None,
    spins: false,
    device: None,
    fences: Fences::Promoted,
    stage: || Stage::new(&Sizes::TINY),
    threads: &[],
    check: at_rest,
};
const ZONE: Sizes = Sizes {
    bypass_pcp: EVERY,
    frames: 2,
    mechanisms: Mechanisms { zone_lock: ZoneLock::Queued, ..stage::PLAIN },
    ..Sizes::TINY
};

/// Models of the lock.
pub const MODELS: &[Model] = &[
    Model { name: "lock_queued", spins: true, threads: &[(0, twice), (1, once)], ..PLAIN },
    // The last in line waits at a place.
    Model { name: "lock_queued_3", bound: Some(3), threads: &[(0, once), (1, once), (2, once)], ..PLAIN },
    // The same from where the lock is held.
    Model {
        name: "lock_queued_far",
        bound: Some(2),
        stage: held,
        threads: &[(0, release), (1, once), (2, once)],
        ..PLAIN
    },
    // Some words serve as places for two numbers each.
    Model {
        name: "lock_queued_places",
        bound: Some(2),
        threads: &[(0, twice_crowded), (1, once_crowded), (2, once_crowded)],
        ..PLAIN
    },
    // The numbers begin anew.
    Model {
        name: "lock_queued_wraps",
        bound: Some(2),
        stage: about_to_wrap,
        threads: &[(0, twice), (1, once), (2, once)],
        ..PLAIN
    },
    Model {
        name: "zone_queued",
        bound: Some(3),
        stage: || {
            let stage = Stage::new(&ZONE);
            stage.alloc_into(0, 0);
            stage
        },
        threads: &[(0, |stage| stage.free_from(0)), (1, |stage| stage.alloc_into(1, 0))],
        check: sound,
        ..PLAIN
    },
];

type Place = <LoomMachine as Machine>::U32;

impl WaitSlots<LoomMachine> for [Place] {
    fn place(&self, number: u16) -> Option<&Place> {
        self.get(usize::from(number) % self.len())
    }
}

/// Nobody holds the lock or waits for it.
pub(super) fn at_rest(stage: &Stage) {
    sound(stage);
    let turns = stage.queued.turns.load(Ordering::Relaxed);
    assert_eq!((turns >> 48, turns as u32), (turns >> 32 & 0xffff, 0), "somebody is left over: {turns:#x}");
}

fn once(stage: &Stage) {
    under_it(stage, &stage.places[..]);
}

fn twice(stage: &Stage) {
    once(stage);
    once(stage);
}

fn once_crowded(stage: &Stage) {
    under_it(stage, &stage.places[..1]);
}

fn twice_crowded(stage: &Stage) {
    once_crowded(stage);
    once_crowded(stage);
}

fn under_it(stage: &Stage, places: &[Place]) {
    let ticket = stage.queued.take(places);
    stage.write(0);
    stage.queued.release(&ticket, places);
}

/// The last two numbers are the next to be drawn.
fn about_to_wrap() -> Stage {
    let stage = Stage::new(&Sizes::TINY);
    stage.queued.turns.store(0xfffe_fffe_0000_0000, Ordering::Relaxed);
    stage
}

/// CPU 0 has the lock.
fn held() -> Stage {
    let stage = Stage::new(&Sizes::TINY);
    let _ = stage.queued.take(&stage.places[..]);
    stage
}

fn release(stage: &Stage) {
    stage.write(0);
    stage.queued.release_held(&stage.places[..]);
}
