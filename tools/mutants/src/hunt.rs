//! Runs the tests against each mutant until one fails.
//!
//! A mutant meets the tests that reach it. First come those that are likely to notice it and quick: the one that killed
//! the last mutant of the same function, then those that compare a run with a recorded one, which end with the first
//! difference, then all in the order of the time that a kill by them has cost so far.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use crate::copy::Result;
use crate::emit::Planted;
use crate::process::{self, Outcome};
use crate::reach::Test;
use crate::results::{self, Verdict};

/// How the names of tests end that compare runs with recorded ones.
const RECORDED: &str = "_as_recorded";

/// How mutants are hunted.
#[derive(Clone, Copy)]
pub(crate) struct How {
    /// Tests that run at a time.
    pub(crate) jobs: usize,
    /// Seconds of tests that a mutant meets.
    pub(crate) budget: f64,
    /// Whether no test was left out.
    pub(crate) is_all: bool,
}

/// What the workers share.
struct Shared<'t> {
    /// Mutants that are left, the last first.
    left: Vec<&'t Planted>,
    /// By test: how many mutants it met, and killed.
    record: Vec<(u32, u32)>,
    /// Test that killed the last mutant, by file and function.
    last: HashMap<(&'t str, &'t str), usize>,
    file: std::fs::File,
    done: usize,
}

/// Hunts the mutants, in this order, and appends each verdict to the file `results`.
///
/// Without a failure the verdict is final only if the tests are all that there are, and fit into the limit of time.
pub(crate) fn hunt(mutants: &[&Planted], tests: &[Test], results: &Path, how: How) -> Result<()> {
    let How { jobs, budget, is_all } = how;
    let mut reaching: HashMap<u32, Vec<usize>> = HashMap::new();
    for (number, test) in tests.iter().enumerate().filter(|(_, test)| test.passes) {
        for &first in &test.reached {
            reaching.entry(first).or_default().push(number);
        }
    }
    let shared = Mutex::new(Shared {
        left: mutants.iter().rev().copied().collect(),
        record: vec![(0, 0); tests.len()],
        last: HashMap::new(),
        file: results::append(results)?,
        done: 0,
    });
    let worker = || -> std::result::Result<(), String> {
        loop {
            let (mutant, order) = {
                let mut shared = shared.lock().map_err(|error| error.to_string())?;
                let Some(mutant) = shared.left.pop() else { return Ok(()) };
                (mutant, ordered(mutant, reaching.get(&mutant.first), tests, &shared))
            };
            let (mut verdict, by, met) = judge(mutant, &order, tests, budget).map_err(|error| error.to_string())?;
            if !is_all && matches!(verdict, Verdict::Survived | Verdict::Unreached) {
                verdict = Verdict::Open;
            }
            let mut shared = shared.lock().map_err(|error| error.to_string())?;
            for &test in &met {
                shared.record[test].0 += 1;
            }
            if let Some(by) = by {
                shared.record[by].1 += 1;
                shared.last.insert((&mutant.mutant.key.file, &mutant.mutant.key.function), by);
            }
            let name = by.map_or("-", |by| &tests[by].name);
            results::note(&mut shared.file, verdict, name, &mutant.mutant.key).map_err(|error| error.to_string())?;
            shared.done += 1;
            if shared.done.is_multiple_of(100) {
                println!("{} of {} done", shared.done, mutants.len());
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a worker panicked".to_owned())?)
    })?;
    Ok(())
}

/// Returns the tests that reach a mutant in the order in which it meets them.
fn ordered(mutant: &Planted, reaching: Option<&Vec<usize>>, tests: &[Test], shared: &Shared<'_>) -> Vec<usize> {
    let key = &mutant.mutant.key;
    let last = shared.last.get(&(key.file.as_str(), key.function.as_str()));
    let cost = |test: usize| {
        let (met, killed) = shared.record[test];
        (tests[test].seconds.min(2.0) + 0.005) * f64::from(met + 10) / f64::from(killed + 1)
    };
    let mut order = reaching.cloned().unwrap_or_default();
    let rank = |test: usize| match test {
        _ if Some(&test) == last => 0,
        // Unit tests: they cost nothing, and what they are about is often theirs alone.
        _ if tests[test].seconds < 0.01 => 1,
        _ if tests[test].name.ends_with(RECORDED) => 2,
        _ => 3,
    };
    order.sort_by(|&one, &other| rank(one).cmp(&rank(other)).then(cost(one).total_cmp(&cost(other))));
    order
}

/// Runs tests until one fails; returns the verdict, the test that failed, and the tests that ran.
fn judge(
    mutant: &Planted,
    order: &[usize],
    tests: &[Test],
    budget: f64,
) -> Result<(Verdict, Option<usize>, Vec<usize>)> {
    if order.is_empty() {
        return Ok((Verdict::Unreached, None, Vec::new()));
    }
    let number = mutant.number.to_string();
    let mut met = Vec::new();
    let mut spent = 0.0;
    let mut is_whole = true;
    for &test in order {
        if spent >= budget {
            is_whole = false;
            break;
        }
        let Test { program, name, seconds, .. } = &tests[test];
        let hangs = process::limit(*seconds);
        // A long test takes half of what is left, so that it leaves time for the others.
        let limit = if *seconds < 0.3 { hangs } else { hangs.min(((budget - spent) / 2.0).max(1.0)) };
        met.push(test);
        let (outcome, used) = process::run(program, name, ("MUTANT", &number), limit)?;
        spent += used;
        match outcome {
            Outcome::Passed => {}
            Outcome::Failed => return Ok((Verdict::Killed, Some(test), met)),
            Outcome::TimedOut if limit >= hangs => return Ok((Verdict::Timeout, Some(test), met)),
            Outcome::TimedOut => is_whole = false,
        }
    }
    Ok((if is_whole { Verdict::Survived } else { Verdict::Open }, None, met))
}
