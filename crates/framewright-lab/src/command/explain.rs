//! `framewright explain`: why a replay went as it did.

use clap::{Args, ValueEnum};
use framewright_trace::explain::{Answer, ExplainError, IncidentKind as Kind, Overview, list, why};
use serde::Serialize;

use super::advice::advised;
use super::output::{Format, print_as, printable};
use super::recording::{TraceArgs, with_progress};
use framewright_lab::mechanisms;

/// The two kinds of [`Kind`], as `--only` calls them.
#[derive(Clone, Copy, ValueEnum)]
enum Only {
    /// A block was taken from the free lists of another mobility.
    Fallback,
    /// A request got nothing.
    Failure,
}

impl From<Only> for Kind {
    fn from(only: Only) -> Self {
        match only {
            Only::Fallback => Self::Fallback,
            Only::Failure => Self::Failure,
        }
    }
}

/// Explain a replay: the chain of events behind a fallback to another mobility, or behind a request that failed.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright explain
      what can be asked for of the project's own trace, by number, the worst first
  framewright explain --why 7
      number 7: what there was just before, what was tried, who is in the way, and what became of it
  framewright explain trace-dir --mechanisms linux-6.1 --only failure --limit 100
      the failed requests of a replay under other mechanisms; numbers hold for one set of mechanisms
  framewright explain trace.txt.gz --why 7 --format json
      the same chain of events, for programs")]
pub(crate) struct Explain {
    /// Explain this number instead of listing what there is.
    #[arg(long, short, value_name = "NUMBER")]
    why: Option<u64>,
    /// List only these.
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "why")]
    only: Option<Only>,
    /// Lines of the list at most; the JSON form has all.
    #[arg(long, value_name = "LINES", default_value_t = 20, conflicts_with = "why")]
    limit: usize,
    /// Presets and switches to replay under, as `baseline,fallback=claim-steal`, or a TOML file.
    #[arg(long, short, value_name = "LIST|FILE.toml", default_value = "default")]
    mechanisms: String,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    recording: TraceArgs,
}

/// Passes over the trace: the survey, one run or two, and the look at who made the requests.
const PASSES: usize = 3;

impl Explain {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let (place, options) = (self.recording.place(), self.recording.options());
        let mechanisms = mechanisms::parse(&self.mechanisms)?;
        match self.why {
            None => {
                let run = |progress: &mut dyn FnMut(usize, u64)| list(place, &options, mechanisms, progress);
                let listing = with_progress(PASSES, run)?.map_err(advised)?;
                let overview = Overview { listing: &listing, only: self.only.map(Kind::from), limit: self.limit };
                self.print(&listing, &overview)
            }
            Some(number) => {
                let run = |progress: &mut dyn FnMut(usize, u64)| why(place, &options, mechanisms, number, progress);
                let explanation = with_progress(PASSES + 1, run)?.map_err(|error| match error {
                    ExplainError::Replay(error) => advised(error),
                    error => error.into(),
                })?;
                self.print(&explanation, &Answer(&explanation))
            }
        }
    }

    /// Prints the one or the other. The names of tasks are the trace's.
    fn print(&self, data: &impl Serialize, text: &impl ToString) -> anyhow::Result<()> {
        print_as(self.format, &(printable(&text.to_string()) + "\n"), data)
    }
}
