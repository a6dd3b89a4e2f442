//! What the machine does besides, while a process wants huge pages.
//!
//! | load | first | then, until no huge page is wanted any more | as |
//! |---|---|---|---|
//! | `files` | half as much again as there is memory is written, all files at once | the same files are read at random (`roles.rs`) | fio in thpfioscale |
//! | `build` | a source tree is unpacked, a fifth more than there is memory | it is compiled (`build.rs`) | a kernel build |
//! | `network` | files are put there, half as much again as there is memory | clients that come and go are sent them (`network.rs`) | a file server |
//!
//! The first is a worst case on purpose: hardly anything is given back before the end. The others are what machines do: memory comes and goes with processes
//! and with clients. Four CPUs do it, whatever it is.

use framewright_ops::rng::Rng;

use super::costs::{CALL, COPY};
use super::files::PAGES;
use super::kernel::Kernel;
use super::roles::{JOBS, Stage, share};
use crate::engine::here;
use crate::model::{MS, Ps};
use crate::settings::Choice;

/// See the module's description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// fio writes and reads files.
    Files,
    /// Sources are compiled.
    Build,
    /// Files are sent to clients.
    Network,
}

impl Choice for Load {
    const NAMES: &'static [(&'static str, Load)] =
        &[("files", Load::Files), ("build", Load::Build), ("network", Load::Network)];
}

/// Pages of the files of a source tree, as often as each other. The mean is 15 KiB, as in the 62,000 files and 850 MB of Linux 4.20.
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
    /// Brings the files there: what a CPU does first. None if the run is to end, here and below.
    pub(super) fn fill(&self, job: usize) -> Option<()> {
        let sources = match self.load {
            Load::Files => return self.write(job),
            Load::Build => self.sources(),
            Load::Network => self.files() as u32,
        };
        share(sources as usize, job).try_for_each(|file| {
            here::turn();
            self.write_whole(file)
        })
    }

    /// Does what there is to be done until it is to end.
    pub(super) fn carry_on(&self, job: usize, stage: &Stage, rng: Rng) -> Option<()> {
        match self.load {
            Load::Files => self.read(job, stage, rng),
            Load::Build => self.build(job, stage, rng),
            Load::Network => self.serve(job, stage, rng),
        }
    }

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

    /// Reads a file as a whole. What is not in memory comes from the disk in one go, and nobody else uses the file meanwhile.
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
