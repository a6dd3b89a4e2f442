//! Files that are written or read from their first page to their last.

use super::costs::{CALL, COPY};
use super::files::PAGES;
use super::kernel::Kernel;
use super::options::Load;
use super::phase_state::JOBS;
use crate::engine::here;
use crate::model::{MS, Ps};

/// Pages of the files of a source tree, all sizes equally often.
///
/// The mean is 15 KiB, as in the 62,000 files and 850 MB of Linux 4.20.
const SOURCES: [usize; 8] = [1, 1, 2, 2, 3, 4, 6, 11];

/// Sources among five files of a built tree. The fifth is made of a source.
const FIFTHS: u32 = 4;

/// Time between two looks at a file that another CPU uses.
const IN_USE: Ps = MS / 50;

impl Load {
    /// Returns the number of files whose pages are 1.5 times the machine's frames.
    pub(super) fn files(self, frames: u64) -> u64 {
        let each = match self {
            Load::Files | Load::Network => PAGES as u64 * SOURCES.len() as u64,
            Load::Build => SOURCES.iter().sum::<usize>() as u64,
        };
        let files = frames * 3 / 2 * SOURCES.len() as u64 / each;
        files / JOBS as u64 * JOBS as u64
    }

    /// Returns the pages of a file.
    fn pages(self, file: u32) -> usize {
        // Neighbouring files differ.
        let lot = file.wrapping_mul(0x9e37_79b9) >> 29;
        if self == Load::Build { SOURCES[lot as usize] } else { PAGES }
    }
}

impl Kernel<'_> {
    /// Returns the number of sources, which are the first files. The others are made of them.
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

    /// Reads a file as a whole.
    ///
    /// The pages that are not in memory come from the disk in one request. No other CPU uses the file meanwhile.
    pub(super) fn read_whole(&self, file: u32) -> Option<()> {
        while self.with(|memory| std::mem::replace(&mut memory.files.file(file).is_taken, true)) {
            // The CPU that uses the file may have given up.
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
