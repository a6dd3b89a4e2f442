//! The reproduction of the fragmentation avoidance series: text, page and checks from made-up runs; and a small run in full.

mod sim_samples;

use framewright::Counters;
use framewright::report::VmEvents;
use framewright_lab::reproduce::check::all_hold;
use framewright_lab::reproduce::found::Reproduction;
use framewright_lab::reproduce::fragmentation::measured::READING;
use framewright_lab::reproduce::fragmentation::plan::{CLOSER, MACHINES, SETTINGS, kernels};
use framewright_lab::reproduce::fragmentation::{
    self, Case, CaseRuns, FragmentationLengths, FragmentationPlan, FragmentationTables, Purpose,
};
use framewright_lab::reproduce::published::Published as _;
use framewright_sim::machine::{self, Spec};
use framewright_sim::thpfioscale::Outcome;
use framewright_sim::thpfioscale::outcome::{Block, Events, Faults, Phase, Reclaim, Sample};
use sim_samples::{check, compared, narrow, run, shows};

const COMMAND: &str = "framewright reproduce fragmentation --seeds 2 --seed 1";

/// What a kernel does in a run: fallbacks of unmovable and movable requests, huge pages in percent, pages scanned and pages read.
#[derive(Clone, Copy)]
struct Made {
    unmovable: u64,
    movable: u64,
    huge: u64,
    scanned: u64,
    read: u64,
}

/// A run, a little different with each seed.
fn outcome(made: Made, seed: u64, rounds: usize) -> Outcome {
    let mut events = Events::default();
    (events.by_order[0][3], events.by_order[1][0]) = (made.unmovable, made.movable + (made.movable / 100) * seed);
    (events.from[0][1], events.from[1][0]) = (events.by_order[0][3], events.by_order[1][0]);
    let huge = if made.huge == 0 { 0 } else { made.huge.saturating_sub(seed % 2) };
    let faults = Faults { huge, base: 100 - huge, huge_us: 2_000.0 + seed as f64, base_us: 700.0 };
    let fixed = u16::from(made.unmovable > 10);
    let blocks = vec![
        Block { migratetype: 1, free: 12, movable: 500 - fixed, fixed },
        Block { migratetype: 0, free: 0, movable: 0, fixed: 512 },
        Block { migratetype: 2, free: 100, movable: 0, fixed: 412 },
        Block { migratetype: 1, free: 512, movable: 0, fixed: 0 },
    ];
    let phase = |name| Phase {
        name,
        seconds: 2.0,
        pages: 2 * made.read,
        events,
        faults,
        blocks: blocks.clone(),
        objects: Vec::new(),
        slab: [0; 2],
    };
    let sample = |ms: u64| Sample { ms, events: events.total() * ms / 8_000, ..Sample::default() };
    Outcome {
        phases: (0..rounds).flat_map(|_| ["write", READING, "clean up"]).map(phase).collect(),
        faults,
        events,
        samples: (0..80).map(|step| sample(step * 100)).collect(),
        kswapd: Reclaim { runs: 10, scanned: made.scanned, freed: made.scanned / 2 },
        direct: Reclaim::default(),
        shrunk: 0,
        refaults: [0; 2],
        retries: 0,
        counters: Counters { fragment_stalls: seed, fragment_stall_ns: 1_500_000 * seed, ..Counters::default() },
        moves: VmEvents { pgmigrate_success: Some(40_000 + seed), ..VmEvents::default() },
        locks: run(8).locks,
        accesses: 0,
        switches: 0,
    }
}

/// Kernels that are as they have to be.
fn good(config: &str, kernel: &str) -> Made {
    let asked = !config.ends_with("default");
    let theirs = FragmentationTables::built_in().unwrap();
    let published = theirs.row(config, kernel).map_or(98.0, |row| row.huge_percent.round());
    let (unmovable, movable) = match kernel {
        "vanilla-4.20" => (200, 2_400),
        "lowzone" if config.starts_with("skylake") => (40, 1_200),
        "lowzone" => (150, 2_300),
        "default" => (0, 4),
        _ => (10, 110),
    };
    let ours = if asked { 98 } else { 1 };
    let huge = if kernel == "default" { ours } else { published as u64 };
    Made { unmovable, movable, huge, scanned: 380_000, read: 91_000 }
}

/// The longest plan's runs, with fewer seeds and less memory.
const LENGTHS: FragmentationLengths =
    FragmentationLengths { mib: 128, settings: SETTINGS.len(), seeds: 2, few: 1, rounds: 3 };

fn found(lengths: FragmentationLengths, made: impl Fn(&str, &str) -> Made) -> (Reproduction, [Spec; 2]) {
    let published = FragmentationTables::built_in().unwrap();
    let machines = MACHINES.map(|machine| machine::named(machine.name).unwrap());
    let plan = FragmentationPlan { machines: [&machines[0], &machines[1]], published: &published, seed: 1, lengths };
    let rounds = |case: &Case| if case.part == Purpose::Rounds { 3 } else { 1 };
    let of = |case: Case| {
        let outcome = outcome(made(case.setting.name, case.kernel), case.seed, rounds(&case));
        (case, outcome)
    };
    let runs = CaseRuns(plan.cases().into_iter().map(of).collect());
    let found = fragmentation::found(&plan, &runs, COMMAND);
    (found, machines)
}

#[test]
fn tables_that_are_nearly_theirs() {
    let (found, _) = found(LENGTHS, good);
    insta::assert_snapshot!(narrow(&found.text()));
    assert!(all_hold(&found.checks), "{:#?}", found.checks);
}

#[test]
fn a_quick_look_says_what_it_is() {
    let (found, _) = found(FragmentationLengths::QUICK, good);
    insta::assert_snapshot!(narrow(&found.text()));
    assert!(!all_hold(&found.checks) && found.checks.iter().all(|check| check.passed != Some(false)));
}

#[test]
fn the_same_as_json() {
    let json = compared(&found(LENGTHS, good).0, 6);
    assert_eq!(
        json["rows"].as_array().unwrap().len(),
        SETTINGS.iter().map(|setting| setting.kernels().count()).sum::<usize>()
    );
    let shown = |value: &serde_json::Value| serde_json::to_string_pretty(value).unwrap();
    let parts = [&json["lengths"], &json["configs"][2], &json["rows"][3], &json["rounds"][0], &json["checks"][0]];
    insta::assert_snapshot!(parts.map(shown).join("\n"));
    let unpublished = json["rows"].as_array().unwrap().iter().filter(|row| row["published"].is_null());
    let unpublished = unpublished.filter(|row| row["kernel"] != "default");
    let configs: Vec<&str> = unpublished.step_by(4).filter_map(|row| row["config"].as_str()).collect();
    assert_eq!(configs, ["skylake-defrag", "skylake-build", "skylake-network"]);
}

#[test]
fn what_is_off_fails() {
    type Off = fn(Made) -> Made;
    let cases: [(&str, &str, &str, Off); 11] = [
        ("vanilla-4.20: huge pages within", "haswell-madvise", "vanilla-4.20", |made| Made { huge: 80, ..made }),
        ("lowzone: fewer events", "haswell-default", "lowzone", |made| Made { movable: 2_500, ..made }),
        ("lowzone: fewer by more", "skylake-madvise", "lowzone", |made| Made { movable: 2_450, ..made }),
        ("lowzone: 70 % fewer unmovable", "skylake-default", "lowzone", |made| Made { unmovable: 61, ..made }),
        ("boost: 90 % fewer events", "skylake-default", "boost", |made| Made { movable: 300, ..made }),
        ("stall: 90 % fewer events", "haswell-default", "stall", |made| Made { movable: 300, ..made }),
        ("huge pages in the published order", "skylake-madvise", "stall", |made| Made { huge: 75, ..made }),
        ("default: 99 % fewer events", "haswell-default", "default", |made| Made { movable: 40, ..made }),
        ("default: 95 % huge pages", "haswell-madvise", "default", |made| Made { huge: 94, ..made }),
        ("default: background reclaim", "skylake-default", "default", |made| Made { scanned: 600_000, ..made }),
        ("default: readers get", "skylake-default", "default", |made| Made { read: 89_000, ..made }),
    ];
    for (name, config, kernel, off) in cases {
        let made = |at: &str, of: &str| {
            let made = good(at, of);
            if (at, of) == (config, kernel) { off(made) } else { made }
        };
        let (found, _) = found(LENGTHS, made);
        let check = check(&found, name);
        assert_eq!(check.passed, Some(false), "{check}");
        assert!(check.detail.contains(config) || name.contains("fewer by more"), "{check}");
    }
}

#[test]
fn the_page_has_both_sides_and_the_pictures() {
    let (found, machines) = found(LENGTHS, good);
    let page = found.page(&machines).unwrap();
    shows(
        &page,
        &[
            "804,694",
            "Linux 4.19, v1: events 71,227",
            "Where memory is",
            "class=\"dot\"",
            "Huge pages by round",
            "haswell-2x18",
            "stall-as-mailed",
        ],
    );
    for kernel in kernels() {
        let samples = outcome(good(CLOSER, kernel), 1, 1).samples;
        let last = samples.last().unwrap();
        let told = format!("after 7.9 s: {} events", last.events);
        assert!(last.ms == 7_900 && page.contains(&told), "{kernel}: the curve stops before {told}");
    }
    assert_eq!(page.matches("class=\"word holds\"").count(), found.checks.len());
    assert_eq!(page.matches("id=\"map-").count(), 4 * 2, "a title and a description each");
}

#[test]
fn a_small_run_is_made_again_to_the_byte() {
    let published = FragmentationTables::built_in().unwrap();
    let machines = MACHINES.map(|machine| machine::named(machine.name).unwrap());
    let lengths = FragmentationLengths { mib: 64, settings: 2, seeds: 1, few: 0, rounds: 0 };
    let json = || {
        let plan =
            FragmentationPlan { machines: [&machines[0], &machines[1]], published: &published, seed: 3, lengths };
        let runs = plan.run(&mut |_, _| ()).unwrap();
        assert_eq!(runs.0.len(), 2 * kernels().count());
        let found = fragmentation::found(&plan, &runs, COMMAND);
        let json = serde_json::to_value(&found).unwrap();
        let mut rows = json["rows"].as_array().unwrap().iter();
        let ours = rows.find(|row| row["config"] == CLOSER && row["kernel"] == "default").unwrap();
        let mean = |figure: &str| ours["simulated"][figure]["mean"].as_f64().unwrap();
        assert!(mean("huge_percent") > 0.0 && mean("read_pages_per_s") > 0.0);
        narrow(&found.text());
        serde_json::to_string(&found).unwrap()
    };
    assert_eq!(json(), json());
}
