//! A short run of the example `stress`, in each configuration: a few seconds each, bounded by operations.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use framewright::mechanisms::PRESETS;
use framewright::request::GFP_KERNEL;
use framewright::{Mechanisms, Order, Pfn, PfnRange, Request};
use framewright_rt::{Backing, CpuMode};

use crate::stage::{Block, Did, Plan, Stage, lock};
use crate::watchdog::guarded;
use crate::{children, rest, run};

/// Operations of each run.
const OPERATIONS: u64 = 18_000;

const PLAN: Plan = Plan {
    time: Duration::MAX,
    operations: OPERATIONS,
    rest: OPERATIONS / 3,
    threads: 4,
    cpus: CpuMode::Lease,
    mechanisms: Mechanisms::DEFAULT,
    seed: 7,
    backing: Backing::Private,
    memory: 32 << 20,
    forks: true,
    patience: None,
};

/// Keeps other runs that fork away while the guard lives.
///
/// A fork brings all arenas of the process to rest. It waits for the background thread of each, which may wait for
/// the CPU of a thread that is pinned there. If that thread forks as well, it waits for the first fork.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stress(plan: Plan) {
    let _alone = alone();
    let mut told = Vec::new();
    let total = run::run(plan, &mut told).unwrap_or_else(|wrong| {
        panic!("{plan:?}: {wrong}\n{}", String::from_utf8_lossy(&told));
    });
    println!("{plan:?}:\n{total}");
    for did in [Did::FreedRemotely, Did::Local, Did::WrongFrees, Did::Drains, Did::Rests] {
        assert_ne!(total.get(did), 0, "{}", Did::NAMES[did as usize]);
    }
}

fn mechanisms(text: &str) -> Mechanisms {
    Mechanisms::parse(text).unwrap()
}

#[test]
fn leases() {
    guarded(|| {
        stress(PLAN);
    });
}

#[test]
fn leases_of_shared_memory_that_is_short() {
    guarded(|| {
        stress(Plan { backing: Backing::Memfd, memory: 8 << 20, ..PLAN });
    });
}

#[test]
fn leases_without_a_depot() {
    guarded(|| {
        stress(Plan { mechanisms: mechanisms("baseline"), ..PLAN });
    });
}

/// Without a depot all threads meet at the zone's lock.
#[test]
fn leases_with_a_queued_zone_lock() {
    guarded(|| {
        stress(Plan { mechanisms: mechanisms("baseline,zone-lock=queued"), ..PLAN });
    });
}

#[test]
fn leases_with_a_zone_lock_for_readers_and_writers() {
    guarded(|| {
        stress(Plan { mechanisms: mechanisms("baseline,zone-lock=rw"), ..PLAN });
    });
}

/// Two threads with each named set of mechanisms.
///
/// `FRAMEWRIGHT_STRESS_SECONDS=60` divides a minute among them instead.
#[test]
fn presets() {
    guarded(|| {
        let seconds = std::env::var("FRAMEWRIGHT_STRESS_SECONDS").ok();
        let seconds: Option<f64> = seconds.map(|text| text.parse().expect("a number of seconds"));
        let plan = Plan { operations: OPERATIONS / 3, rest: OPERATIONS / 9, threads: 2, forks: true, ..PLAN };
        let plan = seconds.map_or(plan, |seconds| Plan {
            time: Duration::from_secs_f64(seconds / PRESETS.len() as f64),
            operations: u64::MAX,
            rest: OPERATIONS,
            ..plan
        });
        for &(name, mechanisms) in PRESETS {
            println!("{name}");
            stress(Plan { mechanisms, ..plan });
        }
    });
}

#[test]
fn processors() {
    guarded(|| {
        stress(Plan { cpus: CpuMode::PerCpu, ..PLAN });
    });
}

#[test]
fn processors_and_memory_that_is_short() {
    guarded(|| {
        stress(Plan { cpus: CpuMode::PerCpu, mechanisms: mechanisms("default,depot=eighth"), memory: 8 << 20, ..PLAN });
    });
}

#[test]
fn hardened() {
    guarded(|| {
        // Their children: see `stress_fork.rs`.
        stress(Plan { mechanisms: mechanisms("default,hardened=poison"), ..PLAN });
    });
}

#[test]
fn hardened_processors() {
    guarded(|| {
        let mechanisms = mechanisms("baseline,hardened=zero");
        stress(Plan { cpus: CpuMode::PerCpu, mechanisms, ..PLAN });
    });
}

/// A stage without threads, and a block that has an owner.
fn stage() -> (Arc<Stage>, Block) {
    let stage = Arc::new(Stage::new(PLAN).unwrap());
    let order = Order(3);
    let pfn = stage.pages().alloc(&Request { order, ..Request::page(GFP_KERNEL) }).unwrap();
    let block = Block { range: PfnRange::block(pfn, order), order: Some(order), mark: 77 };
    stage.take(&block, false).unwrap();
    (stage, block)
}

#[test]
fn a_second_owner_is_found() {
    let (stage, block) = stage();
    let last = Block { range: PfnRange { start: Pfn(block.range.end.0 - 1), ..block.range }, order: None, mark: 78 };
    let found = stage.take(&last, false).unwrap_err();
    assert!(found.contains("belongs to 0x4d and not to 0x0"), "{found}");
}

#[test]
fn a_changed_word_is_found() {
    let (stage, block) = stage();
    stage.check(&block).unwrap();
    let word = stage.arena.address(Pfn(block.range.start.0 + 5)).unwrap().cast::<u64>();
    // SAFETY: a word of a block that this test holds.
    unsafe { word.write(!word.read()) };
    let found = stage.free(&block).unwrap_err();
    assert!(found.starts_with("word 0 of frame"), "{found}");
}

#[test]
fn a_lost_block_is_found_at_rest() {
    let (stage, block) = stage();
    let found = rest::look(&stage).unwrap_err();
    assert!(found.starts_with("8 frames are owned, 0 held"), "{found}");
    lock(&stage.exchange).push(block);
    rest::look(&stage).unwrap();
    stage.pages().alloc(&Request::page(GFP_KERNEL)).unwrap();
    let found = rest::look(&stage).unwrap_err();
    assert!(found.starts_with("8 frames are owned, 8 held"), "{found}");
    assert!(rest::look_empty(&stage).is_err());
}

#[test]
fn what_a_child_finds_is_told() {
    let _alone = alone();
    let (stage, block) = stage();
    let child = children::while_others_run(&stage, 0, Some(&block), false);
    assert_eq!(child, Ok(Did::Children));
    stage.pages().free(block.range.start, Order(3)).unwrap();
    let found = children::while_others_run(&stage, 0, None, false);
    assert_eq!(found, Err("a child found something wrong".into()));
}
