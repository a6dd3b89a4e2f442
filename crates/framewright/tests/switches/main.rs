//! Every switch changes what some run does: none is dead.
//!
//! A [`Case`] plays one run under every choice of one switch, and changes nothing else. Two choices are told apart if
//! any case of their switch shows a different run. Every pair of choices must be told apart. The switches and their
//! choices come from the core's own table ([`Mechanisms::SWITCHES`]), so that a new switch or choice without a case
//! fails.
//!
//! | what the switch decides | what is played | what shows |
//! |---|---|---|
//! | which frames are used | a list of operations (`played.rs`) | outcomes, free lists after each operation, reports |
//! | what a call costs | CPUs of the simulated machine (`simulated.rs`) | time, accesses, lines, locks |
//! | what is in freed memory | an arena (`contents.rs`) | the pages that are allocated next |

mod cases;
mod contents;
mod played;
mod simulated;

use std::fs;
use std::path::{Path, PathBuf};

use framewright::Mechanisms;

use crate::cases::CASES;

/// A run to play under every choice of one switch.
struct Case {
    /// Name of the switch.
    switch: &'static str,
    /// Mechanisms of all plays, as [`Mechanisms::parse`] reads them; the switch is set on top of them.
    base: &'static str,
    /// Mechanisms that the base gets in addition under a choice that it would conflict with.
    demands: &'static str,
    /// Choices besides the named ones: values of a switch that is a number.
    numbers: &'static [&'static str],
    run: Run,
}

/// What is played.
enum Run {
    /// A list of operations: the machine, and the operations on it.
    Played(&'static str, &'static str),
    /// CPUs of the simulated machine that allocate and free.
    Simulated,
    /// A page of an arena that is freed and allocated again.
    Contents,
}

impl Run {
    /// Returns what shows of the run, line by line.
    fn play(&self, mechanisms: Mechanisms) -> Vec<String> {
        match self {
            Run::Played(machine, ops) => played::play(machine, ops, mechanisms),
            Run::Simulated => simulated::play(mechanisms),
            Run::Contents => contents::play(mechanisms),
        }
    }
}

impl Case {
    /// Plays the run under each choice that does not conflict with the base; returns what showed of each.
    fn play(&self) -> Vec<(&'static str, Vec<String>)> {
        let parse = |list: &str| Mechanisms::parse(list).unwrap_or_else(|wrong| panic!("{}: {wrong:?}", self.switch));
        let bases = [self.base.to_owned(), format!("{},{}", self.base, self.demands)].map(|base| parse(&base));
        let choices = Mechanisms::choices(self.switch).iter().chain(self.numbers);
        let set = |choice: &&'static str| {
            // A choice that describes a range, as "a number up to 100", is none, and cannot be set.
            let chosen = bases.map(|mut base| base.set(self.switch, choice).ok().map(|()| base));
            let mechanisms = chosen.into_iter().flatten().find(|mechanisms| mechanisms.conflict().is_none())?;
            Some((*choice, self.run.play(mechanisms)))
        };
        choices.filter_map(set).collect()
    }
}

/// Returns what is wrong with a switch: choices that no case tells apart.
fn judge(switch: &str, cases: &[&Case]) -> Vec<String> {
    let plays: Vec<_> = cases.iter().map(|case| case.play()).collect();
    let played = |choice| plays.iter().flatten().any(|(name, _)| *name == choice);
    let described = |choice: &&&str| Mechanisms::default().set(switch, choice).is_err();
    let missing = Mechanisms::choices(switch).iter().filter(|choice| !played(**choice) && !described(choice));
    let mut wrong: Vec<String> = missing.map(|choice| format!("{switch}={choice} is in no case")).collect();

    let mut choices: Vec<_> = plays.iter().flatten().map(|(choice, _)| *choice).collect();
    choices.sort_unstable();
    choices.dedup();
    if choices.len() < 2 {
        wrong.push(format!("{switch} has {} choices in its cases", choices.len()));
    }
    let differ = |one: &str, other: &str| {
        plays.iter().any(|shown| {
            let of = |choice| shown.iter().find(|(name, _)| *name == choice).map(|(_, shown)| shown);
            matches!((of(one), of(other)), (Some(one), Some(other)) if one != other)
        })
    };
    for (index, one) in choices.iter().enumerate() {
        let same = choices[index + 1..].iter().filter(|other| !differ(one, other));
        wrong.extend(same.map(|other| format!("{switch}: {one} and {other} do the same in every case")));
    }
    wrong
}

/// Judges every switch by these cases.
fn judge_all(cases: &[Case]) -> Vec<String> {
    let of = |switch| cases.iter().filter(|case| case.switch == switch).collect::<Vec<_>>();
    Mechanisms::SWITCHES.iter().flat_map(|switch| judge(switch, &of(*switch))).collect()
}

#[test]
fn no_switch_is_dead() {
    let unknown: Vec<_> =
        CASES.iter().map(|case| case.switch).filter(|switch| !Mechanisms::SWITCHES.contains(switch)).collect();
    assert!(unknown.is_empty(), "no such switches: {unknown:?}");
    let wrong = judge_all(CASES);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs are repeatable: nothing but the switch can make two of them differ.
#[test]
fn a_run_shows_the_same_each_time() {
    for case in CASES {
        assert_eq!(case.play(), case.play(), "{}", case.switch);
    }
}

/// Every switch is read in at most two files of the core: where `policy/rules.rs` turns it into the answer to a
/// question, and where its choices are carried out.
#[test]
fn a_switch_is_read_in_at_most_two_files() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = rust_files(&source);
    let readers = |switch: &str| {
        let field = switch.replace('-', "_");
        let reads = |path: &Path, text: &str| {
            let owner = if path.ends_with("policy/rules.rs") { "self" } else { "mechanisms" };
            let is_whole = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || "_(".contains(next));
            [format!("{owner}.{field}"), format!("{owner}().{field}")]
                .iter()
                .any(|read| text.match_indices(read).any(|(at, _)| is_whole(&text[at + read.len()..])))
        };
        files.iter().filter(|(path, text)| reads(path, text)).map(|(path, _)| path.clone()).collect::<Vec<_>>()
    };
    for switch in Mechanisms::SWITCHES {
        let readers = readers(switch);
        assert!((1..=2).contains(&readers.len()), "{switch} is read in {readers:?}");
    }
}

/// Returns the paths and texts of the source files below a folder, besides those that define and name switches.
fn rust_files(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| match path.extension() {
        _ if path.is_dir() => rust_files(&path),
        Some(extension) if extension == "rs" => vec![(path.clone(), fs::read_to_string(&path).unwrap())],
        _ => Vec::new(),
    });
    let defines = ["policy/mechanisms.rs", "policy/presets.rs"];
    files.filter(|(path, _)| !defines.iter().any(|definition| path.ends_with(definition))).collect()
}

/// A lock that can be shared is held by several CPUs at once, and no other lock is.
///
/// Only free paths that need such a lock share it, so no case can tell `zone-lock=rw` apart without a change of these.
#[test]
fn a_lock_that_can_be_shared_is() {
    let times = |mechanisms| simulated::times_shared(Mechanisms::parse(mechanisms).unwrap());
    assert_eq!(["zone-lock=ticket", "zone-lock=queued", "zone-lock=rw"].map(times), [0; 3]);
    assert!(times("zone-lock=rw,free-path=splice") > 0);
}

/// What shows of a run does not name the mechanisms, so a switch that does nothing in it is found dead.
#[test]
fn a_dead_switch_is_found() {
    const PLAYED: Run = Run::Played(cases::SMALL, "a1 = alloc order 0 GFP_KERNEL\nfree a1\ndrain all");
    // No CPU keeps NUMA counts, so no reader can leave them out.
    const READ: &str = "numa-read: with-cpus and zone-only do the same in every case";
    // Nothing takes from another mobility.
    const HYGIENE: &str = "hygiene: loose and strict do the same in every case";
    for (switch, run, found) in [
        ("numa-read", PLAYED, READ),
        ("numa-read", Run::Simulated, READ),
        ("hygiene", PLAYED, HYGIENE),
        ("hygiene", Run::Simulated, HYGIENE),
    ] {
        let case = Case { switch, base: "", demands: "", numbers: &[], run };
        assert_eq!(judge(switch, &[&case]), [found]);
    }
}

/// A switch or a choice without a case is found.
#[test]
fn a_missing_case_is_found() {
    let found = judge("hygiene", &[]);
    assert_eq!(
        found,
        ["hygiene=strict is in no case", "hygiene=loose is in no case", "hygiene has 0 choices in its cases"]
    );
    // `refill=cluster` does not go together with this base.
    let case = Case { switch: "refill", base: "patch8", demands: "", numbers: &[], run: Run::Simulated };
    assert!(judge("refill", &[&case]).contains(&"refill=cluster is in no case".to_owned()));
}
