//! `framewright stress` as a user runs it.

use std::fs;

use crate::transcript::{refused, run, text};

#[test]
fn a_run_that_finds_nothing() {
    let output = run(&["stress", "--operations", "20k", "--quiescent", "8"]);
    let out = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(
        out.starts_with("nothing lost: ") && out.contains(" on 2 machines, checked at 8 points of rest\n"),
        "{out}"
    );
    assert_eq!(run(&["stress", "--operations", "20k", "--quiescent", "8"]).stdout, output.stdout);
}

/// A planted bug: what is printed leads to the same failure, byte for byte, and so does the small case.
#[test]
fn what_is_printed_finds_it_again() {
    for plant in ["torn-rmw:lock.next:20", "no-heavy-fence"] {
        let folder = tempfile::tempdir().unwrap();
        let small = folder.path().join("small.ops");
        let small = small.to_str().unwrap();
        let start = ["stress", "--seed", "5", "--operations", "400k", "--quiescent", "32", "--delay-stores", "on"];
        let output =
            run(&[&start[..], &["-m", "default", "--plant", plant, "--effort", "100k", "--out", small]].concat());
        let out = text(&output.stdout);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), String::new()), "{out}");
        let again = out.lines().find_map(|line| line.strip_prefix("again: framewright ")).unwrap();
        let case = fs::read_to_string(small).unwrap();
        let words: Vec<&str> = again.split(' ').chain(["--effort", "100k", "--out", small]).collect();
        let output = run(&words);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), out.clone()));
        assert_eq!(fs::read_to_string(small).unwrap(), case);
        // The small case says the same as when it was found.
        let output = run(&["stress", "--replay", small]);
        let replayed = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{replayed}");
        let wrong = replayed.lines().next().unwrap().strip_prefix("wrong: ").unwrap();
        assert!(out.contains(&format!(" CPUs: {wrong}\n")), "{out}\n{replayed}");
        assert_eq!(run(&["stress", "--replay", small]).stdout, output.stdout);
    }
}

#[test]
fn what_makes_no_sense_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.ops");
    fs::write(&path, "seed 1\nplant fire\n").unwrap();
    fs::File::create(folder.path().join("large.ops")).unwrap().set_len((1 << 28) + 1).unwrap();
    let commands = [
        "--operations 3",
        "--operations 3G",
        "--plant fire",
        "--plant torn-rmw:fire:1",
        "--cpus 1025",
        "--mechanisms fallback=clasic",
        "--interrupts maybe",
        "--replay DIR/missing.ops",
        "--replay DIR",
        "--replay DIR/large.ops",
        "--replay DIR/bad.ops",
        "--replay DIR/bad.ops --cpus 3",
    ];
    insta::assert_snapshot!(refused(folder.path(), commands.map(|command| format!("stress {command}"))));
}
