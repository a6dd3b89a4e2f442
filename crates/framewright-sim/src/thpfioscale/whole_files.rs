//! Files that are written or read from their first page to their last.

use super::costs::{CALL, COPY};
use super::files::PAGES;
use super::kernel::Kernel;
use super::options::Load;
use super::phase_state::JOBS;
use crate::engine::here;
use crate::model::{MS, Ps};

/// Pages of the files of a source tree, as often as each other. The mean is 15 KiB, as in the 62,000 files and 850 MB
/// of Linux 4.20.
const SOURCES: [usize; 8] = [1, 1, 2, 2, 3, 4, 6, 11];

/// Of five files of a tree that was built, the sources; the others are what is made of every third of them.
const FIFTHS: u32 = 4;

/// How long who finds a file in use waits before the next look.
const IN_USE: Ps = MS / 50;

impl Load {
    /// Files that have half as many pages again as the machine has frames.
    pub(super) fn files(self, frames: u64) -> u64 {
        let each = match self {
            Load::Files | Load::Network => PAGES as u64 * SOURCES.len() as u64,
            Load::Build => SOURCES.iter().sum::<usize>() as u64,
        };
        let files = frames * 3 / 2 * SOURCES.len() as u64 / each;
        files / JOBS as u64 * JOBS as u64
    }

    /// How many pages a file has.
    fn pages(self, file: u32) -> usize {
        // Files that follow each other differ.
        let lot = file.wrapping_mul(0x9e37_79b9) >> 29;
        if self == Load::Build { SOURCES[lot as usize] } else { PAGES }
    }
}

impl Kernel<'_> {
    /// Files that are sources: the first. The others are made of them.
    pub(super) fn sources(&self) -> u32 {
        self.files() as u32 / 5 * FIFTHS
    }

    /// Writes a new file, from its first page to its last.
    pub(super) fn write_whole(&self, file: u32) -> Option<()> {
        let pages = self.load.pages(file);
        self.open(file, true)?;
        for index in 0..pages {
            here::work(CALL + COPY);
            self.add_page(file, index, true)?;
            self.done();
        }
        self.throttle(pages as u64, JOBS as u64);
        self.close(file);
        Some(())
    }

    /// Reads a file as a whole. What is not in memory comes from the disk in one go, and nobody else uses the file
    /// meanwhile.
    pub(super) fn read_whole(&self, file: u32) -> Option<()> {
        while self.with(|memory| std::mem::replace(&mut memory.files.file(file).is_taken, true)) {
            // Who has it may have given up.
            if !self.is_well() {
                return None;
            }
            here::sleep_until(here::clock() + IN_USE);
        }
        self.open(file, false)?;
        let mut missing = Vec::new();
        for index in 0..self.load.pages(file) {
            here::work(CALL + COPY);
            if !self.touch(file, index) {
                self.add_page(file, index, false)?;
                missing.push(index);
            }
            self.done();
        }
        if !missing.is_empty() {
            self.fetch(file, &missing)?;
        }
        self.close(file);
        self.with(|memory| memory.files.file(file).is_taken = false);
        Some(())
    }
}
