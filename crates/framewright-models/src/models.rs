//! Models.
use crate::explore::Model;
use crate::stage::{Sizes, Stage};

fn tiny() -> Stage {
    Stage::new(&Sizes::TINY)
}
fn fine(stage: &Stage) {
    stage.check();
}
fn locked(stage: &Stage) {
    let _guard = stage.lock.lock();
    stage.write(0);
}

/// All models.
pub const MODELS: &[Model] = &[
    Model {
        name: "lock_ticket",
        bound: None,
        spins: true,
        stage: tiny,
        cpus: &[
            |s| {
                locked(s);
                locked(s)
            },
            |s| {
                locked(s);
                locked(s)
            },
        ],
        check: fine,
    },
    Model {
        name: "lock_ticket_3",
        bound: None,
        spins: false,
        stage: tiny,
        cpus: &[locked, locked, locked],
        check: fine,
    },
    Model {
        name: "pcp_drain",
        bound: None,
        spins: false,
        stage: || {
            let s = tiny();
            s.alloc_into(0, 0);
            s
        },
        cpus: &[
            |s| {
                s.free_from(0);
                s.alloc_into(0, 0)
            },
            |s| {
                s.drain(0);
                s.alloc_and_free(0);
            },
        ],
        check: fine,
    },
    Model {
        name: "pcp_drain_short",
        bound: None,
        spins: false,
        stage: || {
            let s = tiny();
            s.alloc_into(0, 0);
            s
        },
        cpus: &[
            |s| {
                s.free_from(0);
            },
            |s| {
                s.drain(0);
            },
        ],
        check: fine,
    },
    Model {
        name: "pcp_two_drains",
        bound: None,
        spins: false,
        stage: || {
            let s = tiny();
            s.as_cpu(1, |s| s.alloc_and_free(0));
            s
        },
        cpus: &[
            |s| {
                s.drain(1);
            },
            |_| (),
            |s| {
                s.drain(1);
            },
        ],
        check: fine,
    },
];
