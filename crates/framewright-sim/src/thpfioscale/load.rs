//! What the machine does besides, while a process wants huge pages.
//!
//! | load | first | then, until the end of the phase | as |
//! |---|---|---|---|
//! | `files` | files of 1.5 times memory are written, all at once | they are read at random (`fio.rs`) | thpfioscale |
//! | `build` | a source tree of 1.2 times memory is unpacked | it is compiled (`build.rs`) | a kernel build |
//! | `network` | files of 1.5 times memory are written | they are sent to clients (`network.rs`) | a file server |
//!
//! The first is a worst case on purpose: hardly any memory is freed before the end. In the others memory comes and goes
//! with processes and clients, as on real machines. Four CPUs carry the load.

use framewright_ops::rng::Rng;

use super::kernel::Kernel;
use super::options::Load;
use super::phase_state::{Stage, share};
use crate::engine::here;

impl Kernel<'_> {
    /// Writes the files at the beginning; returns `None` if the run is to end, as all functions below do.
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

    /// Carries the load until the end of the phase.
    pub(super) fn carry_on(&self, job: usize, stage: &Stage, rng: Rng) -> Option<()> {
        match self.load {
            Load::Files => self.read(job, stage, rng),
            Load::Build => self.build(job, stage, rng),
            Load::Network => self.serve(job, stage, rng),
        }
    }
}
