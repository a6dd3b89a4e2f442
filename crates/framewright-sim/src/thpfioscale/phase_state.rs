//! What the CPUs of a phase tell each other, and how the files are shared among them.

use std::cell::Cell;

use crate::engine::here;
use crate::model::Ps;

/// fio's processes.
pub(super) const JOBS: usize = 4;

/// Frames of a huge page.
pub(super) const HUGE: u64 = 512;

/// What the CPUs of a phase tell each other.
#[derive(Default)]
pub(super) struct Stage {
    /// Those that have not done their part.
    pub(super) working: Cell<usize>,
    /// Readers are to end.
    pub(super) stops: Cell<bool>,
    /// Those that have not yet.
    pub(super) reading: Cell<usize>,
    /// When the last writer ended.
    pub(super) ended: Cell<Ps>,
    /// Background threads are to end.
    pub(super) is_over: Cell<bool>,
}

impl Stage {
    /// One has done its part. Whether it was the last.
    pub(super) fn leave(&self) -> bool {
        self.working.set(self.working.get() - 1);
        self.ended.set(self.ended.get().max(here::clock()));
        self.working.get() == 0
    }
}

/// Files of a job: from which, up to which.
pub(super) fn share(files: usize, job: usize) -> std::ops::Range<u32> {
    let each = (files / JOBS) as u32;
    job as u32 * each..(job as u32 + 1) * each
}
