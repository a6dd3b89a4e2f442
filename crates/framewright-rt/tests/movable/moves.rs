//! Pages are moved and evicted under pressure on all CPUs, and their contents never change. Their owner refuses, sleeps
//! and calls the allocator.
//!
//! `examples/moves.rs` runs longer.

#[path = "../../examples/moves.rs"]
#[expect(dead_code, reason = "an example's main is not called here")]
mod example;

use example::Options;

/// Runs until `moves` pages were moved, some refused and some evicted, or threads rested fifty times.
///
/// Returns the number of refusals. They come in fits, so a run of few moves may fall between two.
fn run(mechanisms: &str, moves: u64) -> u64 {
    let mechanisms = mechanisms.into();
    let options = Options { moves, mechanisms, threads: 4, mib: 32, rests: 50, turns: 2_000 };
    let mut out = Vec::new();
    let outcome = example::run(&options, &mut out).unwrap_or_else(|error| panic!("{options:?}: {error}"));
    let text = String::from_utf8(out).unwrap();
    assert!(outcome.pages.moved != 0 && outcome.pages.left != 0, "{text}");
    assert!(outcome.did.huge != 0 && outcome.did.intact != 0, "{text}");
    outcome.pages.stayed
}

#[test]
fn nothing_is_lost_with_scanners() {
    assert_ne!(run("default,compaction=scanners,proactiveness=20", 2_000), 0);
}

#[test]
fn nothing_is_lost_where_the_emptiest_is_emptied() {
    assert_ne!(run("default,compaction=emptiest,proactiveness=20", 2_000), 0);
}

#[test]
fn nothing_is_lost_whatever_else_there_is() {
    let others = ["no_merge+cluster_alloc", "owned-pageblocks", "patch9", "default,hardened=poison"];
    let refusals = others.map(|others| run(&format!("{others},compaction=emptiest"), 200));
    assert_ne!(refusals.iter().sum::<u64>(), 0, "no owner refused a move: {refusals:?}");
}
