//! What the machine does besides, while a process wants huge pages.
//!
//! | load | first | then, until no huge page is wanted any more | as |
//! |---|---|---|---|
//! | `files` | half as much again as there is memory is written, all files at once | the same files are read at random (`roles.rs`) | fio in thpfioscale |
//! | `build` | a source tree is unpacked, a fifth more than there is memory | it is compiled (`build.rs`) | a kernel build |
//! | `network` | files are put there, half as much again as there is memory | clients that come and go are sent them (`network.rs`) | a file server |
//!
//! The first is a worst case on purpose: hardly anything is given back before the end. The others are what machines do:
//! memory comes and goes with processes and with clients. Four CPUs do it, whatever it is.

use framewright_ops::rng::Rng;

use super::kernel::Kernel;
use super::options::Load;
use super::phase_state::{Stage, share};
use crate::engine::here;

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
}
