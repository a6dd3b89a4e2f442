//! Why a replay went as it did: the list, the explanations and every error, as a user sees them; and that they agree
//! with the replay.

use std::path::Path;

use crate::replay_synthetic::{FIRST, KERNEL, MOVABLE, SECOND, START, Synthetic, project};
use crate::transcript::{run, shown};
use framewright::Mechanisms;
use framewright_trace::explain::{ExplainError, Explanation, IncidentKind as Kind, Listing, list, why};
use framewright_trace::replay::ReplayOptions;

/// Eight pageblocks. A page of the kernel's takes two of them over; huge pages use up the rest, and at last the second
/// of the two. Then two faults fail, until the kernel's page is freed.
fn recording(folder: &Path) {
    let mut trace = Synthetic::new();
    trace.run(7, 1).alloc(START, 0, KERNEL).run(100, 0).alloc(START + 0x200, 0, MOVABLE);
    for block in 2..8 {
        trace.alloc(START + block * 0x200, 9, FIRST);
    }
    trace.run(101, 0).alloc(0, 9, FIRST).alloc(0, 9, SECOND).alloc(START + 0x201, 0, MOVABLE);
    trace.run(7, 1).free(START, 0).run(102, 1).alloc(START, 9, FIRST);
    trace.write(folder);
}

/// What the command prints for each line of arguments, where `DIR` is the folder with the recording.
fn transcripts(commands: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path());
    commands.iter().map(|command| shown(folder.path(), command) + "\n").collect()
}

#[test]
fn what_can_be_asked_for_is_listed() {
    insta::assert_snapshot!(transcripts(&[
        "explain DIR -m baseline",
        "explain DIR -m baseline --only fallback --limit 1",
        "explain DIR -m baseline --only failure",
    ]));
}

#[test]
fn where_nothing_happened_it_says_where_else_to_look() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Synthetic::new();
    trace.alloc(START, 0, MOVABLE).free(START, 0);
    trace.write(folder.path());
    let told = |mechanisms: &str| shown(folder.path(), &format!("explain DIR -m {mechanisms}"));
    insta::assert_snapshot!(["default", "linux-6.1"].map(told).join("\n"));
}

#[test]
fn fallbacks_are_explained() {
    insta::assert_snapshot!(transcripts(&["explain DIR -m baseline --why 1", "explain DIR -m baseline --why 2"]));
}

#[test]
fn failures_are_explained() {
    insta::assert_snapshot!(transcripts(&[
        "explain DIR -m baseline --why 3",
        "explain DIR -m baseline,compaction=scanners --why 3",
        "explain DIR -m baseline,compaction=emptiest --why 3",
    ]));
}

#[test]
fn the_same_as_json() {
    let all = transcripts(&[
        "explain DIR -m baseline --format json",
        "explain DIR -m baseline --why 2 --format json",
        "explain DIR -m baseline --why 3 --format json",
    ]);
    let baseline = Mechanisms::BASELINE.to_string();
    assert_eq!(all.matches(&baseline).count(), 3);
    insta::assert_snapshot!(all.replace(&baseline, "BASELINE"));
}

#[test]
fn questions_without_an_answer_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut calm = Synthetic::new();
    calm.alloc(START, 0, MOVABLE).free(START, 0);
    calm.write(folder.path());
    let calm = folder.path().display().to_string();
    assert_eq!(run(&["explain", &calm]).status.code(), Some(0), "nothing happened, which is no error");
    let (error, mut all) = (run(&["explain", &calm, "--why", "1"]), String::new());
    all += &String::from_utf8(error.stderr).unwrap();
    let commands = [
        "explain DIR -m baseline --why 0",
        "explain DIR -m baseline --why 6",
        "explain DIR --why seven",
        "explain DIR --only stalls",
        "explain DIR --why 1 --only failure",
        "explain DIR/missing",
        "explain DIR/kpageflags",
        "explain --max-memory 38",
    ];
    let transcripts = transcripts(&commands);
    assert_eq!(transcripts.matches("\n[2]\n").count(), commands.len(), "{transcripts}");
    insta::assert_snapshot!(all + &transcripts);
}

/// Of the machine of the project's own trace: those that are memory, wholly or in part.
const PAGEBLOCKS: u64 = 458;

fn shipped() -> std::path::PathBuf {
    project().join("data/traces/linux-6.1-thpfioscale-1g.fwt")
}

fn listing(mechanisms: Mechanisms) -> Listing {
    list(&shipped(), &ReplayOptions::default(), mechanisms, &mut |_, _| {}).unwrap()
}

fn explanation(mechanisms: Mechanisms, number: u64) -> Result<Explanation, ExplainError> {
    why(&shipped(), &ReplayOptions::default(), mechanisms, number, &mut |_, _| {})
}

/// Watching changes nothing: what is listed is what the replay counts.
#[test]
fn the_list_adds_up_to_the_replay() {
    for name in ["default", "linux-6.1", "mixing"] {
        let mechanisms = Mechanisms::preset(name).unwrap();
        let listing = listing(mechanisms);
        let report = crate::replay_synthetic::run(&shipped(), &[mechanisms]).unwrap();
        let column = &report.framewright.nothing_reclaimed;
        let of = |kind| listing.happenings.iter().filter(|row| row.kind == kind).count() as u64;
        let fragmenting = listing.happenings.iter().filter_map(|row| row.fallback.as_ref());
        let fragmenting = fragmenting.filter(|fallback| fallback.fragmenting).count() as u64;
        let failed = column.failed_requests;
        assert_eq!((of(Kind::Fallback), fragmenting), (column.extfrag_events, column.extfrag_fragmenting), "{name}");
        assert_eq!(of(Kind::Failure), failed, "{name}");
        let mut numbers: Vec<u64> = listing.happenings.iter().map(|row| row.number).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=of(Kind::Fallback) + failed), "{name}");
    }
}

/// A happening is explained as it is listed, and the second run found what it looked for.
#[test]
fn explanations_agree_with_the_list() {
    let mechanisms = Mechanisms::preset("linux-6.1").unwrap();
    let listing = listing(mechanisms);
    for kind in [Kind::Fallback, Kind::Failure] {
        let row = listing.happenings.iter().find(|row| row.kind == kind).unwrap();
        let told = explanation(mechanisms, row.number).unwrap();
        assert_eq!(serde_json::to_value(&told.row).unwrap(), serde_json::to_value(row).unwrap());
        assert_eq!(told.of, listing.happenings.len() as u64);
        assert!(!told.zones.is_empty());
        assert_eq!(
            (told.pageblocks.is_some(), told.obstacles.is_some()),
            (kind == Kind::Fallback, kind == Kind::Failure)
        );
        if let (Some(taken), Some(fallback)) = (&told.pageblocks, &row.fallback) {
            assert_eq!(taken.failures.len() as u64, fallback.failed_meanwhile);
            assert!(taken.most >= fallback.left && taken.most <= taken.memory);
        }
        if let Some(obstacles) = &told.obstacles {
            let pageblocks: u64 = obstacles.classes.iter().flat_map(|class| class.pageblocks.values()).sum();
            assert_eq!(pageblocks, PAGEBLOCKS);
        }
    }
}
