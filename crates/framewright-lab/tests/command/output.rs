//! What the command prints when all is well.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::replay_synthetic::{FIRST, KERNEL, MOVABLE, SECOND, START, Synthetic, Zone};
use crate::transcript::{framewright, run, text, transcript};
use framewright_trace::proc::flag;

/// A recording with something of everything: two zones, faults that part ways, a move, trouble.
fn recording(folder: &Path) {
    let mut trace = Synthetic::new();
    trace.zones.insert(0, Zone { node: 0, name: "DMA32", start: 0x800, frames: 0x800, free: 0x800 });
    let pages = trace.fragmented(0);
    trace.flags(0x800, 0x400, flag::SLAB).flags(0xc00, 16, flag::RESERVED);
    trace.line("# tracer: nop").line("CPU:1 [LOST 3 EVENTS]").event("sched_switch: prev_comm=a prev_pid=1");
    trace.alloc(START, 0, MOVABLE).alloc(START + 0x10, 3, KERNEL).alloc(0, 4, KERNEL);
    trace.alloc(0, 9, FIRST).alloc(0, 9, SECOND).compacted(pages[1], pages[2] + 1).alloc(START + 0x200, 9, FIRST);
    trace.alloc(0xe00, 9, FIRST).run(7, 1).alloc(0, 9, FIRST).alloc(0, 9, SECOND).alloc(START + 1, 0, MOVABLE);
    trace.event(
        "mm_page_alloc_extfrag: page=00000000abcdabcd pfn=0x1010 alloc_order=3 fallback_order=8 pageblock_order=9 \
         alloc_migratetype=0 fallback_migratetype=1 fragmenting=1 change_ownership=0",
    );
    trace.free(START + 0x10, 2).free(START + 0x18, 0).free(START + 0x300, 0).free(START + 0x300, 0);
    trace.write(folder);
}

/// The output of a replay, without the folder and the speed.
fn masked(folder: &Path, arguments: &[&str]) -> String {
    let output = transcript(folder, arguments);
    let mask = |line: &str| match line.find("events/s on one core") {
        Some(_) => "events/s on one core ...".to_owned(),
        None => {
            line.split("\"events_per_second\": ").collect::<Vec<_>>()[0].to_owned()
                + if line.contains("\"events_per_second\"") { "\"events_per_second\": 0.0," } else { "" }
        }
    };
    output.lines().map(|line| mask(line) + "\n").collect()
}

#[test]
fn a_replay_as_text() {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path());
    insta::assert_snapshot!(masked(folder.path(), &["replay", &folder.path().display().to_string()]));
}

/// A trace without the probe of page moves has no number of them, which is not 0.
#[test]
fn moves_that_were_not_recorded_have_no_number() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Synthetic::new();
    trace.alloc(START, 0, KERNEL).alloc(START + 1, 0, MOVABLE).free(START, 0);
    trace.write(folder.path());
    let trace = folder.path().display().to_string();
    let said = masked(folder.path(), &["replay", &trace]);
    let said: Vec<&str> =
        said.lines().filter(|line| line.contains("by compaction") || line.contains("page_migrate")).collect();
    insta::assert_snapshot!(said.join("\n"), @r"
    pages moved by compaction, Linux's not recorded                -              0
      pages moved by compaction                                    -              0
      pages moved by compaction                                    -              0
    The trace has no event page_migrate: framewright doctor says whether a recording can have it.
    ");
    let json = text(&run(&["replay", &trace, "--format", "json"]).stdout);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(report["linux"]["page_moves"].is_null() && report["framewright"]["page_moves"] == 0);
}

#[test]
fn a_replay_under_several_mechanisms() {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path());
    let file = folder.path().join("mine.toml");
    fs::write(&file, "preset = \"baseline\"\nfallback = \"claim-steal\"\nnumabalance = \"off\"\n").unwrap();
    let (folder, file) = (folder.path(), file.display().to_string());
    let trace = folder.display().to_string();
    assert_eq!(run(&["replay", &trace, "-m", &file]).status.code(), Some(2), "an unknown switch");
    fs::write(&file, "preset = \"baseline\"\nfallback = \"claim-steal\"\n").unwrap();
    let sets = ["-m", "baseline", "--mechanisms", &file, "-m", "baseline,nofragment=off"];
    let output = masked(folder, &[&["replay", &trace], &sets[..]].concat());
    insta::assert_snapshot!(output.lines().take(30).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_replay_as_json() {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path());
    let output = masked(folder.path(), &["replay", &folder.path().display().to_string(), "--format", "json"]);
    // The columns repeat what comes before them.
    insta::assert_snapshot!(output.split_once("  \"columns\": [").unwrap().0);
}

/// The keys that programs may rely on.
#[test]
fn json_has_what_programs_need() {
    let output = run(&["replay", "--format", "json"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys = [
        "extfrag_events",
        "extfrag_fragmenting",
        "order9_requests",
        "order9_faults",
        "order9_faults_served",
        "peak_blocks_held",
        "events_per_second",
    ];
    for side in ["linux", "framewright"] {
        for key in keys {
            assert!(report[side][key].is_number(), "{side}.{key} is {}", report[side][key]);
        }
        for order in ["3", "5", "9"] {
            let index = report[side]["unusable_index"][order].as_f64().unwrap();
            assert!((0.0..=1.0).contains(&index), "{side}: {index}");
        }
    }
    assert_eq!(report["columns"][0], report["framewright"]);
    let numbers =
        |side: &str, keys: &[&str]| keys.iter().map(|key| report[side][key].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(numbers("linux", &keys[..6]), [47, 13, 521, 272, 54, 54]);
    assert_eq!(numbers("framewright", &["order9_faults", "frees_refused"]), [272, 0]);
    assert_eq!(report["framewright"]["pages_conserved"], true);
}

#[test]
fn the_projects_own_trace() {
    // Our column changes with every change of policy. If one was meant: INSTA_UPDATE=always accepts it.
    insta::assert_snapshot!(masked(Path::new("DIR"), &["replay"]));
    // From another folder the trace is found as well.
    let folder = tempfile::tempdir().unwrap();
    let output = framewright(&["replay"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn traces_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path());
    let (input, output) = (folder.path().display().to_string(), folder.path().join("own.fwt").display().to_string());
    let mut all = transcript(folder.path(), &["convert", &input, &output]);
    // Now there are two traces in the folder.
    let moved = tempfile::tempdir().unwrap();
    let other = moved.path().join("own.fwt").display().to_string();
    fs::rename(&output, &other).unwrap();
    for arguments in [&["convert", &other, &other][..], &["convert", &other, &other, "--force"]] {
        all += &transcript(moved.path(), arguments);
    }
    insta::assert_snapshot!(all);
    let report = |trace: &str| {
        let output = run(&["replay", trace]);
        let text = text(&output.stdout);
        text.lines().skip(1).filter(|line| !line.starts_with("events/s")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(report(&input), report(&other));
    assert_eq!(fs::read_dir(moved.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path());
    let mut command = framewright(&["replay", &folder.path().display().to_string()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn nothing_moves_where_there_is_no_terminal() {
    let output = run(&["replay"]);
    assert_eq!(text(&output.stderr), "");
    assert!(!text(&output.stdout).chars().any(|c| c.is_control() && c != '\n'));
}

#[test]
fn a_benchmark_has_a_row_for_each_contender_chosen() {
    let bench = ["bench", "--quick", "--rounds", "1", "--workload", "repeat", "--allocator", "framewright"];
    let table = text(&run(&bench).stdout);
    assert!(table.contains("\n> framewright ") && table.contains("\n  stack-call "), "{table}");
    assert!(table.contains("Goals of framewright") && !table.contains('\x1b'), "{table}");
    let output = run(&[&bench[..], &["--format", "json", "--threads", "2"]].concat());
    assert!(output.status.success());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let who =
        |row: &serde_json::Value| (row["allocator"].as_str().unwrap().to_owned(), row["threads"].as_u64().unwrap());
    assert_eq!(rows.iter().map(who).collect::<Vec<_>>(), [("framewright".to_owned(), 2), ("stack-call".to_owned(), 2)]);
    assert!(rows.iter().all(|row| row["ns_per_page"].as_f64().unwrap() > 0.0));
}

/// A debug build's numbers are larger, and it says so.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn instructions_of_a_kernels_calls_are_counted() {
    let output = run(&["bench", "--kernel", "--rounds", "1", "--format", "json"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["variant"].as_str().unwrap()).collect();
    let ways = ["", "-above", "-wrapped", "-local", "-handle", "-bulk", "-kit", "-linux"];
    assert_eq!(names, ways.map(|way| format!("kernel{way}")));
    for row in rows {
        let [alloc, free, repeat] = ["alloc", "free", "repeat"].map(|what| row[what].as_f64().unwrap());
        assert!(alloc > 1.0 && free > 1.0 && repeat > alloc.max(free), "{row}");
    }
    assert_eq!(report["notes"].as_array().unwrap().len(), usize::from(cfg!(debug_assertions)));
}
