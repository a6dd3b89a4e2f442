//! Loads that wait for one another: from each cache, and from each node's memory.

use super::host::HostError;
use super::lines::Lines;
use super::lines::Walk;
use super::pins::on_each;
use super::sizes::Sizes;

/// Steps of a timed walk, at most.
const STEPS: usize = 1 << 20;

/// Measures nanoseconds of a load by a CPU, in rounds, from the caches and from memory of the CPU's node.
///
/// Returns the rounds of the first, second and last level, and of memory.
pub(super) fn levels(cpu: usize, sizes: Sizes, rounds: usize) -> Result<[Vec<f64>; 4], HostError> {
    let of_one = |bytes: usize| {
        let results = on_each(&[cpu], |_, _| {
            let mut lines = Lines::new(bytes)?;
            Ok(walked(&Walk::new(lines.words(), 1), rounds))
        })?;
        Ok(results.concat())
    };
    Ok([of_one(sizes.l1)?, of_one(sizes.l2)?, of_one(sizes.llc)?, of_one(sizes.dram)?])
}

/// Measures nanoseconds of a load by one CPU from memory that another one placed, in rounds.
pub(super) fn memory_of(reader: usize, home: usize, bytes: usize, rounds: usize) -> Result<Vec<f64>, HostError> {
    let placed = on_each(&[home], |_, _| Lines::new(bytes))?;
    let mut rows = Vec::new();
    for mut lines in placed {
        let walk = Walk::new(lines.words(), 1);
        rows = on_each(&[reader], |_, _| Ok(walked(&walk, rounds)))?.concat();
    }
    Ok(rows)
}

/// Walks once to warm up, and then in each round.
fn walked(walk: &Walk<'_>, rounds: usize) -> Vec<f64> {
    let steps = walk.lines.clamp(1 << 14, STEPS);
    walk.follow(walk.lines.min(STEPS));
    (0..rounds).map(|_| walk.follow(steps)).collect()
}
