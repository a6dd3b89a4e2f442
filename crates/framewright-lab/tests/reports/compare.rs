//! Files beside each other, in every form, from made-up runs; and every form that has a parser read back.

use crate::sim_samples::run;
use framewright_lab::compare::comparison::CompareError;
use framewright_lab::compare::lines::{go, page_bench, will_it_scale};
use framewright_lab::compare::read::documents;
use framewright_lab::compare::table::Difference;
use framewright_lab::compare::tables::{Lkp, Mmtests};
use framewright_lab::compare::text::Text;
use framewright_lab::compare::{By, Choice, Comparison, Side};
use framewright_sim::report::Report;
use proptest::prelude::*;
use serde_json::{Value, json};

/// How much the runs of six seeds differ, in thousandths.
const NOISE: [i32; 6] = [-4, 3, 0, 7, -2, 1];

/// A run with another seed, faster by a factor.
fn seeded(cpus: usize, seed: u64, factor: f64) -> Report {
    let base = run(cpus);
    let factor = factor * (1.0 + f64::from(NOISE[seed as usize % NOISE.len()]) / 1000.0);
    Report {
        machine: "skylake-2x28".to_owned(),
        mechanisms: "baseline".to_owned(),
        seed,
        per_second: base.per_second * factor,
        cycles_per_operation: base.cycles_per_operation / factor,
        ..base
    }
}

/// A file of runs, one document each.
fn file(runs: impl IntoIterator<Item = Report>) -> String {
    runs.into_iter().map(|run| serde_json::to_string_pretty(&run).unwrap() + "\n").collect()
}

fn side(name: &str, text: &str) -> Side {
    Side { name: name.to_owned(), documents: documents(name, text).unwrap() }
}

fn six_seeds(cpus: &[usize], factor: f64) -> String {
    file(cpus.iter().flat_map(|&cpus| (1..=6).map(move |seed| seeded(cpus, seed, factor))))
}

/// The same workload, 3 % faster on few CPUs, half as fast on many.
fn two_sides() -> [Side; 2] {
    let new = six_seeds(&[8], 1.03) + &six_seeds(&[112], 0.5).replace("\"baseline\"", "\"default\"");
    [side("old.json", &six_seeds(&[8, 112], 1.0)), side("new.json", &new.replace("\"baseline\"", "\"default\""))]
}

fn compared(sides: &[Side], choice: Choice<'_>) -> Comparison {
    Comparison::new(sides, choice).unwrap()
}

#[test]
fn changes_are_told_with_how_sure_they_are() {
    insta::assert_snapshot!(Text(&compared(&two_sides(), Choice::default())).to_string());
}

/// Long names differ at their ends, or by a number, and are listed.
#[test]
fn long_names_are_told_apart() {
    let file = six_seeds(&[8], 1.0).replace("page_fault1", &format!("rand:{}=1", "option=2,".repeat(5)));
    let names = ["results of last week/old.json", "results of last week/new.json", "results of this week/old.json"];
    let text = Text(&compared(&names.map(|name| side(name, &file)), Choice::default())).to_string();
    insta::assert_snapshot!(text);
}

#[test]
fn as_mmtests_prints_it() {
    insta::assert_snapshot!(Mmtests(&compared(&two_sides(), Choice::default())).to_string());
}

/// No change, which is what 0 % says, is something else than one from nothing.
#[test]
fn from_nothing_is_a_change_to_mmtests() {
    let from_zero = |value: f64| {
        let runs =
            (1..=6).map(|seed| Report { per_second: value, cycles_per_operation: value, ..seeded(8, seed, 1.0) });
        side("a.json", &file(runs))
    };
    let text = Mmtests(&compared(&[from_zero(0.0), from_zero(2.0)], Choice::default())).to_string();
    for (mean, change) in [("Hmean", "2.00 * 100.00%*"), ("Amean", "2.00 * -99.00%*")] {
        assert!(text.lines().any(|line| line.starts_with(mean) && line.ends_with(change)), "{text}");
    }
}

#[test]
fn as_the_robot_prints_it() {
    insta::assert_snapshot!(Lkp(&compared(&two_sides(), Choice::default())).to_string());
}

#[test]
fn as_go_prints_it() {
    insta::assert_snapshot!(go(&compared(&two_sides(), Choice { only: Some("-8"), ..Choice::default() })));
}

#[test]
fn as_will_it_scale_prints_it() {
    let one = [side("old.json", &six_seeds(&[1, 8, 56, 112], 1.0))];
    let all = Choice { all: true, ..Choice::default() };
    insta::assert_snapshot!(format!(
        "{}\n{}",
        will_it_scale(&compared(&one, all)).unwrap(),
        will_it_scale(&compared(&two_sides(), all)).unwrap()
    ));
}

#[test]
fn as_json() {
    let sides = [side("old.json", &six_seeds(&[8], 1.0)), side("new.json", &six_seeds(&[8], 1.03))];
    let comparison = compared(&sides, Choice { only: Some("cycles"), ..Choice::default() });
    insta::assert_snapshot!(serde_json::to_string_pretty(&comparison).unwrap());
}

/// One contender with two rounds, and its limit, as `framewright bench` prints them.
fn bench(factor: f64, cpu: &str) -> String {
    let row = |workload: &str, allocator: &str, ns: f64| {
        let samples: Vec<Value> = (0..6)
            .map(|round| {
                let total = ns * (1.0 + f64::from(NOISE[round]) / 100.0);
                json!({"total": total, "alloc": total / 3.0, "free": total / 3.0 * 2.0, "each": [total]})
            })
            .collect();
        json!({"workload": workload, "threads": 1, "allocator": allocator, "role": "own", "ns_per_page": ns, "min": ns,
               "max": ns, "ratio_to_limit": 2.0, "limit": "stack-call", "alloc_ns": ns / 3.0, "free_ns": null,
               "scaling": null, "rounds": 6, "blocks": 1000, "samples": samples})
    };
    let rows = [
        row("repeat", "framewright", 4.0 * factor),
        row("repeat", "stack-call", 2.0),
        row("batch-64", "framewright", 5.0 * factor),
        row("batch-64", "stack-call", 2.5),
        row("rand", "framewright", 9.0),
    ];
    json!({"schema": "framewright-bench/1", "machine": {"cpu": cpu, "cpus": 2, "kernel": "Linux 6.1", "tsc_ghz": 2.0},
           "mechanisms": "default", "seed": 1, "rounds": 6, "cell_ms": 10, "frames": 1048576, "rows": rows, "goals": [],
           "failures": [], "notes": ["the machine was busy before (load 0.9): trust ratios, not nanoseconds"]})
    .to_string()
}

#[test]
fn benchmarks_are_compared_with_their_limit() {
    let sides = [side("old.json", &bench(1.0, "Xeon")), side("new.json", &bench(0.8, "EPYC"))];
    let text = Text(&compared(&sides, Choice::default())).to_string();
    let lines = page_bench(&compared(&sides, Choice { all: true, ..Choice::default() })).unwrap();
    let by_allocator = Choice { by: Some(By::Allocator), only: Some("repeat"), ..Choice::default() };
    let beside = Text(&compared(&sides[..1], by_allocator)).to_string();
    insta::assert_snapshot!(format!("{text}\n\n{lines}\n\n{beside}"));
}

#[test]
fn lines_of_page_bench_are_of_its_own_workloads() {
    let of = |workload: &str, cpus: usize| {
        let mut report = seeded(cpus, 1, 1.0);
        report.workload = workload.to_owned();
        report
    };
    let runs = [
        of("page-bench01:order=3", 1),
        of("page-bench02", 1),
        of("page-bench03:order=3", 8),
        of("page-bench04:batch=16", 1),
        of("page-bench05", 2),
        of("page-fault1", 8),
    ];
    let all = Choice { all: true, ..Choice::default() };
    insta::assert_snapshot!(page_bench(&compared(&[side("a.json", &file(runs))], all)).unwrap());
}

#[test]
fn a_file_with_two_sets_of_mechanisms_has_two_columns() {
    let mut runs: Vec<Report> = (1..=6).map(|seed| seeded(8, seed, 1.0)).collect();
    runs.extend((1..=6).map(|seed| Report { mechanisms: "default".to_owned(), ..seeded(8, seed, 1.5) }));
    let document = json!({"schema": "framewright-sim/1", "command": "framewright sim", "runs": runs}).to_string();
    let comparison = compared(&[side("both.json", &document)], Choice::default());
    let names: Vec<&str> = comparison.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!((comparison.by, names), (By::Mechanisms, vec!["baseline", "default"]));
    let against = comparison.tables[0].rows[0].cells[1].as_ref().unwrap().against.unwrap();
    assert!(
        (against.delta_percent.unwrap() - 50.0).abs() < 1e-9 && against.verdict == Difference::Better,
        "{against:?}"
    );
    // As files, mechanisms are a part of the rows' names.
    let by_file = compared(&[side("both.json", &document)], Choice { by: Some(By::File), ..Choice::default() });
    let rows: Vec<&str> = by_file.tables[0].rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(rows, ["page_fault1/baseline-8", "page_fault1/default-8"]);
}

#[test]
fn what_is_the_same_run_counts_once() {
    let one = file([seeded(8, 1, 1.0)]);
    let comparison = compared(&[side("a.json", &one.repeat(9))], Choice::default());
    assert_eq!(comparison.tables[0].rows[0].cells[0].as_ref().unwrap().values.len(), 1);
    assert!(comparison.warnings[0].starts_with("the same run is there more than once"), "{:?}", comparison.warnings);
    let other = file([seeded(8, 1, 1.01)]);
    let comparison = compared(&[side("a.json", &(one + &other))], Choice::default());
    assert_eq!(comparison.tables[0].rows[0].cells[0].as_ref().unwrap().values.len(), 2);
    assert!(
        comparison.warnings[0].starts_with("runs with seed 1 that should be equal differ"),
        "{:?}",
        comparison.warnings
    );
}

#[test]
fn what_is_not_alike_is_told() {
    let long = Report { window_ns: 100_000_000, machine: "haswell-2x18".to_owned(), ..seeded(8, 1, 1.0) };
    let sides = [side("a.json", &file([seeded(8, 1, 1.0)])), side("b.json", &file([long]))];
    let comparison = compared(&sides, Choice::default());
    let [lengths, machines] = &comparison.warnings[..] else { panic!("{:?}", comparison.warnings) };
    assert_eq!(
        lengths,
        "runs of one row were not made alike: 100 ms after 10 ms, next by time; 50 ms after 10 ms, next by time (page_fault1-8)"
    );
    assert!(machines.starts_with("the machines differ (skylake-2x28 and haswell-2x18)"), "{machines}");
    let few = Text(&comparison).to_string();
    assert!(few.contains("± ∞: an interval of 95 % needs 6") && few.contains("~: a difference needs 4"), "{few}");
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let sim = || side("sim.json", &file([seeded(8, 1, 1.0)]));
    let bench = || side("bench.json", &bench(1.0, "Xeon"));
    let error = |sides: &[Side], choice: Choice<'_>| Comparison::new(sides, choice).unwrap_err();
    assert!(matches!(error(&[sim(), bench()], Choice::default()), CompareError::Kinds(..)));
    let by_allocator = Choice { by: Some(By::Allocator), ..Choice::default() };
    assert!(matches!(error(&[sim()], by_allocator), CompareError::NoAllocators(_)));
    let nothing = Choice { only: Some("nothing"), ..Choice::default() };
    assert!(matches!(error(&[sim()], nothing), CompareError::Only(..)));
    assert!(will_it_scale(&compared(&[bench()], Choice::default())).is_err());
    assert!(page_bench(&compared(&[sim()], Choice { all: true, ..Choice::default() })).is_err());
}

#[test]
fn getting_worse_is_what_the_direction_says() {
    let comparison = compared(&two_sides(), Choice::default());
    let rows = |percent: f64| comparison.worse_by(percent);
    assert_eq!(rows(60.0), ["page_fault1-112 (cycles): +100.00 % in new.json"]);
    assert_eq!(rows(5.0).len(), 2, "the throughput of 112 CPUs as well: {:?}", rows(5.0));
    let [old, new] = two_sides();
    assert!(compared(&[new, old], Choice::default()).worse_by(5.0).is_empty(), "the other way round it got better");
}

/// A line of Go's form: name, unit and value.
fn go_line(line: &str) -> Option<(&str, &str, f64)> {
    let mut words = line.strip_prefix("Benchmark")?.split('\t');
    let (name, iterations, value) = (words.next()?, words.next()?, words.next()?);
    assert!(iterations == "1" && !name.contains(' ') && words.next().is_none(), "{line}");
    let (value, unit) = value.split_once(' ')?;
    assert!(!unit.contains(' '), "{line}");
    Some((name, unit, value.parse().ok()?))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Go's lines hold every number that was compared.
    #[test]
    fn lines_for_benchstat_read_back(speeds in prop::collection::vec(1e-3..1e12, 1..8)) {
        let runs = speeds.iter().zip(1..).map(|(&per_second, seed)| Report { per_second, ..seeded(8, seed, 1.0) });
        let comparison = compared(&[side("a b.json", &file(runs))], Choice::default());
        let text = go(&comparison);
        let read: Vec<f64> = text.lines().filter_map(go_line).filter(|(_, unit, _)| *unit == "page_fault/s").map(|(.., value)| value).collect();
        // What reads the files may be off by the last bit.
        prop_assert!(read.len() == speeds.len() && read.iter().zip(&speeds).all(|(a, b)| (a / b - 1.0).abs() < 1e-14), "{read:?}");
        let known = |line: &str| go_line(line).is_some() || line.starts_with("Unit ") || line.contains(": ");
        prop_assert!(text.lines().all(known), "{text}");
    }

    /// will-it-scale's CSV is a table of numbers whose first line of data is that of no tasks, and holds what was
    /// measured.
    #[test]
    fn csv_of_will_it_scale_reads_back(cpus in prop::collection::btree_set(1..=112_usize, 1..8)) {
        let comparison = compared(&[side("a.json", &six_seeds(&cpus.iter().copied().collect::<Vec<_>>(), 1.0))], Choice { all: true, ..Choice::default() });
        let text = will_it_scale(&comparison).unwrap();
        let mut lines = text.lines();
        prop_assert_eq!(lines.next(), Some("tasks,processes,processes_idle,threads,threads_idle,linear"));
        prop_assert_eq!(lines.next(), Some("0,0,100,0,100,0"));
        let rows: Vec<Vec<f64>> = lines.map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
        prop_assert_eq!(rows.iter().map(|row| row[0] as usize).collect::<Vec<_>>(), cpus.iter().copied().collect::<Vec<_>>());
        for (row, &cpus) in rows.iter().zip(&cpus) {
            let measured = run(cpus).per_second * 1.0005;
            prop_assert!((row[1] / measured - 1.0).abs() < 1e-3 && (0.0..=100.0).contains(&row[2]), "{row:?}, {measured}");
        }
    }

    /// Whatever a file holds, there is an answer without a control character, and nothing panics.
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}|[\\[\\]{}\",:a-z0-9\n \x1b]{0,200}", at in 0..2000_usize, with in any::<char>()) {
        let refused = |text: &str| match documents("file", text) {
            Ok(documents) => {
                let side = Side { name: "file".to_owned(), documents };
                Comparison::new(&[side], Choice::default()).map(|comparison| Text(&comparison).to_string()).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        // The file is ASCII: any place of it is between two characters.
        let mut changed = file([seeded(1, 1, 1.0)]);
        changed.insert(at.min(changed.len()), with);
        for text in [text, changed] {
            if let Err(message) = refused(&text) {
                prop_assert!(!message.is_empty());
            }
        }
    }
}
