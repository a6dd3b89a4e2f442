//! The reproduction of the zone's layout: text, page and checks from made-up runs, and a plan of small runs in full.

mod sim_samples;

use framewright_lab::reproduce::check::all_hold;
use framewright_lab::reproduce::found::Reproduction;
use framewright_lab::reproduce::plan::{Figures, Plan as _, Runs, TABLE, Variations};
use framewright_lab::reproduce::published::Published as _;
use framewright_lab::reproduce::variation::{Band, Reach, Round, Varied, Varying};
use framewright_lab::reproduce::zone_layout::plan::MEMORY;
use framewright_lab::reproduce::zone_layout::{self, ZoneLayoutLengths, ZoneLayoutPlan, ZoneLayoutTable, plan};
use framewright_sim::machine::{self, Spec};
use framewright_sim::report::{Figure, Report};
use framewright_sim::workload::{Aim7, Passes};
use sim_samples::{check, compared, narrow, reported, run, shows};

const COMMAND: &str = "framewright reproduce zone-layout --seed 1";

fn plan<'a>(published: &'a ZoneLayoutTable, machine: &'a Spec) -> ZoneLayoutPlan<'a> {
    let (workload, cpus) = (plan::workload(), vec![1, 8, 120]);
    ZoneLayoutPlan { machine, published, workload, cpus, seed: 1, lengths: ZoneLayoutLengths::FULL }
}

/// A run of so many thousand processes a second.
fn outcome(cpus: usize, jobs: f64) -> Report {
    let computing = Figure { name: Aim7::COMPUTING.to_owned(), value: 2.5, unit: "%".to_owned() };
    Report { figures: vec![computing], per_second: jobs * 1e3, ..run(cpus) }
}

/// Runs that come out almost as published: beside the lists the lock is faster on one CPU, slower on eight and more.
fn runs(plan: &ZoneLayoutPlan<'_>) -> Runs {
    let sets = plan.sets().unwrap();
    let table = |name: &str| {
        let jobs = match name.split(" on ").next().unwrap() {
            "ticket, beside-lists" => [2.02, 9.0, 27.0],
            "queued, beside-lists" => [2.02, 10.0, 48.0],
            ticket if ticket.starts_with("ticket") => [2.0, 10.0, 50.0],
            _ => [2.0, 10.0, 46.0],
        };
        let (number, &cpus) =
            plan.cpus.iter().enumerate().find(|(_, cpus)| name.ends_with(&format!(" on {cpus} CPUs"))).unwrap();
        let mut report = outcome(cpus, jobs[number]);
        if cpus == 1 && name.contains("beside-lists") {
            report.locks[0].holding.total_ns *= 0.99;
        }
        report
    };
    let pair = |beside: f64| [outcome(120, 50.0 * beside), outcome(120, 50.0)];
    let mut memory = [0.75, 0.8, 0.5, 0.54].into_iter().flat_map(pair);
    let all = sets.iter().flat_map(|set| set.runs.iter().map(move |run| (set.name, run.name.clone())));
    let all = all.map(|(set, name)| {
        let report = if set == TABLE { table(&name) } else { memory.next().unwrap() };
        (name, reported(report))
    });
    let mut runs = plan.found(&sets, all.collect::<Vec<_>>());
    runs.variations = Some(Variations {
        base: moved(plan, 1.0),
        samples: vec![moved(plan, 0.93), moved(plan, 1.07)],
        varied: Varied {
            screened: 45,
            chosen: vec![Reach { parameter: "occupancy.read".to_owned(), points: 7.0 }],
            rest: 0.4,
        },
    });
    runs
}

/// What a variation shows in which the lock beside the lists is so many times as fast.
fn moved(plan: &ZoneLayoutPlan<'_>, beside: f64) -> Figures {
    let names = plan.varied(None, Round::Band).unwrap().into_iter().map(|run| run.name);
    let jobs = [27.0 * beside, 50.0].map(|jobs| reported(outcome(120, jobs)));
    plan.figures(&names.zip(jobs).collect::<Vec<_>>())
}

fn machine() -> Spec {
    machine::named("ivybridge-ex-4x15").unwrap()
}

fn found(change: impl Fn(&ZoneLayoutPlan<'_>, &mut Runs)) -> (Reproduction, Spec) {
    let (published, machine) = (ZoneLayoutTable::built_in().unwrap(), machine());
    let plan = plan(&published, &machine);
    let mut runs = runs(&plan);
    change(&plan, &mut runs);
    (zone_layout::found(&plan, &runs, COMMAND), machine.clone())
}

fn verdict(found: &Reproduction, name: &str) -> Option<bool> {
    check(found, name).passed
}

/// The run of this name.
fn report<'r>(runs: &'r mut Runs, name: &str) -> &'r mut Report {
    let all = runs.sets.get_mut(TABLE).unwrap();
    &mut all.iter_mut().find(|(known, _)| known == name).unwrap().1.report
}

fn speed(runs: &mut Runs, name: &str, jobs: f64) {
    report(runs, &format!("{name} on 120 CPUs")).per_second = jobs * 1e3;
}

#[test]
fn a_table_that_is_nearly_theirs() {
    let (found, _) = found(|_, _| {});
    insta::assert_snapshot!(narrow(&found.text()));
    assert!(all_hold(&found.checks));
}

#[test]
fn the_same_as_json() {
    let json = compared(&found(|_, _| {}).0, 4);
    insta::assert_snapshot!(serde_json::to_string_pretty(&json["rows"]).unwrap());
    assert_eq!(json["crossover"][0]["cpus"], 8);
}

#[test]
fn rows_of_the_fitted_direction_are_flagged() {
    let json = serde_json::to_value(found(|_, _| {}).0).unwrap();
    for row in json["rows"].as_array().unwrap() {
        assert_eq!(row["fitted"], row["name"].as_str().unwrap().starts_with("separate -> beside"), "{row}");
        assert_eq!(row["simulated"].is_null(), row["why_not"].is_string(), "{row}");
    }
}

#[test]
fn what_is_off_fails() {
    type Change = fn(&ZoneLayoutPlan<'_>, &mut Runs);
    let cases: [(&str, Change); 6] = [
        ("every change in the published direction", |_, runs| speed(runs, "ticket, beside-lists", 51.0)),
        ("with up to 4 CPUs", |_, runs| {
            report(runs, "ticket, beside-lists on 1 CPUs").locks[0].holding.total_ns *= 1.02
        }),
        ("of rows that are not fitted", |plan, runs| {
            speed(runs, "ticket, beside-lists", 40.0);
            runs.figures = plan.figures(runs.of(TABLE));
        }),
        ("bands of jobs", |plan, runs| runs.variations.as_mut().unwrap().samples[1] = moved(plan, 1.07 * 1.2)),
        ("on lines of its own", |_, runs| speed(runs, "ticket, own-line", 48.0)),
        ("a queued lock", |_, runs| speed(runs, "queued, beside-lists", 36.0)),
    ];
    for (name, change) in cases {
        assert_eq!(verdict(&found(|_, _| {}).0, name), Some(true), "{name}");
        assert_eq!(verdict(&found(change).0, name), Some(false), "{name}");
    }
    let (quick, _) = found(|_, runs| runs.variations = None);
    assert_eq!(verdict(&quick, "of rows that are not fitted"), None);
}

#[test]
fn rows_of_the_machines_files_exist() {
    let published = ZoneLayoutTable::built_in().unwrap();
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
    let published = ZoneLayoutTable::built_in().unwrap();
    let machine = machine::named("generic:1x2x1").unwrap();
    let few = Passes { warm_up: 1.0, window: 4.0 };
    let lengths = ZoneLayoutLengths { table: few, varied: Some(Varying { screen: few, band: few }) };
    let workload = Aim7 { pages: 300, ..plan::workload() };
    let plan = ZoneLayoutPlan { workload, cpus: vec![1, 2], lengths, ..plan(&published, &machine) };
    let (mut told, mut most) = (0, 0);
    let run = |progress: &mut dyn FnMut(u64, u64)| zone_layout::found(&plan, &plan.run(progress).unwrap(), COMMAND);
    let first = run(&mut |done, total| {
        assert!(told <= done && done <= total, "{done} of {total}, after {told}");
        (told, most) = (done, total);
    });
    assert!(told * 10 > most * 9, "{told} of {most}");
    let json = |found: &Reproduction| serde_json::to_value(found).unwrap();
    assert_eq!(json(&run(&mut |_, _| {})), json(&first));
    let first = json(&first);
    let list = |name: &str| first[name].as_array().unwrap().clone();
    assert_eq!(list("memory").len(), MEMORY.len());
    assert_eq!((list("variants").len(), first["varied"]["chosen"].as_array().unwrap().len()), (6, 8));
    let is_whole = |one: &serde_json::Value| {
        one["points"].as_array().unwrap().len() == 2 && one["performance"].as_f64().unwrap() > 1e3
    };
    assert!(list("variants").iter().all(is_whole), "{first}");
    for row in list("rows").iter().filter(|row| row["why_not"].is_null()) {
        let band = [0, 1].map(|end| row["band"][end].as_f64().unwrap());
        assert!(Band(band).holds(row["simulated"]["change_percent"].as_f64().unwrap()), "{row}");
    }
}

#[test]
fn the_page_says_all_of_it_and_asks_nobody() {
    let (found, machine) = found(|_, _| {});
    let page = found.page(&[machine]).unwrap();
    shows(&page, &["+94.3", "not modelled", "own-line", "occupancy.read", "is better from 8 CPUs on", "120 CPUs"]);
}
