//! What shows of a run changes on purpose alone.
//!
//! `recorded/digests.txt` has a line for each of some hundred runs: digests of what each operation gave, of the free
//! lists after it, of the reports, and of the allocator's words at the end. Other tests say what is right. These say
//! that something is not as it was, however small: the end of a list that a block goes to, a counter, a mark.
//!
//! | runs | what is played |
//! |---|---|
//! | `short` | generated lists of 50 to 100 operations on machines of all kinds |
//! | `long` | generated lists of 1,000 operations |
//! | `moved` | generated lists, of which the second half runs on a machine that got the first one's state |
//! | `script` | the scripts of this crate |
//! | `boot` | every machine with a name under every preset, without an operation |
//!
//! To see what a change does, have the transcripts of both revisions written, and compare the folders:
//!
//! ```sh
//! FRAMEWRIGHT_TRANSCRIPTS=after cargo test -p framewright-ops --test recorded; diff -r before after
//! ```
//!
//! If it is meant, `FRAMEWRIGHT_RECORD=1` writes the file anew.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use framewright::mechanisms::PRESETS;
use framewright_ops::generate::{Limits, machines, scenario, scenario_within};
use framewright_ops::{Scenario, Transcript, transcript, transcript_moved};

/// Digests that differ before a test ends: enough to see what they have in common.
const MOST: usize = 8;

/// Held while the file is read or written: tests run side by side.
static FILE: Mutex<()> = Mutex::new(());

fn digests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/digests.txt")
}

/// Returns 32 bits of the FNV-1a hash: the same on each machine, in each build.
fn hash(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let hash = bytes
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (hash ^ (hash >> 32)) as u32
}

fn hash_of(lines: &[String]) -> u32 {
    hash(lines.iter().flat_map(|line| line.bytes().chain([b'\n'])))
}

/// Returns the digests of a run, and its transcript as text.
fn digest(played: &Result<Transcript, String>) -> (String, String) {
    match played {
        Ok(seen) => {
            let words: Vec<String> = seen.words.chunks(32).map(|bytes| format!("{bytes:02x?}")).collect();
            let parts = [&seen.outcomes, &seen.lists, &seen.reports, &words];
            let [outcomes, lists, reports, _] = parts.map(|lines| hash_of(lines));
            let state = hash(seen.words.iter().copied());
            let digest = format!("{outcomes:08x} {lists:08x} {reports:08x} {state:08x}");
            (digest, parts.map(|lines| lines.join("\n")).join("\n\n"))
        }
        // Some states do not fit on the machine that another began with.
        Err(wrong) => (format!("{:08x}", hash(wrong.bytes())), wrong.clone()),
    }
}

/// Compares runs with the file's lines that begin with `kind`.
fn compare(kind: &str, runs: impl Iterator<Item = (String, Result<Transcript, String>)>) {
    let begins = format!("{kind} ");
    let folder = std::env::var_os("FRAMEWRIGHT_TRANSCRIPTS").map(PathBuf::from);
    let records = std::env::var_os("FRAMEWRIGHT_RECORD").is_some();
    let stored = {
        let _guard = FILE.lock();
        fs::read_to_string(digests()).unwrap_or_default()
    };
    let known: Vec<&str> = stored.lines().filter(|line| line.starts_with(&begins)).collect();
    let (mut found, mut differ) = (String::new(), Vec::new());
    let mut count = 0;
    for ((name, played), known) in runs.zip(known.iter().copied().chain(std::iter::repeat(""))) {
        let (digest, text) = digest(&played);
        let line = format!("{kind} {name}: {digest}");
        if let Some(folder) = &folder {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(format!("{kind} {name}.txt").replace(' ', "-")), text).unwrap();
        }
        if line != known {
            differ.push(format!("is:       {line}\nrecorded: {known}"));
        }
        if differ.len() >= MOST && !records && folder.is_none() {
            break;
        }
        writeln!(found, "{line}").unwrap();
        count += 1;
    }
    if records {
        let _guard = FILE.lock();
        let stored = fs::read_to_string(digests()).unwrap_or_default();
        let others = stored.lines().filter(|line| !line.starts_with(&begins));
        let mut lines: Vec<&str> = others.chain(found.lines()).collect();
        // Stable: the runs of a kind stay in their order.
        lines.sort_by_key(|line| line.split(' ').next());
        fs::write(digests(), lines.join("\n") + "\n").unwrap();
        return;
    }
    assert!(
        differ.is_empty(),
        "the digests of outcomes, lists, reports and words are not as recorded. \
         `tests/recorded.rs` says how to see the difference:\n{}",
        differ.join("\n")
    );
    assert_eq!(count, known.len(), "runs of the kind {kind}");
}

#[test]
fn short_lists_do_as_recorded() {
    compare("short", (0..400).map(|seed| (format!("{seed}"), transcript(&scenario(seed)))));
}

#[test]
fn long_lists_do_as_recorded() {
    let limits = Limits { ops: Some(1_000), ..Limits::default() };
    let play = |seed| (format!("{seed}"), transcript(&scenario_within(seed, &limits)));
    compare("long", (1_000..1_040).map(play));
}

#[test]
fn moved_lists_do_as_recorded() {
    compare("moved", (2_000..2_060).map(|seed| (format!("{seed}"), transcript_moved(&scenario(seed)))));
}

#[test]
fn scripts_do_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut scripts: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    let play = |path: &PathBuf| {
        let list: Scenario = fs::read_to_string(path).unwrap().parse().unwrap();
        (path.file_stem().unwrap().to_string_lossy().into_owned(), transcript(&list))
    };
    compare("script", scripts.iter().map(play));
}

#[test]
fn machines_boot_as_recorded() {
    let all = machines::named().flat_map(|machine| PRESETS.iter().map(move |preset| (machine.clone(), preset)));
    let boot = |((name, mut shape), (preset, mechanisms)): ((&str, framewright_ops::Shape), &(&str, _))| {
        shape.mechanisms = *mechanisms;
        let name: String = name.chars().filter(|letter| letter.is_alphanumeric() || *letter == ' ').collect();
        (format!("{name} {preset}"), transcript(&Scenario::new(shape, [])))
    };
    compare("boot", all.map(boot));
}
