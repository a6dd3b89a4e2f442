//! `framewright convert`: any trace to the compact form.

use std::path::PathBuf;

use clap::Args;

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
      a text alone, without the lines that nobody can read, over a file that is there")]
pub(crate) struct Convert {
    /// The trace: a directory, or a text or compact file.
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
        let quality =
            framewright_trace::convert(&self.input, &self.output, &self.reading.options()).map_err(advised_trace)?;
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
