//! Plans, shards, results and how they are merged, without running a cell.

use framewright::Mechanisms;
use framewright_lab::sweep::cell::{Cell, ListSize};
use framewright_lab::sweep::csv::csv;
use framewright_lab::sweep::digest::Digest;
use framewright_lab::sweep::merge::Merged;
use framewright_lab::sweep::part::Part;
use framewright_lab::sweep::plan::SweepPlan;
use framewright_lab::sweep::results::{Failure, Figure, Found, Outcome, ResultLine, ResultsContent};
use framewright_lab::sweep::table::SweepTable;
use framewright_sim::VERSION;
use framewright_sim::machine::{self, Spec};
use framewright_sim::workload::{Job, Ops, Workload};
use proptest::prelude::*;
use proptest::sample::Index;

/// A list of operations for one CPU.
const LIST: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\ncpus 0 0\ndma-end 0x0\ndma32-end 0x0\n\n\
                    a1 = alloc order 0 GFP_KERNEL\nfree a1\n";

/// A plan of so many seeds.
fn plan(cells: u64) -> SweepPlan {
    let machine = machine::named("generic:2x2x1").unwrap();
    let job = Job::new("page-fault1".parse().unwrap(), Mechanisms::DEFAULT, 4);
    let runs: Vec<_> = (1..=cells).map(|seed| (&machine, Job { seed, ..job.clone() })).collect();
    SweepPlan::new("framewright sweep plan …", &runs).unwrap()
}

/// What a cell might have come out as.
fn found(cell: &Cell, per_second: f64) -> Found {
    let figure = |name: &str, value| Figure { name: name.to_owned(), value, unit: "ns".to_owned() };
    Found {
        unit: "fault".to_owned(),
        operations: 100 * cell.seed,
        per_second: Some(per_second),
        cycles_per_operation: None,
        waiting_percent: Some(12.5),
        lock: Some("zone lock, \"Normal\"".to_owned()),
        figures: vec![figure("a wait, spinning", Some(0.1 + 0.2)), figure("nothing", None)],
        warm_up_ns: 1,
        window_ns: 2,
        accesses: 3,
        switches: 4,
        report: Digest::of(&per_second.to_string()),
    }
}

fn line(plan: &SweepPlan, index: usize, outcome: Outcome) -> ResultLine {
    let (hash, cell) = &plan.cells[index];
    ResultLine { seconds: Some(0.5), ..ResultLine::new(index, (hash, cell), VERSION, outcome) }
}

fn result(plan: &SweepPlan, index: usize, per_second: f64) -> ResultLine {
    line(plan, index, Outcome::Result(found(&plan.cells[index].1, per_second)))
}

fn failure(plan: &SweepPlan, index: usize, error: &str) -> ResultLine {
    line(plan, index, Outcome::Failure(Failure { error: error.to_owned(), again: "again".to_owned() }))
}

/// A file of results.
fn file(name: &str, lines: &[ResultLine]) -> ResultsContent {
    let text: String = lines.iter().map(|line| line.json().unwrap()).collect();
    ResultsContent::parse(name, text.as_bytes()).unwrap()
}

#[test]
fn a_plan_reads_back() {
    let names = machine::names().chain(["generic:1x2x1", "generic:8x64x2"]);
    let machines: Vec<_> = names.map(|name| machine::named(name).unwrap()).collect();
    let list = Workload::Ops(Ops::parse("some/list.ops", LIST).unwrap());
    let mut runs = Vec::new();
    for machine in &machines {
        for workload in [list.clone(), "page-fault1:lru=smp".parse().unwrap()] {
            runs.push((machine, Job { seed: u64::MAX, ..Job::new(workload, Mechanisms::BASELINE, 1) }));
        }
    }
    let plan = SweepPlan::new("command", &runs).unwrap();
    let text = plan.jsonl().unwrap();
    let again = SweepPlan::parse("plan", &text).unwrap();
    assert_eq!(again, plan);
    assert_eq!(again.jsonl().unwrap(), text);
    for ((machine, job), (_, cell)) in runs.iter().zip(&again.cells) {
        assert_eq!((again.machine(cell).unwrap(), again.job(cell).unwrap()), (*machine, job.clone()));
    }
}

/// A message without the column, which depends on how long the version is.
fn told(error: &anyhow::Error) -> String {
    let all = format!("{error:#}");
    all.split_once(" at line").map_or(all.as_str(), |(message, _)| message).to_owned() + "\n"
}

#[test]
fn what_is_no_plan_is_named() {
    let text = plan(3).jsonl().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    let later = lines[1].replace("\"index\":0", "\"index\":3") + "\n";
    let cases = [
        "",
        "{\n",
        "[[[[\n",
        &text.replace("sweep-plan/1", "sweep-plan/2"),
        &text.replace(VERSION, "0.0.1+beef"),
        &text.replace("\"cells\":3", "\"cells\":0"),
        &text.replace("\"cells\":3", "\"cells\":100001"),
        &text.replace("title = ", "tilte = "),
        &joined(&lines[..3]),
        &(text.clone() + lines[1] + "\n"),
        &(text.clone() + &later),
        &text.replace("\"index\":2", "\"index\":1"),
        &text.replace("\"cpus\":4,\"seed\":2", "\"cpus\":2,\"seed\":2"),
        &text.replace("\"seed\":2", "\"sede\":2"),
        &text[..text.len() - 9],
    ];
    let errors = cases.map(|text| told(&SweepPlan::parse("p", text).unwrap_err()));
    insta::assert_snapshot!(errors.concat().replace(VERSION, "VERSION"));
}

/// Files with a name in common, of other content.
#[test]
fn what_cannot_be_told_apart_is_named() {
    let machine = machine::named("generic:2x2x1").unwrap();
    let slower = machine.scaled("costs.hit", 2.0).unwrap();
    let job = Job::new("page-fault1".parse().unwrap(), Mechanisms::DEFAULT, 4);
    let listed = |list: &str| Job { workload: Workload::Ops(Ops::parse("ops", list).unwrap()), ..job.clone() };
    let longer = LIST.to_owned() + "a2 = alloc order 0 GFP_KERNEL\nfree a2\n";
    let error = |runs: &[(&Spec, Job)]| format!("{:#}\n", SweepPlan::new("c", runs).unwrap_err());
    let errors = error(&[(&machine, job.clone()), (&slower, job.clone())])
        + &error(&[(&machine, listed(LIST)), (&machine, listed(&longer))])
        + &error(&[(&machine, job.clone()), (&machine, job)]);
    insta::assert_snapshot!(errors);
}

/// With hashes that are right: cells that no plan of ours has.
#[test]
fn what_cannot_be_run_is_named() {
    let text = plan(1).jsonl().unwrap();
    let (head, _) = text.split_once('\n').unwrap();
    let change = |change: &dyn Fn(&mut Cell)| {
        let mut cell = plan(1).cells[0].1.clone();
        change(&mut cell);
        let (hash, cell) = (cell.hash(VERSION).unwrap(), serde_json::to_string(&cell).unwrap());
        let text = format!("{head}\n{{\"index\":0,\"hash\":\"{hash}\",\"cell\":{cell}}}\n");
        format!("{:#}", SweepPlan::parse("p", &text).unwrap_err())
    };
    let errors = [
        change(&|cell| cell.cpus = 5),
        change(&|cell| cell.cpus = 0),
        change(&|cell| cell.machine = "this".to_owned()),
        change(&|cell| cell.workload = "page-fault9".to_owned()),
        change(&|cell| cell.workload = "ops:/etc/hostname".to_owned()),
        change(&|cell| cell.list = Some(Digest::of(LIST))),
        change(&|cell| cell.switches = "zone-lock=none".to_owned()),
        change(&|cell| cell.switches = "default,pcp-size=tuned".to_owned()),
        change(&|cell| cell.schedule = "fair".to_owned()),
        change(&|cell| cell.lists = Some(ListSize { batch: 0, high: 6 })),
    ];
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn equal_cells_have_to_come_out_equal() {
    let plan = plan(3);
    let (one, other) = (result(&plan, 1, 7.0), result(&plan, 1, 7.000_000_1));
    let files = [
        file("a", &[result(&plan, 2, 9.0), one.clone()]),
        file("b", &[other, result(&plan, 0, 5.0), result(&plan, 2, 9.0)]),
    ];
    let merged = Merged::of(&files, Some(&plan));
    assert_eq!(merged.lines.iter().map(|line| line.index).collect::<Vec<_>>(), [0, 2], "neither is left in");
    assert_eq!((merged.differing.len(), merged.repeated, merged.is_whole()), (1, 1, false));
    let [first, second] = &merged.differing[0].places;
    assert_eq!((first.0.as_str(), first.1, second.0.as_str(), second.1), ("a", 2, "b", 1));
    assert!(first.2.contains("\"per_second\":7.0,") && second.2.contains("\"per_second\":7.0000001,"));
    // A third does not make one of them right.
    let merged = Merged::of(&[&files[..], &[file("c", &[one])]].concat(), Some(&plan));
    assert_eq!(merged.lines.len(), 2);
}

#[test]
fn a_result_takes_the_place_of_a_failure() {
    let plan = plan(2);
    let (fails, other) = (file("a", &[failure(&plan, 0, "b")]), file("b", &[failure(&plan, 0, "a")]));
    let runs = file("c", &[result(&plan, 0, 5.0)]);
    for files in [[fails.clone(), runs.clone()], [runs, fails.clone()]] {
        let merged = Merged::of(&files, Some(&plan));
        assert!(merged.lines[0].found().is_some() && merged.failed().next().is_none());
        assert_eq!(merged.missing.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1]);
    }
    let texts = [[fails.clone(), other.clone()], [other, fails]].map(|files| Merged::of(&files, None).jsonl().unwrap());
    assert_eq!(texts[0], texts[1], "whichever file comes first");
}

#[test]
fn foreign_results_are_left_out() {
    let (plan, larger) = (plan(2), plan(4));
    let mut old = result(&plan, 0, 5.0);
    old.version = "0.0.1+beef".to_owned();
    old.hash = old.cell.hash(&old.version).unwrap();
    let files = [file("a", &[old, result(&larger, 3, 6.0), result(&larger, 1, 6.0)])];
    let merged = Merged::of(&files, Some(&plan));
    let foreign: Vec<_> = merged.foreign.iter().map(|foreign| (foreign.version.as_str(), foreign.lines)).collect();
    assert_eq!(foreign, [("0.0.1+beef", 1), (VERSION, 1)]);
    assert_eq!(merged.lines.len(), 1, "a cell of another plan that is also of this one");
    let all = Merged::of(&files, None);
    assert_eq!((all.lines.len(), all.versions()), (3, vec!["0.0.1+beef", VERSION]));
}

#[test]
fn what_is_no_result_is_named() {
    let text = result(&plan(1), 0, 5.0).json().unwrap();
    let cases = [
        text.replace("\"cpus\":4", "\"cpus\":2"),
        text.replace("sweep-result/1", "sweep-result/9"),
        text.replace("\"result\":", "\"resluts\":"),
        format!("{text}\n{}", text.replace('}', "")),
        "\u{1b}[2J\n".to_owned(),
    ];
    let errors = cases.map(|text| told(&ResultsContent::parse("r", text.as_bytes()).unwrap_err()));
    insta::assert_snapshot!(errors.concat());
    for diary in ["Dear diary", "{\"schema\":\"framewright-sim/1\""] {
        let error = ResultsContent::parse("r", diary.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "r: its last line has no end, and does not begin as a result of a sweep");
    }
    assert_eq!(ResultsContent::parse("r", b"\xff\xfe\n").unwrap_err().to_string(), "r:1");
}

#[test]
fn tables_and_rows() {
    let machine = machine::named("generic:2x2x1").unwrap();
    let mut runs = Vec::new();
    for mechanisms in [Mechanisms::BASELINE, Mechanisms::DEFAULT] {
        for (cpus, seed) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (4, 1), (4, 2)] {
            let job = Job::new("page-fault1".parse().unwrap(), mechanisms, cpus);
            runs.push((&machine, Job { seed, ..job }));
        }
    }
    let plan = SweepPlan::new("command", &runs).unwrap();
    let rate = |index: usize| 1e5 * (1.0 + index as f64) * (1.0 + index as f64);
    let mut lines: Vec<ResultLine> = (0..plan.cells.len()).map(|index| result(&plan, index, rate(index))).collect();
    lines[9] = failure(&plan, 9, "out of \"memory\",\nall of it");
    lines.remove(11);
    let merged = Merged::of(&[file("a", &lines)], Some(&plan));
    // Nothing is compared with other seeds' runs, and long names differ at their ends.
    let other_seed = |index: usize, seed: u64, mechanisms: &str| {
        let mut line = lines[index].clone();
        line.cell.seed = seed;
        line.cell.mechanisms = mechanisms.to_owned();
        line
    };
    let long = |end: &str| format!("a set of mechanisms with many a switch, {end}");
    let others = [other_seed(0, 1, &long("on")), other_seed(0, 1, &long("off")), other_seed(0, 3, &long("off"))];
    insta::assert_snapshot!("table", SweepTable(&merged.lines).to_string() + "\n" + &SweepTable(&others).to_string());
    let known = |index: usize| (plan.cells[index].0.to_string(), format!("HASH-OF-{index}"));
    let rows = [known(8), known(9)]
        .iter()
        .fold(csv(&merged.lines[8..10]).unwrap(), |rows, (hash, name)| rows.replace(hash, name));
    insta::assert_snapshot!("csv", rows.replace(VERSION, "VERSION"));
    assert_eq!(SweepTable(&[]).to_string(), "");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_cell_is_in_one_shard(cells in 1..60u64, of in 1..70usize) {
        let plan = plan(cells);
        let shards: Vec<Vec<usize>> =
            (1..=of).map(|shard| Part::shard(shard, of).unwrap().cells(&plan).unwrap()).collect();
        let mut all = shards.concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..plan.cells.len()).collect::<Vec<_>>());
        let sizes = shards.iter().map(Vec::len);
        prop_assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1, "and none has more than its part");
        prop_assert!(shards.iter().all(|own| own.is_sorted()));
    }

    #[test]
    fn broken_plans_are_refused(at in any::<Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let text = plan(2).jsonl().unwrap();
        let mut bytes = text.clone().into_bytes();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        // What can be read is whole: another byte is only where nothing follows from it.
        if let Ok(plan) = SweepPlan::parse("p", &String::from_utf8_lossy(&bytes)) {
            prop_assert_eq!(plan.cells.len(), 2);
            prop_assert!(plan.cells.iter().all(|(hash, cell)| cell.hash(VERSION).unwrap() == *hash));
        }
    }

    #[test]
    fn broken_results_lose_no_whole_line(at in any::<Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let plan = plan(3);
        let text: String = (0..3).map(|index| result(&plan, index, 1.0).json().unwrap()).collect();
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        match ResultsContent::parse("r", &bytes) {
            Ok(content) if cut => {
                prop_assert_eq!(content.lines.len(), bytes.iter().filter(|byte| **byte == b'\n').count());
                prop_assert_eq!(content.whole + content.torn, bytes.len());
            }
            Ok(content) => prop_assert!(content.lines.len() >= 2),
            Err(_) => prop_assert!(!cut, "a file that ends early is one that can be gone on with"),
        }
    }
}
