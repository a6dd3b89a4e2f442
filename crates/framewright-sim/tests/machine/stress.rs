//! The allocator under a random scheduler: it holds, and the test that says so finds what is wrong.

use framewright::Mechanisms;
use framewright_sim::stress::{Case, Failure, Kind, Settings, StressError, replay, run, shrink};

fn failure(settings: &Settings) -> Failure {
    match run(settings, |_| {}) {
        Err(StressError::Failed(failure)) => *failure,
        other => panic!("the bug was not found: {other:?}"),
    }
}

#[test]
fn nothing_is_lost() {
    for seed in 0..3 {
        let settings = Settings { seed: seed * 100, operations: 60_000, quiescent: 12, ..Settings::default() };
        let mut behind = 0;
        let summary = run(&settings, |operations| behind = operations).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((summary.episodes, summary.quiescent, behind), (3, 12, 60_000));
        assert!(summary.counts.done > 45_000 && summary.counts.remote_frees > 1_000, "{summary:?}");
    }
}

#[test]
fn few_and_many_cpus_and_every_switch() {
    for (seed, cpus) in (0..).zip([1, 2, 5, 120]) {
        let settings = Settings { cpus, seed, operations: 10_000, quiescent: 8, ..Settings::default() };
        run(&settings, |_| {}).unwrap_or_else(|error| panic!("{error}"));
    }
    let protections = ["interrupts-off", "preemption-off", "trylock", "own-lists"];
    let lists = ["baseline", "default", "no_merge+cluster_alloc", "numa-base", "owned-pageblocks"];
    let protected = protections.iter().flat_map(|how| lists.iter().map(move |on| format!("{on},pcp-protection={how}")));
    let others = ["default,hardened=poison", "default,depot=eighth", "baseline,hardened=zero"].map(str::to_owned);
    for switches in &protected.chain(others).collect::<Vec<_>>() {
        let mechanisms = Some(Mechanisms::parse(switches).unwrap());
        for delays in [Some(false), Some(true)] {
            let (operations, interrupts) = (10_000, Some(true));
            let settings = Settings { mechanisms, interrupts, delays, operations, quiescent: 4, ..Settings::default() };
            run(&settings, |_| {}).unwrap_or_else(|error| panic!("{switches}: {error}"));
        }
    }
}

#[test]
fn cpus_that_stay_lose_nothing_above_holes() {
    for seed in 0..12 {
        let (mechanisms, operations) = (Some(Mechanisms::DEFAULT), 10_000);
        let settings = Settings { mechanisms, seed, cpus: 6, operations, quiescent: 4, ..Settings::default() };
        let summary = run(&settings, |_| {}).unwrap_or_else(|error| panic!("{error}"));
        assert!(summary.counts.local > 2_000, "{summary:?}");
    }
}

/// Found here: the types of a large block's pageblocks were looked at before the lock was taken; a count was changed
/// with interrupts on.
#[test]
fn what_was_found_before_stays_mended() {
    for (mechanisms, seed) in [("patch7", 3), ("patch8", 3), ("patch7", 8)] {
        let mechanisms = Some(Mechanisms::parse(mechanisms).unwrap());
        let (nmis, operations) = (Some(false), 60_000);
        let settings = Settings { mechanisms, seed, cpus: 112, nmis, operations, quiescent: 4, ..Settings::default() };
        run(&settings, |_| {}).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn one_seed_is_one_run() {
    let settings = Settings { operations: 20_000, quiescent: 8, ..Settings::default() };
    let once = run(&settings, |_| {}).unwrap();
    assert_eq!(run(&settings, |_| {}).unwrap(), once);
    assert_ne!(run(&Settings { seed: 1, ..settings }, |_| {}).unwrap(), once);
}

/// Bugs and what shows of them.
const PLANTS: [(&str, &str, &[Kind]); 5] = [
    ("lost-store:lock.serving:500", "baseline", &[Kind::Deadlock]),
    ("torn-rmw:lock.next:1", "baseline", &[Kind::Deadlock, Kind::Free, Kind::HandOut, Kind::Panic]),
    ("no-heavy-fence", "default", TWICE),
    ("lost-store:claim:20", "default", &[Kind::Drain, Kind::Invariant("P2"), Kind::Invariant("C2")]),
    ("shared-interrupts", "default", TWICE),
];
/// What shows of a list that two change at once: a block is handed out twice, and so it is freed twice or missed.
const TWICE: &[Kind] = &[Kind::HandOut, Kind::Free, Kind::Invariant("P2"), Kind::Invariant("S2"), Kind::Census];

#[test]
fn planted_bugs_are_found_and_found_again() {
    for (plant, mechanisms, kinds) in PLANTS {
        let settings = Settings {
            mechanisms: Some(Mechanisms::parse(mechanisms).unwrap()),
            plant: Some(plant.parse().unwrap()),
            delays: Some(true),
            interrupts: Some(plant == "shared-interrupts"),
            operations: 400_000,
            quiescent: 16,
            ..Settings::default()
        };
        let found = failure(&settings);
        assert!(kinds.contains(&found.wrong.kind), "{plant}: {found}");
        // The settings that the failure names find it at once, word for word.
        let again = failure(found.settings.as_ref().unwrap());
        assert_eq!(again, found, "{plant}");
    }
}

#[test]
fn a_small_case_fails_as_the_large_one_did() {
    let settings = Settings {
        seed: 2,
        mechanisms: Some(Mechanisms::BASELINE),
        plant: Some("torn-rmw:lock.next:1".parse().unwrap()),
        operations: 4_000,
        quiescent: 4,
        ..Settings::default()
    };
    let found = failure(&settings);
    let small = shrink(&found, 1_000_000, |_| {}).unwrap();
    assert_eq!(small.wrong.kind, found.wrong.kind);
    assert!(small.case.operations() <= 12 && small.case.busy_cpus() <= 4, "{}", small.case);
    // As a file it means the same.
    let read: Case = small.case.to_string().parse().unwrap();
    assert_eq!(read, small.case);
    match replay(&read) {
        Err(StressError::Failed(again)) => assert_eq!((again.wrong, again.rests), (small.wrong, small.rests)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn texts_that_are_no_case() {
    let machine = "memory 0x0..0x100 node 0\ncpus 0\n";
    let wrong = [
        ("", "line 1: the text ends and no line describes `memory`"),
        ("seed x\n", "line 1: `x` is no number for `seed`"),
        (
            "plant y\n",
            "line 1: \"y\" is not lost-store:FIELD:N, torn-rmw:FIELD:N, blind-cas:FIELD:N, no-heavy-fence, shared-interrupts or waiting-nmi",
        ),
        ("nmis 9\n", "line 1: NMIs must be 10 to 1000000000000 ns apart"),
        ("interrupts 0\n", "line 1: interrupts must be 20000 to 1000000000000 ns apart"),
        ("seed 1\nrun\n", "line 2: `run` is no operation"),
    ];
    for (text, expected) in wrong {
        assert_eq!(text.parse::<Case>().unwrap_err().to_string(), expected);
    }
    let behind_the_machine = [
        ("run-on 1\n", "`run-on 1`: there is no such CPU"),
        ("fault Alloc 1\n", "`fault Alloc 1`: is not for CPUs that run at the same time"),
    ];
    for (text, expected) in behind_the_machine {
        assert_eq!(format!("{machine}{text}").parse::<Case>().unwrap_err().to_string(), expected);
    }
    let far = "memory 0x0..0x100001 node 0\ncpus 0\n";
    assert_eq!(far.parse::<Case>().unwrap_err().to_string(), "memory ends above frame 0x100000");
    let nodes = "memory 0x0..0x100 node 0\ncpus 0 0\n";
    assert_eq!(nodes.parse::<Case>().unwrap_err().to_string(), "`cpus` must be 0 1 for as many CPUs");
    let unknown: Case = format!("plant lost-store:nothing:1\n{machine}").parse().unwrap();
    let error = replay(&unknown).unwrap_err().to_string();
    assert!(error.starts_with("no word of the allocator is called \"nothing\"; "), "{error}");
}

proptest::proptest! {
    /// Any lines at all: an error or a case that runs, never a panic.
    #[test]
    fn hostile_texts(lines in proptest::collection::vec(line(), 0..12)) {
        let text = format!("memory 0x0..0x80 node 0\nmemory 0x80..0xf3 node 1\ncpus 0 1\n{}\n", lines.join("\n"));
        if let Ok(case) = text.parse::<Case>() {
            proptest::prop_assert_eq!(case.to_string().parse::<Case>().unwrap(), case.clone());
            if let Err(error) = replay(&case) {
                panic!("{error}\n{case}");
            }
        }
    }
}

fn line() -> impl proptest::strategy::Strategy<Value = String> {
    proptest::sample::select(
        [
            "a1 = alloc order 0 GFP_KERNEL",
            "a2 = alloc order 3 GFP_ATOMIC",
            "a3 = bulk 9 order 1 GFP_NOWAIT",
            "a4 = alloc-at 0x7c order 3 GFP_KERNEL",
            "a5 = alloc-range 0x3..0x4444 GFP_KERNEL",
            "a6 = alloc-contig 0 align 200 GFP_KERNEL",
            "a7 = alloc order 255 GFP_KERNEL",
            "a8 = alloc-nolock order 1 GFP_NOWAIT",
            "free-nolock a8",
            "free-nolock a3",
            "free a1",
            "free a2",
            "free a99",
            "free-part a2 1 3",
            "free-part a2 18446744073709551615 18446744073709551615",
            "split a2 order 0",
            "split a2 order 200",
            "raw-free a2+1 order 0",
            "raw-free a2+18446744073709551615 order 64",
            "raw-free 0xffffffffffffffff order 0",
            "raw-free-range 0x1 3",
            "drain all",
            "drain cpu 700",
            "offline-cpu 9",
            "take-offline 0x10..0x20",
            "bring-online 0x0..0xffffffffffffffff",
            "take-offline 0xffff..0x1",
            "type 0x7 Movable",
            "run-on 0",
            "run-on 1",
            "run-on 2",
            "validate",
            "switch-in 0",
            "interrupts 20000",
            "nmis 10",
            "delay-stores",
            "seed 9",
            "#",
            "->",
        ]
        .map(str::to_owned)
        .to_vec(),
    )
}

/// CPUs keep memory full, with single pages alone: no request fails while a frame that it may use is free.
#[test]
fn no_request_of_a_full_pool_fails_with_memory_in_reach() {
    let presets =
        ["default", "default,hardened=poison", "baseline", "linux-6.1", "patch8", "owned-pageblocks", "tuned-pcp"];
    for (seed, mechanisms) in (0..).zip(presets) {
        for cpus in [2, 8] {
            let mechanisms = Some(Mechanisms::parse(mechanisms).unwrap());
            let (operations, quiescent) = (28_000, 4);
            let settings =
                Settings { mechanisms, seed, cpus, operations, quiescent, pool: true, ..Settings::default() };
            let summary = run(&settings, |_| {}).unwrap_or_else(|error| panic!("{error}"));
            assert!(summary.counts.unserved > 100, "the pool was never full: {summary:?}");
        }
    }
}
