//! Lists that many CPUs change at once: every race of their protocol, and nodes that get a new owner at once.

use crate::explore::{Model, Part};
use crate::interrupt::Fences;
use crate::lists::{A, B, C, HEAD, Lists, N, O};

const PLAIN: Model<Lists> = Model {
    name: "",
    bound: None,
    spins: false,
    device: None,
    fences: Fences::Promoted,
    stage: || Lists::of(&[A, B]),
    threads: &[],
    check: Lists::check,
};

const DEL_A: Part<Lists> = |lists| lists.del(A);
const DEL_B: Part<Lists> = |lists| lists.del(B);
const DEL_C: Part<Lists> = |lists| lists.del(C);
const ADD_N: Part<Lists> = |lists| lists.add(N);
const ADD_O: Part<Lists> = |lists| lists.add(O);
const TRY_A: Part<Lists> = |lists| _ = lists.try_del(A);
const TRY_B: Part<Lists> = |lists| _ = lists.try_del(B);
const TRY_C: Part<Lists> = |lists| _ = lists.try_del(C);

/// Models with two threads.
///
/// Without a bound, `reuse_new` ends after 3,135,829 executions, `again` after 5,855,797 and `run` after 6,087,983, in minutes;
/// `patience` never, as two who give up may do so in turn for ever.
pub const MODELS: &[Model<Lists>] = &[
    // All that is on the list goes; or one stays behind, or before.
    Model { name: "smp_list_neighbours", threads: &[(0, DEL_A), (1, DEL_B)], ..PLAIN },
    Model { name: "smp_list_front", stage: || Lists::of(&[A, B, C]), threads: &[(0, DEL_A), (1, DEL_B)], ..PLAIN },
    Model { name: "smp_list_back", stage: || Lists::of(&[A, B, C]), threads: &[(0, DEL_B), (1, DEL_C)], ..PLAIN },
    Model {
        name: "smp_list_run",
        bound: Some(4),
        stage: || Lists::of(&[A, B, C]),
        threads: &[(0, |lists| [A, C].into_iter().for_each(|node| lists.del(node))), (1, DEL_B)],
        ..PLAIN
    },
    // The first, the only and the last, while one is put on.
    Model { name: "smp_list_del_add", threads: &[(0, DEL_A), (1, ADD_N)], ..PLAIN },
    Model { name: "smp_list_only_add", stage: || Lists::of(&[A]), threads: &[(0, DEL_A), (1, ADD_N)], ..PLAIN },
    Model { name: "smp_list_last_add", threads: &[(0, DEL_B), (1, ADD_N)], ..PLAIN },
    Model {
        name: "smp_list_only_splice",
        stage: || Lists::of(&[A]),
        threads: &[(0, DEL_A), (1, |lists| lists.splice(N, O))],
        ..PLAIN
    },
    Model {
        name: "smp_list_empty_splice",
        stage: || Lists::of(&[]),
        threads: &[(0, |lists| lists.splice(A, B)), (1, |lists| lists.splice(N, O))],
        ..PLAIN
    },
    Model { name: "smp_list_adds", threads: &[(0, ADD_N), (1, ADD_O)], ..PLAIN },
    // What was put on is taken off by another.
    Model {
        name: "smp_list_handover",
        stage: || Lists::of(&[A]),
        threads: &[
            (0, |lists| {
                lists.add(N);
                lists.signal();
                lists.del(A);
            }),
            (1, |lists| {
                lists.await_signal();
                lists.del(N);
            }),
        ],
        ..PLAIN
    },
    Model { name: "smp_list_again", bound: Some(5), threads: &[(0, again), (1, DEL_B)], ..PLAIN },
    // What is taken off gets an owner who writes into it the number of who was behind it, its own, or the head's.
    Model { name: "smp_list_reuse", threads: &[(0, reuse_first), (1, DEL_B)], ..PLAIN },
    Model {
        name: "smp_list_reuse_own",
        threads: &[
            (0, |lists| {
                lists.del(A);
                lists.fill(A, (A, A));
            }),
            (1, DEL_B),
        ],
        ..PLAIN
    },
    Model {
        name: "smp_list_reuse_head",
        threads: &[
            (0, |lists| {
                lists.del(A);
                lists.fill(A, (HEAD, HEAD));
            }),
            (1, DEL_B),
        ],
        ..PLAIN
    },
    Model {
        name: "smp_list_reuse_behind",
        threads: &[
            (0, DEL_A),
            (1, |lists| {
                lists.del(B);
                lists.fill(B, (A, A));
            }),
        ],
        ..PLAIN
    },
    Model {
        name: "smp_list_reuse_new",
        bound: Some(5),
        stage: || Lists::of(&[A]),
        threads: &[(0, reuse_new), (1, DEL_A)],
        ..PLAIN
    },
    // Waits end before their time.
    Model {
        name: "smp_list_patience",
        bound: Some(6),
        stage: || Lists::impatient(&[A, B]),
        threads: &[(0, TRY_A), (1, TRY_B)],
        ..PLAIN
    },
    Model {
        name: "smp_list_patience_add",
        stage: || Lists::impatient(&[A]),
        threads: &[(0, TRY_A), (1, |lists| lists.try_add(N))],
        ..PLAIN
    },
];

/// Models with three threads.
pub const CROWDS: &[Model<Lists>] = &[
    Model {
        name: "smp_list_3_dels",
        stage: || Lists::of(&[A, B, C]),
        threads: &[(0, DEL_A), (1, DEL_B), (2, DEL_C)],
        ..CROWD
    },
    Model { name: "smp_list_3_del_del_add", threads: &[(0, DEL_A), (1, DEL_B), (2, ADD_N)], ..CROWD },
    Model {
        name: "smp_list_3_del_add_add",
        stage: || Lists::of(&[A]),
        threads: &[(0, DEL_A), (1, ADD_N), (2, ADD_O)],
        ..CROWD
    },
    Model { name: "smp_list_3_reuse", threads: &[(0, reuse_first), (1, DEL_B), (2, ADD_N)], ..CROWD },
    Model {
        name: "smp_list_3_reuse_run",
        stage: || Lists::of(&[A, B, C]),
        threads: &[
            (0, reuse_first),
            (1, |lists| {
                lists.del(B);
                lists.fill(B, (C, A));
            }),
            (2, DEL_C),
        ],
        ..CROWD
    },
    Model {
        name: "smp_list_3_patience",
        stage: || Lists::impatient(&[A, B, C]),
        threads: &[(0, try_reuse_first), (1, TRY_B), (2, TRY_C)],
        ..CROWD
    },
    Model { name: "smp_list_3_reuse_new", threads: &[(0, reuse_new), (1, DEL_A), (2, DEL_B)], ..CROWD },
];

const CROWD: Model<Lists> = Model { bound: Some(2), ..PLAIN };

/// What was published has a window: [`MODELS`] find it with two threads and one preemption.
pub const PUBLISHED: &[Model<Lists>] = &[Model {
    name: "smp_list_published",
    bound: Some(1),
    stage: || Lists::of(&[A]),
    threads: &[
        (0, |lists| {
            lists.add(N);
            lists.del_as_published(N);
            lists.fill(N, (A, A));
        }),
        (1, |lists| lists.del_as_published(A)),
    ],
    ..PLAIN
}];

/// The model of that name.
pub fn named(name: &str) -> Option<&'static Model<Lists>> {
    MODELS.iter().chain(CROWDS).find(|model| model.name == name)
}

fn again(lists: &Lists) {
    lists.del(A);
    lists.add(A);
}

fn reuse_first(lists: &Lists) {
    lists.del(A);
    lists.fill(A, (B, B));
}

fn try_reuse_first(lists: &Lists) {
    if lists.try_del(A) {
        lists.fill(A, (C, C));
    }
}

fn reuse_new(lists: &Lists) {
    lists.add(N);
    lists.del(N);
    lists.fill(N, (A, A));
}
