//! The queued lock where readers share it, by itself and as the lock of a zone.

use framewright::machine::{Ordering, Word};
use framewright::mechanisms::ZoneLock;

use super::queued::{at_rest, zone_with};
use super::{free_0, model, tiny};
use crate::explore::Model;
use crate::stage::Stage;

/// Models of the lock.
pub const MODELS: &[Model] = &[
    model("lock_shared_both", tiny, cpus!(0 write, 1 read)).check(at_rest).spins(),
    model("lock_shared_turns", tiny, cpus!(0 write_and_read, 1 read_and_write)).check(at_rest).bound(4),
    // Each holds the lock until the other has it too.
    model("lock_shared_readers", tiny, cpus!(0 meet, 1 meet)).check(at_rest),
    // A writer waits for one reader while another comes.
    model("lock_shared_readers_3", tiny, cpus!(0 read, 1 write, 2 read)).check(at_rest).bound(3),
    model("lock_shared_crowd", tiny, cpus!(0 write, 1 write, 2 read)).check(at_rest).bound(3),
    model("zone_rw", || zone_with(ZoneLock::Rw), cpus!(0 free_0, 1 [alloc_into(1, 0)])).bound(3),
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
