//! What the CPUs of a phase tell each other, and the files of each.

use std::cell::Cell;

use crate::engine::here;
use crate::model::Ps;

/// Number of fio's processes.
pub(super) const JOBS: usize = 4;

/// Frames of a huge page.
pub(super) const HUGE: u64 = 512;

/// State that the CPUs of a phase share.
#[derive(Default)]
pub(super) struct Stage {
    /// CPUs that have not done their part.
    pub(super) working: Cell<usize>,
    /// Whether readers are to end.
    pub(super) stops: Cell<bool>,
    /// Readers that have not ended yet.
    pub(super) reading: Cell<usize>,
    /// When the last writer ended.
    pub(super) ended: Cell<Ps>,
    /// Whether background threads are to end.
    pub(super) is_over: Cell<bool>,
}

impl Stage {
    /// Notes that a CPU has done its part; returns whether it was the last.
    pub(super) fn leave(&self) -> bool {
        self.working.set(self.working.get() - 1);
        self.ended.set(self.ended.get().max(here::clock()));
        self.working.get() == 0
    }
}

/// Returns the files of a job.
pub(super) fn share(files: usize, job: usize) -> std::ops::Range<u32> {
    let each = (files / JOBS) as u32;
    job as u32 * each..(job as u32 + 1) * each
}
