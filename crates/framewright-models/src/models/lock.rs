//! The ticket lock by itself, compiled from the core's own `ticket_lock.rs`.

use framewright::ZoneIdx;
use framewright::machine::LockName;

use super::sound;
use crate::explore::Model;
use crate::interrupt::Fences;
use crate::loom_machine::LoomMachine;
use crate::stage::{Sizes, Stage};

/// Models of the lock.
pub const MODELS: &[Model] = &[
    Model {
        name: "lock_ticket",
        bound: None,
        spins: true,
        device: None,
        fences: Fences::Promoted,
        stage: || Stage::new(&Sizes::TINY),
        threads: &[(0, twice), (1, twice)],
        check: sound,
    },
    Model {
        name: "lock_ticket_3",
        bound: Some(3),
        spins: false,
        device: None,
        fences: Fences::Promoted,
        stage: || Stage::new(&Sizes::TINY),
        threads: &[(0, once), (1, once), (2, once)],
        check: sound,
    },
];

fn once(stage: &Stage) {
    let (machine, name) = (LoomMachine::default(), LockName::zone(ZoneIdx::default()));
    let ticket = stage.lock.take(&machine, name);
    stage.write(0);
    stage.lock.release(&ticket, &machine, name);
}

fn twice(stage: &Stage) {
    once(stage);
    once(stage);
}
