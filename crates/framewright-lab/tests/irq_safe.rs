//! The reproduction of the irq-safe tables: text, page and checks from made-up runs.

mod sim_samples;

use framewright_bench::time_bench::{Primitive, ProtectionPair};
use framewright_lab::reproduce::check::all_hold;
use framewright_lab::reproduce::found::Reproduction;
use framewright_lab::reproduce::irq_safe::plan::{ITERATIONS, LOST, MODES, Native};
use framewright_lab::reproduce::irq_safe::published::{Operation, Test};
use framewright_lab::reproduce::irq_safe::{self, IrqSafeLengths, IrqSafePlan, IrqSafeTables};
use framewright_lab::reproduce::plan::{Figures, Plan as _, Runs, Variations};
use framewright_lab::reproduce::published::Published as _;
use framewright_lab::reproduce::variation::{Reach, Varied};
use framewright_sim::machine::{self, Spec};
use framewright_sim::report::{Figure, Report};
use sim_samples::{check, compared, narrow, reported, run, shows};

const COMMAND: &str = "framewright reproduce irq-safe --seed 1";

/// A made-up deviation, by what is measured: percent of a saving, cycles of the pair, percent of a test's or of the packets' throughput.
type Off = fn(&str) -> f64;

/// A run of so many operations a second on a CPU.
fn outcome(per_second: f64) -> Report {
    Report { per_second, ..run(1) }
}

/// A batch that takes so many cycles to allocate a page and to free it.
fn batch([alloc, free]: [f64; 2]) -> Report {
    let figure = |name: &str, cycles: f64| Figure { name: name.to_owned(), value: cycles / 2.3, unit: "ns".to_owned() };
    Report { figures: vec![figure("an allocation", alloc), figure("a free", free)], ..run(1) }
}

/// Runs that save what was published, but for some percent of it.
fn runs(plan: &IrqSafePlan<'_>, published: &IrqSafeTables, off: Off) -> Runs {
    let saved = |operation: Operation, batch: u32| {
        let row = published.rows.iter().find(|row| row.operation == operation && row.batch == batch).unwrap();
        row.corrected().saving() * (1.0 + off(&operation.row(batch)) / 100.0)
    };
    let batches = published.batches().into_iter().flat_map(|number| {
        let [alloc, free] = [Operation::Alloc, Operation::Free].map(|operation| saved(operation, number));
        [[0.0, 0.0], [alloc, free], [10.0, 20.0], [200.0, 150.0]].map(|[a, f]| batch([240.0 - a, 190.0 - f]))
    });
    let pair = [380.0, 354.0 + off("pair"), 390.0, 61.0].map(|cycles| outcome(4e9 / cycles));
    let tests = Test::ALL.into_iter().flat_map(|test| (0..ITERATIONS).map(move |number| (test, number)));
    let aim9 = tests.flat_map(|(test, number)| {
        [0.0, 2.0, 1.0, 4.0].map(|gain: f64| {
            let gain = if test == Test::BrkTest { gain / 4.0 } else { gain };
            // What is off is off against the first mode.
            let off = if gain == 0.0 { 0.0 } else { off(test.name()) };
            outcome(650_000.0 * (1.0 + (gain + off) / 100.0) + 100.0 * number as f64)
        })
    });
    let packets = MODES.map(|mode| {
        let change = match mode.name {
            "interrupts-off" => 0.0,
            "preemption-off" => -18.0,
            _ => 0.3,
        };
        Report { cpus: 8, ..outcome(1_950_000.0 * (1.0 + (change + off(mode.name)) / 100.0)) }
    });
    let sets = plan.sets().unwrap();
    let names = sets.iter().flat_map(|set| set.runs.iter().map(|run| run.name.clone()));
    let all = batches.chain(aim9).chain(packets).chain(pair).map(reported);
    let mut runs = plan.found(&sets, names.zip(all));
    let moved = |lost| Figures::from([(LOST.to_owned(), lost)]);
    let chosen = vec![Reach { parameter: "memory.load_factor".to_owned(), points: 1.5 }];
    runs.variations = Some(Variations {
        base: moved(-18.0),
        samples: vec![moved(-16.5), moved(-19.0)],
        varied: Varied { screened: 40, chosen, rest: 0.5 },
    });
    runs
}

fn native() -> Native {
    let part = |name, published_name, cycles: Option<f64>| Primitive {
        name,
        published_name,
        cycles,
        ns: 1.5,
        ns_min: 1.4,
        ns_max: 1.9,
    };
    let pair = |protection, ns: f64| ProtectionPair {
        preset: "baseline",
        protection,
        cycles: Some(2.0 * ns),
        ns,
        ns_min: ns,
        ns_max: ns,
        ratio: 1.0,
    };
    Native {
        time_bench: vec![
            part("call", Some("function_call_cost"), Some(4.0)),
            part("signals masked and unmasked", Some("local_irq_save_restore"), None),
            part("seam's irq_save and restore", Some("local_irq_save_restore"), Some(1.2)),
            part("something of our own", None, Some(3.0)),
        ],
        pairs: vec![pair("interrupts-off", 110.0), pair("trylock", 112.0)],
    }
}

fn found(off: Off) -> (Reproduction, Spec) {
    let published = IrqSafeTables::built_in().unwrap();
    let [machine, desktop] = ["haswell-2x18", "skylake-desktop"].map(|name| machine::named(name).unwrap());
    let plan = IrqSafePlan {
        machine: &machine,
        desktop: &desktop,
        published: &published,
        seed: 1,
        lengths: IrqSafeLengths::FULL,
    };
    let found = irq_safe::found(&plan, (&runs(&plan, &published, off), &native()), COMMAND).unwrap();
    (found, machine.clone())
}

#[test]
fn tables_that_are_nearly_theirs() {
    let (found, _) = found(|row| if row.ends_with(" 256") { 30.0 } else { 0.0 });
    insta::assert_snapshot!(narrow(&found.text()));
    assert!(all_hold(&found.checks));
}

#[test]
fn the_same_as_json() {
    let json = compared(&found(|_| 0.0).0, 20);
    let some = ["rows", "softirq", "aim9", "time_bench"].map(|name| json[name][1].clone());
    insta::assert_snapshot!(serde_json::to_string_pretty(&some).unwrap());
    let fitted = |row: &&serde_json::Value| row["fitted"] == true;
    let rows = json["rows"].as_array().unwrap().iter().filter(fitted);
    let names: Vec<String> =
        rows.map(|row| format!("{} {}", row["operation"].as_str().unwrap(), row["batch"])).collect();
    assert_eq!(names, ["alloc 2", "free 2"]);
}

#[test]
fn what_is_off_fails() {
    let cases: [(&str, Off); 7] = [
        ("80 % of the savings", |row| if row.starts_with("free") { 45.0 } else { 0.0 }),
        ("page_bench02", |row| if row == "pair" { 2.5 } else { 0.0 }),
        ("page_test", |row| if row == "page_test" { -1.5 } else { 0.0 }),
        ("packets: preemption-off", |row| if row == "preemption-off" { -10.0 } else { 0.0 }),
        ("packets: preemption-off", |row| if row == "preemption-off" { 4.0 } else { 0.0 }),
        ("packets: trylock", |row| if row == "trylock" { -2.5 } else { 0.0 }),
        ("packets: own-lists", |row| if row == "own-lists" { -2.5 } else { 0.0 }),
    ];
    for (name, off) in cases {
        let (found, _) = found(off);
        let check = check(&found, name);
        assert_eq!(check.passed, Some(false), "{check}");
    }
}

#[test]
fn the_page_has_theirs_and_ours_and_the_checks() {
    let (found, machine) = found(|_| 0.0);
    let page = found.page(&[machine]).unwrap();
    shows(
        &page,
        &["287.1", "Saved by a free", "spin_lock_unlock_irqsave", "60,316", "page_test CoeffVar", "masked_free"],
    );
    assert_eq!(page.matches("class=\"word holds\"").count(), found.checks.len());
}
