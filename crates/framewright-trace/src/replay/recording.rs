//! A trace after its first pass, ready to be replayed any number of times.

use super::first_pass::FirstPass;
use super::recorded_machine::RecordedMachine;
use super::replay_error::ReplayError;
use super::replay_options::ReplayOptions;
use crate::error::TraceError;
use crate::trace::{Place, Trace};

/// A trace, the results of its first pass, and the machine that it shows.
pub(crate) struct Recording<'a> {
    place: Place<'a>,
    pub(super) options: &'a ReplayOptions,
    pub(crate) first_pass: FirstPass,
    pub(crate) machine: RecordedMachine,
}

impl<'a> Recording<'a> {
    /// Makes the first pass over a trace. `progress` receives the number of records read.
    pub(crate) fn set(
        place: Place<'a>,
        options: &'a ReplayOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Recording<'a>, ReplayError> {
        // A path without metadata cannot be opened either; the error of opening says more.
        if let Place::Path(path) = place
            && std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
        {
            return Err(ReplayError::NotAFile(place.name()));
        }
        let first_pass = FirstPass::of(place, options, progress)?;
        let machine = RecordedMachine::new(&first_pass)?;
        Ok(Recording { place, options, first_pass, machine })
    }

    /// Opens the trace again, at its first record.
    pub(crate) fn open(&self) -> Result<Trace, TraceError> {
        Trace::open_with(self.place, &self.options.text)
    }

    /// Checks that `more` bytes for each frame fit into the memory limit.
    pub(crate) fn spare(&self, more: u64) -> Result<(), ReplayError> {
        let bytes = self.first_pass.span.bytes(more);
        let (span, limit) = (&self.first_pass.span, self.options.memory_limit);
        if bytes > limit { Err(span.too_large(&self.first_pass.name, bytes, limit)) } else { Ok(()) }
    }
}
