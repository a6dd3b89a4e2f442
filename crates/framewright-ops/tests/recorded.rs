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
//! | `words` | the names of all words of every machine with a name, under three presets |
//!
//! [`framewright_ops::recorded`] says how to see what a change does, and how to record a meant one.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use framewright::mechanisms::PRESETS;
use framewright::{Field, Mechanisms};
use framewright_ops::generate::{Limits, machines, scenario, scenario_within};
use framewright_ops::recorded::{self, Played, hash};
use framewright_ops::{Scenario, Shape, Transcript, transcript, transcript_moved, with_session};

fn hash_of(lines: &[String]) -> u32 {
    hash(lines.iter().flat_map(|line| line.bytes().chain([b'\n'])))
}

fn played(name: String, played: Result<Transcript, String>) -> Played {
    match played {
        Ok(seen) => {
            let [outcomes, lists, reports] = [&seen.outcomes, &seen.lists, &seen.reports].map(|lines| hash_of(lines));
            let words = hash(seen.words.iter().copied());
            let digests = format!("{outcomes:08x} {lists:08x} {reports:08x} {words:08x}");
            Played::new(name, digests, || text_of(seen))
        }
        // Some states do not fit on the machine that another began with.
        Err(wrong) => Played::new(name, format!("{:08x}", hash(wrong.bytes())), || wrong),
    }
}

fn text_of(Transcript { outcomes, lists, reports, words }: Transcript) -> String {
    let words = words.chunks(32).map(|bytes| format!("{bytes:02x?}")).collect();
    [outcomes, lists, reports, words].map(|lines: Vec<String>| lines.join("\n")).join("\n\n")
}

fn compare(kind: &str, runs: impl Iterator<Item = Played>) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/digests.txt");
    recorded::compare(&file, kind, runs).unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn short_lists_do_as_recorded() {
    compare("short", (0..400).map(|seed| played(seed.to_string(), transcript(&scenario(seed)))));
}

#[test]
fn long_lists_do_as_recorded() {
    let limits = Limits { ops: Some(1_000), ..Limits::default() };
    let play = |seed: u64| played(seed.to_string(), transcript(&scenario_within(seed, &limits)));
    compare("long", (1_000..1_040).map(play));
}

#[test]
fn moved_lists_do_as_recorded() {
    compare("moved", (2_000..2_060).map(|seed| played(seed.to_string(), transcript_moved(&scenario(seed)))));
}

#[test]
fn scripts_do_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut scripts: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    let play = |path: &PathBuf| {
        let list: Scenario = fs::read_to_string(path).unwrap().parse().unwrap();
        played(path.file_stem().unwrap().to_string_lossy().into_owned(), transcript(&list))
    };
    compare("script", scripts.iter().map(play));
}

/// Returns every machine with a name under each of these presets, and what both are called.
fn machines_under(presets: &[(&str, Mechanisms)]) -> impl Iterator<Item = (String, Shape)> {
    machines::named().flat_map(|(name, shape)| {
        presets.iter().map(move |&(preset, mechanisms)| {
            let name: String = name.chars().filter(|letter| letter.is_alphanumeric() || *letter == ' ').collect();
            (format!("{name} {preset}"), Shape { mechanisms, ..shape.clone() })
        })
    })
}

#[test]
fn machines_boot_as_recorded() {
    let boot = |(name, shape)| played(name, transcript(&Scenario::new(shape, [])));
    compare("boot", machines_under(PRESETS).map(boot));
}

/// Returns the names of all words of a machine, one record or array a line, without their addresses.
fn words(shape: &Shape) -> String {
    let named = with_session(shape, |session| {
        let mut text = String::new();
        session.pages().fields(&mut |Field { part, index, record, name, size, count, node, .. }| {
            let _ = writeln!(text, "{part} {index}: {record}: {name}: {count} of {size} bytes, node {node:?}");
        });
        Ok(text)
    });
    named.unwrap_or_else(|wrong| wrong)
}

#[test]
fn words_have_names_as_recorded() {
    let presets = ["default", "owned-pageblocks", "numa-patch3"].map(|name| (name, Mechanisms::preset(name).unwrap()));
    let names = |(name, shape)| {
        let words = words(&Shape { zone_counters: 2, node_counters: 2, ..shape });
        Played::new(name, format!("{:08x}", hash(words.bytes())), || words)
    };
    compare("words", machines_under(&presets).map(names));
}
