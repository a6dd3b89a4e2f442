//! A short run of the example `stress`, in each configuration: a few seconds each, bounded by operations.

// Its modules say `crate::stage` and the like, so they are this crate's here.
#[path = "../examples/stress/children.rs"]
mod children;
#[path = "../examples/stress/disturb.rs"]
mod disturb;
#[path = "../examples/stress/gate.rs"]
mod gate;
#[path = "../examples/stress/rest.rs"]
mod rest;
#[path = "../examples/stress/run.rs"]
mod run;
#[path = "../examples/stress/shadow.rs"]
mod shadow;
#[path = "../examples/stress/stage.rs"]
mod stage;
#[path = "../examples/stress/turns.rs"]
mod turns;
#[path = "../examples/stress/worker.rs"]
mod worker;

use std::time::Duration;

use framewright::Mechanisms;
use framewright_rt::{Backing, CpuMode};
use stage::{Did, Plan};

/// Operations of each run.
const OPERATIONS: u64 = 40_000;

fn stress(cpus: CpuMode, mechanisms: &str, backing: Backing, memory: u64) {
    let plan = Plan {
        time: Duration::MAX,
        operations: OPERATIONS,
        rest: OPERATIONS / 3,
        threads: 4,
        cpus,
        mechanisms: Mechanisms::parse(mechanisms).unwrap(),
        seed: 7,
        backing,
        memory,
        forks: true,
        patience: None,
    };
    let mut told = Vec::new();
    let total = run::run(plan, &mut told).unwrap_or_else(|wrong| {
        panic!("{cpus:?}, {mechanisms}, {backing}: {wrong}\n{}", String::from_utf8_lossy(&told));
    });
    println!("{cpus:?}, {mechanisms}, {backing}:\n{total}");
    for did in [Did::FreedRemotely, Did::Local, Did::WrongFrees, Did::Drains, Did::Rests] {
        assert_ne!(total.get(did), 0, "{}", Did::NAMES[did as usize]);
    }
}

#[test]
fn leases() {
    stress(CpuMode::Lease, "default", Backing::Private, 64 << 20);
}

#[test]
fn leases_with_little_memory() {
    stress(CpuMode::Lease, "default", Backing::Memfd, 8 << 20);
}

#[test]
fn leases_without_a_depot() {
    stress(CpuMode::Lease, "baseline", Backing::Private, 32 << 20);
}

#[test]
fn processors() {
    stress(CpuMode::PerCpu, "default", Backing::Private, 64 << 20);
}

#[test]
fn processors_with_little_memory() {
    stress(CpuMode::PerCpu, "default", Backing::Private, 8 << 20);
}
