//! Memory as fast as it goes: zeros, reads, and what a load takes while other CPUs read.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::host::HostError;
use super::lines::{LINE, Lines, Walk};
use super::pins::on_each;
use super::reading::LoadedPoint;

/// Bytes that are zeroed at once, as a kernel does: a page.
const PAGE: usize = 4096;

/// Lines that a CPU reads between two looks at the clock, or at how long it has to pause.
const BATCH: usize = 32;

/// Measures nanoseconds for a zeroed line, all CPUs together: what one node's memory takes in; in rounds.
pub(super) fn zeroing(cpus: &[usize], bytes: usize, rounds: usize) -> Result<Vec<f64>, HostError> {
    let rates = on_each(cpus, |_, barrier| {
        let mut lines = Lines::new(bytes)?;
        let mut rates = Vec::new();
        for _ in 0..rounds {
            barrier.wait();
            let start = Instant::now();
            for page in lines.bytes().chunks_mut(PAGE) {
                page.fill(0);
                black_box(page);
            }
            rates.push((bytes / LINE) as f64 / start.elapsed().as_nanos().max(1) as f64);
        }
        Ok(rates)
    })?;
    Ok(summed(&rates, rounds).into_iter().map(|rate| 1.0 / rate).collect())
}

/// Measures 10^9 bytes a second of reads, all CPUs together, each from its node; in rounds.
pub(super) fn reading(cpus: &[usize], bytes: usize, time: Duration, rounds: usize) -> Result<Vec<f64>, HostError> {
    let rates = on_each(cpus, |_, barrier| {
        let mut lines = Lines::new(bytes)?;
        let words = lines.words();
        let mut rates = Vec::new();
        for _ in 0..rounds {
            barrier.wait();
            let start = Instant::now();
            rates.push(read(words, 0, || start.elapsed() >= time));
        }
        Ok(rates)
    })?;
    Ok(summed(&rates, rounds))
}

/// Sums the rates of all CPUs in each round.
fn summed(rates: &[Vec<f64>], rounds: usize) -> Vec<f64> {
    (0..rounds).map(|round| rates.iter().filter_map(|of_cpu| of_cpu.get(round)).sum()).collect()
}

/// Reads lines one after the other until `is_over`; returns 10^9 bytes a second.
fn read(words: &[std::sync::atomic::AtomicU64], pauses: u32, is_over: impl Fn() -> bool) -> f64 {
    let (start, mut lines, mut sum) = (Instant::now(), 0_u64, 0_u64);
    'passes: loop {
        for batch in words.chunks(BATCH * LINE / 8) {
            for word in batch.iter().step_by(LINE / 8) {
                sum ^= word.load(Ordering::Relaxed);
            }
            lines += BATCH as u64;
            (0..pauses).for_each(|_| std::hint::spin_loop());
            if is_over() {
                break 'passes;
            }
        }
    }
    black_box(sum);
    (lines * LINE as u64) as f64 / start.elapsed().as_nanos().max(1) as f64
}

/// Measures what a load by the first CPU takes while the others read with this number of pauses between 32 lines.
pub(super) fn loaded(
    cpus: &[usize],
    bytes: (usize, usize),
    pauses: u32,
    steps: usize,
) -> Result<LoadedPoint, HostError> {
    let is_over = AtomicBool::new(false);
    let results = on_each(cpus, |number, barrier| {
        let mut lines = Lines::new(if number == 0 { bytes.0 } else { bytes.1 });
        let mapped = lines.as_mut().ok().map(|lines| lines.words());
        let walk = mapped.filter(|_| number == 0).map(|words| Walk::new(words, 1));
        barrier.wait();
        if number != 0 {
            let rate =
                lines.as_mut().map_or(0.0, |lines| read(lines.words(), pauses, || is_over.load(Ordering::Relaxed)));
            return lines.map(|_| rate);
        }
        let ns = walk.map_or(0.0, |walk| {
            walk.follow(steps / 4);
            walk.follow(steps)
        });
        is_over.store(true, Ordering::Relaxed);
        lines.map(|_| ns)
    })?;
    let ns = results.first().copied().unwrap_or(0.0);
    Ok(LoadedPoint { gb_per_s: results.iter().skip(1).sum(), ns })
}
