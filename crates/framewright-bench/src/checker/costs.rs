//! Instructions that one CPU repeats: what each takes with nothing to wait for.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

use super::host::HostError;
use super::pins::on_each;

/// Repetitions of a round.
const TURNS: u32 = 200_000;

/// Measures nanoseconds of an operation that is repeated on one CPU, in rounds.
fn repeated(cpu: usize, rounds: usize, operation: impl Fn(&AtomicU64) + Sync) -> Result<Vec<f64>, HostError> {
    let results = on_each(&[cpu], |_, _| {
        let word = AtomicU64::new(0);
        let round = |_| {
            let start = Instant::now();
            for _ in 0..TURNS {
                operation(black_box(&word));
            }
            start.elapsed().as_nanos() as f64 / f64::from(TURNS)
        };
        Ok((0..rounds).map(round).collect::<Vec<_>>())
    })?;
    Ok(results.concat())
}

/// An atomic addition to a word that the core owns.
pub(super) fn rmw(cpu: usize, rounds: usize) -> Result<Vec<f64>, HostError> {
    repeated(cpu, rounds, |word| {
        word.fetch_add(1, Ordering::AcqRel);
    })
}

/// A full fence.
pub(super) fn full_fence(cpu: usize, rounds: usize) -> Result<Vec<f64>, HostError> {
    repeated(cpu, rounds, |_| fence(Ordering::SeqCst))
}

/// A turn of a spinning loop.
pub(super) fn pause(cpu: usize, rounds: usize) -> Result<Vec<f64>, HostError> {
    repeated(cpu, rounds, |_| std::hint::spin_loop())
}

/// A store to a line that the core owns.
pub(super) fn store(cpu: usize, rounds: usize) -> Result<Vec<f64>, HostError> {
    repeated(cpu, rounds, |word| word.store(1, Ordering::Relaxed))
}
