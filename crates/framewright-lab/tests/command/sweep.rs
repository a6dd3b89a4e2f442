//! Sweeps as users run them: whoever runs which cells, in how many pieces, and however often it is killed, the merged
//! results are the same bytes; and what is wrong is named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::replay_synthetic::project;
use crate::transcript::{framewright, text, unheard};
use framewright_lab::sweep::results::Store;
use serde_json::Value;
use tempfile::TempDir;

/// Two sets of mechanisms, two workloads, two numbers of CPUs, two seeds: 16 cells of a moment each.
const PLAN: &str = "sweep plan --machine generic:2x2x1 --workload page-fault1 --workload bulk -m baseline -m default \
                    --cpus 1,4 --seeds 1-2 --seconds 0.001 --warm-up 0.0005";

/// Variables that say which shard a process is; a test has only those that it sets.
const TOLD: [&str; 6] = [
    "SLURM_ARRAY_TASK_ID",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "JOB_COMPLETION_INDEX",
    "PARALLEL_SEQ",
];

/// A folder with a plan, where no scheduler is known.
struct Sweep(TempDir);

impl Sweep {
    fn new(plan: &str) -> Sweep {
        let sweep = Sweep(tempfile::tempdir().unwrap());
        sweep.ok(&format!("{plan} -o DIR/plan.jsonl"));
        sweep
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Status, output and errors of a command in which the folder is called DIR.
    fn run(&self, command: &str, told: &[(&str, &str)]) -> (Option<i32>, String, String) {
        let folder = self.0.path().display().to_string();
        let command = command.replace("DIR", &folder);
        let arguments: Vec<&str> = command.split_whitespace().collect();
        let mut command = framewright(&arguments);
        for name in TOLD {
            command.env_remove(name);
        }
        let output = command.envs(told.iter().copied()).output().unwrap();
        let [out, error] = [&output.stdout, &output.stderr].map(|bytes| text(bytes).replace(&folder, "DIR"));
        assert!(!error.contains("panicked"), "{error}");
        (output.status.code(), out, error)
    }

    /// The output of a command that succeeds.
    fn ok(&self, command: &str) -> String {
        let (code, out, error) = self.run(command, &[]);
        assert_eq!(code, Some(0), "{command}: {error}");
        out
    }

    /// What is seen of a command.
    fn seen(&self, command: &str) -> String {
        let (code, out, error) = self.run(command, &[]);
        format!("$ framewright {command}\n{out}{error}[{}]\n", code.unwrap_or(-1))
    }

    fn merged(&self, files: &str) -> String {
        self.ok(&format!("sweep merge {files} --plan DIR/plan.jsonl --format jsonl"))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

#[test]
fn whoever_runs_what_the_results_are_the_same_bytes() {
    let sweep = Sweep::new(PLAN);
    sweep.ok("sweep run DIR/plan.jsonl --jobs 1");
    let serial = sweep.merged("DIR/plan.results.jsonl");
    assert_eq!(serial.lines().count(), 16);
    sweep.ok("sweep run DIR/plan.jsonl --shard 2/2");
    sweep.ok("sweep run DIR/plan.jsonl --shard 1/2 --jobs 3");
    let files = "DIR/plan.results-1-of-2.jsonl DIR/plan.results-2-of-2.jsonl";
    assert_eq!(sweep.merged(files), serial);
    let turned = "DIR/plan.results-2-of-2.jsonl DIR/plan.results-1-of-2.jsonl DIR/plan.results.jsonl";
    assert_eq!(sweep.merged(turned), serial, "the order of files, and cells that are there twice");
    // Three processes of a scheduler.
    for index in ["0", "1", "2"] {
        let told = [("JOB_COMPLETION_INDEX", index)];
        let (code, _, error) = sweep.run("sweep run DIR/plan.jsonl --of 3", &told);
        assert_eq!(code, Some(0), "{error}");
        assert!(error.contains(&format!("by JOB_COMPLETION_INDEX={index}: ")), "{error}");
    }
    let files: Vec<String> = (1..=3).map(|shard| format!("DIR/plan.results-{shard}-of-3.jsonl")).collect();
    assert_eq!(sweep.merged(&files.join(" ")), serial);
    // One by one, joined by hand.
    let all: String =
        (0..16).map(|index| sweep.ok(&format!("sweep run DIR/plan.jsonl --index {index} -o -"))).collect();
    fs::write(sweep.path("joined.jsonl"), all).unwrap();
    assert_eq!(sweep.merged("DIR/joined.jsonl"), serial);
    for line in serial.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["result"]["operations"].as_u64().unwrap() > 0 && line.get("seconds").is_none(), "{line}");
    }
}

/// Killed in the middle, three times, and each time with a line that was being written. One cell at a time, each long
/// enough for some of 48 to be left whenever a look at the file finds 24.
#[test]
fn what_was_killed_goes_on() {
    let long = PLAN.replace("--seeds 1-2", "--seeds 1-6").replace("--seconds 0.001", "--seconds 0.002");
    let sweep = Sweep::new(&long);
    sweep.ok("sweep run DIR/plan.jsonl -o DIR/whole.jsonl");
    let whole = sweep.merged("DIR/whole.jsonl");
    let (plan, path) = (sweep.path("plan.jsonl"), sweep.path("killed.jsonl"));
    let lines = |path: &Path| fs::read(path).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count());
    let mut kills = 0;
    for round in 1..=3 {
        let (plan, path_name) = (plan.to_str().unwrap(), path.to_str().unwrap());
        let arguments = ["sweep", "run", plan, "-o", path_name, "--shard", "1/1", "--jobs", "1"];
        let mut child = framewright(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while lines(&path) < round * 8 && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let was_running = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        kills += usize::from(was_running);
        // The disk may have got any part of the last line.
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 7 * round]).unwrap();
    }
    assert!(kills > 0 && lines(&path) < 48, "the process was done before it was killed");
    let (code, out, error) = sweep.run("sweep run DIR/plan.jsonl -o DIR/killed.jsonl", &[]);
    assert_eq!(code, Some(0), "{error}");
    assert!(error.contains("of a line that was not written to its end") && out.contains("were done before"), "{error}");
    assert_eq!(sweep.merged("DIR/killed.jsonl"), whole);
    let (_, out, _) = sweep.run("sweep run DIR/plan.jsonl -o DIR/killed.jsonl", &[]);
    assert_eq!(out, "0 cells run, 48 were done before: DIR/killed.jsonl\n");
}

/// What merge remarks is for whoever is there.
#[test]
fn nobody_has_to_hear_what_is_missing() {
    let sweep = Sweep::new(PLAN);
    sweep.ok("sweep run DIR/plan.jsonl --index 3 -o DIR/one.jsonl");
    let [plan, one] = ["plan.jsonl", "one.jsonl"].map(|name| sweep.path(name).display().to_string());
    assert_eq!(unheard(&["sweep", "merge", &one, "--plan", &plan]), Some(1));
}

/// Every place at which a write can end.
#[test]
fn a_torn_line_is_run_again() {
    let sweep = Sweep::new(&PLAN.replace("--seeds 1-2", "--seeds 1").replace("--cpus 1,4", "--cpus 1"));
    sweep.ok("sweep run DIR/plan.jsonl --jobs 1");
    let (whole, bytes) = (sweep.merged("DIR/plan.results.jsonl"), sweep.read("plan.results.jsonl"));
    let last = bytes[..bytes.len() - 1].rfind('\n').unwrap() + 1;
    for end in [last + 1, last + 20, (last + bytes.len()) / 2, bytes.len() - 1] {
        fs::write(sweep.path("torn.jsonl"), &bytes[..end]).unwrap();
        let (code, out, error) = sweep.run("sweep merge DIR/torn.jsonl --plan DIR/plan.jsonl --format jsonl", &[]);
        assert_eq!((code, out.lines().count()), (Some(1), 3), "{error}");
        assert!(error.contains("1 cell missing") && error.contains("not written to its end"), "{error}");
        sweep.ok("sweep run DIR/plan.jsonl -o DIR/torn.jsonl");
        assert_eq!(sweep.merged("DIR/torn.jsonl"), whole, "cut at {end}");
    }
}

/// The driver of Ray reads what we write, refuses what we refuse, and runs a cell; what of that needs no Ray.
#[test]
fn the_driver_of_ray_reads_what_we_write() {
    let program = env!("CARGO_BIN_EXE_framewright");
    let check = Command::new("python3").args(["tools/sweep_ray_test.py", program]).current_dir(project()).output();
    match check {
        Ok(output) => assert!(output.status.success(), "{}", text(&output.stderr)),
        Err(error) => eprintln!("SKIPPED: tools/sweep_ray.py was not checked: python3: {error}"),
    }
}

#[test]
fn two_writers_are_refused() {
    let sweep = Sweep::new(PLAN);
    let (store, _) = Store::open(&sweep.path("one.jsonl")).unwrap();
    insta::assert_snapshot!(sweep.seen("sweep run DIR/plan.jsonl -o DIR/one.jsonl"));
    drop(store);
    sweep.ok("sweep run DIR/plan.jsonl -o DIR/one.jsonl");
}

/// Ctrl-C ends it at once, and says how it goes on; also if nobody hears it any more.
#[test]
fn an_interrupt_ends_it() {
    for hears in [true, false] {
        let sweep = Sweep::new(&PLAN.replace("0.001", "3600"));
        let (plan, path) = (sweep.path("plan.jsonl"), sweep.path("one.jsonl"));
        let arguments = ["sweep", "run", plan.to_str().unwrap(), "-o", path.to_str().unwrap(), "--shard", "1/1"];
        let mut child = framewright(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        while !path.exists() {
            assert!(child.try_wait().unwrap().is_none(), "an hour of virtual time is not over yet");
            thread::sleep(Duration::from_millis(1));
        }
        if !hears {
            drop(child.stderr.take());
        }
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        let told = "stopped with 0 of 16 cells done; the same command again goes on from there\n";
        assert_eq!(text(&output.stderr), if hears { told } else { "" });
    }
}

/// A plan with a cell that fails: its list is for a CPU that the run has not.
#[test]
fn a_failed_cell_is_recorded_and_the_others_go_on() {
    let sweep = Sweep(tempfile::tempdir().unwrap());
    let list = "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\ncpus 0 0\ndma-end 0x0\ndma32-end 0x0\n\n\
                run-on 1\na1 = alloc order 0 GFP_KERNEL\nfree a1\n";
    fs::write(sweep.path("two.ops"), list).unwrap();
    let plan = "sweep plan --machine generic:2x2x1 --workload ops:DIR/two.ops --cpus 1,2 --seeds 3 -o DIR/plan.jsonl";
    sweep.ok(plan);
    // The plan has it.
    fs::remove_file(sweep.path("two.ops")).unwrap();
    let seen = [
        sweep.seen("sweep run DIR/plan.jsonl"),
        sweep.seen("sweep merge DIR/plan.results.jsonl --plan DIR/plan.jsonl -o DIR/merged.txt"),
        sweep.seen("sweep run DIR/plan.jsonl"),
    ];
    insta::assert_snapshot!(seen.join("\n"));
}

#[test]
fn a_sweep_is_planned_run_and_merged() {
    let sweep = Sweep(tempfile::tempdir().unwrap());
    let mut seen = sweep.seen(&format!("{PLAN} -o DIR/plan.jsonl"));
    seen += &sweep.seen("sweep run DIR/plan.jsonl --jobs 1");
    seen += &sweep.seen("sweep run DIR/plan.jsonl");
    seen += &sweep.seen("sweep run DIR/plan.jsonl --index 3 -o DIR/part.jsonl");
    seen += &sweep.seen("sweep merge DIR/part.jsonl --plan DIR/plan.jsonl --format csv -o DIR/part.csv");
    seen += &sweep.seen("sweep merge DIR/part.jsonl DIR/plan.results.jsonl --plan DIR/plan.jsonl -o DIR/table.txt");
    // Numbers are the simulator's; what the table looks like is seen in another test.
    let table = sweep.read("table.txt");
    assert!(
        table.starts_with(
            "page-fault1 on generic:2x2x1\nfaults per second, mean of 2 seeds ± what it may be off\n\nCPUs"
        )
    );
    assert_eq!(table.lines().filter(|line| line.contains(" on generic:2x2x1")).count(), 2, "{table}");
    // One of two hosts computes wrongly.
    let wrong = sweep.read("part.jsonl").replace("\"operations\":", "\"operations\":1");
    fs::write(sweep.path("wrong.jsonl"), wrong).unwrap();
    let (code, _, error) = sweep.run("sweep merge DIR/plan.results.jsonl DIR/wrong.jsonl --plan DIR/plan.jsonl", &[]);
    assert_eq!(code, Some(1));
    let first = error.lines().skip_while(|line| !line.starts_with("DIFFERENT")).take(3);
    let first: Vec<&str> = first.map(|line| line.get(..60).unwrap_or(line)).collect();
    insta::assert_snapshot!(seen + &first.join("\n"));
    let document: Value = serde_json::from_str(&sweep.ok("sweep merge DIR/plan.results.jsonl --format json")).unwrap();
    assert_eq!((&document["schema"], document["cells"].as_array().unwrap().len()), (&"framewright-sweep/1".into(), 16));
}

/// What each of these commands says, none of which is right.
fn refused(sweep: &Sweep, commands: &[&str]) -> String {
    let seen: Vec<String> = commands.iter().map(|command| sweep.seen(command)).collect();
    seen.iter().for_each(|seen| assert!(seen.ends_with("[2]\n"), "{seen}"));
    seen.join("\n")
}

#[test]
fn lists_and_memory_that_cannot_be_are_named() {
    let sweep = Sweep::new(PLAN);
    let list = "memory 0x0..0x400 node 0\ncpus 0\n\na1 = alloc order 0 GFP_KERNEL\nfree a1\n";
    fs::write(sweep.path("list.ops"), list).unwrap();
    let commands = [
        "sweep plan --machine generic:1x2x1 --workload ops:DIR/list.ops --cpus 1 --memory 1GiB",
        "sweep plan --lists 0",
        "sweep plan --lists 63:31",
        "sweep plan --lists few",
        "sweep plan --memory 3MiB",
        "sweep plan --memory 4096",
    ];
    insta::assert_snapshot!(refused(&sweep, &commands));
}

#[test]
fn what_is_wrong_is_named() {
    let sweep = Sweep::new(PLAN);
    fs::write(sweep.path("diary.txt"), "Dear diary").unwrap();
    fs::write(sweep.path("results.jsonl"), "{}\n").unwrap();
    fs::create_dir(sweep.path("folder")).unwrap();
    let commands = [
        "sweep",
        "sweep plan --machine skylake -o DIR/new.jsonl",
        "sweep plan --workload mlc -o DIR/new.jsonl",
        "sweep plan --workload page_fault1 --workload page-fault1 -o DIR/new.jsonl",
        "sweep plan --seeds 5-1",
        "sweep plan --seeds one",
        "sweep plan --seeds 1-1000000",
        "sweep plan --seeds 1-60000 --cpus 1,2",
        "sweep plan --machine generic:1x2x1 --cpus 4",
        "sweep plan -o DIR/diary.txt",
        "sweep plan --force -o DIR/diary.txt",
        "sweep plan -o DIR/plan.jsonl",
        "sweep plan -o DIR/folder",
        "sweep plan -o DIR/none/plan.jsonl",
        "sweep run",
        "sweep run DIR/none.jsonl",
        "sweep run DIR/diary.txt",
        "sweep run DIR/plan.jsonl --index 16",
        "sweep run DIR/plan.jsonl --shard 3/2",
        "sweep run DIR/plan.jsonl --shard 3",
        "sweep run DIR/plan.jsonl --shard 1/2 --index 3",
        "sweep run DIR/plan.jsonl --of 4",
        "sweep run DIR/plan.jsonl -o DIR/diary.txt",
        "sweep run DIR/plan.jsonl -o DIR/results.jsonl",
        "sweep run DIR/plan.jsonl -o DIR/folder",
        "sweep merge",
        "sweep merge DIR/none.jsonl",
        "sweep merge DIR/plan.jsonl",
        "sweep merge DIR/results.jsonl",
        "sweep merge DIR/results.jsonl -o DIR/results.jsonl",
    ];
    insta::assert_snapshot!(refused(&sweep, &commands));
    assert_eq!(sweep.read("diary.txt"), "Dear diary");
    let old = sweep.read("plan.jsonl");
    sweep.ok(&format!("{PLAN} -o DIR/plan.jsonl"));
    assert_eq!(sweep.read("plan.jsonl"), old, "the same command again makes the same plan");
    sweep.ok("sweep plan --machine generic:1x2x1 --cpus 1,2 --force -o DIR/plan.jsonl");
    assert_ne!(sweep.read("plan.jsonl"), old, "an older plan is replaced by force alone");
    fs::write(sweep.path("plan.jsonl"), old).unwrap();
    let (code, _, error) = sweep.run("sweep run DIR/plan.jsonl", &[("PARALLEL_SEQ", "3")]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.starts_with("error: PARALLEL_SEQ=3 says which shard this is, but not of how many"), "{error}");
}
