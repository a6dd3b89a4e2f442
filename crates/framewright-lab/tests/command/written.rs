//! Whatever a command writes: nothing is written through a symbolic link, and nothing that is not its own is touched on
//! the way.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use crate::transcript::{framewright, run, text};

const PRECIOUS: &str = "precious";
const SHORT: &str = "--machine generic:1x2x1 --cpus 1 --seconds 0.0002 --warm-up 0";

/// Commands that write a file at OUT, and what they are told if it cannot be. PLAN is a sweep's plan, and RESULTS its
/// results.
const WRITERS: [&str; 8] = [
    "sim SHORT --workload page-bench01 --trace-out OUT",
    "sim SHORT --workload page-bench01 --report DIR/index.html",
    "sim SHORT --workload page-bench01 --report DIR/runs.json",
    "convert --force data/traces/linux-6.1-thpfioscale-1g.fwt OUT",
    "sweep plan SHORT -o OUT",
    "sweep run PLAN --shard 1/1 -o OUT",
    "sweep merge RESULTS --format jsonl -o OUT",
    "man -o DIR/framewright.1",
];

fn words(command: &str, folder: &Path) -> Vec<String> {
    let path = |name: &str| folder.join(name).display().to_string();
    let command = command.replace("SHORT", SHORT).replace("PLAN", &path("plan.jsonl"));
    let command = command.replace("RESULTS", &path("results.jsonl")).replace("OUT", &path("out/file"));
    command.split_whitespace().map(|word| word.replace("DIR", &path("out"))).collect()
}

/// What a writer's file is called, and the command with the folder alone.
fn named(command: &str) -> (String, &str) {
    match command.split_once("DIR/") {
        Some((before, name)) => {
            (command.replace(&format!("/{name}"), ""), if before.is_empty() { "file" } else { name })
        }
        None => (command.to_owned(), "file"),
    }
}

fn execute(command: &str, folder: &Path) -> (bool, String) {
    let words = words(command, folder);
    let output = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    (output.status.success(), text(&output.stderr))
}

#[test]
fn no_command_writes_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["sweep plan SHORT -o PLAN", "sweep run PLAN --shard 1/1 -o RESULTS"] {
        assert!(execute(command, folder.path()).0, "{command}");
    }
    let victim = folder.path().join("victim");
    for writer in WRITERS {
        let (command, name) = named(writer);
        let out = folder.path().join("out");
        // As a link to a file, to nothing, and under the name that is easily guessed.
        for (name, target) in [(name, "victim"), (name, "none")] {
            let _ = fs::remove_dir_all(&out);
            fs::create_dir(&out).unwrap();
            fs::write(&victim, PRECIOUS).unwrap();
            symlink(folder.path().join(target), out.join(name)).unwrap();
            let (went_well, told) = execute(&command, folder.path());
            assert!(!went_well && told.contains("it is a symbolic link"), "{writer}: {told}");
            assert_eq!(fs::read_to_string(&victim).unwrap(), PRECIOUS, "{writer}");
            assert!(!folder.path().join("none").exists(), "{writer}");
        }
        let _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).unwrap();
        let guessed = [
            format!("{name}.part"),
            format!("{name}.partial"),
            Path::new(name).with_extension("partial").display().to_string(),
        ];
        guessed.iter().for_each(|guess| _ = symlink(&victim, out.join(guess)));
        let (went_well, told) = execute(&command, folder.path());
        assert!(went_well, "{writer}: {told}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), PRECIOUS, "{writer}");
        assert!(fs::symlink_metadata(out.join(name)).unwrap().is_file(), "{writer}");
    }
}

/// A user that is neither root nor the one that runs the tests.
const ANOTHER: u32 = 54_321;

/// A folder of another user could become a link to elsewhere, so no command writes to it, or below it.
#[test]
fn no_command_writes_to_a_folder_of_another_user() {
    let folder = tempfile::tempdir().unwrap();
    if chown(folder.path(), Some(ANOTHER), None).is_err() {
        eprintln!("SKIPPED: files cannot be given to another user here");
        return;
    }
    chown(folder.path(), Some(0), None).unwrap();
    for command in ["sweep plan SHORT -o PLAN", "sweep run PLAN --shard 1/1 -o RESULTS"] {
        assert!(execute(command, folder.path()).0, "{command}");
    }
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    chown(&out, Some(ANOTHER), None).unwrap();
    for writer in WRITERS {
        let (went_well, told) = execute(&named(writer).0, folder.path());
        assert!(!went_well && told.contains("belongs to another user (number 54321)"), "{writer}: {told}");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{writer}");
    }
    // But where a command is started, as in a checkout that a container has of another user.
    let words = format!("sweep plan {SHORT} -o plan.jsonl");
    let mut here = framewright(&words.split_whitespace().collect::<Vec<_>>());
    assert!(here.current_dir(&out).status().unwrap().success() && out.join("plan.jsonl").is_file());
}

/// A terminal, a pipe and the system's names for what is open are written to as they are.
#[test]
fn what_is_no_file_is_written_to_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["/dev/stdout", "/proc/self/fd/1", "/dev/null"] {
        let words = format!("sweep plan {SHORT} -o {path}");
        let output = framewright(&words.split_whitespace().collect::<Vec<_>>()).output().unwrap();
        assert!(output.status.success(), "{path}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout).contains("\"schema\""), path != "/dev/null", "{path}");
    }
    // Not by a link of somebody else's.
    let link = folder.path().join("link");
    symlink("/dev/null", &link).unwrap();
    let words = format!("sweep plan {SHORT} -o {}", link.display());
    let output = run(&words.split_whitespace().collect::<Vec<_>>());
    assert!(!output.status.success() && text(&output.stderr).contains("symbolic link"), "{}", text(&output.stderr));
}
