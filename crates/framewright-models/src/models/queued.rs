//! The queued lock by itself, compiled from the core's own `queued.rs`, and a zone behind it.

use framewright::machine::{Ordering, Word};
use framewright::mechanisms::ZoneLock;

use super::sound;
use crate::explore::Model;
use crate::interrupt::Fences;
use crate::loom_machine::{LoomMachine, running_cpu};
use crate::queued::{Asker, Nodes, QueueNode};
use crate::stage::{Sizes, Stage};

const PLAIN: Model = Model {
    name: "",
    bound: None,
    spins: false,
    fences: Fences::Promoted,
    stage: || Stage::new(&Sizes::TINY),
    threads: &[],
    check: at_rest,
};
const ZONE: Sizes = Sizes { bypass_pcp: true, frames: 2, zone_lock: ZoneLock::Queued, ..Sizes::TINY };

/// Models of the lock.
pub const MODELS: &[Model] = &[
    Model { name: "lock_queued", bound: None, spins: true, threads: &[(0, once), (1, once)], ..PLAIN },
    // With the nodes used a second time.
    Model { name: "lock_queued_twice", bound: Some(3), threads: &[(0, twice), (1, twice)], ..PLAIN },
    Model { name: "lock_queued_3", bound: Some(3), threads: &[(0, once), (1, once), (2, once)], ..PLAIN },
    // One of them has no node: it freezes the allocator, or interrupted a wait.
    Model { name: "lock_queued_stranger", bound: Some(2), threads: &[(0, once), (1, stranger), (2, once)], ..PLAIN },
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

impl Nodes<LoomMachine> for [QueueNode<LoomMachine>] {
    fn node(&self, cpu: usize) -> Option<&QueueNode<LoomMachine>> {
        self.get(cpu)
    }
}

/// Nobody holds a lock, waits for one, or has a place in a queue.
pub(super) fn at_rest(stage: &Stage) {
    sound(stage);
    let locks = stage.shared.words().into_iter().chain(stage.shared.room.words());
    let nodes = stage.nodes.iter().flat_map(QueueNode::words);
    for (name, word) in locks.chain(nodes) {
        assert_eq!(word.load(Ordering::Relaxed), 0, "`{name}` is left over");
    }
}

/// The running CPU, to wait for a lock.
pub(super) fn asker(stage: &Stage) -> Asker<'_, [QueueNode<LoomMachine>]> {
    Asker::cpu(&stage.nodes, running_cpu())
}

fn under_it(stage: &Stage, asker: &Asker<'_, [QueueNode<LoomMachine>]>) {
    let lock = &stage.shared.room;
    lock.take(asker);
    stage.write(0);
    lock.release();
}

fn once(stage: &Stage) {
    under_it(stage, &asker(stage));
}

fn twice(stage: &Stage) {
    once(stage);
    once(stage);
}

fn stranger(stage: &Stage) {
    under_it(stage, &Asker::stranger(&stage.nodes));
}
