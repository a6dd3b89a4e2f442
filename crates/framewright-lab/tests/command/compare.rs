//! `framewright compare` as a user runs it: on what the other commands really print, and on what they do not.

use std::fs;
use std::path::Path;

use crate::replay_synthetic::{FIRST, KERNEL, START, Synthetic};
use crate::sim_samples;
use crate::transcript::{refused, run, shown, text, unheard};

/// A short run of the simulator, of each seed.
fn simulate(seeds: &[u64], mechanisms: &str) -> String {
    let one = |seed: &u64| {
        let seed = seed.to_string();
        let runs = ["sim", "--machine", "generic:1x4x1", "--cpus", "1,4", "--seconds", "0.0005", "--warm-up", "0.0001"];
        let output = run(&[&runs[..], &["--seed", &seed, "-m", mechanisms, "--format", "json"]].concat());
        assert_eq!(text(&output.stderr), "");
        text(&output.stdout)
    };
    seeds.iter().map(one).collect()
}

fn compare(folder: &Path, arguments: &str) -> String {
    shown(folder, &format!("compare {arguments}")) + "\n"
}

#[test]
fn what_the_simulator_prints_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a.json"), simulate(&[1, 2], "baseline")).unwrap();
    fs::write(path("a,2.json"), simulate(&[3], "baseline")).unwrap();
    fs::write(path("b.json"), simulate(&[1, 2, 3], "default")).unwrap();
    let output = compare(folder.path(), "DIR/a.json DIR/b.json");
    for part in
        ["machine: generic:1x4x1\n", "a.json: mechanisms baseline, seeds 1-2\n", "fault/s, more is better", "[0]\n"]
    {
        assert!(output.contains(part), "{part}: {output}");
    }
    // A file's own name may have a comma.
    let named = compare(folder.path(), "old=DIR/a,2.json new=DIR/b.json,DIR/b.json --only page-fault1-4");
    assert!(named.contains("old: mechanisms baseline, seeds 3\n") && named.ends_with("[0]\n\n"), "{named}");
    for format in ["mmtests", "lkp", "benchstat", "will-it-scale"] {
        let output = compare(folder.path(), &format!("DIR/a.json DIR/b.json --format {format}"));
        assert!(output.contains("page-fault1") && output.ends_with("[0]\n\n"), "{output}");
    }
}

#[test]
fn what_replay_prints_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Synthetic::new();
    trace.alloc(START, 0, KERNEL).alloc(START + 0x200, 9, FIRST).free(START, 0);
    trace.write(folder.path());
    let trace = folder.path().display().to_string();
    for (file, mechanisms) in [("a.json", "baseline"), ("b.json", "default")] {
        let output = run(&["replay", &trace, "-m", mechanisms, "--format", "json"]);
        fs::write(folder.path().join(file), output.stdout).unwrap();
    }
    insta::assert_snapshot!(compare(folder.path(), "DIR/a.json DIR/b.json --fail-over 0"));
}

#[test]
fn what_is_no_result_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| fs::write(folder.path().join(name), content).unwrap();
    let sim = serde_json::to_string_pretty(&sim_samples::run(8)).unwrap();
    write("sim.json", &sim);
    write("notes.txt", "Dear diary,\n");
    write("empty.json", "\n");
    write("list.json", "\n\n[1, 2]");
    write("schema.json", "{\"schema\": \"somebody-else/7\"}");
    write("number.json", "{\"schema\": 1, \"machine\": \"mine\"}");
    write("plain.json", "{\"name\": 1}");
    write("cut.json", &sim[..sim.len() / 2]);
    write("second.json", &(sim.clone() + "\noops"));
    write("shape.json", &sim.replace("\"cpus\": 8", "\"cpus\": \"eight\""));
    write("replay.json", "{\"schema_version\": 9, \"columns\": []}");
    write(
        "none.json",
        "{\"schema_version\": 2, \"trace\": \"t\", \"machine\": {\"cpus\": 1, \"frames\": 1}, \"columns\": []}",
    );
    write("escape.json", "\x1b[31m");
    let commands = [
        "DIR/missing.json",
        "DIR",
        "DIR/notes.txt",
        "DIR/empty.json",
        "DIR/list.json",
        "DIR/schema.json",
        "DIR/number.json",
        "DIR/plain.json",
        "DIR/cut.json",
        "DIR/second.json",
        "DIR/shape.json",
        "DIR/replay.json",
        "DIR/none.json",
        "DIR/escape.json",
        "DIR/sim.json DIR/none.json",
        "DIR/sim.json --by allocator",
        "DIR/sim.json --only rand",
        "a=DIR/sim.json a=DIR/none.json",
        "DIR/sim.json,",
        "DIR/sim.json --format page_bench",
        "DIR/none.json --format will-it-scale",
        "DIR/sim.json --format csv",
        "DIR/sim.json --fail-over much",
        "DIR/sim.json --by machine",
    ];
    insta::assert_snapshot!(refused(folder.path(), commands.map(|command| format!("compare {command}"))));
}

/// Runs with so many seeds, faster by a factor.
fn seeds(count: u64, factor: f64) -> String {
    let one = |seed: u64| {
        let mut report = sim_samples::run(8);
        (report.seed, report.per_second) = (seed, report.per_second * factor * (1.0 + seed as f64 / 1000.0));
        serde_json::to_string(&report).unwrap()
    };
    (1..=count).map(one).collect()
}

/// A check with too few runs would let everything pass.
#[test]
fn too_few_runs_to_get_worse_end_with_two() {
    let folder = tempfile::tempdir().unwrap();
    for (name, count, factor) in
        [("one.json", 1, 1.0), ("slow.json", 1, 0.4), ("three.json", 3, 0.4), ("five.json", 5, 1.0)]
    {
        fs::write(folder.path().join(name), seeds(count, factor)).unwrap();
    }
    let few = ["old=DIR/one.json new=DIR/slow.json", "old=DIR/one.json new=DIR/three.json", "old=DIR/one.json"];
    let seen = few.map(|files| compare(folder.path(), &format!("{files} --only throughput --fail-over 5"))).concat();
    assert_eq!(seen.matches("\n[2]\n").count(), few.len(), "{seen}");
    insta::assert_snapshot!(seen);
    // Three are enough beside five.
    let seen = compare(folder.path(), "DIR/five.json DIR/three.json --only throughput --fail-over 5");
    assert!(seen.ends_with("[1]\n\n"), "{seen}");
}

#[test]
fn getting_worse_ends_with_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.json"), seeds(6, 1.0)).unwrap();
    fs::write(folder.path().join("b.json"), seeds(6, 0.9)).unwrap();
    let worse = [
        "DIR/a.json DIR/b.json --fail-over 5",
        "DIR/a.json DIR/b.json --fail-over 20",
        "DIR/b.json DIR/a.json --fail-over 5",
    ];
    insta::assert_snapshot!(worse.map(|arguments| compare(folder.path(), arguments)).concat());
}

/// The status is what it would be if somebody heard what is wrong.
#[test]
fn nobody_has_to_hear_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.json"), seeds(6, 1.0)).unwrap();
    fs::write(folder.path().join("b.json"), seeds(6, 0.9)).unwrap();
    let [old, new] = ["a.json", "b.json"].map(|name| folder.path().join(name).display().to_string());
    let twice = format!("{old},{old}");
    let runs: [(&[&str], i32); 3] = [
        (&["compare", &old, &new, "--fail-over", "5"], 1),
        (&["compare", &twice, &new, "--format", "mmtests"], 0),
        (&["compare", "/nowhere.json"], 2),
    ];
    for (arguments, code) in runs {
        assert_eq!(unheard(arguments), Some(code), "{arguments:?}");
    }
}
