//! Lists that many CPUs change at once: every race of their protocol, and nodes that get a new owner at once.

use crate::explore::{Model, Part};
use crate::lists::{A, B, C, HEAD, Lists, N, O};

/// A model at whose end the list and its nodes are whole.
const fn model(name: &'static str, stage: fn() -> Lists, threads: &'static [(u16, Part<Lists>)]) -> Model<Lists> {
    Model::new(name, stage, threads, Lists::check)
}

/// Models with two threads.
///
/// Without a bound, `reuse_new` ends after 3,135,829 executions, `again` after 5,855,797 and `run` after 6,087,983, in
/// minutes. `patience` never ends, because two threads that give up may do so in turn for ever.
pub const MODELS: &[Model<Lists>] = &[
    // All nodes leave the list; or one stays, after them or before them.
    model("smp_list_neighbours", two, cpus!(0[del(A)], 1[del(B)])),
    model("smp_list_front", three, cpus!(0[del(A)], 1[del(B)])),
    model("smp_list_back", three, cpus!(0[del(B)], 1[del(C)])),
    model("smp_list_run", three, cpus!(0 [del(A), del(C)], 1 [del(B)])).bound(4),
    // The first, the only and the last node leave while another is put on.
    model("smp_list_del_add", two, cpus!(0[del(A)], 1[add(N)])),
    model("smp_list_only_add", one, cpus!(0[del(A)], 1[add(N)])),
    model("smp_list_last_add", two, cpus!(0[del(B)], 1[add(N)])),
    model("smp_list_only_splice", one, cpus!(0[del(A)], 1[splice(N, O)])),
    model("smp_list_empty_splice", || Lists::of(&[]), cpus!(0[splice(A, B)], 1[splice(N, O)])),
    model("smp_list_adds", two, cpus!(0[add(N)], 1[add(O)])),
    // One thread puts a node on, another takes it off.
    model("smp_list_handover", one, cpus!(0 [add(N), signal(), del(A)], 1 [await_signal(), del(N)])),
    model("smp_list_again", two, cpus!(0 [del(A), add(A)], 1 [del(B)])).bound(5),
    // A node that leaves gets an owner, which writes into it the number of the node after it, its own, or the head's.
    model("smp_list_reuse", two, cpus!(0 [del(A), fill(A, (B, B))], 1 [del(B)])),
    model("smp_list_reuse_own", two, cpus!(0 [del(A), fill(A, (A, A))], 1 [del(B)])),
    model("smp_list_reuse_head", two, cpus!(0 [del(A), fill(A, (HEAD, HEAD))], 1 [del(B)])),
    model("smp_list_reuse_behind", two, cpus!(0 [del(A)], 1 [del(B), fill(B, (A, A))])),
    model("smp_list_reuse_new", one, cpus!(0 [add(N), del(N), fill(N, (A, A))], 1 [del(A)])).bound(5),
    // An exchange that fails may see an old value.
    model("smp_list_stale_dels", three, cpus!(0[del(A)], 1[del(B)])).stale(),
    model("smp_list_stale_del_add", two, cpus!(0[del(A)], 1[add(N)])).stale(),
    model("smp_list_stale_adds", two, cpus!(0[add(N)], 1[add(O)])).stale(),
    model("smp_list_stale_add_again", one, cpus!(0[add(O)], 1 [add(N), del(N)])).stale().bound(4),
    model("smp_list_stale_again", two, cpus!(0 [del(A), add(A)], 1 [del(B)])).stale().bound(2),
    model("smp_list_stale_splice", one, cpus!(0[del(A)], 1[splice(N, O)])).stale(),
    model("smp_list_stale_handover", one, cpus!(0 [add(N), signal(), del(A)], 1 [await_signal(), del(N)]))
        .stale()
        .bound(3),
    // Waits end early.
    model("smp_list_patience", || Lists::impatient(&[A, B]), cpus!(0[try_del(A)], 1[try_del(B)])).bound(6),
    model("smp_list_patience_add", || Lists::impatient(&[A]), cpus!(0[try_del(A)], 1[try_add(N)])),
];

/// Models with three threads.
pub const CROWDS: &[Model<Lists>] = &[
    model("smp_list_3_dels", three, cpus!(0[del(A)], 1[del(B)], 2[del(C)])).bound(2),
    model("smp_list_3_del_del_add", two, cpus!(0[del(A)], 1[del(B)], 2[add(N)])).bound(2),
    model("smp_list_3_del_add_add", one, cpus!(0[del(A)], 1[add(N)], 2[add(O)])).bound(2),
    model("smp_list_3_reuse", two, cpus!(0 [del(A), fill(A, (B, B))], 1 [del(B)], 2 [add(N)])).bound(2),
    model("smp_list_3_reuse_run", three, cpus!(0 [del(A), fill(A, (B, B))], 1 [del(B), fill(B, (C, A))], 2 [del(C)]))
        .bound(2),
    model("smp_list_3_patience", || Lists::impatient(&[A, B, C]), cpus!(0[try_reuse(A)], 1[try_del(B)], 2[try_del(C)]))
        .bound(2),
    model("smp_list_3_reuse_new", two, cpus!(0 [add(N), del(N), fill(N, (A, A))], 1 [del(A)], 2 [del(B)])).bound(2),
];

/// The protocol as it was published has a window: two threads and one preemption show it.
pub const PUBLISHED: &[Model<Lists>] = &[model(
    "smp_list_published",
    one,
    cpus!(0 [add(N), del_as_published(N), fill(N, (A, A))], 1 [del_as_published(A)]),
)
.bound(1)];

/// The model of that name.
pub fn named(name: &str) -> Option<&'static Model<Lists>> {
    MODELS.iter().chain(CROWDS).find(|model| model.name == name)
}

fn one() -> Lists {
    Lists::of(&[A])
}

fn two() -> Lists {
    Lists::of(&[A, B])
}

fn three() -> Lists {
    Lists::of(&[A, B, C])
}
