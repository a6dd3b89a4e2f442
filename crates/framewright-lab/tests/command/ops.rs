//! `framewright ops` as a user runs it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use crate::replay_synthetic::project;
use crate::transcript::{framewright, refused, run, shown, text};

const MACHINE: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\ncpus 0 0\ndma-end 0x0\ndma32-end 0x0\n\
                       marks 0 Normal 4 6 8\n";

/// A list in which everything is as stated.
const RIGHT: &str = "a1 = alloc order 2 GFP_KERNEL -> served\nrun-on 1\nfree a1 -> ok\n#! allocated 0\n";

/// A list with something of everything that can come of a step.
const MIXED: &str = "a1 = alloc order 2 GFP_KERNEL -> served\na2 = bulk 30 order 0 GFP_KERNEL -> >=20\n\
                     a3 = alloc-contig 3 align 0 GFP_KERNEL\na4 = alloc order 9 GFP_KERNEL -> failed\nraw-free a1+1 order 0\n\
                     a5 = alloc-range 0x0..0x2 GFP_KERNEL -> served\nfree a9\nfree a2 -> <=20\ndrain all -> >=0\nfree a1 -> served\n\
                     run-on 1\nvalidate\nexpect Node 0, zone Normal, boost 0\nexpect pageblock 0x0 Reclaimable\n#! highatomic<=0\n\
                     #! allocated >= 4\n#! hit 0 Normal 7\n";

/// A folder with lists by their names.
fn folder(lists: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, steps) in lists {
        fs::write(folder.path().join(name), format!("{MACHINE}{steps}")).unwrap();
    }
    folder
}

#[test]
fn steps_are_told() {
    let folder = folder(&[("mixed.ops", MIXED)]);
    insta::assert_snapshot!(shown(folder.path(), "ops DIR/mixed.ops"));
}

#[test]
fn the_same_as_json() {
    let folder = folder(&[("mixed.ops", MIXED)]);
    let all = shown(folder.path(), "ops DIR/mixed.ops --quiet --format json");
    let (_, json) = all.split_once('\n').unwrap();
    let document: serde_json::Value = serde_json::from_str(json.strip_suffix("[1]\n").unwrap()).unwrap();
    assert_eq!(document["schema"], "framewright-ops/1");
    insta::assert_snapshot!(all);
}

#[test]
fn several_lists_end_with_a_table() {
    let folder = folder(&[("right.ops", RIGHT), ("mixed.ops", MIXED)]);
    let all = shown(folder.path(), "ops DIR/right.ops DIR/mixed.ops -q -m default -m linux-6.1");
    // Columns are as wide as the folder's name.
    let squeezed: Vec<String> = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    insta::assert_snapshot!(squeezed.join("\n"));
    let right = shown(folder.path(), "ops DIR/right.ops DIR/right.ops --quiet --check-every 0");
    assert!(right.ends_with("\n[0]\n") && right.matches("as stated\n").count() == 4, "{right}");
}

#[test]
fn a_list_comes_from_standard_input() {
    for (steps, status) in [(RIGHT, 0), (MIXED, 1), ("free\n", 2)] {
        let mut child = framewright(&["ops", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        write!(child.stdin.take().unwrap(), "#!/usr/bin/env -S framewright ops\n{MACHINE}{steps}").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}{}", text(&output.stdout), text(&output.stderr));
        let says = if status == 2 { text(&output.stderr) } else { text(&output.stdout) };
        assert!(says.contains("standard input: "), "{says}");
    }
}

/// What cannot be run: the reason with its file and line, status 2, and nothing of another list.
#[test]
fn what_cannot_be_run_is_named() {
    let folder = folder(&[
        ("right.ops", RIGHT),
        ("slip.ops", "a1 = alloc order 0 GFP_KERNAL\n"),
        ("servd.ops", "a1 = alloc order 0 GFP_KERNEL -> servd\n"),
        ("number.ops", "validate\n#! highatomics <= 1\n"),
        ("large.ops", "memory 0x100000000..0x200000000 node 1\n"),
        ("backwards.ops", "memory 0x0..0x40 node 0\n"),
    ]);
    let path = |name: &str| folder.path().join(name);
    fs::write(path("bytes.ops"), b"memory 0x0..0x40 node 0\n\xff\n").unwrap();
    fs::write(path("empty.ops"), "").unwrap();
    fs::write(path("others.txt"), "mine\n").unwrap();
    fs::File::create(path("huge.ops")).unwrap().set_len((1 << 28) + 1).unwrap();
    let commands = [
        "",
        "DIR/right.ops DIR/slip.ops",
        "DIR/servd.ops",
        "DIR/number.ops",
        "DIR/bytes.ops",
        "DIR/empty.ops",
        "DIR/large.ops",
        "DIR/backwards.ops",
        "DIR/huge.ops",
        "DIR/missing.ops",
        "DIR",
        "- -",
        "DIR/right.ops -m fast",
        "DIR/right.ops --check-every often",
        "shrink",
        "shrink DIR/right.ops",
        "shrink DIR/backwards.ops",
        "shrink DIR/slip.ops",
        "shrink DIR/right.ops -o DIR/others.txt",
        "fuzz --seconds 0",
        "fuzz --seconds 1 --scenarios 1",
        "fuzz --cpus 9-3",
        "fuzz --cpus 0",
        "fuzz --ops 0",
        "fuzz --scenarios 1 -o DIR/others.txt",
    ];
    insta::assert_snapshot!(refused(folder.path(), commands.map(|command| format!("ops {command}"))));
}

/// A list of which the last line does not hold, and much of which has nothing to do with that.
const LARGE: &str = "a1 = alloc order 0 GFP_KERNEL\na2 = bulk 8 order 0 GFP_KERNEL\nrun-on 1\na3 = alloc order 1 GFP_ATOMIC\n\
                     free a2 -> served\ndrain all\na4 = alloc order 0 GFP_KERNEL|__GFP_ZERO\nfree a1\n#! allocated <= 1\nvalidate\n";

#[test]
fn a_list_is_made_small() {
    let folder = folder(&[("large.ops", LARGE)]);
    let mut all = shown(folder.path(), "ops shrink DIR/large.ops");
    all += &shown(folder.path(), "ops shrink DIR/large.ops -o DIR/small.ops");
    all += &shown(folder.path(), "ops DIR/small.ops");
    all += &shown(folder.path(), "ops shrink DIR/large.ops --right-under linux-6.1");
    insta::assert_snapshot!(all);
}

#[test]
fn generated_lists_are_the_same_every_time() {
    let arguments = ["ops", "fuzz", "--scenarios", "60", "--seed", "7", "--check-every", "0"];
    let output = run(&[&arguments[..], &["--threads", "1"]].concat());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(text(&output.stdout).starts_with("nothing wrong: "), "{}", text(&output.stdout));
    assert_eq!(run(&[&arguments[..], &["--threads", "3"]].concat()).stdout, output.stdout);
    let timed = text(&run(&["ops", "fuzz", "--seconds", "1", "--cpus", "2", "--ops", "20"]).stdout);
    assert!(timed.contains("operations per second") && timed.contains("operations on 2 to 4 CPUs"), "{timed}");
}

/// Every list that the tests run is read by the command.
#[test]
fn the_projects_own_lists_run() {
    let folder = project().join("crates/framewright-ops/scripts");
    let mut lists: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    lists.retain(|path| path.extension().is_some_and(|end| end == "ops"));
    let names: Vec<&str> = lists.iter().map(|path| path.to_str().unwrap()).collect();
    let output = run(&[&["ops", "--quiet"], &names[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert_eq!(text(&output.stdout).lines().filter(|line| line.ends_with("  as stated")).count(), names.len());
}
