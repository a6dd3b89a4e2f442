//! Every command's help, every form of its output, and an error of it are in a snapshot; a new command fails here until
//! they are.
//!
//! The commands are those that the help lists, and where an argument chooses a table, a file or a shell, each of these.
//! A row says where an output is kept: here, where it is made by running the command, or by a test that has more to say
//! about it. Numbers that the machine or the policy of the day decides are not the matter here, and stand as #.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::replay_synthetic::project;
use crate::transcript::{commands, section, short_help, shown, text, transcript};

/// Where an output is kept.
enum Kept {
    /// Here: what the last of these commands prints in a folder called DIR, without its numbers.
    Here(&'static [&'static str]),
    /// Here: its first lines. What follows is made of the help.
    Begin(&'static str),
    /// In this snapshot of another test, below `crates`.
    In(&'static str),
}
use Kept::{Begin, Here, In};

/// A plan of one cell, and its result.
const PLAN: &str = "sweep plan --machine generic:1x2x1 --cpus 1 --seconds 0.0005 --warm-up 0 -o DIR/plan.jsonl";
const RAN: &str = "sweep run DIR/plan.jsonl --shard 1/1";

/// Commands with what they choose, forms, and where that output is kept.
const OUTPUTS: &[(&str, &str, Kept)] = &[
    ("replay", "text", In("framewright-lab/tests/command/snapshots/command__output__a_replay_as_text.snap")),
    ("replay", "json", In("framewright-lab/tests/command/snapshots/command__output__a_replay_as_json.snap")),
    (
        "explain",
        "text",
        In("framewright-lab/tests/command/snapshots/command__explain__what_can_be_asked_for_is_listed.snap"),
    ),
    ("explain", "json", In("framewright-lab/tests/command/snapshots/command__explain__the_same_as_json.snap")),
    ("why", "text", In("framewright-lab/tests/command/snapshots/command__why__failures_are_answered.snap")),
    ("why", "json", In("framewright-lab/tests/command/snapshots/command__why__answers_are_written_for_programs.snap")),
    ("state", "text", In("framewright-lab/tests/command/snapshots/command__why__a_state_is_tried_with_a_request.snap")),
    (
        "state",
        "json",
        In("framewright-lab/tests/command/snapshots/command__why__answers_are_written_for_programs.snap"),
    ),
    ("convert", "text", In("framewright-lab/tests/command/snapshots/command__output__traces_are_converted.snap")),
    (
        "record",
        "text",
        In("framewright-lab/src/command/snapshots/framewright__command__record__tests__what_was_recorded_is_told.snap"),
    ),
    (
        "doctor",
        "text",
        In("framewright-lab/tests/command/snapshots/command__record__the_doctor_of_a_machine_where_all_is_well.snap"),
    ),
    (
        "doctor",
        "json",
        In("framewright-lab/tests/command/snapshots/command__record__the_doctor_of_a_machine_where_all_is_well-2.snap"),
    ),
    ("bench", "text", In("framewright-bench/tests/benchmarks/snapshots/benchmarks__report__text_of_everything.snap")),
    ("bench", "json", In("framewright-bench/tests/benchmarks/snapshots/benchmarks__report__json.snap")),
    ("bench", "benchstat", In("framewright-bench/tests/benchmarks/snapshots/benchmarks__report__benchstat.snap")),
    ("bench", "page_bench", In("framewright-bench/tests/benchmarks/snapshots/benchmarks__report__page_bench.snap")),
    ("bench", "mmtests", In("framewright-bench/tests/benchmarks/snapshots/benchmarks__report__mmtests.snap")),
    ("sim", "text", In("framewright-lab/tests/reports/snapshots/reports__sim_output__a_run_on_many_cpus.snap")),
    ("sim", "json", Here(&["sim --machine generic:1x2x1 --cpus 1 --seconds 0.0005 --warm-up 0 --format json"])),
    (
        "sweep plan",
        "text",
        In("framewright-lab/tests/command/snapshots/command__sweep__a_sweep_is_planned_run_and_merged.snap"),
    ),
    (
        "sweep run",
        "text",
        In("framewright-lab/tests/command/snapshots/command__sweep__a_sweep_is_planned_run_and_merged.snap"),
    ),
    ("sweep merge", "text", In("framewright-lab/tests/reports/snapshots/reports__sweep_files__table.snap")),
    ("sweep merge", "jsonl", Here(&[PLAN, RAN, "sweep merge DIR/plan.results.jsonl --format jsonl"])),
    ("sweep merge", "json", Here(&[PLAN, RAN, "sweep merge DIR/plan.results.jsonl --format json"])),
    ("sweep merge", "csv", In("framewright-lab/tests/reports/snapshots/reports__sweep_files__csv.snap")),
    ("reproduce all", "text", In("framewright-lab/tests/reports/snapshots/reports__overview__one_screen.snap")),
    ("reproduce all", "json", In("framewright-lab/tests/reports/snapshots/reports__overview__the_same_as_json.snap")),
    (
        "reproduce zone-lock",
        "text",
        In("framewright-lab/tests/reports/snapshots/reports__reproduce__a_table_that_is_nearly_theirs.snap"),
    ),
    (
        "reproduce zone-lock",
        "json",
        In("framewright-lab/tests/reports/snapshots/reports__reproduce__the_same_as_json.snap"),
    ),
    (
        "reproduce zone-layout",
        "text",
        In("framewright-lab/tests/reports/snapshots/reports__zone_layout__a_table_that_is_nearly_theirs.snap"),
    ),
    (
        "reproduce zone-layout",
        "json",
        In("framewright-lab/tests/reports/snapshots/reports__zone_layout__the_same_as_json.snap"),
    ),
    (
        "reproduce numa-stats",
        "text",
        In("framewright-lab/tests/reports/snapshots/reports__numa_stats__a_table_that_is_nearly_theirs.snap"),
    ),
    (
        "reproduce numa-stats",
        "json",
        In("framewright-lab/tests/reports/snapshots/reports__numa_stats__the_same_as_json.snap"),
    ),
    (
        "reproduce irq-safe",
        "text",
        In("framewright-lab/tests/reports/snapshots/reports__irq_safe__tables_that_are_nearly_theirs.snap"),
    ),
    (
        "reproduce irq-safe",
        "json",
        In("framewright-lab/tests/reports/snapshots/reports__irq_safe__the_same_as_json.snap"),
    ),
    (
        "reproduce fragmentation",
        "text",
        In("framewright-lab/tests/reports/snapshots/reports__fragmentation__tables_that_are_nearly_theirs.snap"),
    ),
    (
        "reproduce fragmentation",
        "json",
        In("framewright-lab/tests/reports/snapshots/reports__fragmentation__the_same_as_json.snap"),
    ),
    (
        "calibrate",
        "text",
        In("framewright-lab/tests/command/snapshots/command__calibrate__the_development_machines_measurements.snap"),
    ),
    ("calibrate", "json", In("framewright-lab/tests/command/snapshots/command__calibrate__the_same_as_json.snap")),
    (
        "machine check",
        "text",
        In("framewright-lab/tests/command/snapshots/command__machine_check__measurements_become_a_machine.snap"),
    ),
    (
        "machine check",
        "json",
        In("framewright-lab/tests/command/snapshots/command__machine_check__the_check_as_json.snap"),
    ),
    (
        "compare",
        "text",
        In("framewright-lab/tests/reports/snapshots/reports__compare__changes_are_told_with_how_sure_they_are.snap"),
    ),
    ("compare", "json", In("framewright-lab/tests/reports/snapshots/reports__compare__as_json.snap")),
    ("compare", "mmtests", In("framewright-lab/tests/reports/snapshots/reports__compare__as_mmtests_prints_it.snap")),
    ("compare", "lkp", In("framewright-lab/tests/reports/snapshots/reports__compare__as_the_robot_prints_it.snap")),
    ("compare", "benchstat", In("framewright-lab/tests/reports/snapshots/reports__compare__as_go_prints_it.snap")),
    (
        "compare",
        "will-it-scale",
        In("framewright-lab/tests/reports/snapshots/reports__compare__as_will_it_scale_prints_it.snap"),
    ),
    (
        "compare",
        "page_bench",
        In(
            "framewright-lab/tests/reports/snapshots/reports__compare__lines_of_page_bench_are_of_its_own_workloads.snap",
        ),
    ),
    ("stress", "text", Here(&["stress --operations 20k --quiescent 8"])),
    ("ops", "text", In("framewright-lab/tests/command/snapshots/command__ops__steps_are_told.snap")),
    ("ops", "json", In("framewright-lab/tests/command/snapshots/command__ops__the_same_as_json.snap")),
    ("ops shrink", "text", In("framewright-lab/tests/command/snapshots/command__ops__a_list_is_made_small.snap")),
    ("ops fuzz", "text", Here(&["ops fuzz --scenarios 100 --check-every 0"])),
    ("mechanisms", "text", Here(&["mechanisms"])),
    ("mechanisms", "json", Here(&["mechanisms refill numa-threshold patch9 --format json"])),
    ("proc tree", "text", In("framewright-lab/tests/command/snapshots/command__proc__a_tree_has_linuxs_shape.snap")),
    (
        "proc buddyinfo",
        "text",
        In("framewright-lab/tests/command/snapshots/command__proc__files_of_a_simulated_run.snap"),
    ),
    (
        "proc zoneinfo",
        "text",
        Here(&["proc zoneinfo --machine generic:1x2x1 --cpus 1 --seconds 0.0005 --warm-up 0 -m baseline"]),
    ),
    (
        "proc vmstat",
        "text",
        Here(&["proc vmstat --machine generic:1x2x1 --cpus 1 --seconds 0.0005 --warm-up 0 -m baseline"]),
    ),
    (
        "proc numastat",
        "text",
        In("framewright-lab/tests/command/snapshots/command__proc__files_of_a_simulated_run.snap"),
    ),
    (
        "proc pagetypeinfo",
        "text",
        In("framewright-lab/tests/command/snapshots/command__proc__files_of_a_simulated_run.snap"),
    ),
    (
        "proc unusable_index",
        "text",
        In("framewright-lab/tests/command/snapshots/command__proc__files_of_a_simulated_run.snap"),
    ),
    (
        "proc extfrag_index",
        "text",
        In("framewright-lab/tests/command/snapshots/command__proc__files_of_a_simulated_run.snap"),
    ),
    ("top", "text", In("framewright-lab/tests/command/snapshots/command__top__simulation_80x24.snap")),
    ("completions bash", "text", Begin("completions bash")),
    ("completions elvish", "text", Begin("completions elvish")),
    ("completions fish", "text", Begin("completions fish")),
    ("completions powershell", "text", Begin("completions powershell")),
    ("completions zsh", "text", Begin("completions zsh")),
    ("man", "text", Here(&["man -o DIR/pages"])),
];

/// How many lines are the beginning.
const BEGIN: usize = 20;

/// The words in brackets behind `key` in a line of the help.
fn listed<'a>(line: &'a str, key: &str) -> Vec<&'a str> {
    let list = line.split_once(key).and_then(|(_, rest)| rest.split_once(']'));
    list.map(|(list, _)| list.split(", ").collect()).unwrap_or_default()
}

/// What a command does is one thing, or one for each of its argument's values; it is not what its subcommands do.
fn leaves(command: &str, help: &str) -> Vec<String> {
    let values: Vec<&str> = section(help, "Arguments:").flat_map(|line| listed(line, "[possible values: ")).collect();
    match (values.is_empty(), section(help, "Commands:").next()) {
        (true, Some(_)) if section(help, "Arguments:").next().is_none() => Vec::new(),
        (true, Some(_)) => vec![command.to_owned()],
        (true, None) => vec![command.to_owned()],
        (false, _) => values.iter().map(|value| format!("{command} {value}")).collect(),
    }
}

/// Every command, with what it chooses, in every form.
fn outputs() -> BTreeSet<(String, String)> {
    let of = |command: String| {
        let help = short_help(&command);
        let option = help.lines().find(|line| line.trim_start().starts_with("--format "));
        let forms = option.map_or(vec!["text"], |line| listed(line, "[possible values: "));
        let all = leaves(&command, &help).into_iter();
        all.flat_map(|leaf| forms.iter().map(move |form| (leaf.clone(), (*form).to_owned()))).collect::<Vec<_>>()
    };
    commands().into_iter().flat_map(of).collect()
}

/// The text without its numbers and hashes, nor the room they take; digits of names stay.
fn without_numbers(text: &str) -> String {
    let of_word = |c: char| c.is_ascii_alphanumeric() || "_-.,/".contains(c);
    let masked = |line: &str| {
        let mut all = String::new();
        for piece in line.split_inclusive(|c| !of_word(c)) {
            let word = piece.trim_end_matches(|c| !of_word(c)).trim_end_matches(['.', ',']);
            let is_number = word.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit())
                && word.chars().all(|c| c.is_ascii_digit() || "-.,e".contains(c));
            let is_hash = word.len() >= 16 && word.chars().all(|c| c.is_ascii_hexdigit());
            if is_number && !all.trim().is_empty() && all.ends_with(' ') {
                all.truncate(all.trim_end().len() + 1);
            }
            all += match (is_hash, is_number) {
                (true, _) => "HASH",
                (false, true) => "#",
                (false, false) => word,
            };
            all += &piece[word.len()..];
        }
        all + "\n"
    };
    text.lines().map(masked).collect()
}

/// What a line of arguments prints, with the folder called DIR.
fn printed(folder: &Path, command: &str) -> String {
    let all = shown(folder, command);
    let printed = all.strip_prefix(&format!("$ framewright {command}\n"));
    printed.and_then(|printed| printed.strip_suffix("[0]\n")).unwrap_or_else(|| panic!("{all}")).to_owned()
}

#[test]
fn every_output_has_a_row() {
    let rows: BTreeSet<_> = OUTPUTS.iter().map(|(what, form, _)| ((*what).to_owned(), (*form).to_owned())).collect();
    assert_eq!(rows.len(), OUTPUTS.len(), "a row is there twice");
    assert_eq!(rows, outputs(), "left: rows of OUTPUTS; right: what the help lists");
}

#[test]
fn every_row_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    for (what, form, kept) in OUTPUTS {
        let name = format!("{}_as_{form}", what.replace(' ', "_"));
        match kept {
            Here(steps) => {
                let all: Vec<String> = steps.iter().map(|step| printed(folder.path(), step)).collect();
                insta::assert_snapshot!(name, without_numbers(all.last().unwrap()));
            }
            Begin(command) => {
                let all = printed(folder.path(), command);
                let begin: Vec<&str> = all.lines().take(BEGIN).map(str::trim_end).collect();
                insta::assert_snapshot!(name, begin.join("\n"));
            }
            In(path) => {
                let snapshot = fs::read_to_string(project().join("crates").join(path));
                let lines = snapshot.as_ref().map_or(0, |text| text.lines().count());
                assert!(lines > 5, "{what} as {form} should be in {path}, which has {lines} lines");
            }
        }
    }
}

#[test]
fn every_command_has_help() {
    for command in [String::new()].into_iter().chain(commands()) {
        let arguments: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let help = transcript(Path::new("DIR"), &arguments);
        insta::assert_snapshot!(format!("help_{}", command.replace(' ', "_")), help);
    }
    insta::assert_snapshot!("version", without_numbers(&transcript(Path::new("DIR"), &["--version"])));
}

/// Transcripts of mistakes are in the snapshots of many tests.
#[test]
fn every_command_has_an_error() {
    let folder = project().join("crates/framewright-lab/tests/command/snapshots");
    let mut wrong = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let snapshot = text(&fs::read(entry.unwrap().path()).unwrap());
        for transcript in snapshot.split("$ framewright ").skip(1) {
            let (line, rest) = transcript.split_once('\n').unwrap_or((transcript, ""));
            let is_error = rest.contains("error: ") && rest.contains("\n[2]");
            wrong.extend(is_error.then(|| line.to_owned()));
        }
    }
    let has = |command: &str| wrong.iter().any(|line| line == command || line.starts_with(&format!("{command} ")));
    let missing: Vec<String> = commands().into_iter().filter(|command| !has(command)).collect();
    assert_eq!(missing, Vec::<String>::new(), "no error of these is in a snapshot");
}

#[test]
fn names_keep_their_digits() {
    for (text, expected) in [
        ("page-fault1 on   8 CPUs: 1,234.5, -3 %\n", "page-fault1 on # CPUs: #, # %\n"),
        ("  \"ns\": 1.5e-7,\n   12  34\n", "  \"ns\": #,\n   # #\n"),
        ("generic:2x4x1 0.1.0+0123456789abcdef01, 7.\n", "generic:2x4x1 #+HASH, #.\n"),
    ] {
        assert_eq!(without_numbers(text), expected);
    }
}
