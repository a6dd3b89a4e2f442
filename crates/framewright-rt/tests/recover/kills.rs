//! Children that are killed at random instants: what they held is recovered exactly.

use std::time::Duration;

use framewright::request::GFP_USER;
use framewright_rt::{Recovered, Request};

use crate::blocks::recover;
use crate::child::{Files, Job, LIMIT};
use crate::log::{Log, compare};

/// Kills in a run of the tests; `FRAMEWRIGHT_KILLS` sets another number.
const KILLS: u64 = 50;
/// Kills after which a planted mistake must have been found.
const PATIENCE: u64 = 100;

pub(crate) fn kills() -> u64 {
    std::env::var("FRAMEWRIGHT_KILLS").map_or(KILLS, |kills| kills.parse().unwrap())
}

/// Runs a child, kills it after a while that depends on the seed, and compares.
fn kill_one(job: Job, seed: u64) -> Result<usize, String> {
    let files = Files::new();
    let log = Log::map(&files.log);
    let mut child = files.spawn(job, seed);
    while log.has_begun().is_none() {
        assert!(child.try_wait().unwrap().is_none(), "the child ended");
        std::thread::sleep(Duration::from_micros(200));
    }
    let wait = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    std::thread::sleep(Duration::from_micros(wait % 30_000));
    child.kill().unwrap();
    child.wait().unwrap();
    let recovered = match std::panic::catch_unwind(|| recover(&files.arena)) {
        Ok(recovered) => recovered,
        Err(_) => return Err("not recovered".into()),
    };
    let words = log.snapshot();
    compare(&words, &recovered.arena, &recovered.held)?;
    let count = recovered.held.len();
    // Killed again, without a word of it: nothing changes.
    let recovered = if seed.is_multiple_of(4) {
        let before: Vec<_> = recovered.held.iter().map(|held| (held.frames(), held.in_flight())).collect();
        drop(recovered);
        let again = recover(&files.arena);
        assert_eq!(again.held.iter().map(|held| (held.frames(), held.in_flight())).collect::<Vec<_>>(), before);
        again
    } else {
        recovered
    };
    all_merges(recovered)?;
    Ok(count)
}

/// Frees all that is held. All memory up to the limit is then one piece.
fn all_merges(Recovered { arena, held }: Recovered) -> Result<(), String> {
    held.into_iter().for_each(|held| drop(held.into_range(&arena).unwrap()));
    arena.drain();
    let counts = arena.validate().map_err(|violation| violation.to_string())?;
    let mut all = Vec::new();
    let _ = arena.alloc_bulk(&Request::new(GFP_USER, arena.report().max_order.0), usize::MAX, &mut all);
    let whole = LIMIT >> arena.report().max_order.0 >> 12;
    if counts.allocated != 0 || all.len() as u64 != whole || arena.refused_frees() != 0 {
        return Err(format!("{counts:?}, {} of {whole} largest blocks", all.len()));
    }
    Ok(())
}

#[test]
fn a_kill_at_a_random_instant_loses_nothing() {
    let found: Vec<usize> = (0..kills())
        .map(|seed| kill_one(Job::Random, seed).unwrap_or_else(|difference| panic!("seed {seed}: {difference}")))
        .collect();
    println!(
        "{} kills, {} blocks recovered, {} at most",
        found.len(),
        found.iter().sum::<usize>(),
        found.iter().max().unwrap()
    );
    assert!(found.iter().sum::<usize>() as u64 > 10 * kills(), "the children held next to nothing: {found:?}");
}

/// Stores in the wrong order are noticed.
#[test]
fn planted_mistakes_are_found() {
    for job in [Job::EntryLate, Job::WordEarly, Job::ClearLate] {
        let found = (0..PATIENCE).find_map(|seed| kill_one(job, seed).err());
        println!("{job:?}: {found:?}");
        assert!(found.is_some(), "{job:?} was not noticed in {PATIENCE} kills");
    }
}
