//! Workloads: each ends, loses nothing and is the same each time; what is written wrong is refused with what would be
//! right.

use std::fmt::Write;

use framewright::Mechanisms;
use framewright_sim::machine;
use framewright_sim::model::Model;
use framewright_sim::run::Schedule;
use framewright_sim::workload::{Cause, Job, Outcome, Progress, Workload, run};
use proptest::prelude::*;

fn model() -> Model {
    machine::named("skylake-2x28").unwrap().model()
}

/// Small and short: a millisecond, of which a tenth is the warm-up.
fn job(text: &str, mechanisms: Mechanisms, cpus: usize) -> Job {
    let (warm_up, window) = (100_000_000, 1_000_000_000);
    Job { warm_up, window, ..Job::new(text.parse().unwrap(), mechanisms, cpus) }
}

fn simulate(job: &Job) -> Outcome {
    run(&model(), job, &mut |_| {}).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Each workload, small enough for many rounds in a millisecond.
const ALL: [&str; 2] = ["page-fault1:pages=200", "page-fault1:pages=200,zero=off,lru=on"];

#[test]
fn every_workload_ends_and_is_the_same_again() {
    for text in ALL {
        for mechanisms in [Mechanisms::BASELINE, Mechanisms::DEFAULT] {
            for cpus in [1, 8] {
                let job = job(text, mechanisms, cpus);
                let first = simulate(&job);
                assert_eq!(simulate(&job), first, "{text} on {cpus}");
                assert_eq!(first.report.workload, text);
                assert!(first.report.operations > 0, "{text} on {cpus}: {:?}", first.report);
                assert!(first.report.per_second > 0.0 && !first.report.figures.is_empty());
                if cpus > 1 {
                    assert_ne!(simulate(&Job { seed: 2, ..job }).report.per_cpu, first.report.per_cpu, "{text}");
                }
            }
        }
    }
}

/// In a random order of accesses, with interrupts that allocate, on nodes that lie close to their watermarks.
#[test]
fn every_workload_loses_nothing_in_a_random_order() {
    for text in ALL {
        for seed in 0..3 {
            let mechanisms = [Mechanisms::BASELINE, Mechanisms::DEFAULT][seed as usize % 2];
            let job = Job { seed, ..job(text, mechanisms, 6) };
            simulate(&Job { schedule: Schedule::Random(8), interrupts: Some(20_000_000), ..job });
        }
    }
}

#[test]
fn what_a_run_says_of_the_lists_of_pages_in_use() {
    let report = simulate(&job("page-fault1:pages=200,lru=on", Mechanisms::BASELINE, 8)).report;
    let lock = report.locks.iter().find(|lock| lock.name == "LRU lock, Node 0").unwrap();
    // Put on 15 at a time and taken off 32 at a time.
    let pages = report.operations as f64 / lock.taken as f64;
    assert!((5.0..15.0).contains(&pages), "{pages} pages a time");
    let line = report.lines.iter().find(|line| line.name == "LRU list of node 0 + 0").unwrap();
    assert!(line.fields.iter().any(|field| field.name == "lock.serving"), "{line:?}");
}

#[test]
fn progress_goes_on_to_the_end() {
    let mut all: Vec<Progress> = Vec::new();
    let job = job("page-fault1:pages=50", Mechanisms::BASELINE, 2);
    run(&model(), &job, &mut |progress| all.push(progress)).unwrap();
    assert!(all.len() > 20 && all.len() <= 101, "{}", all.len());
    assert!(all.windows(2).all(|pair| pair[0].done < pair[1].done));
    let last = all.last().unwrap();
    assert!(last.done * 100 > last.total * 95, "{last:?}");
}

#[test]
fn what_cannot_be_run_says_why() {
    let small = job("page-fault1", Mechanisms::BASELINE, 4);
    let mut text = String::new();
    for job in [
        Job { cpus: 0, ..small.clone() },
        Job { cpus: 113, ..small.clone() },
        Job { cpus: 1, memory: Some(1024), seed: 7, window: 10_000_000_000, ..small.clone() },
    ] {
        let failure = run(&model(), &job, &mut |_| {}).unwrap_err();
        writeln!(text, "{failure}").unwrap();
    }
    insta::assert_snapshot!(text);
    let poor = Job { memory: Some(1024), window: 10_000_000_000, ..small };
    let failure = run(&model(), &poor, &mut |_| {}).unwrap_err();
    assert!(matches!(failure.cause, Cause::NoMemory { frames: 1024, .. }), "{failure:?}");
}

#[test]
fn what_workloads_are() {
    let about: Vec<String> = Workload::names().map(|name| Workload::about(name).unwrap()).collect();
    insta::assert_snapshot!(about.join("\n"));
    assert!(about.iter().flat_map(|about| about.lines()).all(|line| line.len() <= 120));
    assert_eq!(Workload::about("page-fault2"), None);
}

#[test]
fn texts_that_are_no_workload() {
    let mut text = String::new();
    for wrong in [
        "",
        "page-fault",
        "Page-fault1",
        "page-fault1:",
        "page-fault1:pages",
        "page-fault1:pages=",
        "page-fault1:pages=0",
        "page-fault1:pages=+5",
        "page-fault1:pages=99999999999999999999",
        "page-fault1:zero=yes",
        "page-fault1:speed=9",
        "page-fault1:pages=4,,zero=on",
        "page-fault1:pages=4,pages=5",
        "page-fault1:pages=4:zero=on",
    ] {
        let error = wrong.parse::<Workload>().unwrap_err();
        writeln!(text, "{wrong:?}\n    {error}").unwrap();
    }
    insta::assert_snapshot!(text);
}

proptest! {
    #[test]
    fn what_prints_parses_back(
        pages in 1_u32..10_000,
        zero: bool,
        lru: bool,
        order in Just(["pages", "zero", "lru"]).prop_shuffle(),
    ) {
        let switch = |on| if on { "on" } else { "off" }.to_owned();
        let value = |key: &str| match key {
            "pages" => pages.to_string(),
            "zero" => switch(zero),
            _ => switch(lru),
        };
        let options: Vec<String> = order.iter().map(|key| format!("{key}={}", value(key))).collect();
        let workload: Workload = format!("page-fault1:{}", options.join(",")).parse().unwrap();
        prop_assert_eq!(workload.to_string().parse(), Ok(workload));
    }

    #[test]
    fn no_text_does_harm(text in "(page-fault1|ops|bulk|x)?:?[a-z0-9=,:. -]{0,30}") {
        if let Ok(workload) = text.parse::<Workload>() {
            prop_assert_eq!(workload.to_string().parse(), Ok(workload));
        }
    }
}
