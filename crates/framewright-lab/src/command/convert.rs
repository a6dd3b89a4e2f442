//! `framewright convert`: any trace to the compact form.

use std::path::PathBuf;

use clap::Args;
use framewright_lab::record::{convert, is_kept};

use super::advice::advised_trace;
use super::file::{Over, check};
use super::output::print;
use super::reading::Reading;

/// Write a trace in compact form: one file with events and initial state, a fiftieth of the text's size.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright convert trace-dir trace.fwt
      a folder with trace.txt and files of /proc, in one file that replay and explain read
  framewright convert trace.txt.gz trace.fwt --lenient --force
      a text alone, without the lines that nobody can read, over a file that is there
  framewright convert recording/spool recording/trace.fwt
      what a recording kept that had no room for its trace")]
pub(crate) struct Convert {
    /// The trace: a directory, a text or compact file, or the spool that a recording kept.
    input: PathBuf,
    /// The file to write; by custom its name ends in .fwt.
    output: PathBuf,
    /// Replace the output if it exists.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reading: Reading,
}

impl Convert {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        check(&self.output, if self.force { Over::Any } else { Over::Unforced(None) })?;
        let quality = if is_kept(&self.input) {
            convert(&self.input, &self.output)?
        } else {
            framewright_trace::convert(&self.input, &self.output, &self.reading.options()).map_err(advised_trace)?
        };
        let bytes = std::fs::metadata(&self.output)?.len();
        print(&format!(
            "{}: {} events in {bytes} bytes, {} lost, {} unknown, {} unreadable lines\n",
            self.output.display(),
            quality.records(),
            quality.lost_events,
            quality.unknown_events(),
            quality.malformed_lines
        ))
    }
}
