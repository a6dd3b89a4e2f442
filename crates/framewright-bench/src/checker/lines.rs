//! Memory to measure on: lines that are placed by the thread that makes them, and a walk that follows pointers.
//!
//! Memory lies on the node of the CPU that touches it first. The kernel is asked for pages of 2 MiB, so that a walk
//! waits for lines and not for page tables; it need not comply.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use framewright_ops::rng::Rng;
use memmap2::{Advice, MmapMut};
use zerocopy::FromBytes;

use super::host::HostError;

/// Words of a line.
const WORDS: usize = 8;

/// Bytes of a line.
pub(super) const LINE: usize = 64;

/// Mapped memory of whole lines.
pub(super) struct Lines {
    memory: MmapMut,
}

impl Lines {
    /// Maps memory and touches it, so that it lies on the node of this CPU.
    pub(super) fn new(bytes: usize) -> Result<Lines, HostError> {
        let bytes = bytes.max(LINE).next_multiple_of(4096);
        let fail = |error: std::io::Error| HostError::Memory { mib: bytes >> 20, what: error.to_string() };
        let mut memory = MmapMut::map_anon(bytes).map_err(fail)?;
        // A kernel without such pages refuses, which is no reason to stop.
        let _ = memory.advise(Advice::HugePage);
        memory.fill(0);
        Ok(Lines { memory })
    }

    /// Returns the bytes, to write them all.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// Returns the words, which several threads may touch.
    pub(super) fn words(&mut self) -> &[AtomicU64] {
        // A mapping begins at a page, and pages are whole words.
        <[AtomicU64]>::mut_from_bytes(&mut self.memory).map_or(&[], |words| words)
    }
}

/// Lines of which each names the next one, in one cycle through all, in random order.
pub(super) struct Walk<'l> {
    words: &'l [AtomicU64],
    /// Lines of the cycle.
    pub(super) lines: usize,
    /// Words from one line to the next in memory.
    stride: usize,
}

impl<'l> Walk<'l> {
    /// Links every `spread`th line of the memory.
    pub(super) fn new(words: &'l [AtomicU64], spread: usize) -> Walk<'l> {
        let stride = WORDS * spread;
        let lines = (words.len() / stride).max(1);
        let mut order: Vec<u32> = (0..lines as u32).collect();
        Rng::new(1).shuffle(&mut order);
        for (at, line) in order.iter().enumerate() {
            let next = order[(at + 1) % lines];
            if let Some(word) = words.get(*line as usize * stride) {
                word.store(u64::from(next) * stride as u64, Relaxed);
            }
        }
        Walk { words, lines, stride }
    }

    /// Takes every line of the memory, as it is.
    pub(super) fn over(words: &'l [AtomicU64]) -> Walk<'l> {
        Walk { words, lines: words.len() / WORDS, stride: WORDS }
    }

    /// Follows the pointers for some steps; returns nanoseconds for each.
    pub(super) fn follow(&self, steps: usize) -> f64 {
        let mut at = 0;
        let start = Instant::now();
        for _ in 0..steps {
            at = self.words.get(at as usize).map_or(0, |word| word.load(Relaxed));
        }
        let elapsed = start.elapsed();
        black_box(at);
        elapsed.as_nanos() as f64 / steps.max(1) as f64
    }

    /// Reads every line of the cycle, which leaves it as it is.
    pub(super) fn read(&self) {
        black_box(self.words.iter().step_by(self.stride).fold(0, |sum: u64, word| sum ^ word.load(Relaxed)));
    }

    /// Writes every line of the cycle with what it holds.
    pub(super) fn write(&self) {
        for word in self.words.iter().step_by(self.stride) {
            word.store(word.load(Relaxed), Relaxed);
        }
    }
}
