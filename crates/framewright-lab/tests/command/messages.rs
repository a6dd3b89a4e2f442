//! Every message that a command can end with is in a snapshot.
//!
//! The messages are the texts in the sources that become errors; of each, the longest part without a number or name has
//! to stand in a snapshot. Enumerations of errors have tests of their own, which do not compile without a sample of
//! each kind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Whose messages.
const SOURCES: [&str; 3] = ["framewright-bench/src", "framewright-lab/src", "framewright-trace/src"];

/// What is said where figures and recorded bands do not fit.
const BANDS: &str = "{}: a figure without a recorded band, or a band without its figure: {}; record them anew: framewright \
                     reproduce all --quick --bands data/reproduced/quick.toml";

/// Messages that no snapshot has, and what it would take to see them.
const UNSEEN: &[(&str, &str)] = &[
    ("name a log, or send one: dmesg | framewright why; --watch follows the kernel's", "a terminal"),
    ("cannot find the end of {name}", "a /dev/kmsg that opens and has no end"),
    ("progress bar", "a template of ours that is none"),
    ("cannot find the user that called sudo; --as-root needs none", "a system without a list of users"),
    ("data/published/{}", "a file of ours, which is built in, that is broken"),
    ("data/published/linux-6.1-thpfioscale-1g.json", "the same"),
    ("row {name}: no kernel had the lock at {place}", "the same"),
    ("data/reproduced/quick.toml", "the same"),
    (BANDS, "the same, or figures that others were recorded of"),
    ("row {threshold}: no threshold", "the same"),
    ("row {row}: change_percent is {printed}, its numbers say {change:.1}", "the same"),
    ("{name} is no row's name", "the same"),
    ("a run is missing", "a plan of ours that lacks a run"),
    ("batch {batch}, {}: not timed", "the same"),
    ("which file?", "arguments that clap refuses"),
    ("a failure of a run has settings", "a failure that the stress test did not make"),
    ("the run has no window at whose end one could look", "a simulation without an end"),
    ("{frees_refused} frees were refused under {mechanisms}", "an allocator that loses pages"),
    ("pages were lost under {mechanisms}", "the same"),
    ("after the storm: {violation}", "the same"),
    ("the run ended with: {text}", "a run that panics: `sim/pool.rs` has a test that does"),
    (
        "{error:#}\\nThe run again, with {path} x {factor}: {}",
        "a run that fails with a machine's number changed: `reports/sim_sweep.rs` has one that fails",
    ),
    ("a handler of signals", "a system that refuses handlers of signals"),
    ("cannot watch for signals", "the same"),
    ("{name} cannot be locked ({error}): name a file on a local file system with -o", "a file system without locks"),
    ("{error}; framewright doctor looks at all that a recording needs", "root, and a tracefs that breaks meanwhile"),
    ("the files were removed", "a process that goes away: `command/proc.rs` has one"),
    ("instructions are counted through ptrace, which fails here", "a system that denies ptrace"),
    ("--kernel counts instructions of x86-64, through the ptrace of Linux: not on this machine", "another machine"),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Files below a folder that end so.
fn files(folder: &Path, end: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, end, found);
        } else if path.to_str().unwrap().ends_with(end) {
            found.push(path);
        }
    }
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Every message as it is written in the sources, with the file that has it.
fn messages() -> BTreeMap<String, PathBuf> {
    let text = r#""((?:[^"\\]|\\.|\\\n)*)""#;
    let made = format!(r"(?:(?:bail|anyhow)!\(|\.context\(|with_context\(\|\|\s*(?:format!\()?)\s*{text}");
    let (made, broken) = (Regex::new(&made).unwrap(), Regex::new(r"\\\n\s*").unwrap());
    let mut sources = Vec::new();
    SOURCES.iter().for_each(|folder| files(&crates().join(folder), ".rs", &mut sources));
    let mut all = BTreeMap::new();
    for file in sources.into_iter().filter(|file| !file.ends_with("tests.rs")) {
        let source = fs::read_to_string(&file).unwrap();
        let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for message in made.captures_iter(source) {
            all.insert(broken.replace_all(&message[1], "").replace("\\\"", "\""), file.clone());
        }
    }
    all
}

/// Its longest part that is always the same.
fn fixed(message: &str) -> String {
    let parts = Regex::new(r"\{[^}]*\}|\\n").unwrap();
    parts.split(message).map(words).max_by_key(String::len).unwrap_or_default()
}

#[test]
fn every_message_is_in_a_snapshot() {
    let mut snapshots = Vec::new();
    files(&crates(), ".snap", &mut snapshots);
    let seen: String = snapshots.iter().map(|file| words(&fs::read_to_string(file).unwrap()) + "\n").collect();
    let messages = messages();
    assert!(messages.len() > 100, "the sources have only {} messages", messages.len());
    let unseen = messages.iter().filter(|(message, _)| !seen.contains(&fixed(message)));
    let missing: Vec<_> =
        unseen.clone().filter(|(message, _)| !UNSEEN.iter().any(|(known, _)| known == message)).collect();
    assert!(missing.is_empty(), "no snapshot has these: {missing:#?}");
    let unseen: Vec<&String> = unseen.map(|(message, _)| message).collect();
    let stale: Vec<_> = UNSEEN.iter().filter(|(known, _)| !unseen.iter().any(|message| message == known)).collect();
    assert!(stale.is_empty(), "these are in a snapshot, or are no messages: {stale:#?}");
}
