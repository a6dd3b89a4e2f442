//! What a file or a peer calls things is shown, and not obeyed by a terminal: no control character of theirs is in any
//! output.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::replay_synthetic::project;
use crate::transcript::{framewright, run, text};

const SHORT: [&str; 10] = [
    "--machine",
    "generic:1x2x1",
    "--cpus",
    "1",
    "--seconds",
    "0.0005",
    "--warm-up",
    "0",
    "--workload",
    "page-bench01",
];
/// An escape, a bell, the second set of controls, and a delete.
const HOSTILE: &str = "\u{1b}]0;title\u{7}\u{9b}31m\u{7f}";

fn assert_is_plain(output: &[u8], what: &str) {
    let output = text(output);
    let found = output.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    assert_eq!(found, None, "{what}: {output:?}");
}

/// `text` with a hostile piece put into every string after the first `key`.
fn spoiled(document: &str, words: &[&str]) -> String {
    let hostile = serde_json::to_string(HOSTILE).unwrap();
    let inside = &hostile[1..hostile.len() - 1];
    words.iter().fold(document.to_owned(), |document, word| document.replace(word, &format!("{word}{inside}")))
}

#[test]
fn names_in_documents_are_not_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let [good, bad] = ["good.json", "bad.json"].map(|name| folder.path().join(name).display().to_string());
    let document = text(&run(&[&["sim", "--format", "json"], &SHORT[..]].concat()).stdout);
    fs::write(&good, &document).unwrap();
    // Names that stand in the tables: of locks, fields and mechanisms.
    let hostile = spoiled(&document, &["zone lock", "generic:1x2x1", "page-bench01"]);
    assert_ne!(hostile, document);
    fs::write(&bad, hostile).unwrap();
    for form in ["text", "json", "mmtests", "lkp", "benchstat", "will-it-scale", "page_bench"] {
        for files in [[&good, &bad], [&bad, &good]] {
            let output = run(&["compare", files[0], files[1], "--format", form]);
            assert_is_plain(&output.stdout, form);
            assert_is_plain(&output.stderr, form);
        }
    }
    // A column's name is the caller's own, and may come out of a file as well.
    let named = format!("{HOSTILE}={good}");
    for form in ["text", "mmtests", "lkp"] {
        assert_is_plain(&run(&["compare", &named, &bad, "--format", form]).stdout, form);
    }
}

#[test]
fn names_in_results_are_not_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let [plan, results] = ["plan.jsonl", "results.jsonl"].map(|name| folder.path().join(name).display().to_string());
    assert!(run(&[&["sweep", "plan", "-o", &plan], &SHORT[..]].concat()).status.success());
    assert!(run(&["sweep", "run", &plan, "--shard", "1/1", "-o", &results]).status.success());
    let spoilt = spoiled(&fs::read_to_string(&results).unwrap(), &["zone lock", "generic:1x2x1", "page-bench01"]);
    fs::write(&results, spoilt).unwrap();
    for form in ["text", "csv", "json", "jsonl"] {
        let output = run(&["sweep", "merge", &results, "--format", form]);
        assert_is_plain(&output.stdout, form);
        assert_is_plain(&output.stderr, form);
    }
}

/// A name from a file is text in a page of a report, not markup.
#[test]
fn names_in_pages_are_not_markup() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let machine = fs::read_to_string(project().join("data/machines/generic.toml")).unwrap();
    let title = machine.lines().next().unwrap();
    // Its name is that of its file.
    let (name, title) = ("<script>x('&').toml", machine.replacen(title, "title = \"<script>x('&')</script>\"", 1));
    fs::write(path(name), title).unwrap();
    let log = fs::read_to_string(project().join("data/reports/23-btrfs-order4.txt")).unwrap();
    let (comm, _) = log.split_once(": page allocation failure").unwrap();
    let comm = comm.split_whitespace().last().unwrap();
    fs::write(path("log"), log.replace(comm, "<script>x()")).unwrap();
    let (machine, log, [runs, ticket]) = (path(name), path("log"), ["runs", "ticket"].map(path));
    let sim = [&["sim", "--machine", &machine, "--report", &runs], &SHORT[2..]].concat();
    for (arguments, page) in [(sim, &runs), (vec!["why", &log, "--report", &ticket], &ticket)] {
        let output = run(&arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let page = fs::read_to_string(Path::new(page).join("index.html")).unwrap();
        assert!(!page.contains("<script>x(") && page.contains("&lt;script&gt;x("), "{arguments:?}");
    }
}

/// A peer that answers each question with `answer`.
fn peer(path: &Path, answer: Vec<u8>) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for asker in listener.incoming() {
            let mut asker = asker.unwrap();
            let _ = asker.read(&mut [0; 64]);
            let _ = asker.write_all(&answer);
        }
    });
}

#[test]
fn what_a_peer_says_is_not_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("Node 0, zone No{HOSTILE}rmal\n");
    let answers = [format!("ok {}\n{file}", file.len()), format!("error: no{HOSTILE}\n"), format!("{HOSTILE}\n")];
    for (number, answer) in answers.into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.sock"));
        peer(&path, answer.into_bytes());
        let socket = path.display().to_string();
        for arguments in [
            &["proc", "zoneinfo", "--from", &socket][..],
            &["proc", "numastat", "--from", &socket],
            &["top", "--from", &socket, "--once"],
        ] {
            let output = framewright(arguments).output().unwrap();
            assert!(!output.status.success(), "{arguments:?}");
            assert_is_plain(&output.stdout, &format!("{arguments:?}"));
            assert_is_plain(&output.stderr, &format!("{arguments:?}"));
        }
        let tree = folder.path().join("tree");
        let written = framewright(&["proc", "tree", &tree.display().to_string(), "--from", &socket]).output().unwrap();
        assert!(!written.status.success() && !tree.join("proc/zoneinfo").exists());
    }
}
