//! Generated operations against the oracle, `validate` after each.
//!
//! 10,000 sequences of 50 to 100 operations on machines of all kinds. Each run has the same sequences;
//! `FRAMEWRIGHT_SEED=n` draws others, and `FRAMEWRIGHT_CASES=n` sets their number. A failing sequence is shrunk, by
//! `FRAMEWRIGHT_SHRINK=n` proposals at most, and shown as the text of a `.ops` file. There are four parts, because tests
//! run in parallel and sequences do not depend on each other.

use std::collections::BTreeMap;

use framewright::config::SectionInit;
use framewright::machine::Fault;
use framewright::mechanisms::PRESETS;
use framewright::{AllocError, FreeError, PfnRange, Region};
use framewright_ops::rng::Rng;
use framewright_ops::scenario::Step;
use framewright_ops::shrink::shrink;
use framewright_ops::{Checks, Op, Outcome, Scenario, generate, run, run_with, variety};

const CASES: u64 = 10_000;
const PARTS: u64 = 4;
/// What a check looks at of each CPU's lists, and what all checks of a sequence look at at most.
const LOOKS_OF_CPU: u64 = 400;
const LOOKS: u64 = 1 << 20;

fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number that fits")))
}

/// How many smaller sequences are tried when one fails.
fn proposals() -> usize {
    from_environment("FRAMEWRIGHT_SHRINK").unwrap_or(20_000)
}

/// Checks after each operation; on machines of many CPUs, whose lists take long to look at, after every few.
fn checks(scenario: &Scenario) -> Checks {
    let shape = &scenario.shape;
    let looks = (shape.frames() + LOOKS_OF_CPU * shape.cpus.len() as u64) * scenario.steps.len() as u64;
    Checks { every: looks.div_ceil(LOOKS).max(1) as usize, expected: true }
}

/// Runs one part of the sequences.
fn part(number: u64) {
    let cases = from_environment("FRAMEWRIGHT_CASES").unwrap_or(CASES).div_ceil(PARTS);
    let seed: u64 = from_environment("FRAMEWRIGHT_SEED").unwrap_or(0);
    let first = Rng::new(seed.wrapping_mul(PARTS).wrapping_add(number)).draw();
    for seed in (0..cases).map(|case| first.wrapping_add(case)) {
        let run = |scenario: &Scenario| run_with(scenario, checks(scenario));
        let scenario = generate::scenario(seed);
        if run(&scenario).is_err() {
            let small = shrink(scenario, proposals(), |proposal| run(proposal).is_err());
            panic!("scenario {seed}: {}", run(&small).unwrap_err());
        }
    }
}

#[test]
fn sequences_agree_with_the_oracle_1() {
    part(1);
}

#[test]
fn sequences_agree_with_the_oracle_2() {
    part(2);
}

#[test]
fn sequences_agree_with_the_oracle_3() {
    part(3);
}

#[test]
fn sequences_agree_with_the_oracle_4() {
    part(4);
}

/// Lets memory be added above all other, on some node, and adds it in two parts that overlap.
fn grow(scenario: &mut Scenario, seed: u64) {
    let mut rng = Rng::new(seed);
    let section = scenario.shape.geometry.max_order.frames();
    let end = scenario.shape.regions.last().map_or(0, |region| region.range.end.0).next_multiple_of(section);
    let start = end + section * rng.below(3);
    let sections = rng.between(1, (4_096 / section).clamp(1, 8));
    if start + sections * section > 1 << 40 || sections * section > 1 << 12 {
        return;
    }
    let node = rng.below(scenario.shape.nodes() as u64) as u8;
    scenario.shape.regions.push(Region::possible(start, start + sections * section, node));
    let part = |from: u64, to: u64| Op::AddMemory(PfnRange::new(start + from * section, start + to * section));
    let middle = rng.between(0, sections);
    let ops =
        [part(0, middle), part(middle, sections), part(0, sections), Op::AddMemory(PfnRange::new(start, start + 1))];
    for op in ops {
        let at = rng.below(scenario.steps.len() as u64 + 1) as usize;
        scenario.steps.insert(at, op.into());
    }
}

fn is_added(step: &Step, outcome: &Outcome) -> bool {
    matches!((&step.op, outcome), (Op::AddMemory(_), Outcome::Frames(1..)))
}

/// Sections that are initialised when they are used, over descriptors that are zeroed or not.
#[test]
fn sequences_agree_with_the_oracle_where_sections_are_initialised_when_used() {
    let cases = from_environment("FRAMEWRIGHT_CASES").unwrap_or(CASES) / PARTS;
    let mut added = 0_u64;
    for seed in 0..cases {
        let run = |scenario: &Scenario| run_with(scenario, checks(scenario));
        let mut scenario = generate::scenario(seed);
        scenario.shape.section_init = if seed % 5 == 0 { SectionInit::AtBoot } else { SectionInit::WhenUsed };
        scenario.shape.is_zeroed = seed % 2 == 0;
        if seed % 3 == 0 {
            grow(&mut scenario, seed);
        }
        let report = run(&scenario).unwrap_or_else(|_| {
            let small = shrink(scenario.clone(), proposals(), |proposal| run(proposal).is_err());
            panic!("scenario {seed}: {}", run(&small).unwrap_err())
        });
        let outcomes = scenario.steps.iter().zip(&report.outcomes);
        added += outcomes.filter(|(step, outcome)| is_added(step, outcome)).count() as u64;
    }
    assert!(added >= cases / 4, "memory was added {added} times");
}

/// What an outcome is, in a word.
fn kind(outcome: &Outcome) -> String {
    let text = match outcome {
        Outcome::NotServed(AllocError::NoMemory { why, .. }) => format!("{why:?}"),
        Outcome::NotServed(AllocError::BadRange(_)) => "BadRange of an allocation".into(),
        Outcome::NotServed(AllocError::BadOrder { .. }) => "BadOrder of an allocation".into(),
        Outcome::NotServed(error) => format!("{error:?}"),
        Outcome::Refused(FreeError::BadRange(_)) => "BadRange of a free".into(),
        Outcome::Refused(FreeError::BadOrder { .. }) => "BadOrder of a free".into(),
        Outcome::Refused(error) => format!("{error:?}"),
        other => format!("{other:?}"),
    };
    text.split(['(', '{']).next().unwrap_or_default().trim().to_owned()
}

/// Machines are small and large, and what people run is among their mechanisms.
#[test]
fn machines_are_of_all_sizes() {
    let shapes: Vec<_> = (0..1_000).map(|seed| generate::scenario(seed).shape).collect();
    for cpus in [1..=1, 2..=4, 5..=16, 17..=32, 33..=64] {
        let count = shapes.iter().filter(|shape| cpus.contains(&shape.cpus.len())).count();
        assert!(count >= 50, "{count} machines with {cpus:?} CPUs");
    }
    assert!(shapes.iter().all(|shape| (1..=64).contains(&shape.cpus.len())));
    let presets = shapes.iter().filter(|shape| variety::is_preset(&shape.mechanisms)).count();
    assert!((300..700).contains(&presets), "{presets} presets");
    for (name, preset) in PRESETS {
        assert!(shapes.iter().any(|shape| shape.mechanisms == *preset), "{name} is under no machine");
    }
    for (seed, range) in [(1, 3..=3), (2, 1..=2), (3, 100..=128)] {
        let limits = generate::Limits { cpus: range.clone(), ops: Some(7) };
        let scenario = generate::scenario_within(seed, &limits);
        // Before these, the list may say how its calls are made.
        assert!(range.contains(&(scenario.shape.cpus.len() as u16)) && (7..=9).contains(&scenario.steps.len()));
        run(&scenario).unwrap();
    }
}

/// Sequences that never get anywhere show nothing.
#[test]
fn sequences_reach_everything() {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..1_500 {
        let report = run_with(&generate::scenario(seed), Checks { every: 0, expected: true }).unwrap();
        let mut count = |what: String, times: u64| *seen.entry(what).or_default() += times;
        report.outcomes.iter().for_each(|outcome| count(kind(outcome), 1));
        for (point, fired) in Fault::ALL.into_iter().zip(report.encounters.fired) {
            count(format!("fault {point:?}"), fired);
        }
        count("reclaim".into(), report.encounters.reclaims);
        count("migration".into(), report.encounters.migrations);
        count("fallback".into(), report.fallbacks);
    }
    let wanted = [
        ["Done", "Skipped", "Block", "Blocks", "Range", "Frames"].as_slice(),
        &["Watermark", "Fragmented", "NoZone", "WouldWait", "Fault", "BadFlags", "BadNode", "Busy"],
        &["BadRange of an allocation", "BadOrder of an allocation", "BadRange of a free", "BadOrder of a free"],
        &["Foreign", "Misaligned", "WrongOrder", "NotHead", "AlreadyFree", "Offline"],
        &["fault Alloc", "fault Refill", "fault PcpBusy", "fault Isolate", "reclaim", "migration", "fallback"],
    ];
    let rare: Vec<&str> = wanted.concat().into_iter().filter(|&what| seen.get(what).is_none_or(|&n| n < 50)).collect();
    assert!(rare.is_empty(), "{rare:?} in {seen:#?}");
}
