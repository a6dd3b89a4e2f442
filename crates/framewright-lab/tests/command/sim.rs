//! `framewright sim` as a user runs it: small runs in full, and that the same command prints the same bytes.

use std::fs;

use crate::transcript::{refused, run, text};
use serde_json::Value;

/// A run that takes a moment.
const SHORT: [&str; 7] = ["sim", "--machine", "generic:2x2x1", "--seconds", "0.002", "--warm-up", "0.001"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SHORT[..], more].concat()
}

fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--format", "json"]].concat());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn runs_repeat_byte_for_byte() {
    let arguments = with(&["--cpus", "1,4", "--mechanisms", "baseline", "-m", "default", "--format", "json"]);
    let first = run(&arguments);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert_eq!(run(&arguments).stdout, first.stdout);
    let other = run(&[&arguments[..], &["--seed", "2"]].concat());
    let runs =
        |output: &[u8]| -> Value { serde_json::from_slice::<Value>(output).unwrap()["runs"][1]["per_cpu"].take() };
    // A CPU alone meets nothing that is random.
    assert_ne!(runs(&other.stdout), runs(&first.stdout));
}

#[test]
fn one_run_is_a_report_and_several_are_a_list() {
    let one = json(&with(&["--cpus", "2"]));
    assert_eq!((&one["schema"], &one["cpus"]), (&"framewright-sim/1".into(), &2.into()));
    assert!(one["operations"].as_u64().unwrap() > 0 && one["runs"].is_null());
    let several = json(&with(&["--cpus", "4,1", "-m", "baseline", "-m", "mixing"]));
    let runs = several["runs"].as_array().unwrap();
    let runs: Vec<_> =
        runs.iter().map(|run| (run["mechanisms"].as_str().unwrap(), run["cpus"].as_u64().unwrap())).collect();
    assert_eq!(runs, [("baseline", 1), ("baseline", 4), ("mixing", 1), ("mixing", 4)]);
    assert_eq!(several["schema"], "framewright-sim/1");
    assert!(several["sensitivities"].is_null());
}

/// The command that a report names makes the same report, even where defaults were used.
#[test]
fn the_named_command_repeats_it() {
    let several = json(&with(&["--cpus", "1,2", "--schedule", "random"]));
    let command = several["command"].as_str().unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let output = run(&words);
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), several, "{command}");
}

#[test]
fn reports_and_traces_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let (report, trace) = (folder.path().join("new/report"), folder.path().join("trace.json"));
    let (report_text, trace_text) = (report.display().to_string(), trace.display().to_string());
    let arguments = with(&["--cpus", "4", "--report", &report_text, "--trace-out", &trace_text]);
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with(&format!("\nThe page is {report_text}/index.html\n")));
    let page = fs::read_to_string(report.join("index.html")).unwrap();
    assert!(page.contains("costs.rmw") && page.contains("assumed"), "the machine's numbers and what they are");
    let runs: Value = serde_json::from_slice(&fs::read(report.join("runs.json")).unwrap()).unwrap();
    assert_eq!(runs["cpus"], 4);
    let trace: Value = serde_json::from_slice(&fs::read(trace).unwrap()).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().iter().any(|event| event["cat"] == "hold"));
    // Once more into the same folder, but not over somebody else's page.
    assert_eq!(run(&arguments).status.code(), Some(0));
    fs::write(report.join("index.html"), "<p>Dear diary").unwrap();
    assert_eq!(run(&arguments).status.code(), Some(2));
    assert_eq!(fs::read_to_string(report.join("index.html")).unwrap(), "<p>Dear diary");
}

#[test]
fn a_sensitivity_has_a_table_for_each_result() {
    let found =
        json(&["sim", "--machine", "generic:1x2x1", "--seconds", "0.0005", "--warm-up", "0.0001", "--sensitivity"]);
    let tables = found["sensitivities"].as_array().unwrap();
    assert_eq!(tables.len(), 1);
    let rows = tables[0]["rows"].as_array().unwrap();
    assert!(
        rows.iter().any(|row| row["parameter"] == "latency.l1") && tables[0]["base"] == found["runs"][0]["per_second"]
    );
}

#[test]
fn the_latency_checker_is_a_workload() {
    let table = text(&run(&["sim", "--machine", "this", "--workload", "mlc"]).stdout);
    assert!(table.starts_with("latency checker on this") && table.contains("largest error"), "{table}");
    let table = json(&["sim", "--machine", "this", "--workload", "mlc"]);
    assert!(table["rows"].as_array().is_some_and(|rows| !rows.is_empty()));
    // All machines, if none is named.
    let tables = json(&["sim", "--workload", "mlc"]);
    let tables = tables.as_array().unwrap();
    assert_eq!(tables[0]["machine"], "skylake-2x28");
    let errors = tables.iter().flat_map(|table| table["rows"].as_array().unwrap());
    assert!(errors.into_iter().all(|row| row["error_percent"].as_f64().unwrap().abs() <= 3.0));
}

#[test]
fn machines_and_workloads_are_listed() {
    let list = text(&run(&["sim", "--list"]).stdout);
    for name in ["skylake-2x28", "ivybridge-ex-4x15", "page-fault1", "mlc"] {
        assert!(list.contains(name), "{name}");
    }
}

#[test]
fn what_cannot_be_run_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("broken.toml"), "title = 3\n").unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let commands = [
        "sim --machine skylake",
        "sim --machine generic:2x2",
        "sim --machine generic:65x1x1",
        "sim --machine DIR/broken.toml",
        "sim --machine DIR/missing.toml",
        "sim --mechanisms patch77",
        "sim --mechanisms baseline -m baseline",
        "sim --cpus 0",
        "sim --cpus 1,two",
        "sim --machine this --cpus 3",
        "sim --seconds 0",
        "sim --seconds soon",
        "sim --schedule fair",
        "sim --schedule random:0",
        "sim --cpus 1,2 --trace-out DIR/trace.json",
        "sim --cpus 1 --trace-out DIR/none/trace.json",
        "sim --cpus 1 --trace-out DIR",
        "sim --cpus 1 --report DIR/file",
        "sim --workload mlc --cpus 2",
    ];
    insta::assert_snapshot!(refused(folder.path(), commands));
    let unknown = text(&run(&["sim", "--workload", "page_fault7"]).stderr);
    assert!(unknown.starts_with("error: page_fault7: there is no such workload; there are page-fault1"), "{unknown}");
}
