//! The reproduction of the zone's layout: text, page and checks from made-up runs, and a plan of small runs in full.

mod sim_samples;

use framewright::mechanisms::{LockPlace, ZoneLock};
use framewright_lab::compare::points::points;
use framewright_lab::compare::read::documents;
use framewright_lab::html::zone_layout_page;
use framewright_lab::reproduce::check::all_hold;
use framewright_lab::reproduce::variation::{Reach, Varied, Varying};
use framewright_lab::reproduce::zone_layout::plan::{MEMORY, Speed, Variant, Variations};
use framewright_lab::reproduce::zone_layout::{Lengths, Plan, Published, Reproduction, Runs, plan};
use framewright_sim::machine::{self, Spec};
use framewright_sim::report::{Figure, Report};
use framewright_sim::workload::{Aim7, Passes};
use sim_samples::{asks_nobody, is_closed, narrow, run};

const COMMAND: &str = "framewright reproduce zone-layout --seed 1";

fn plan(machine: &Spec) -> Plan<'_> {
    Plan { machine, workload: plan::workload(), cpus: vec![1, 8, 120], seed: 1, lengths: Lengths::FULL }
}

/// A run of so many thousand processes a second.
fn outcome(cpus: usize, jobs: f64) -> Report {
    let computing = Figure { name: Aim7::COMPUTING.to_owned(), value: 2.5, unit: "%".to_owned() };
    Report { figures: vec![computing], per_second: jobs * 1e3, ..run(cpus) }
}

/// Runs that come out almost as published: beside the lists the lock is faster on one CPU, slower on eight and more.
fn runs() -> Runs {
    let of = |variant: Variant| {
        let jobs = match (variant.lock, variant.place) {
            (ZoneLock::Ticket, LockPlace::BesideLists) => [2.02, 9.0, 27.0],
            (ZoneLock::Ticket, _) => [2.0, 10.0, 50.0],
            (_, LockPlace::BesideLists) => [2.02, 10.0, 48.0],
            _ => [2.0, 10.0, 46.0],
        };
        let mut reports: Vec<Report> =
            [1, 8, 120].into_iter().zip(jobs).map(|(cpus, jobs)| outcome(cpus, jobs)).collect();
        if variant.place == LockPlace::BesideLists {
            reports[0].locks[0].holding.total_ns *= 0.99;
        }
        (variant, reports)
    };
    let of_both = |both: [f64; 2]| both.map(|jobs| Speed { jobs: jobs * 1e3, computing: 2.5 });
    let moved = |beside: f64| of_both([27.0 * beside, 50.0]);
    let chosen = vec![Reach { parameter: "occupancy.read".to_owned(), points: 7.0 }];
    let variations = Variations {
        base: moved(1.0),
        samples: vec![moved(0.93), moved(1.07)],
        varied: Varied { screened: 45, chosen, rest: 0.4 },
    };
    let memory = [0.75, 0.8, 0.5, 0.54].map(|beside| [50.0 * beside, 50.0]).map(of_both).to_vec();
    Runs { curves: Variant::all().map(of).collect(), varied: Some((memory, variations)) }
}

fn machine() -> Spec {
    machine::named("ivybridge-ex-4x15").unwrap()
}

fn found(change: impl Fn(&mut Runs)) -> (Reproduction, Spec) {
    let (published, machine, mut runs) = (Published::built_in().unwrap(), machine(), runs());
    change(&mut runs);
    (Reproduction::new(&published, &plan(&machine), &runs, COMMAND), machine.clone())
}

fn verdict(found: &Reproduction, name: &str) -> Option<bool> {
    found.checks.iter().find(|check| check.name.starts_with(name)).unwrap().passed
}

/// The run of a lock at a place on so many CPUs.
fn speed(runs: &mut Runs, curve: usize, point: usize, jobs: f64) {
    runs.curves[curve].1[point].per_second = jobs * 1e3;
}

#[test]
fn a_table_that_is_nearly_theirs() {
    let (found, _) = found(|_| {});
    insta::assert_snapshot!(narrow(&found.to_string()));
    assert!(all_hold(&found.checks));
}

#[test]
fn the_same_as_json() {
    let json = serde_json::to_value(found(|_| {}).0).unwrap();
    let compared = points(&documents("found", &json.to_string()).unwrap()[0]).unwrap();
    assert!(compared.len() >= 4, "{compared:?}");
    insta::assert_snapshot!(serde_json::to_string_pretty(&json["rows"]).unwrap());
    assert_eq!(json["schema"], "framewright-reproduce/1");
    assert_eq!(json["crossover"][0]["cpus"], 8);
}

#[test]
fn rows_of_the_fitted_direction_are_flagged() {
    let (found, _) = found(|_| {});
    for row in &found.rows {
        assert_eq!(row.fitted, row.name.starts_with("separate -> beside"), "{}", row.name);
        assert_eq!(row.simulated.is_none(), row.why_not.is_some(), "{}", row.name);
    }
}

#[test]
fn what_is_off_fails() {
    type Change = fn(&mut Runs);
    let cases: [(&str, Change); 6] = [
        ("every change in the published direction", |runs| speed(runs, 0, 2, 51.0)),
        ("with up to 4 CPUs", |runs| runs.curves[0].1[0].locks[0].holding.total_ns *= 1.02),
        ("of rows that are not fitted", |runs| speed(runs, 0, 2, 40.0)),
        ("bands of jobs", |runs| runs.varied.as_mut().unwrap().1.samples[1][0].jobs *= 1.2),
        ("on lines of its own", |runs| speed(runs, 2, 2, 48.0)),
        ("a queued lock", |runs| speed(runs, 3, 2, 36.0)),
    ];
    for (name, change) in cases {
        assert_eq!(verdict(&found(|_| {}).0, name), Some(true), "{name}");
        assert_eq!(verdict(&found(change).0, name), Some(false), "{name}");
    }
    let (quick, _) = found(|runs| runs.varied = None);
    assert_eq!(verdict(&quick, "of rows that are not fitted"), None);
}

#[test]
fn rows_of_the_machines_files_exist() {
    let published = Published::built_in().unwrap();
    for name in machine::names() {
        for parameter in machine::named(name).unwrap().parameters() {
            for row in parameter.basis.rows().filter_map(|row| row.strip_prefix("zone-layout/")) {
                assert!(published.rows.iter().any(|known| known.name == row), "{name}: {row}");
            }
        }
    }
}

/// On a small machine, all that a plan can ask for; the same again.
#[test]
fn a_small_plan_in_full() {
    let published = Published::built_in().unwrap();
    let machine = machine::named("generic:1x2x1").unwrap();
    let few = Passes { warm_up: 1.0, window: 4.0 };
    let lengths = Lengths { table: few, varied: Some(Varying { screen: few, band: few }) };
    let workload = Aim7 { pages: 300, ..plan::workload() };
    let plan = Plan { workload, cpus: vec![1, 2], lengths, ..plan(&machine) };
    let (mut told, mut most) = (0, 0);
    let run = |progress: &mut dyn FnMut(u64, u64)| {
        Reproduction::new(&published, &plan, &plan.run(progress).unwrap(), COMMAND)
    };
    let first = run(&mut |done, total| {
        assert!(told <= done && done <= total, "{done} of {total}, after {told}");
        (told, most) = (done, total);
    });
    assert!(told * 10 > most * 9, "{told} of {most}");
    let json = |found: &Reproduction| serde_json::to_value(found).unwrap();
    assert_eq!(json(&run(&mut |_, _| {})), json(&first));
    assert_eq!(first.memory.len(), MEMORY.len());
    assert_eq!((first.variants.len(), first.varied.as_ref().unwrap().chosen.len()), (6, 8));
    assert!(first.variants.iter().all(|one| one.points.len() == 2 && one.performance > 1e3), "{:?}", first.variants);
    for row in first.rows.iter().filter(|row| row.why_not.is_none()) {
        assert!(row.band.unwrap().holds(row.simulated.unwrap().change_percent), "{row:?}");
    }
}

#[test]
fn the_page_says_all_of_it_and_asks_nobody() {
    let (found, machine) = found(|_| {});
    let page = zone_layout_page(&found, &machine).unwrap();
    asks_nobody(&page);
    is_closed(&page);
    for wanted in ["+94.3", "not modelled", "own-line", "occupancy.read", "is better from 8 CPUs on", "120 CPUs"] {
        assert!(page.contains(wanted), "{wanted}");
    }
}
