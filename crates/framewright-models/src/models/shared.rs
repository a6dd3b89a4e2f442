//! The queued lock where readers share it, and a zone behind it.

use framewright::Mechanisms;
use framewright::machine::{Ordering, Word};
use framewright::mechanisms::ZoneLock;

use super::queued::at_rest;
use super::sound;
use crate::explore::Model;
use crate::interrupt::Fences;
use crate::stage::{self, EVERY, Sizes, Stage};

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
    mechanisms: Mechanisms { zone_lock: ZoneLock::Rw, ..stage::PLAIN },
    ..Sizes::TINY
};

/// Models of the lock.
pub const MODELS: &[Model] = &[
    Model { name: "lock_shared_both", bound: None, spins: true, threads: &[(0, write), (1, read)], ..PLAIN },
    Model { name: "lock_shared_turns", bound: Some(4), threads: &[(0, write_and_read), (1, read_and_write)], ..PLAIN },
    // Each holds the lock until the other has it too.
    Model { name: "lock_shared_readers", threads: &[(0, meet), (1, meet)], ..PLAIN },
    // A writer that waits for one reader while another comes.
    Model { name: "lock_shared_readers_3", bound: Some(3), threads: &[(0, read), (1, write), (2, read)], ..PLAIN },
    Model { name: "lock_shared_crowd", bound: Some(3), threads: &[(0, write), (1, write), (2, read)], ..PLAIN },
    Model {
        name: "zone_rw",
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

fn write(stage: &Stage) {
    let ticket = stage.queued.take(&stage.places[..]);
    stage.write(0);
    stage.queued.release(&ticket, &stage.places[..]);
}

fn read(stage: &Stage) {
    stage.queued.take_shared(&stage.places[..]);
    stage.read(0);
    stage.queued.release_shared();
}

fn write_and_read(stage: &Stage) {
    write(stage);
    read(stage);
}

fn read_and_write(stage: &Stage) {
    read(stage);
    write(stage);
}

fn meet(stage: &Stage) {
    stage.queued.take_shared(&stage.places[..]);
    stage.read(0);
    stage.flag.add(1, Ordering::AcqRel);
    stage.await_signal(2);
    stage.queued.release_shared();
}
