//! Workloads: each ends, loses nothing and is the same each time; what is written wrong is refused with what would be
//! right.

use std::fmt::Write;

use framewright::report::NodeSnapshot;
use framewright::{CpuId, FrameState, Mechanisms, NodeId, Pfn, ZoneIdx, ZoneKind};
use framewright_sim::machine;
use framewright_sim::model::Model;
use framewright_sim::report::{Report, Times};
use framewright_sim::run::Schedule;
use framewright_sim::workload::{
    Aftermath, Cause, Failure, Job, Ops, Outcome, PageFaultMix, Passes, Progress, SpecError, Workload, run,
    run_and_look, run_watched,
};
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
const ALL: [&str; 24] = [
    "page-fault1:pages=200",
    "page-fault1:pages=200,zero=off,lru=lock",
    "page-fault1:pages=200,zero=off,lru=smp",
    "page-fault-mix:pages=512",
    "page-fault-mix:pages=1024,free=200,work=0",
    "page-bench01",
    "page-bench01:order=9",
    "page-bench02",
    "page-bench02:outstanding=50,order=3",
    "page-bench03",
    "page-bench04",
    "page-bench04:batch=100",
    "page-bench05:ring=16",
    "page-bench05:ring=64,order=2",
    "parallel-free:pages=100",
    "parallel-free:pages=100,shuffled=on",
    "aim7:pages=20,think=1000",
    "aim7:pages=20,burst=8,think=1000,elsewhere=50",
    "aim7:pages=20,think=1000,moved=60",
    "bulk:blocks=100",
    "repeat",
    "repeat:order=4",
    "rand:pages=50",
    "producer-consumer:ring=32,work=100,far=on",
];

#[test]
fn every_workload_ends_and_is_the_same_again() {
    for text in ALL {
        for mechanisms in [Mechanisms::BASELINE, Mechanisms::DEFAULT] {
            for cpus in [1, 8] {
                let job = job(text, mechanisms, cpus);
                let first = simulate(&job);
                assert_eq!(simulate(&job), first, "{text} on {cpus}");
                assert_eq!(first.report.workload, text);
                assert!(first.report.per_second > 0.0 && !first.report.figures.is_empty(), "{text} on {cpus}");
                assert!(first.report.operations > 0, "{text} on {cpus}");
            }
        }
    }
}

/// With the length that is usual for the workload: every CPU completes whole rounds.
#[test]
fn every_workload_knows_how_long_to_go_on() {
    for text in ALL.into_iter().filter(|text| !text.starts_with("page-fault")) {
        let job = Job::new(text.parse().unwrap(), Mechanisms::DEFAULT, 4);
        let outcome = simulate(&job);
        let report = outcome.report;
        assert!(report.warm_up_ns > 0 && report.window_ns > 0, "{text}: {report:?}");
        assert!((20..100_000).contains(&report.operations), "{text}: {}", report.operations);
        let longest = report.per_cpu.iter().map(|cpu| time(&cpu.time)).fold(0.0, f64::max);
        assert!(longest < 3.0 * report.window_ns as f64, "{text}: {longest} of {}", report.window_ns);
    }
}

/// All of a CPU's time.
fn time(t: &Times) -> f64 {
    let waiting = t.queued + t.spinning + t.stores + t.asleep + t.interrupts;
    t.instructions + t.hits + t.near + t.far + t.memory + t.zeroing + waiting
}

#[test]
fn another_seed_is_another_run() {
    for text in ["page-fault1:pages=200", "aim7:pages=20", "rand:pages=50", "parallel-free:pages=100,shuffled=on"] {
        let job = job(text, Mechanisms::BASELINE, 8);
        let other = Job { seed: 2, ..job.clone() };
        assert_ne!(simulate(&other).report.per_cpu, simulate(&job).report.per_cpu, "{text}");
    }
}

/// CPUs that share nothing but the allocator do more together than one alone.
#[test]
fn more_cpus_do_more() {
    for text in ["page-bench01", "page-bench03", "page-bench04:batch=16", "repeat", "page-fault1:pages=40"] {
        for mechanisms in [Mechanisms::BASELINE, Mechanisms::DEFAULT] {
            let speed = |cpus| simulate(&job(text, mechanisms, cpus)).report.per_second;
            let (one, eight) = (speed(1), speed(8));
            assert!(eight > 2.0 * one, "{text}, {mechanisms}: {one} and {eight}");
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
    let report = simulate(&job("page-fault1:pages=200,lru=lock", Mechanisms::BASELINE, 8)).report;
    let lock = report.locks.iter().find(|lock| lock.name == "LRU lock, Node 0").unwrap();
    // Put on 15 at a time and taken off 32 at a time.
    let pages = report.operations as f64 / lock.taken as f64;
    assert!((5.0..15.0).contains(&pages), "{pages} pages a time");
    let line = report.lines.iter().find(|line| line.name == "LRU list of node 0 + 0").unwrap();
    assert!(line.fields.iter().any(|field| field.name == "lock"), "{line:?}");
}

/// Each run looks at its end whether lists have every page in use once and no other.
#[test]
fn lists_of_pages_in_use_lose_no_page() {
    for how in ["lock", "smp"] {
        for cpus in [8, 112] {
            let text = format!("page-fault1:pages=100,lru={how}");
            let all = job(&text, Mechanisms::DEFAULT, cpus);
            simulate(&all);
            simulate(&Job { schedule: Schedule::Random(10), interrupts: Some(50_000_000), ..all.clone() });
            // All processes exit at once, and nothing is left on the lists.
            simulate(&Job { aftermath: true, ..all });
        }
    }
}

#[test]
fn lists_that_many_change_at_once_keep_nobody_waiting() {
    let mechanisms = Mechanisms::parse("no_merge+cluster_alloc").unwrap();
    // Without zeroing, by which memory would be the limit of both.
    let text = |how: &str| format!("page-fault1:pages=400,zero=off,lru={how}");
    let report = |how: &str| simulate(&job(&text(how), mechanisms, 112)).report;
    let (alone, together) = (report("lock"), report("smp"));
    // The two nodes' LRU locks.
    let waiting = |report: &Report| {
        let locks = report.locks.iter().filter(|lock| lock.kind == "lru");
        locks.map(|lock| lock.contention_percent).sum::<f64>()
    };
    assert!(waiting(&alone) > 20.0 && waiting(&together) < 0.1, "{} and {}", waiting(&alone), waiting(&together));
    assert!(together.per_second > alone.per_second, "{} and {}", together.per_second, alone.per_second);
}

/// A figure of a report.
fn figure(report: &Report, name: &str) -> f64 {
    report.figure(name).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn huge_pages_and_small_ones_share_fragmented_memory() {
    let of = |free: u32, mechanisms| {
        let job = job(&format!("page-fault-mix:pages=1024,free={free}"), mechanisms, 32);
        simulate(&Job { window: 10_000_000_000, ..job }).report
    };
    for mechanisms in [Mechanisms::BASELINE, Mechanisms::DEFAULT] {
        let plenty = of(300, mechanisms);
        let (small, large) = (figure(&plenty, PageFaultMix::SMALL), figure(&plenty, PageFaultMix::HUGE));
        assert!((small + large - plenty.per_second).abs() < 1.0, "{small} and {large} of {}", plenty.per_second);
        // All was in single pages, none of which lay between occupied ones; a window cuts off huge faults at either
        // end.
        assert_eq!(figure(&plenty, PageFaultMix::FALLBACKS), 0.0, "{mechanisms}");
        let huge = figure(&plenty, "huge faults") * 512.0;
        assert!((huge / large - 1.0).abs() < 0.05, "{huge} of {large}");
        let scarce = of(60, mechanisms);
        assert!(figure(&scarce, PageFaultMix::FALLBACKS) > 1.0, "{mechanisms}: {:?}", scarce.figures);
        assert!(figure(&scarce, PageFaultMix::SMALL) > 0.0 && figure(&scarce, PageFaultMix::HUGE) > 0.0);
    }
}

#[test]
fn a_window_of_passes_counts_what_they_do() {
    let small = job("page-fault1:pages=200", Mechanisms::BASELINE, 8);
    let passes = |warm_up, window| Some(Passes { warm_up, window });
    let report = simulate(&Job { passes: passes(2.0, 3.0), ..small.clone() }).report;
    // CPUs leave the window one after the other.
    assert!((4_800..4_816).contains(&report.operations), "{}", report.operations);
    assert!(report.warm_up_ns > 0 && report.window_ns > report.warm_up_ns, "{report:?}");
    for job in [
        Job { passes: passes(0.0, 1.0), ..small.clone() },
        Job { passes: passes(1.0, f64::NAN), ..small },
        Job { passes: passes(1.0, 1.0), ..job("repeat", Mechanisms::BASELINE, 1) },
    ] {
        let failure = run(&model(), &job, &mut |_| {}).unwrap_err();
        assert!(failure.to_string().ends_with("the workload's window is not one of passes"), "{failure}");
    }
}

#[test]
fn what_is_left_of_memory_is_all_of_it() {
    for mechanisms in [Mechanisms::BASELINE, Mechanisms::DEFAULT] {
        let memory = 1 << 14;
        let watched = Job { aftermath: true, memory: Some(memory), ..job("page-fault1:pages=200", mechanisms, 8) };
        let outcome = simulate(&watched);
        assert_eq!(simulate(&watched), outcome);
        let Aftermath { left, drained, mergeable } = outcome.aftermath.unwrap();
        for (when, zones) in [("left", left), ("drained", drained)] {
            let names: Vec<&str> = zones.iter().map(|zone| zone.zone.as_str()).collect();
            assert_eq!(names, ["Node 0, zone Normal", "Node 1, zone Normal"]);
            for zone in zones {
                let listed: u64 = zone.blocks.iter().enumerate().map(|(order, blocks)| blocks << order).sum();
                assert_eq!(listed + zone.cached, memory, "{when}, {zone:?}");
                assert!(when == "left" || zone.cached == 0 && zone.blocks[10] == memory >> 10, "{zone:?}");
            }
        }
        assert_eq!(mergeable, 0, "{mechanisms}");
        // Nobody looks unless asked to.
        assert_eq!(simulate(&Job { aftermath: false, ..watched }).aftermath, None);
    }
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
fn a_look_at_the_end_of_the_window_costs_nothing() {
    for workload in ["page-fault1:pages=50", "page-bench03", "parallel-free"] {
        let job = job(workload, Mechanisms::DEFAULT, 4);
        let mut seen = Vec::new();
        let outcome = run_and_look(&model(), &job, &mut |_| {}, &mut |source| {
            let node = NodeSnapshot::of(source, NodeId(0)).unwrap();
            let cached = (0..4).filter_map(|cpu| source.pcp(ZoneIdx::of(NodeId(0), ZoneKind::Normal), CpuId(cpu)));
            seen.push((node.managed, node.free + cached.map(|pcp| pcp.count).sum::<u64>()));
        });
        assert_eq!(outcome.unwrap(), simulate(&job), "{workload}");
        // The CPUs hold something at that moment.
        assert!(matches!(seen[..], [(managed, free)] if free < managed), "{workload}: {seen:?}");
    }
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
    assert!(matches!(failure.cause, Cause::NoMemory { frames: 2048, .. }), "{failure:?}");
}

#[test]
fn what_workloads_are() {
    let about: Vec<String> = Workload::names().map(|name| Workload::about(name).unwrap()).collect();
    insta::assert_snapshot!(about.join("\n"));
    assert!(about.iter().flat_map(|about| about.lines()).all(|line| line.len() <= 120));
    assert_eq!(Workload::about("page-fault2"), None);
    for name in Workload::names().filter(|&name| name != "ops") {
        assert_eq!(name.parse::<Workload>().unwrap().to_string(), name);
    }
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
        "page-fault1:lru=1",
        "page-fault1:speed=9",
        "page-fault1:pages=4,,zero=on",
        "page-fault1:pages=4,pages=5",
        "page-fault1:pages=4:zero=on",
        "repeat:",
        "repeat:pages=4",
        "ops",
        "ops:",
        "ops:no/such/file.ops",
    ] {
        let error = wrong.parse::<Workload>().unwrap_err();
        writeln!(text, "{wrong:?}\n    {error}").unwrap();
    }
    insta::assert_snapshot!(text);
}

/// The list's text as a workload.
fn list(text: &str) -> Result<Workload, SpecError> {
    Ops::new("list", text.parse().unwrap()).map(Workload::Ops)
}

fn play(text: &str, cpus: usize) -> Result<Outcome, Failure> {
    let mut played = job("repeat", Mechanisms::BASELINE, cpus);
    played.workload = list(text).unwrap();
    run(&model(), &played, &mut |_| {})
}

const MEMORY: &str = "memory 0x100000..0x102000 node 0\nmemory 0x102000..0x104000 node 1\n";

#[test]
fn each_cpu_plays_the_whole_list() {
    let text = format!(
        "{MEMORY}
        a1 = alloc order 3 GFP_KERNEL
        a2 = bulk 40 order 0 GFP_HIGHUSER_MOVABLE on 1
        a3 = alloc order 0 GFP_ATOMIC            # never freed by the list
        split a1 order 1
        free a1
        drain cpu 0
        validate
        free a2"
    );
    for cpus in [1, 4] {
        let outcome = play(&text, cpus).unwrap();
        assert!(outcome.report.operations > 7 * 5 * cpus as u64, "{:?}", outcome.report.operations);
        assert_eq!(outcome.report.workload, "ops:list");
        assert_eq!(play(&text, cpus).unwrap(), outcome);
        assert!(outcome.report.per_cpu.iter().all(|cpu| cpu.operations > 0));
    }
}

#[test]
fn run_on_divides_a_list() {
    let text = format!(
        "{MEMORY}
        a1 = bulk 100 order 0 GFP_KERNEL
        run-on 2
        free a1
        a2 = alloc order 2 GFP_KERNEL
        run-on 1
        split a2 order 0
        free a2
        run-on 0
        a3 = bulk 1000 order 9 GFP_HIGHUSER_MOVABLE|__GFP_NORETRY
        drain all"
    );
    let outcome = play(&text, 4).unwrap();
    let operations: Vec<u64> = outcome.report.per_cpu.iter().map(|cpu| cpu.operations).collect();
    assert!(operations[..3].iter().all(|&done| done > 3) && operations[3] == 0, "{operations:?}");
    let served = &outcome.report.figures[0];
    assert!(served.name.starts_with("requests not served") && served.value > 80.0 && served.value < 90.0, "{served:?}");
    let failure = play(&text, 2).unwrap_err();
    let reason = "the list names CPU 2, so it takes 3 CPUs at least";
    assert_eq!(failure.to_string(), format!("ops:list on 2 CPUs, seed 1: {reason}"));
    let far = format!("memory 0xf0000..0xf1000 node 5\n{MEMORY}a1 = alloc order 0 GFP_KERNEL");
    let reason = "the list describes memory of 6 nodes, the machine has 2";
    assert_eq!(play(&far, 2).unwrap_err().to_string(), format!("ops:list on 2 CPUs, seed 1: {reason}"));
}

#[test]
fn lists_that_cannot_be_played() {
    for (text, reason) in [
        ("a1 = alloc order 0 GFP_KERNEL\nfault Refill 3", "operation 2, `fault Refill 3`"),
        ("raw-free 0x100000 order 0", "operation 1, `raw-free 0x100000 order 0`"),
        ("validate", "there is no operation to play"),
        ("", "there is no operation to play"),
    ] {
        let error = list(&format!("{MEMORY}{text}")).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// All lists that test the allocator: refused with a reason, or played.
#[test]
fn scripts_are_played_or_refused() {
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../framewright-ops/scripts");
    let mut paths: Vec<_> = std::fs::read_dir(scripts).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut played = 0;
    for path in paths {
        match format!("ops:{}", path.display()).parse::<Workload>() {
            Err(error) => assert!(error.to_string().contains("cannot be played"), "{error}"),
            Ok(workload) => {
                let played_on = |cpus| {
                    let job = Job { workload: workload.clone(), ..job("repeat", Mechanisms::DEFAULT, cpus) };
                    run(&model(), &job, &mut |_| {}).map(|outcome| outcome.report.operations)
                };
                match played_on(4) {
                    Ok(operations) => assert!(operations > 0, "{}", path.display()),
                    Err(failure) => assert!(matches!(failure.cause, Cause::Unfit(_)), "{failure}"),
                }
                played += 1;
            }
        }
    }
    assert!(played >= 5, "{played} scripts");
}

#[test]
fn lists_that_are_on_are_under_their_lock() {
    assert_eq!("page-fault1:lru=on".parse::<Workload>().unwrap().to_string(), "page-fault1:lru=lock");
}

/// A watcher reads all visible state, at times of its own.
#[test]
fn a_watched_run_is_the_same_run() {
    for text in ["page-fault1:pages=200", "page-fault-mix:pages=512", "page-bench05:ring=16"] {
        for mechanisms in [Mechanisms::BASELINE, Mechanisms::DEFAULT] {
            let job = job(text, mechanisms, 6);
            let mut looks = 0_u32;
            let watched = run_watched(&model(), &job, &mut |moment| {
                looks += 1;
                assert!(NodeSnapshot::of(moment.pages, NodeId(0)).is_some());
                assert!((0..1 << 23).step_by(512).any(|pfn| moment.pages.state_of(Pfn(pfn)) != FrameState::Hole));
                Some(moment.clock + 7_654_321)
            });
            assert_eq!(watched.unwrap_or_else(|failure| panic!("{failure}")), simulate(&job), "{text}, {mechanisms}");
            assert!(looks > 100, "{text}: {looks}");
        }
    }
}

proptest! {
    #[test]
    fn what_prints_parses_back(
        pages in 1_u32..10_000,
        zero: bool,
        lru in prop::sample::select(vec!["off", "lock", "smp"]),
        order in Just(["pages", "zero", "lru"]).prop_shuffle(),
    ) {
        let switch = |on| if on { "on" } else { "off" }.to_owned();
        let value = |key: &str| match key {
            "pages" => pages.to_string(),
            "zero" => switch(zero),
            _ => lru.to_owned(),
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
