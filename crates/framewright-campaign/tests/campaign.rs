//! The campaign itself: it covers every kind, finds what is planted, and depends on nothing but its seeds.

use std::path::Path;

use framewright::Mechanisms;
use framewright_campaign::campaign::{Failure, Report, Settings, run};
use framewright_campaign::{Case, Coverage, Kind, Plant, Schedule, play};
#[cfg(debug_assertions)]
use framewright_ops::recorded::{self, Played};

/// Hits that each kind must have in the run of [`no_seed_fails_and_every_kind_is_hit`].
const HITS: u64 = 100;

fn settings(operations: u64) -> Settings {
    Settings {
        template: Case::of(0),
        seed: 0,
        operations,
        time: None,
        threads: 1,
        folder: None,
        failures: 1,
        effort: 3_000_000,
    }
}

/// Runs a campaign; returns its coverage and the failures.
fn campaign(settings: &Settings) -> (Coverage, Vec<Failure>) {
    let mut failures = Vec::new();
    let coverage = run(settings, &mut |report| {
        if let Report::Failure(failure) = report {
            failures.push(failure.clone());
        }
    });
    (coverage.unwrap(), failures)
}

/// About a minute of one CPU, optimised. The longer runs are in docs/campaign.md.
#[test]
fn no_seed_fails_and_every_kind_is_hit() {
    let (coverage, failures) = campaign(&Settings { threads: 2, ..settings(32_000_000) });
    assert!(failures.is_empty(), "{}", failures[0].to_text());
    println!("{}", coverage.table());
    let rare: Vec<&str> = coverage.rare(HITS).iter().map(Kind::name).collect();
    assert!(rare.is_empty(), "fewer than {HITS} hits: {rare:?}\n{}", coverage.table());
    for (name, accesses) in Schedule::NAMES.iter().zip(coverage.played.by_schedule) {
        assert!(accesses > 50_000_000, "{accesses} accesses under {name}");
    }
    assert!(coverage.played.longest.iter().all(|share| *share < 10_000), "{:?}", coverage.played.longest);
}

#[test]
fn digest_depends_on_seeds_alone() {
    let one = campaign(&settings(600_000)).0;
    let two = campaign(&Settings { threads: 2, ..settings(600_000) }).0;
    assert_eq!(one, two);
    let other = campaign(&Settings { seed: 1, ..settings(600_000) }).0;
    assert_ne!(one.played.digest, other.played.digest);
}

/// A change of what any call does under faults, and of how often it reads and writes words, shows here.
///
/// [`framewright_ops::recorded`] says how to record a meant one. Builds without debug assertions have other digests.
#[cfg(debug_assertions)]
#[test]
fn seeds_play_as_recorded() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/digests.txt");
    let played = |seed: u64| {
        let played = play(&Case::of(seed), false).unwrap_or_else(|failed| panic!("seed {seed}: {}", failed.wrong));
        let digests = format!("{:016x}, {} accesses", played.digest, played.accesses);
        Played::new(seed.to_string(), digests, move || format!("{played:#?}"))
    };
    recorded::compare(&file, "seed", (0..48).map(played)).unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// The planted bugs, and a number of operations in which the campaign must find each.
const PLANTS: [(&str, u64); 8] = [
    ("lost-free:50", 200_000),
    ("accepted-free:7", 200_000),
    ("skipped-drain", 200_000),
    ("shared-lists", 1_000_000),
    ("waiting-nmi", 200_000),
    ("lost-store:lock.serving:200", 1_000_000),
    ("blind-exchange:claim:1", 1_000_000),
    ("lost-in-panic", 2_000_000),
];

#[test]
fn planted_bugs_are_found_again_by_their_seed_and_made_small() {
    for (plant, operations) in PLANTS {
        let plant: Plant = plant.parse().unwrap();
        let template = Case { plant: Some(plant.clone()), ..Case::of(0) };
        let (coverage, failures) = campaign(&Settings { template, ..settings(operations) });
        let Some(Failure { seed, case, failed }) = failures.first() else {
            panic!("{plant} was not found in {} operations", coverage.played.operations);
        };
        let whole = Case { plant: Some(plant.clone()), ..Case::of(*seed) };
        let again = play(&whole, false).unwrap_err();
        assert_eq!(play(&whole, false).unwrap_err(), again, "{plant}: two runs of one seed");
        assert_eq!(again.wrong.symptom, failed.wrong.symptom, "{plant}: {} and {}", again.wrong, failed.wrong);
        assert!(case.length() * 4 < whole.length(), "{plant}: {} operations are left: {case}", case.length());
        let small: Case = case.to_string().parse().unwrap();
        assert_eq!(play(&small, false).unwrap_err().wrong, failed.wrong, "{plant}: {case}");
        let innocent = Case { plant: None, ..small };
        assert!(play(&innocent, false).is_ok(), "{plant}: the case fails without the bug");
    }
}

/// Once, each of these failed: by a bug of the allocator that has a test of its own, or of the campaign.
#[test]
fn seeds_that_failed_pass() {
    // 2941: background compaction without an end. 263: memory that is another zone's cannot be added.
    for seed in [55, 263, 2941, 4010] {
        if let Err(failed) = play(&Case::of(seed), false) {
            panic!("seed {seed}: {}", failed.wrong);
        }
    }
}

#[test]
fn campaign_goes_on_where_it_stopped() {
    let whole = campaign(&settings(400_000)).0;
    let folder = tempfile::tempdir().unwrap();
    let kept = |operations| Settings { folder: Some(folder.path().to_owned()), ..settings(operations) };
    let half = campaign(&kept(150_000)).0;
    assert!(half.seeds < whole.seeds);
    assert_eq!(campaign(&kept(400_000)).0, whole);
    let corpus = std::fs::read_to_string(folder.path().join("corpus")).unwrap();
    assert!(corpus.lines().count() > 1 && corpus.lines().all(|line| line.parse::<Case>().is_ok()), "{corpus}");
}

#[test]
fn failures_are_kept_as_cases() {
    let folder = tempfile::tempdir().unwrap();
    let template = Case { plant: Some(Plant::SkippedDrain), ..Case::of(0) };
    let settings = Settings { template, folder: Some(folder.path().to_owned()), ..settings(400_000) };
    let (coverage, failures) = campaign(&settings);
    let failure = failures.first().unwrap();
    let text = std::fs::read_to_string(folder.path().join(format!("failures/{}.case", failure.seed))).unwrap();
    assert_eq!(text, failure.to_text());
    assert!(text.contains("# operation "), "{text}");
    assert_eq!(text.lines().next().unwrap().parse(), Ok(failure.case.clone()));
    assert_eq!(coverage.failures, 1);
    let again = campaign(&Settings { failures: 2, ..settings }).0;
    assert!(again.failures == 2, "the next failure is another seed's");
}

#[test]
fn wrong_state_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("state"), "framewright-campaign 1\nnext many\n").unwrap();
    let settings = Settings { folder: Some(folder.path().to_owned()), ..settings(1) };
    let error = run(&settings, &mut |_| {}).unwrap_err().to_string();
    assert!(error.ends_with("state: line 2: \"many\" is no number"), "{error}");
    assert!(!Path::new(&folder.path().join("corpus")).exists());
}

/// Mechanisms, schedules and CPUs of a case replace the seed's.
#[test]
fn case_decides_what_it_names() {
    let case = Case {
        mechanisms: Some(Mechanisms::DEFAULT),
        schedule: Some(Schedule::Pct(3)),
        cpus: Some(5),
        ..Case::of(11).with_operations(&(0..2_000).collect::<Vec<_>>())
    };
    let text = case.described();
    assert!(text.contains("\nschedule pct:3\n") && text.matches("\ncpus ").count() == 1, "{text}");
    let played = play(&case, false).unwrap();
    assert_eq!((played.operations, played.by_schedule[0]), (2_000, 0));
    assert_eq!(played.by_schedule[2], played.accesses);
}

/// The document lists every kind as the code describes it.
#[test]
fn document_lists_every_kind() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/campaign.md");
    let text = std::fs::read_to_string(path).unwrap();
    for kind in Kind::ALL {
        let row = format!("| `{kind}` | {} |\n", kind.what().trim());
        assert!(text.contains(&row), "docs/campaign.md needs {row}");
    }
    for (plant, _) in PLANTS {
        let name = plant.split(':').next().unwrap();
        assert!(text.contains(&format!("| `{name}")), "docs/campaign.md needs a row of {name}");
    }
}
