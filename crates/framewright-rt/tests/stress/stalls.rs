//! Stalls that the watchdog outside of the process must find.

use std::process::ExitStatus;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use framewright::request::GFP_KERNEL;
use framewright::{Mechanisms, Request};
use framewright_rt::{Backing, CpuMode};
use rustix::process::{Signal, getpid, kill_process};

use crate::stage::{Plan, Stage};
use crate::watchdog::{self, LIMIT};

fn run(name: &str, limit: Duration) -> Result<ExitStatus, String> {
    watchdog::watch(watchdog::again(Some(name)).unwrap(), limit)
}

/// What the watchdog says of a planted stall.
fn found(name: &str) -> String {
    let told = run(name, Duration::from_secs(1)).expect_err("nothing moves, and nobody said so");
    println!("{told}");
    told
}

fn stage(mechanisms: &str) -> Arc<Stage> {
    let plan = Plan {
        time: Duration::MAX,
        operations: u64::MAX,
        rest: u64::MAX,
        threads: 1,
        cpus: CpuMode::Lease,
        mechanisms: Mechanisms::parse(mechanisms).unwrap(),
        seed: 1,
        backing: Backing::Private,
        memory: 32 << 20,
        forks: false,
        patience: None,
    };
    Arc::new(Stage::new(plan).unwrap())
}

/// Holds every lock of the zones, and sleeps.
#[inline(never)]
fn sleep_with_the_locks(stage: &Stage, frozen: &Barrier) {
    let _frozen = stage.pages().freeze().unwrap();
    frozen.wait();
    // No turn of it is needed: the waiter makes none either.
    loop {
        thread::sleep(LIMIT);
    }
}

/// Asks for a block that only the zone has.
#[inline(never)]
fn wait_for_the_lock(stage: &Stage, frozen: &Barrier) {
    frozen.wait();
    let block = stage.pages().alloc(&Request::new(GFP_KERNEL, 9));
    unreachable!("{block:?} while all zones are locked");
}

fn sleeper_and_waiter(mechanisms: &str) {
    let stage = stage(mechanisms);
    let frozen = Barrier::new(2);
    let named = |name: &str| thread::Builder::new().name(name.to_owned());
    thread::scope(|scope| {
        named("sleeper").spawn_scoped(scope, || sleep_with_the_locks(&stage, &frozen)).unwrap();
        named("waiter").spawn_scoped(scope, || wait_for_the_lock(&stage, &frozen)).unwrap();
    });
}

/// The locks are named, and so is the thread that has them, by its stack.
fn assert_is_explained(told: &str, lock: &str) {
    assert!(told.starts_with("stalled: no turn for 1 s\n"), "{told}");
    let held = told.lines().filter(|line| line.starts_with("held: zone ") && line.contains(lock)).count();
    assert!(held > 0, "{told}");
    for (name, place) in [("sleeper", "sleep_with_the_locks"), ("waiter", "wait_for_the_lock")] {
        let (_, of) = told.split_once(&format!(" {name}: state ")).unwrap_or_else(|| panic!("no {name}: {told}"));
        let stack = of.split("\nthread ").next().unwrap();
        assert!(stack.contains(place), "{name}: {stack}");
    }
}

#[test]
fn who_sleeps_with_a_ticket_lock_is_named() {
    if watchdog::is_watched() {
        return sleeper_and_waiter("baseline");
    }
    assert_is_explained(&found("stalls::who_sleeps_with_a_ticket_lock_is_named"), "lock.next");
}

#[test]
fn who_sleeps_with_a_queued_lock_is_named() {
    if watchdog::is_watched() {
        return sleeper_and_waiter("baseline,zone-lock=queued");
    }
    assert_is_explained(&found("stalls::who_sleeps_with_a_queued_lock_is_named"), "lock.turns");
}

/// A stopped process answers no signal, and its locks are read all the same.
#[test]
fn a_stopped_process_is_described() {
    if watchdog::is_watched() {
        let stage = stage("baseline");
        let _frozen = stage.pages().freeze().unwrap();
        kill_process(getpid(), Signal::STOP).unwrap();
        // Another thread may take the signal, and stop this one a moment later.
        loop {
            thread::sleep(LIMIT);
        }
    }
    let told = found("stalls::a_stopped_process_is_described");
    assert!(told.contains("state T") && told.contains("no stack: the thread is stopped"), "{told}");
    assert!(told.contains("held: zone Normal of node 0: "), "{told}");
}

/// A run that goes on is not ended, and its own end is told.
#[test]
fn what_moves_is_left_alone() {
    if watchdog::is_watched() {
        (0..10).for_each(|worker| watchdog::beat(Some(worker)));
        return;
    }
    let status = run("stalls::what_moves_is_left_alone", LIMIT).unwrap();
    assert!(status.success(), "{status}");
}
