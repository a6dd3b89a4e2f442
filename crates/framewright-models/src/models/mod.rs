//! The models: a file for each protocol.

/// What a CPU does: calls of the stage's methods, or a function.
macro_rules! does {
    ([$($call:ident($($argument:expr),*)),+]) => { |stage| { $(_ = stage.$call($($argument),*);)+ } };
    ($function:ident) => { $function };
}

/// The threads of a model: the number of a CPU, and what it does.
macro_rules! cpus {
    ($($cpu:literal $does:tt),+) => { &[$(($cpu, does!($does))),+] };
}

pub mod cluster;
pub mod depot;
pub mod device;
pub mod fork;
pub mod front;
pub mod lock;
pub mod nolock;
pub mod owned;
pub mod pcp;
pub mod queued;
pub mod range;
pub mod reach;
pub mod ring;
pub mod runtime;
pub mod shared;
pub mod smp_list;
pub mod stat;
pub mod together;
pub mod zone;

use std::collections::BTreeSet;

use crate::explore::{Model, Outcome, Part, explore, explore_noting};
use crate::session::{Call, Plant};
use crate::stage::{Sizes, Stage};

/// All models on an allocator; others are in [`smp_list`], [`ring`] and [`runtime`].
pub fn all() -> impl Iterator<Item = &'static Model> {
    [
        lock::MODELS,
        queued::MODELS,
        shared::MODELS,
        pcp::MODELS,
        front::MODELS,
        fork::MODELS,
        fork::COPIED,
        depot::MODELS,
        device::MODELS,
        nolock::MODELS,
        zone::MODELS,
        range::MODELS,
        reach::MODELS,
        together::MODELS,
        cluster::MODELS,
        owned::MODELS,
        stat::MODELS,
        stat::NODES,
        stat::IDLE,
    ]
    .into_iter()
    .flatten()
}

/// Returns the names of all models, in the order of the files.
pub fn names() -> impl Iterator<Item = &'static str> {
    let on_lists = smp_list::MODELS.iter().chain(smp_list::CROWDS).map(|model| model.name);
    let on_rings = ring::MODELS.iter().map(|model| model.name);
    let of_runtime =
        runtime::MODELS.iter().map(|model| model.name).chain(runtime::LEASES.iter().map(|model| model.name));
    all().map(|model| model.name).chain(on_lists).chain(on_rings).chain(of_runtime)
}

/// Runs `$call` on the model of a name, whatever its stage is; `None` if there is none.
macro_rules! named {
    ($name:ident, $call:expr) => {{
        let on_lists = || smp_list::named($name).map($call);
        let on_rings = || ring::MODELS.iter().find(|model| model.name == $name).map($call);
        let of_runtime = || runtime::MODELS.iter().find(|model| model.name == $name).map($call);
        let of_leases = || runtime::LEASES.iter().find(|model| model.name == $name).map($call);
        let on_allocators = all().find(|model| model.name == $name).map($call);
        on_allocators.or_else(on_lists).or_else(on_rings).or_else(of_runtime).or_else(of_leases)
    }};
}

/// Explores the model of that name with a planted bug; `None` if there is none.
pub fn explore_named(name: &str, plant: Plant) -> Option<Outcome> {
    named!(name, |model| explore(model, Some(plant)))
}

/// Explores the model of that name, noting calls; `None` if there is none.
pub fn explore_named_noting(name: &str) -> Option<(Outcome, BTreeSet<Call>)> {
    named!(name, explore_noting)
}

/// A model on an allocator, at whose end all invariants hold.
const fn model(name: &'static str, stage: fn() -> Stage, threads: &'static [(u16, Part)]) -> Model {
    Model::new(name, stage, threads, sound)
}

/// Checks what holds at the end of every model.
fn sound(stage: &Stage) {
    stage.check();
}

/// The smallest stage, with all memory free.
fn tiny() -> Stage {
    Stage::new(&Sizes::TINY)
}

/// Frees the block in slot 0.
fn free_0(stage: &Stage) {
    stage.free_from(0);
}

/// Frees the block in slot 1.
fn free_1(stage: &Stage) {
    stage.free_from(1);
}

fn drain_0(stage: &Stage) {
    stage.drain(0);
}

/// Checks that of two frees which cannot both be right, one was refused.
fn one_was_right(stage: &Stage) {
    assert_eq!(stage.tried(), (1, 1), "frees that were right, and refused");
    stage.check();
}
