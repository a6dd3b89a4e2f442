//! The ticket lock by itself, compiled from the core's own `ticket_lock.rs`.

use framewright::ZoneIdx;
use framewright::machine::LockName;

use super::{model, tiny};
use crate::explore::Model;
use crate::loom_machine::LoomMachine;
use crate::stage::Stage;

/// Models of the lock.
pub const MODELS: &[Model] = &[
    model("lock_ticket", tiny, cpus!(0 twice, 1 twice)).spins(),
    // The lock is held at the start, and its ticket lost.
    model("lock_ticket_held", held, cpus!(0 release_held, 1 once)).spins(),
    model("lock_ticket_3", tiny, cpus!(0 once, 1 once, 2 once)).bound(3),
];

fn once(stage: &Stage) {
    let (machine, name) = (LoomMachine::default(), LockName::zone(ZoneIdx::default()));
    let ticket = stage.lock.take(&machine, name);
    stage.write(0);
    stage.lock.release(&ticket, &machine, name);
}

fn held() -> Stage {
    tiny().then(|stage| _ = stage.lock.take(&LoomMachine::default(), LockName::zone(ZoneIdx::default())))
}

fn release_held(stage: &Stage) {
    stage.write(0);
    stage.lock.release_held(&LoomMachine::default(), LockName::zone(ZoneIdx::default()));
}

fn twice(stage: &Stage) {
    once(stage);
    once(stage);
}
