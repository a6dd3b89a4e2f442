//! The paths on this machine, by one thread on one CPU.
//!
//! Paths take turns, and each round is timed in short parts: other work of the machine falls on some rounds of each
//! part, and the lower quartile leaves those out.

use std::fmt::Display;
use std::time::Instant;

use framewright::{Allocator, Config, Layout, NodeId, Region};
use framewright_rt::{Native, Storage};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::catalogue::{FRAMES, Path, PathWork, START};
use super::rounds::{Watch, mean};
use crate::crew::allowed_cpus;

/// The clock of this machine.
struct Clock(Instant);

impl Watch for Clock {
    fn now(&self) -> f64 {
        self.0.elapsed().as_nanos() as f64
    }

    #[inline(always)]
    fn called(&self) {}
}

/// An allocator's CPUs: the thread's, and the shared one for threads that find no other.
const CPUS: [NodeId; 2] = [NodeId(0); 2];

/// Measures each path on a thread of its own, which stays on one CPU; returns nanoseconds.
///
/// # Errors
/// Which path could not be measured, and why.
pub fn measure(paths: &[Path], rounds: usize, progress: &mut (dyn FnMut(f64) + Send)) -> Result<Vec<f64>, String> {
    let measure = || {
        if let Some(&cpu) = allowed_cpus().last() {
            let mut set = CpuSet::new();
            set.set(cpu);
            // Where that is forbidden the numbers are noisier.
            let _ = sched_setaffinity(None, &set);
        }
        in_turns(paths, rounds, progress)
    };
    let finished = std::thread::scope(|scope| scope.spawn(measure).join());
    finished.unwrap_or_else(|_| Err("the measuring thread has failed".to_owned()))
}

fn in_turns(paths: &[Path], rounds: usize, progress: &mut dyn FnMut(f64)) -> Result<Vec<f64>, String> {
    let mut storages = Vec::new();
    for path in paths {
        storages.push(storage(path)?);
    }
    let mut allocators = Vec::new();
    for (path, storage) in paths.iter().zip(&mut storages) {
        allocators.push(boot(path, storage)?);
    }
    let clock = Clock(Instant::now());
    let mut found = vec![Vec::with_capacity(rounds); paths.len()];
    for round in 0..rounds {
        for ((path, allocator), found) in paths.iter().zip(&allocators).zip(&mut found) {
            let parts = match path.work {
                PathWork::Batch { .. } => path.round(allocator, &clock),
                PathWork::Fallback { .. } => path.round(&boot(path, &mut storage(path)?)?, &clock),
            };
            found.push(parts.ok_or_else(|| failed(path, &"the allocator did not serve it"))?);
        }
        progress((round + 1) as f64 / rounds as f64);
    }
    Ok(found.iter().map(|rounds| typical(rounds)).collect())
}

fn config<'c>(path: &Path, region: &'c [Region]) -> Config<'c> {
    Config { mechanisms: path.mechanisms, ..Config::new(region, &CPUS) }
}

fn storage(path: &Path) -> Result<Storage<Native>, String> {
    let region = [Region::usable(START, START + FRAMES, 0)];
    let layout = Layout::of(&config(path, &region)).map_err(|error| failed(path, &error))?;
    Ok(Storage::new(&layout))
}

fn boot<'s>(path: &Path, storage: &'s mut Storage<Native>) -> Result<Allocator<'s, Native>, String> {
    let region = [Region::usable(START, START + FRAMES, 0)];
    Allocator::boot(Native::new(&CPUS), &config(path, &region), storage.parts()).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, why: &dyn Display) -> String {
    format!("{path}: {why}")
}

/// Of each part the lower quartile of its rounds, and of those the mean.
fn typical(rounds: &[Vec<f64>]) -> f64 {
    let parts = rounds.iter().map(Vec::len).min().unwrap_or(0);
    let quartile = |part: usize| {
        let mut found: Vec<f64> = rounds.iter().map(|round| round[part]).collect();
        found.sort_by(f64::total_cmp);
        found[found.len() / 4]
    };
    mean(&(0..parts).map(quartile).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_interrupts_a_round_is_left_out() {
        let rounds = [vec![4.0, 99.0], vec![4.5, 6.0], vec![88.0, 6.5], vec![5.0, 77.0], vec![4.2, 6.1]];
        assert_eq!(typical(&rounds), (4.2 + 6.1) / 2.0);
        assert_eq!(typical(&[]), 0.0);
    }
}
