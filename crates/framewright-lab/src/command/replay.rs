//! `framewright replay`: a recorded trace under our mechanisms.

use anyhow::bail;
use clap::Args;
use framewright::Mechanisms;
use framewright_trace::replay::{Column, Report, Table, passes, replay};

use super::advice::advised;
use super::output::{Format, print_as};
use super::recording::{TraceArgs, with_progress};
use framewright_lab::mechanisms;

/// Replay a kernel's trace: what Linux did beside what we do with the same requests.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright replay
      the recorded trace that comes with the project
  framewright replay trace-dir --mechanisms baseline --mechanisms fallback=claim-steal
      two sets of mechanisms side by side
  framewright replay trace.txt.gz --format json
      a trace of perf or ftrace, and all that was counted, for programs")]
pub(crate) struct Replay {
    /// Presets and switches to replay under, as `baseline,fallback=claim-steal`, or a TOML file; repeat for more
    /// columns.
    #[arg(long, short, value_name = "LIST|FILE.toml")]
    mechanisms: Vec<String>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    recording: TraceArgs,
}

impl Replay {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let (place, options, mechanisms) = (self.recording.place(), self.recording.options(), self.mechanisms()?);
        let run = |progress: &mut dyn FnMut(usize, u64)| replay(place, &options, &mechanisms, progress);
        let report = with_progress(passes(mechanisms.len()), run)?.map_err(advised)?;
        print_as(self.format, &Table(&report), &report)?;
        self.verdict(&report)
    }

    fn mechanisms(&self) -> anyhow::Result<Vec<Mechanisms>> {
        if self.mechanisms.is_empty() {
            return Ok(vec![Mechanisms::DEFAULT]);
        }
        self.mechanisms.iter().map(|text| mechanisms::parse(text)).collect()
    }

    /// A replay that lost memory or refused a free is a failure, whatever else it shows.
    fn verdict(&self, report: &Report) -> anyhow::Result<()> {
        for column in &report.columns {
            let Column { mechanisms, nothing_reclaimed, all_reclaimed_at_once, .. } = column;
            let bounds = [nothing_reclaimed, all_reclaimed_at_once];
            let bounds = bounds.map(|bound| (bound.frees_refused, bound.pages_conserved));
            for (frees_refused, conserved) in [(column.frees_refused, column.pages_conserved)].into_iter().chain(bounds)
            {
                if frees_refused != 0 {
                    bail!("{frees_refused} frees were refused under {mechanisms}");
                }
                if !conserved {
                    bail!("pages were lost under {mechanisms}");
                }
            }
        }
        Ok(())
    }
}
