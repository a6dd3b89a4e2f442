//! "Fail the k-th", for every k: nothing is lost, whatever fails.
//!
//! Each script runs once undisturbed, which tells how often it reaches each fault point. Then it runs once for each
//! point and each of these times, with that one failing: a whole request, a refill, a per-CPU list, the isolation of a
//! pageblock. Every operation still has to be answered rightly, every invariant to hold after each. In the end all is
//! given back, and every single frame can be allocated again.

use std::path::{Path, PathBuf};

use framewright::Order;
use framewright::machine::Fault;
use framewright::request::{__GFP_MEMALLOC, GFP_HIGHUSER_MOVABLE};
use framewright_ops::{Encounters, Handle, Op, Outcome, Scenario, Session, Terms, run, with_session};

fn scripts() -> Vec<(PathBuf, Scenario)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut paths: Vec<PathBuf> = directory.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let scenario = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, scenario)
    };
    paths.into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "ops")).map(read).collect()
}

#[test]
fn scripts_run_undisturbed() {
    let scripts = scripts();
    assert_eq!(scripts.len(), 30);
    for (path, scenario) in scripts {
        let report = run(&scenario).unwrap_or_else(|failure| panic!("{}: {failure}", path.display()));
        let served = |outcome: &Outcome| !matches!(outcome, Outcome::Skipped);
        assert!(report.count(served) * 10 >= scenario.steps.len() * 8, "{}: {report:?}", path.display());
    }
}

/// Takes every frame there is, one by one, and gives them back.
fn take_every_frame(session: &Session<'_>) -> Result<(), String> {
    let free = session.give_everything_back()?.free;
    let terms = Terms::new(GFP_HIGHUSER_MOVABLE | __GFP_MEMALLOC);
    let mut taken = 0;
    // A request that fails dissolves one pageblock of each high-atomic reserve, for the next.
    for attempt in 0..=free as u32 {
        let count = (free - taken) as u32;
        match session.perform(&Op::Bulk { name: Handle(1 << 30 | attempt), count, order: Order(0), terms })? {
            Outcome::Blocks(blocks) => taken += blocks as u64,
            Outcome::NotServed(_) => {}
            other => return Err(format!("taking every frame: {other}")),
        }
        if taken == free {
            return session.give_everything_back().map(drop);
        }
    }
    Err(format!("{taken} of {free} frames could be taken in the end"))
}

/// Runs a script in which `point` fails the `hit`-th time that it is reached.
fn run_failing(scenario: &Scenario, point: Fault, hit: u64) -> Result<Encounters, String> {
    with_session(&scenario.shape, |session| {
        session.perform(&Op::Fault { point, hit })?;
        for step in &scenario.steps {
            let explain = |wrong: String| format!("`{}`: {wrong}", step.op);
            session.perform(&step.op).map_err(explain)?;
            session.check().map_err(explain)?;
        }
        session.check_frames()?;
        let encounters = session.encounters();
        take_every_frame(session)?;
        Ok(encounters)
    })
}

fn fail_every_one(fault: Fault) {
    let index = Fault::ALL.iter().position(|&point| point == fault).unwrap();
    let mut runs = 0;
    for (path, scenario) in scripts() {
        let undisturbed = run(&scenario).unwrap_or_else(|failure| panic!("{}: {failure}", path.display()));
        for hit in 1..=undisturbed.encounters.hits[index] {
            match run_failing(&scenario, fault, hit) {
                Ok(encounters) => assert_eq!(encounters.fired[index], 1, "{}, {fault:?} {hit}", path.display()),
                Err(wrong) => panic!("{} with `fault {fault:?} {hit}` first: {wrong}", path.display()),
            }
            runs += 1;
        }
    }
    assert!(runs >= 50, "{fault:?} was reached {runs} times only");
}

#[test]
fn every_request_fails_once() {
    fail_every_one(Fault::Alloc);
}

#[test]
fn every_refill_fails_once() {
    fail_every_one(Fault::Refill);
}

#[test]
fn every_list_is_busy_once() {
    fail_every_one(Fault::PcpBusy);
}

#[test]
fn every_isolation_fails_once() {
    fail_every_one(Fault::Isolate);
}

#[test]
fn every_drain_fails_once() {
    fail_every_one(Fault::Drain);
}

#[test]
fn handles_of_scripts_are_distinct() {
    // What a script defines twice the parser refuses; what it refers to it must define.
    for (path, scenario) in scripts() {
        let defined: Vec<Handle> = scenario.steps.iter().filter_map(|step| step.op.defines()).collect();
        let undefined =
            scenario.steps.iter().filter_map(|step| step.op.refers_to()).find(|used| !defined.contains(used));
        assert_eq!(undefined, None, "{}", path.display());
    }
}
